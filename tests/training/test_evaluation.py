"""Scores: what counts, how much, and how many were right; of symbols and of numbers."""

import math
from dataclasses import replace

import pytest
import torch

from recurra import Recurrent
from recurra.data.batches import Batch, Chunks, Generated, Sequences
from recurra.errors import OptionError
from recurra.models.readout import Readout
from recurra.models.window import WindowLanguageModel
from recurra.training.distributed import Ranks
from recurra.training.evaluation import (
    Score,
    Tally,
    evaluate,
    evaluate_window,
    evaluating,
    log_probabilities,
)
from recurra.training.objectives import weighted_nll, weighted_square
from tests.helpers import make_language_model

CPU = torch.device("cpu")
TARGETS = torch.tensor([[0, 1, 2], [2, 1, 0]])
SAID = torch.tensor([[0, 1, 0], [1, 1, 0]])
LOGITS = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0)).scatter_(2, SAID[..., None], 4.0)
LOSSES = -LOGITS.log_softmax(-1).gather(2, TARGETS[..., None])[..., 0]
HIT = torch.tensor([[1, 1, 0], [0, 1, 1]]).bool()


def tally(*batches: Batch) -> Score:
    made = Tally(weighted_nll)
    for batch in batches:
        made.add(LOGITS, batch)
    return made.score(Ranks(), CPU)


WHOLE = Batch(TARGETS, TARGETS, None, fresh=True)
CASES = {
    "every step": (WHOLE, torch.ones(2, 3).bool()),
    "lengths": (replace(WHOLE, lengths=torch.tensor([3, 1])), torch.tensor([[1, 1, 1], [1, 0, 0]]).bool()),
    "scored": (
        replace(WHOLE, scored=torch.tensor([[0.0, 1, 1], [0, 0, 1]])),
        torch.tensor([[0, 1, 1], [0, 0, 1]]).bool(),
    ),
    "nothing": (replace(WHOLE, scored=torch.zeros(2, 3)), torch.zeros(2, 3).bool()),
}


@pytest.mark.parametrize("name", CASES)
def test_only_steps_that_count_are_counted(name: str) -> None:
    batch, counts = CASES[name]
    score = tally(batch)
    count = int(counts.sum())
    assert score.tokens == count
    assert score.mean == pytest.approx(float(LOSSES[counts].sum()) / max(1, count), rel=1e-6)
    assert score.accuracy == pytest.approx(float(HIT[counts].sum()) / max(1, count))


def test_batches_are_weighed_by_their_steps() -> None:
    first, second = CASES["lengths"], CASES["scored"]
    losses = torch.cat([LOSSES[first[1]], LOSSES[second[1]]])
    hits = torch.cat([HIT[first[1]], HIT[second[1]]])
    score = tally(first[0], second[0])
    assert score.tokens == 7
    assert score.mean == pytest.approx(float(losses.mean()), rel=1e-6)
    assert score.accuracy == pytest.approx(float(hits.double().mean()))


def test_perplexity_and_bits_of_what_is_said() -> None:
    score = tally(WHOLE)
    assert score.perplexity == pytest.approx(math.exp(float(LOSSES.mean())), rel=1e-6)
    assert score.bits == pytest.approx(float(LOSSES.mean()) / math.log(2), rel=1e-6)


