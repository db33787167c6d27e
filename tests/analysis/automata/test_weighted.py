"""Language models as weighted automata: of a text that goes round, the automaton that goes round; clusters; what is scored."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from recurra.analysis.automata import weighted
from recurra.analysis.automata.reading import Reading
from recurra.analysis.automata.weighted import Weighted, extract_weighted, k_means
from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.tasks.catalogue import find_recipe

SETTINGS = [
    "model.cell=gru",
    "model.hidden_size=16",
    "model.embedding_size=4",
    "model.dropout=0",
    "training.steps=120",
    "training.warmup=5",
    "training.batch_size=8",
    "training.truncation=every:16",
    "training.learning_rate=0.03",
    "training.average=none",
]


@pytest.fixture(scope="module")
def round_and_round(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    """A model of abca or abcb, each as likely, again and again."""
    draws = torch.randint(2, (3000,), generator=torch.Generator().manual_seed(0)).tolist()
    file: Path = tmp_path_factory.mktemp("text") / "round.txt"
    file.write_text("".join("abcb" if draw else "abca" for draw in draws))
    task = find_recipe("text").configure([f"data.path={file}", *SETTINGS])
    trainer = task.trainer()
    for _ in trainer.events():
        pass
    return task.reading(trainer.evaluated.eval())


def test_few_states_are_enough_for_a_text_that_goes_round(round_and_round: Reading) -> None:
    found = extract_weighted(round_and_round, count=60, scored=60, most=16)
    losses = [point.lost for point in found.curve]
    assert [point.states for point in found.curve] == [1, 2, 4, 8, 16]
    assert losses[0] > 0.3
    assert losses[-1] < 0.02
    assert 4 <= found.chosen.states <= 16
    assert found.chosen.agreement > found.curve[0].agreement
    assert found.nats == pytest.approx(math.log(2) / 4, abs=0.1)  # one choice of two in four symbols
    asked = extract_weighted(round_and_round, states=5, count=60, scored=60)
    assert asked.chosen.states == asked.chosen.automaton.size <= 5
    assert set(asked.to_json()["machine"]) == {"symbols", "classes", "after", "chances", "entered"}
    assert asked.machine.size == asked.chosen.states
    assert asked.last_symbol is not None
    assert asked.last_symbol.lost > found.curve[-1].lost + 0.1  # b after c and b after a are one to it


def test_the_network_draws_its_own_strings(round_and_round: Reading) -> None:
    strings = round_and_round.draw(50, 1)
    assert strings.shape == (50, 100)
    names = round_and_round.symbols
    texts = ["".join(names[k] for k in row) for row in strings.tolist()]
    assert sum(text.count("bc") for text in texts) > 0.9 * 50 * 25
    assert torch.equal(strings, round_and_round.draw(50, 1))
    assert not torch.equal(strings, round_and_round.draw(50, 2))


def test_an_automaton_with_the_network_s_own_chances_loses_nothing() -> None:
    uniform = Weighted(("a", "b"), ("a", "b"), torch.tensor([[0, 0]]), torch.tensor([[0.25, 0.75]]), torch.ones(1, 2))
    assert uniform.walk(torch.tensor([[0, 1, 1]])).tolist() == [[0, 0, 0, 0]]


def test_what_is_rounded_does_not_make_the_loss_less_than_nothing() -> None:
    """Automata of one state with the chances that the network has at every step, 100 of them."""
    names, strings = tuple(map(str, range(40))), torch.zeros(2, 5, dtype=torch.int64)
    for seed in range(100):
        logits = torch.randn(40, generator=torch.Generator().manual_seed(seed))
        says = torch.nn.Linear(3, 40)
        torch.nn.init.zeros_(says.weight)
        says.bias.data = logits
        reading = Reading(Recurrent("elman", 40, 3), torch.eye(40), says, names, names, predicts_next=True)
        same = Weighted(names, names, torch.zeros(1, 40).long(), logits.softmax(0)[None], torch.ones(1, 40))
        assert 0 <= weighted._evaluate(reading, [same], strings)[1].lost[0] < 1e-5


class Steady(torch.nn.Module):
    """Says a with 1/4, b with 1/4 and the end with 1/2, whatever was read."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.tensor([0.25, 0.25, 0.5]).log().to(hidden).expand(*hidden.shape[:-1], 3)


def steady(**how: Any) -> Reading:
    return Reading(Recurrent("elman", 2, 3), torch.eye(2), Steady(), ("a", "b"), ("a", "b", "end"), end=2, **how)


def test_strings_that_are_drawn_end() -> None:
    strings = steady(opening=[0], length=30).draw(2000, 0)
    lengths = (strings >= 0).sum(1)
    assert float((lengths == 0).double().mean()) == pytest.approx(0.5, abs=0.05)
    assert float((lengths == 2).double().mean()) == pytest.approx(0.125, abs=0.03)
    ended = strings < 0
    assert bool((ended[:, 1:] >= ended[:, :-1]).all())


def test_of_strings_that_end_only_what_is_inside_counts() -> None:
    """Of ab and b, each followed by its end, at a chance of 1/4 each and of 1/2 for the ends."""
    strings = torch.tensor([[0, 1, -1], [1, -1, -1]])
    reading = steady(draw=lambda count, seed: strings, predicts_next=True)
    assert reading.inside(strings).tolist() == [[False, True, True, False], [False, True, False, False]]
    true = reading.true(strings)
    assert true is not None
    assert true.tolist() == [[-1, 1, 2, -1], [-1, 2, -1, -1]]
    found = extract_weighted(reading, states=2)
    assert found.is_true
    assert found.nats == pytest.approx((math.log(4) + 2 * math.log(2)) / 3)
    assert found.chosen.nats == pytest.approx(found.nats, abs=1e-4)
    assert found.chosen.lost == pytest.approx(0, abs=1e-4)
    start, other = found.machine.chances.tolist()
    assert start == pytest.approx([0.5, 0.5, 0], abs=1e-4)  # the network does not say how strings begin; they do
    assert other == pytest.approx([0.25, 0.25, 0.5], abs=1e-4)
    assert found.machine.entered.tolist() == [[0, 0], [1 / 3, 2 / 3]]
    with pytest.raises(OptionError, match="before the first symbol"):
        extract_weighted(reading, states=1)


def test_chances_are_held_a_few_strings_at_a_time(round_and_round: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = extract_weighted(round_and_round, states=4, count=20, scored=20).chosen
    monkeypatch.setattr(weighted, "AT_ONCE", 1000)
    parts = extract_weighted(round_and_round, states=4, count=20, scored=20).chosen
    assert parts.lost == pytest.approx(whole.lost, rel=1e-4)
    torch.testing.assert_close(parts.automaton.chances, whole.automaton.chances, rtol=1e-4, atol=1e-5)


def test_clusters_that_lie_apart_are_found() -> None:
    random = torch.Generator().manual_seed(0)
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    owner = torch.randint(3, (300,), generator=random)
    points = centres[owner] + torch.randn(300, 2, generator=random)
    found = k_means(points, 3, seed=1)
    assert len({(a, b) for a, b in zip(owner.tolist(), found.tolist(), strict=True)}) == 3
    assert k_means(points[:1].expand(5, 2), 3).unique().numel() == 1
