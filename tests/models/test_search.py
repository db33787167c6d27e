"""Search: a beam of width 1 is greedy, a beam that holds everything is exhaustive, and neighbours in a batch change nothing."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.models.sampling import Choice
from recurra.models.search import Continuation, Ending, Found, Stepwise, beam_search, draw, greedy
from recurra.models.translate import Translation
from tests.helpers import make_language_model, make_translator

START, END, V = 0, 1, 4


class Table:
    """Log-probabilities that depend on all that was said, looked up by a hash of it: nothing is smooth, so search must search."""

    def __init__(self, seeds: list[int], sharpness: float = 1.0):
        self.seeds, self.sharpness = seeds, sharpness

    def logits(self, seed: int, said: tuple[int, ...]) -> Tensor:
        number = hash((seed, said)) % 2**63
        return self.sharpness * torch.randn(V, generator=torch.Generator().manual_seed(number))

    def start(self) -> tuple[Tensor, Any]:
        history = torch.tensor([[seed] + [-1] * 8 for seed in self.seeds])
        return torch.stack([self.logits(seed, ()) for seed in self.seeds]), ((history,),)

    def step(self, symbols: Tensor, state: Any) -> tuple[Tensor, Any]:
        ((history,),) = state
        history = history.clone()
        rows = []
        for row, symbol in zip(history, symbols.tolist(), strict=True):
            place = int((row == -1).nonzero()[0])
            row[place] = symbol
            rows.append(self.logits(int(row[0]), tuple(row[1 : place + 1].tolist())))
        return torch.stack(rows), ((history,),)


def probability(table: Table, seed: int, symbols: tuple[int, ...], ending: Ending) -> float:
    """log P of symbols, the end symbol written out."""
    return sum(
        float(ending.log_probabilities(table.logits(seed, symbols[:k])[None])[0, symbol])
        for k, symbol in enumerate(symbols)
    )


def everything(table: Table, seed: int, ending: Ending, power: float) -> list[Found]:
    """All sequences that there are, best first: every one is written out and asked about by itself."""
    plain = [k for k in range(V) if k != END and k not in ending.never]
    found = []
    exact = None if ending.lengths is None else int(ending.lengths[0])
    for n in range(ending.limit + 1) if exact is None else [exact]:
        for symbols in itertools.product(plain, repeat=n):
            over = n == ending.limit or exact is not None  # nothing more may be said: no end symbol either
            written = symbols if over else (*symbols, END)
            total = probability(table, seed, written, ending)
            found.append(Found(list(symbols), total, total / len(written) ** power))
    return sorted(found, key=lambda one: -one.score)


def plain_beam(table: Table, seed: int, ending: Ending, width: int, power: float) -> list[Found]:
    """A beam in lists, one sequence after another."""
    beam: list[tuple[int, ...]] = [()]

    def score(written: tuple[int, ...]) -> float:
        return probability(table, seed, written, ending) / max(1, len(written)) ** power

    for _ in range(ending.limit):
        over = [written for written in beam if END in written]
        longer = [(*written, k) for written in beam if END not in written for k in range(V)]
        beam = sorted([*over, *longer], key=score, reverse=True)[:width]
    return [
        Found([k for k in written if k != END], probability(table, seed, written, ending), score(written))
        for written in beam
    ]


def close(found: list[Found], expected: list[Found]) -> None:
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)
        assert one.score == pytest.approx(other.score, abs=1e-5)


SEEDS = list(range(12))


class TestABeam:
    @pytest.mark.parametrize("power", [0.0, 0.6, 1.0])
    @pytest.mark.parametrize("never", [(), (START,)])
    def test_that_holds_everything_is_exhaustive(self, power: float, never: tuple[int, ...]) -> None:
        table, ending = Table(SEEDS), Ending(limit=3, end=END, never=never)
        expected = [everything(table, seed, ending, power) for seed in SEEDS]
        width = len(expected[0])
        assert width == sum((V - 1 - len(never)) ** n for n in range(4))
        found = beam_search(table, ending, width, n_best=width, length_power=power)
        for one, other in zip(found, expected, strict=True):
            close(one, other)

    def test_wider_than_everything(self) -> None:
        table, ending = Table(SEEDS), Ending(limit=2, end=END)
        for one, seed in zip(beam_search(table, ending, 50, n_best=50), SEEDS, strict=True):
            close(one, everything(table, seed, ending, 1.0))

    def test_of_a_known_length_is_exhaustive(self) -> None:
        table, ending = Table(SEEDS), Ending(limit=9, end=END, lengths=torch.full((len(SEEDS),), 3))
        for one, seed in zip(beam_search(table, ending, 27, n_best=27), SEEDS, strict=True):
            close(one, everything(table, seed, ending, 1.0))

    @pytest.mark.parametrize("power", [0.0, 1.0])
    def test_of_width_1_is_greedy(self, power: float) -> None:
        ending = Ending(limit=6, end=END, never=(START,))
        table = Table(list(range(60)))
        expected = greedy(table, ending)
        lengths = {len(one.tokens) for one in expected}
        assert {0, 6} <= lengths  # some end at once, and some are cut
        found = beam_search(table, ending, 1, length_power=power)
        assert [one.tokens for (one,) in found] == [one.tokens for one in expected]
        for (one,), other in zip(found, expected, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)

    def test_finds_better_ones_when_it_is_wider(self) -> None:
        table, ending = Table(list(range(60))), Ending(limit=6, end=END)
        totals = [
            sum(one.score for (one,) in beam_search(table, ending, width, length_power=0)) for width in (1, 2, 4, 16)
        ]
        assert totals == sorted(totals)
        assert totals[0] < totals[-1] - 1

    @pytest.mark.parametrize("power", [0.0, 1.0])
    @pytest.mark.parametrize("width", [2, 3, 5])
    def test_that_is_narrow_keeps_the_best_of_each_step(self, width: int, power: float) -> None:
        table, ending = Table(SEEDS, sharpness=2.0), Ending(limit=5, end=END)
        found = beam_search(table, ending, width, n_best=width, length_power=power)
        for one, seed in zip(found, SEEDS, strict=True):
            close(one, plain_beam(table, seed, ending, width, power))

    def test_side_by_side_is_one_by_one(self) -> None:
        ending = Ending(limit=5, end=END)
        together = beam_search(Table(SEEDS), ending, 3, n_best=3)
        for seed, found in zip(SEEDS, together, strict=True):
            (alone,) = beam_search(Table([seed]), ending, 3, n_best=3)
            assert alone == found

    def test_lengths_of_each(self) -> None:
        lengths = torch.tensor([0, 1, 2, 3, 4, 0])
        ending = Ending(limit=3, end=END, lengths=lengths)
        found = beam_search(Table(SEEDS[:6]), ending, 2)
        assert [len(one.tokens) for (one,) in found] == [0, 1, 2, 3, 3, 0]
        assert found[0][0].log_probability == 0
        assert all(END not in one.tokens for (one,) in found)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"width": 0}, "at least 1"),
            ({"width": 2, "n_best": 3}, "wider beam"),
            ({"width": 2, "n_best": 0}, "n_best"),
        ],
    )
    def test_refuses(self, options: dict[str, int], words: str) -> None:
        with pytest.raises(OptionError, match=words):
            beam_search(Table([0]), Ending(3), **options)

    def test_draws_nothing(self) -> None:
        with pytest.raises(OptionError, match="draws nothing"):
            beam_search(Table([0]), Ending(3, stop_probability=0.5), 2)


class TestDrawing:
    def test_as_often_as_the_probabilities_say(self) -> None:
        table, ending = Table([7]), Ending(limit=2, end=END)
        count = 4000
        drawn = draw(Table([7] * count), ending, generator=torch.Generator().manual_seed(0))
        for expected in everything(table, 7, ending, 1.0):
            share = sum(one.tokens == expected.tokens for one in drawn) / count
            p = math.exp(expected.log_probability)
            assert share == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / count) + 1e-9)
        for one in drawn[:20]:
            written = tuple(one.tokens) if len(one.tokens) == 2 else (*one.tokens, END)
            assert one.log_probability == pytest.approx(probability(table, 7, written, ending), abs=1e-5)

    def test_a_stop_is_drawn(self) -> None:
        drawn = draw(
            Table([1] * 3000), Ending(limit=3, stop_probability=0.5), generator=torch.Generator().manual_seed(0)
        )
        shares = [sum(len(one.tokens) == n for one in drawn) / 3000 for n in range(4)]
        assert shares == pytest.approx([0.5, 0.25, 0.125, 0.125], abs=0.04)

    def test_choice_is_read(self) -> None:
        ending = Ending(limit=5, end=END)
        assert draw(Table(SEEDS), ending, Choice(top_k=1)) == greedy(Table(SEEDS), ending)

    def test_lengths_of_each(self) -> None:
        ending = Ending(limit=9, end=END, lengths=torch.tensor([0, 2, 4]))
        assert [len(one.tokens) for one in draw(Table([1, 2, 3]), ending)] == [0, 2, 4]

    @pytest.mark.parametrize(("options", "words"), [({"stop_probability": 2}, "stop"), ({"limit": -1}, "negative")])
    def test_refuses(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(OptionError, match=words):
            Ending(**({"limit": 3} | options))


class TestModels:
    """The two kinds of model that are searched."""

    def language(self, rows: int) -> Stepwise:
        torch.manual_seed(1)
        model = make_language_model(5, "lstm", 8, engine="eager", layers=2).double().eval()
        with torch.no_grad():
            model.output.weight *= 6
        return Continuation(model, torch.arange(3 * rows).view(rows, 3) % 5)

    def translation(self, rows: int, context: str) -> Stepwise:
        torch.manual_seed(1)
        model = make_translator(9, 5, "gru", 8, context=context, engine="eager").double().eval()
        with torch.no_grad():
            model.output.weight *= 6
        source = torch.randint(9, (6, 7), generator=torch.Generator().manual_seed(3))[:rows]
        return Translation(model, model.read(source, torch.arange(7, 1, -1)[:rows]), 3)

    @torch.no_grad()
    @pytest.mark.parametrize("kind", ["language", "input", "state", "both", "attention"])
    def test_a_beam_ranks_by_the_models_own_probability(self, kind: str) -> None:
        """Every sequence that is found is asked about again, from its start."""
        make = (lambda: self.language(4)) if kind == "language" else lambda: self.translation(4, kind)
        ending = Ending(limit=5, end=4)
        found = beam_search(make(), ending, 4, n_best=4)
        assert len({tuple(one.tokens) for one in found[0]}) == 4
        for n, each in enumerate(found):
            for one in each:
                asked = make()
                logits, state = asked.start()
                total = 0.0
                written = one.tokens if len(one.tokens) == 5 else [*one.tokens, 4]
                for symbol in written:
                    total += float(ending.log_probabilities(logits)[n, symbol])
                    logits, state = asked.step(torch.full((4,), symbol), state)
                assert one.log_probability == pytest.approx(total, abs=1e-5)