class TestNumbers:
    def make(self, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        random = torch.Generator().manual_seed(seed)
        inputs = torch.randn(count, 6, 2, generator=random)
        scored = torch.zeros(count, 6)
        scored[:, -1] = 1
        return inputs, torch.randn(count, 6, 3, generator=random), scored

    @pytest.mark.parametrize("training", [True, False])
    def test_the_mean_squared_error_of_the_last_step(self, training: bool) -> None:
        model = Readout(Recurrent("gru", 2, 5, engine="eager", dropout=0.5), 3).train(training)
        batches = Generated(self.make, 4, 3, seed=2)
        score = evaluate(model, batches, weighted_square)
        assert model.training == training
        model.eval()
        errors = [
            (model(batch.inputs)[0][:, -1] - batch.targets[:, -1]).square().sum(-1) for batch in batches.one_pass()
        ]
        assert score.tokens == 12
        assert score.mean == pytest.approx(float(torch.cat(errors).mean().detach()), rel=1e-5)

    def test_numbers_are_never_hit(self) -> None:
        model = Readout(Recurrent("gru", 2, 5, engine="eager"), 3)
        assert evaluate(model, Generated(self.make, 4, 3), weighted_square).accuracy is None

    def test_an_iterable_of_batches_is_as_good_as_a_stream(self) -> None:
        model = Readout(Recurrent("gru", 2, 5, engine="eager"), 3)
        batches = Generated(self.make, 4, 3)
        assert evaluate(model, list(batches.one_pass()), weighted_square) == evaluate(model, batches, weighted_square)


def test_in_streams_the_state_is_carried() -> None:
    ids = torch.randint(5, (61,))
    model = make_language_model(5, "gru", 6, engine="eager")
    short, long = (evaluate(model, Chunks(ids, 2, length, shuffle=False)) for length in (4, 30))
    assert short.mean == pytest.approx(long.mean, rel=1e-5)
    assert short.accuracy == long.accuracy
    dropped = [replace(batch, fresh=True) for batch in Chunks(ids, 2, 4, shuffle=False).one_pass()]
    assert abs(evaluate(model, dropped).mean - long.mean) > 1e-4


@pytest.mark.parametrize("length", [1, 3, 60])
def test_the_window_model_carries_its_last_symbols(length: int) -> None:
    ids = torch.randint(5, (61,))
    model = WindowLanguageModel(5, 3, 4, 8)
    score = evaluate_window(model, Chunks(ids, 1, length, shuffle=False))
    logits = model(ids[None, :-1])[0][0].detach()
    expected = torch.nn.functional.cross_entropy(logits, ids[1:])
    assert score.tokens == 60
    assert score.mean == pytest.approx(float(expected), rel=1e-5)
    assert score.accuracy == pytest.approx(float((logits.argmax(-1) == ids[1:]).double().mean()))


class TestMixture:
    @pytest.mark.parametrize("as_sequences", [True, False])
    def test_log_probabilities_come_in_the_order_of_the_data(self, as_sequences: bool):
        torch.manual_seed(0)
        model = make_language_model(7, "gru", 5).double()
        random = torch.Generator().manual_seed(1)
        parts = [torch.randint(7, (n,), generator=random) for n in ((5, 2, 9, 3, 9) if as_sequences else (700,))]
        firsts = [0, 4, 5, 13, 15]
        numbers = [first + torch.arange(len(part)) for first, part in zip(firsts, parts, strict=False)]

        def batches(each: list[torch.Tensor]):
            return Sequences(each, 2, shuffle=False) if as_sequences else Chunks(each[0], 1, 64, shuffle=False)

        found = log_probabilities(model, batches(parts), batches(numbers))
        with torch.no_grad():
            each = [model(part[None, :-1])[0][0].log_softmax(-1).gather(1, part[1:, None])[:, 0] for part in parts]
        torch.testing.assert_close(found, torch.cat(each))

    def test_lanes_say_where_their_targets_are(self):
        torch.manual_seed(0)
        model = make_language_model(7, "gru", 5).double()
        text = torch.randint(7, (101,))
        found = log_probabilities(
            model, Chunks(text, 4, 8, shuffle=False), Chunks(torch.arange(101), 4, 8, shuffle=False)
        )
        assert found.shape == (100,)
        assert float(-found.mean()) == pytest.approx(evaluate(model, Chunks(text, 4, 8, shuffle=False)).nats, rel=1e-6)
        alone = model(text[None, 25:50])[0][0].log_softmax(-1).gather(1, text[26:51, None])[:, 0]
        torch.testing.assert_close(found[25:50], alone)


def test_an_evaluation_that_does_not_fit_into_memory_is_one_line() -> None:
    model = torch.nn.Linear(2, 2)
    with pytest.raises(OptionError, match="does not fit into memory"), evaluating(model):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1610612736000 bytes")
    assert model.training
