"""Classifiers: heads by their definition, and what must not matter: padding, its side, the batch, the order."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recurra import Recurrent
from recurra.errors import OptionError
from recurra.layers.front import Front
from recurra.models.classify import HEADS, Classifier
from tests.helpers import make_labeller

KINDS = {
    "numbers": {},
    "tokens": {"tokens": True},
    "forward": {"bidirectional": False},
    "stacked": {"layers": 2, "residual": True, "learn_initial": True},
    "convolution": {"convolution": 3, "pool": 2},
}


def make(head: str = "mean", kind: str = "numbers", cell: str = "gru", **options: object) -> Classifier:
    model = (
        make_labeller(Classifier, 6, 3, cell, 5, head=head, engine="eager", **KINDS[kind], **options).double().eval()
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model


def inputs(kind: str, B: int, T: int) -> Tensor:
    return torch.randint(6, (B, T)) if kind == "tokens" else torch.randn(B, T, 6, dtype=torch.float64)


def at_the_end(x: Tensor, lengths: Tensor) -> Tensor:
    """The same sequences, padded at the start."""
    moved = torch.zeros_like(x)
    for k, n in enumerate(lengths.tolist()):
        moved[k, x.shape[1] - n :] = x[k, :n]
    return moved


@pytest.mark.parametrize(
    ("head", "kind"), [*(("mean", kind) for kind in KINDS), *((head, "numbers") for head in HEADS if head != "mean")]
)
@settings(max_examples=5)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=4), data=st.data())
@torch.no_grad()
def test_what_must_not_matter(head: str, kind: str, lengths: list[int], data: st.DataObject) -> None:
    model = make(head, kind)
    T = max(lengths) + data.draw(st.integers(1, 3))
    x, known = inputs(kind, len(lengths), T), torch.tensor(lengths)
    scores = model(x, known)
    for k, n in enumerate(lengths):
        alone = model(x[k : k + 1, : max(1, n)], [n])
        torch.testing.assert_close(scores[k], alone[0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(model(at_the_end(x, known), known, padding="start"), scores, rtol=1e-10, atol=1e-10)
    order = torch.tensor(data.draw(st.permutations(range(len(lengths)))))
    torch.testing.assert_close(model(x[order], known[order]), scores[order], rtol=1e-10, atol=1e-10)
    if kind != "tokens":
        x[torch.arange(T) >= known[:, None]] = torch.nan
        torch.testing.assert_close(model(x, known), scores, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("head", HEADS)
def test_in_single_precision(head: str) -> None:
    model, known = make(head).float(), torch.tensor([9, 3, 6])
    x = inputs("numbers", 3, 9).float()
    torch.testing.assert_close(model(at_the_end(x, known), known, padding="start"), model(x, known), rtol=0, atol=1e-6)


@pytest.mark.parametrize("head", HEADS)
def test_heads_by_their_definition(head: str) -> None:
    model, x, n = make(head), inputs("numbers", 1, 7), 5
    hidden = model.recurrent(x[:, :n]).outputs[0]
    wanted = {
        "last": torch.cat([hidden[-1, :5], hidden[0, 5:]]),
        "mean": hidden.mean(0),
        "max": hidden.max(0).values,
    }
    if model.attention is not None:
        first, _, second = model.attention
        weights = torch.stack([second.weight[0] @ (first.weight @ h + first.bias).tanh() for h in hidden]).softmax(0)
        wanted["attention"] = weights @ hidden
    scores = model.output.weight @ wanted[head] + model.output.bias
    torch.testing.assert_close(model(x, [n])[0], scores)


def test_without_lengths_all_steps_count() -> None:
    model, x = make(), inputs("numbers", 2, 4)
    torch.testing.assert_close(model(x), model(x, [4, 4]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", HEADS)
def test_every_parameter_learns(head: str, kind: str) -> None:
    model = make(head, kind)
    model(inputs(kind, 3, 6), [6, 2, 0]).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any() or name == "attention.2.bias", name  # a constant changes no softmax


def test_noise_and_dropout_only_in_training() -> None:
    x = inputs("numbers", 2, 4)
    for options in ({"noise": 0.5}, {"shift": 0.5}, {"dropout": 0.5}, {"input_dropout": 0.5}):
        model = make(**options)
        assert torch.equal(model(x), model(x))
        model.train()
        assert not torch.equal(model(x), model(x))


def test_a_shift_is_the_same_for_all_steps() -> None:
    model, x = make(shift=0.5).train(), inputs("numbers", 2, 4)
    seen: list[Tensor] = []
    model.recurrent.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    model(x)
    moved = seen[0] - x
    torch.testing.assert_close(moved, moved[:, :1].expand(-1, 4, -1))
    assert not torch.allclose(moved[0], moved[1])


def test_refused() -> None:
    with pytest.raises(OptionError, match="Did you mean 'mean'"):
        make("meen")
    with pytest.raises(OptionError, match="2 classes"):
        make_labeller(Classifier, 6, 1, "gru", 5)
    with pytest.raises(OptionError, match="gives 4 channels, but the recurrent layers read 6"):
        Classifier(Recurrent("gru", 6, 5), 3, front=Front(6, 4, 3))
    with pytest.raises(OptionError, match="noise"):
        make(noise=-1.0)


class Fixed(torch.nn.Module):
    """A baseline that always says the same."""

    def forward(self, inputs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return torch.tensor([0.1, 0.2, 0.7]).log().expand(len(inputs), 3)


class TestTogether:
    @staticmethod
    def make() -> Classifier:
        torch.manual_seed(0)
        one, two, three = (Recurrent("gru", 2, 4, engine="eager") for _ in range(3))
        others = [Classifier(two, 3), Classifier(three, 3)]
        return Classifier(one, 3, others=others, baseline=Fixed())

    def test_the_mean_of_probabilities_with_a_share_of_the_baseline(self) -> None:
        model, x = self.make().eval(), torch.randn(5, 6, 2)
        mean = torch.stack([member(x).softmax(-1) for member in model.members]).mean(0)
        torch.testing.assert_close(model(x).softmax(-1), mean)
        model.share.fill_(0.25)
        mixture = 0.75 * mean + 0.25 * torch.tensor([0.1, 0.2, 0.7])
        torch.testing.assert_close(model(x).exp(), mixture)
        torch.testing.assert_close(model.alone(x).exp(), mean)
        assert model.train()(x).requires_grad  # the network learns alone
        torch.testing.assert_close(model(x).exp(), mean)

    def test_a_row_is_predicted_by_the_network_that_left_it_out(self) -> None:
        model, x = self.make().eval(), torch.randn(4, 6, 2)
        lengths, folds = torch.tensor([6, 3, 6, 2]), torch.tensor([2, 0, 1, 2])
        found = model.left_out(x, lengths, folds)
        for k, fold in enumerate(folds.tolist()):
            torch.testing.assert_close(found[k], model.members[fold](x, lengths)[k])
