"""A model that learns from what it has been scored on: it adapts, is pulled back, and is itself left alone."""

from itertools import islice

import pytest
import torch
from torch import Tensor

from recurra.data.batches import Batches, Chunks, Sequences
from recurra.errors import OptionError
from recurra.models.language import LanguageModel
from recurra.training import dynamic_evaluation
from recurra.training.dynamic_evaluation import evaluate_dynamically
from recurra.training.evaluation import evaluate
from recurra.training.loop import Trainer, Training
from tests.helpers import make_language_model

V, H = 6, 16


def walk(turn: int, count: int, seed: int) -> Tensor:
    """Each symbol is the one before plus `turn`; one in ten is drawn at random."""
    random = torch.Generator().manual_seed(seed)
    symbols = [0]
    for other in torch.randint(10 * V, (count - 1,), generator=random).tolist():
        symbols.append(other if other < V else (symbols[-1] + turn) % V)
    return torch.tensor(symbols)


TRAIN = walk(1, 1500, 0)


def lanes(ids: Tensor, lanes: int = 2, length: int = 10) -> Batches:
    return Chunks(ids, lanes, length, shuffle=False)


def untrained(**options: object) -> LanguageModel:
    torch.manual_seed(1)
    return make_language_model(V, "gru", H, engine="eager", **options)


@pytest.fixture(scope="module")
def trained() -> LanguageModel:
    settings = Training(steps=80, batch_size=8, truncation="every:10", learning_rate=0.02, warmup=5)
    trainer = Trainer(untrained(), Chunks(TRAIN, 8, 10), settings, lambda model: 0.0)
    for _ in trainer.events():
        pass
    assert evaluate(trainer.model, lanes(walk(1, 300, 1))).nats < 0.7
    return trainer.model


@pytest.mark.parametrize("training", [True, False])
def test_the_model_itself_is_unchanged(training: bool) -> None:
    model = untrained(dropout=0.3).train(training)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    evaluate_dynamically(model, lanes(TRAIN), lanes(walk(1, 200, 1)), rate=0.1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training == training


def test_the_first_batch_scores_as_in_plain_evaluation(trained: LanguageModel) -> None:
    ids = walk(-1, 21, 2)
    plain = evaluate(trained, lanes(ids))
    assert len(list(lanes(ids).one_pass())) == 1
    found = evaluate_dynamically(trained, lanes(TRAIN), lanes(ids), rate=0.5)
    assert found.mean == pytest.approx(plain.mean, rel=1e-6)
    assert found.tokens == plain.tokens == 20


def test_every_symbol_is_scored_once_and_before_it_is_learned_from(trained: LanguageModel) -> None:
    """At a rate of almost nothing, the score is that of plain evaluation, with the state carried."""
    ids = walk(-1, 304, 2)
    plain = evaluate(trained, lanes(ids))
    found = evaluate_dynamically(trained, lanes(TRAIN), lanes(ids), rate=1e-12)
    assert found.tokens == plain.tokens == 303
    assert found.mean == pytest.approx(plain.mean, rel=1e-5)
    assert found.accuracy == pytest.approx(plain.accuracy)


def test_it_adapts_to_a_text_that_follows_another_rule_halfway(trained: LanguageModel) -> None:
    ids = torch.cat([walk(1, 300, 3), walk(2, 600, 4)])
    plain = evaluate(trained, lanes(ids, 1))
    found = evaluate_dynamically(trained, lanes(TRAIN), lanes(ids, 1), rate=0.005)
    assert found.mean < 0.8 * plain.mean


def test_decay_pulls_back_to_the_trained_weights(trained: LanguageModel) -> None:
    ids = walk(2, 600, 4)
    plain = evaluate(trained, lanes(ids)).mean
    weak, strong = (
        evaluate_dynamically(trained, lanes(TRAIN), lanes(ids), rate=0.005, decay=decay).mean for decay in (0.0, 0.5)
    )
    assert weak < strong < plain


@pytest.mark.parametrize("decay", [0.0, 0.02, 0.5])
def test_an_update_by_hand(decay: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """θ − rate · g / √v + decay · r (θ₀ − θ), with what the second batch is scored by written out."""
    model = untrained().double()
    train, batches = lanes(TRAIN[:101]), lanes(walk(2, 41, 4))
    assert [len(list(each.one_pass())) for each in (train, batches)] == [5, 2]
    monkeypatch.setattr(dynamic_evaluation, "SEEN", 3)
    found = evaluate_dynamically(model, train, batches, rate=0.05, decay=decay)

    def loss(batch: object, state: object = None) -> tuple[Tensor, object]:
        logits, final = model(batch.inputs, state)  # type: ignore[attr-defined]
        return torch.nn.functional.cross_entropy(logits.mT, batch.targets), final  # type: ignore[attr-defined]

    parameters = list(model.parameters())
    gradients = [torch.autograd.grad(loss(batch)[0], parameters) for batch in islice(train.one_pass(), 3)]
    roots = [torch.stack(each).square().mean(0).sqrt() for each in zip(*gradients, strict=True)]
    mean = torch.cat([root.flatten() for root in roots]).mean()
    first, second = batches.one_pass()
    one, state = loss(first)
    with torch.no_grad():
        start = [parameter.clone() for parameter in parameters]
        slopes = torch.autograd.grad(one, parameters)
        for parameter, begun, slope, root in zip(parameters, start, slopes, roots, strict=True):
            parameter -= 0.05 * (slope / (root + 1e-3 * mean)).clamp(-10, 10)
            parameter += (decay * root / mean).clamp(max=1) * (begun - parameter)
        state = tuple(tuple(tuple(s.detach() for s in cell) for cell in layer) for layer in state)  # type: ignore[attr-defined]
        two, _ = loss(second, state)
    assert found.mean == pytest.approx(float((one.detach() + two) / 2), rel=1e-10)


def test_words_that_training_hardly_has_do_not_upset_it() -> None:
    """Their usual gradient is almost zero: a step of so many usual ones would be immense."""
    torch.manual_seed(1)
    model = make_language_model(200, "gru", H, engine="eager")
    ids = torch.randint(6, 200, (400,), generator=torch.Generator().manual_seed(5))
    assert (
        evaluate_dynamically(model, lanes(TRAIN), lanes(ids), rate=0.002).mean < 1.02 * evaluate(model, lanes(ids)).mean
    )


@pytest.mark.parametrize("options", [{"learn_initial": True}, {"tied": True}, {"layers": 2, "residual": True}], ids=str)
def test_models_of_other_forms(options: dict[str, object]) -> None:
    model = untrained(**options)
    ids = walk(2, 300, 4)
    assert evaluate_dynamically(model, lanes(TRAIN), lanes(ids), rate=0.001).mean < evaluate(model, lanes(ids)).mean


def test_sequences_of_other_lengths(trained: LanguageModel) -> None:
    ids = walk(2, 600, 4)
    parts = Sequences([ids[k : k + 5 + k % 7] for k in range(0, 580, 12)], 4, shuffle=False)
    plain = evaluate(trained, parts)
    found = evaluate_dynamically(trained, lanes(TRAIN), parts, rate=0.01)
    assert found.tokens == plain.tokens
    assert found.mean < plain.mean


@pytest.mark.parametrize(
    "wrong", [{"rate": 0.0}, {"rate": -1.0}, {"decay": -0.1}, {"decay": 1.0}, {"rate": float("nan")}], ids=str
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(wrong))}={next(iter(wrong.values()))}"):
        evaluate_dynamically(untrained(), lanes(TRAIN), lanes(TRAIN), **wrong)
