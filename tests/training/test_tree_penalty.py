"""The penalty on the tree that mimics a network: its gradient is the surrogate's, which learns; training resumes exactly."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from recurra.data.labelled_batches import LabelledSequences
from recurra.errors import OptionError
from recurra.models.tag import Tagger
from recurra.training import tree_penalty
from recurra.training.events import Measured, Save
from recurra.training.labelling import evaluate_labels, label_loss, predict_labels
from recurra.training.loop import Trainer, Training
from recurra.training.tree_penalty import KEPT, REFITTED, Steps, Surrogate, TreePenalty
from tests.helpers import make_labeller


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few weights around the present ones: a tree is grown for each."""
    monkeypatch.setattr(tree_penalty, "AROUND", 4)


def make_data(dtype: torch.dtype = torch.float32, rows: int = 24, length: int = 20) -> LabelledSequences:
    draw = torch.Generator().manual_seed(4)
    x = torch.randint(2, (rows * length, 4), generator=draw).to(dtype)
    before = torch.cat([x[:1], x[:-1]])
    y = ((x[:, 0] * x[:, 1] + before[:, 2] * x[:, 3]) > 0).long()
    return LabelledSequences(x, torch.full((rows,), length), y, 8, per_step=True)


def make_steps(batches: LabelledSequences) -> Steps:
    return Steps(
        batches.values.numpy(),
        ("a", "b", "c", "d"),
        ("0", "1"),
        batches.targets,
        lambda model: torch.cat(predict_labels(model, batches)),
    )


def make_model(dtype: torch.dtype = torch.float32) -> Tagger:
    torch.manual_seed(2)
    return make_labeller(Tagger, 4, 2, "gru", 3, bidirectional=False, engine="eager").to(dtype)


def make_trainer(strength: float, steps: int = 60) -> Trainer:
    batches, model = make_data(), make_model()
    penalty = TreePenalty(strength, make_steps(batches), model, seed=1) if strength else None
    settings = Training(steps=steps, batch_size=8, warmup=0, learning_rate=0.02, validate_every=20, save_every=5)
    return Trainer(
        model, batches, settings, lambda model: evaluate_labels(model, batches).nats, whole=label_loss, penalty=penalty
    )


class TestSurrogate:
    def test_learns_a_function_of_weights(self) -> None:
        draw = torch.Generator().manual_seed(0)
        weights = 3 + 0.1 * torch.randn(500, 12, generator=draw)
        lengths = 2 + (weights[:, 0] - 3) * 5 - (weights[:, 1] - 3) * 3
        surrogate = Surrogate(12)
        for _ in range(5):
            surrogate.fit(weights[:400], lengths[:400])
        spread = float((lengths[400:] - lengths.mean()).abs().mean())
        assert surrogate.error(weights[400:], lengths[400:]) < 0.3 * spread
        at = weights[0].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(surrogate(at), at)
        truth = torch.tensor([5.0, -3.0, *[0.0] * 10])
        assert float(torch.cosine_similarity(gradient, truth, dim=0)) > 0.9

    def test_weights_that_are_all_alike(self) -> None:
        surrogate = Surrogate(3)
        surrogate.fit(torch.ones(4, 3), torch.full((4,), 2.0))
        assert float(surrogate(torch.ones(3)).detach()) == pytest.approx(2.0, abs=0.01)


class TestPenalty:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_gradient_is_that_of_the_surrogate(self, dtype: torch.dtype) -> None:
        model = make_model(dtype)
        penalty = TreePenalty(0.3, make_steps(make_data(dtype)), model)
        assert float(penalty.add_gradients(model)) == 0
        assert all(each.grad is None for each in model.parameters())
        penalty.follow(model, REFITTED)
        expected = 0.3 * penalty.surrogate(parameters_to_vector(model.parameters()).float())
        wanted = torch.autograd.grad(expected, list(model.parameters()))
        first = next(model.parameters())
        first.grad = torch.ones_like(first)
        assert float(penalty.add_gradients(model)) == pytest.approx(expected.item())
        assert torch.allclose(first.grad, wanted[0] + 1)
        for parameter, grad in list(zip(model.parameters(), wanted, strict=True))[1:]:
            assert torch.equal(parameter.grad, grad)
            assert parameter.grad.dtype == dtype
        assert sum(float(grad.abs().sum()) for grad in wanted) > 0

    def test_what_it_is_comes_from_a_tree_grown_now(self) -> None:
        model, steps = make_model(), make_steps(make_data())
        penalty = TreePenalty(0.5, steps, model)
        tree = steps.mimic(model)
        assert penalty.of(model) == 0.5 * tree.average_path_length(steps.x)
        assert np.array_equal(steps.predicted(model), steps.probabilities(model).argmax(-1).numpy())

    def test_what_following_tells(self) -> None:
        model = make_model()
        penalty = TreePenalty(0.1, make_steps(make_data()), model)
        assert penalty.follow(model, 1) == penalty.follow(model, tree_penalty.MEASURED) == {}
        first = penalty.follow(model, REFITTED)
        assert set(first) == {"path_length", "surrogate_fit_error"}  # it had said nothing yet that could be wrong
        second = penalty.follow(model, 2 * REFITTED)
        assert set(second) == {"path_length", "surrogate_error", "surrogate_fit_error"}
        assert second["path_length"] == pytest.approx(penalty.of(model) / 0.1)
        assert len(penalty.state()["weights"]) == 1 + 2 * 5

    def test_only_the_latest_are_kept(self) -> None:
        penalty = TreePenalty(0.1, make_steps(make_data()), make_model())
        penalty._keep(torch.zeros(KEPT + 5, len(penalty._weights[0:1].T)), torch.arange(KEPT + 5.0))
        assert penalty.state()["lengths"].tolist() == list(range(5, KEPT + 5))

    def test_large_networks_are_refused(self) -> None:
        with pytest.raises(OptionError, match="small networks"):
            TreePenalty(0.1, make_steps(make_data()), make_labeller(Tagger, 4, 2, "gru", 120))

    def test_other_random_numbers_are_left_alone(self) -> None:
        model, steps = make_model(), make_steps(make_data())
        torch.manual_seed(5)
        wanted = torch.rand(3)
        torch.manual_seed(5)
        TreePenalty(0.1, steps, model).follow(model, REFITTED)
        assert torch.equal(torch.rand(3), wanted)


def weights_of(trainer: Trainer) -> Tensor:
    return parameters_to_vector(trainer.model.parameters()).detach().clone()


def until(trainer: Trainer, step: int) -> None:
    """Train up to a step, what is done after it included."""
    for event in trainer.events():
        if isinstance(event, Save) and event.step == step:
            return


class TestTraining:
    def test_measurements_are_events(self) -> None:
        found = [event for event in make_trainer(0.1).events() if isinstance(event, Measured)]
        assert [event.step for event in found] == [REFITTED, 2 * REFITTED]
        assert found[-1].values["surrogate_error"] > 0

    def test_changes_what_is_learned_once_there_is_a_surrogate(self) -> None:
        plain, bound = make_trainer(0.0), make_trainer(0.5)
        for trainer in (plain, bound):
            until(trainer, REFITTED)
        assert torch.equal(weights_of(plain), weights_of(bound))
        for trainer in (plain, bound):
            trainer.update(trainer.batches.next())
        assert not torch.equal(weights_of(plain), weights_of(bound))

    def test_resumes_as_if_it_had_never_stopped(self) -> None:
        whole = make_trainer(0.3)
        list(whole.events())
        first = make_trainer(0.3)
        until(first, 40)
        second = make_trainer(0.3)
        second.restore(first.checkpoint())
        rest = list(second.events())
        assert rest[-1].step == 60
        assert torch.equal(weights_of(second), weights_of(whole))
        for name, value in whole.penalty.state().items():  # type: ignore[union-attr]
            assert torch.equal(second.penalty.state()[name], value), name  # type: ignore[union-attr]
