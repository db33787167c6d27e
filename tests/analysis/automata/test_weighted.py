"""Language models as weighted automata: of a text that goes round, the automaton that goes round; clusters; what is scored."""

import math
from pathlib import Path

import pytest
import torch

from recurra.analysis.automata.reading import Reading
from recurra.analysis.automata.weighted import Weighted, extract_weighted, k_means
from recurra.recipes.catalogue import begin, find_recipe
from recurra.recipes.reader import override

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
    experiment = begin(override(find_recipe("text"), [f"data.path={file}", *SETTINGS]))
    trainer = experiment.trainer()
    for _ in trainer.events():
        pass
    return experiment.reading(trainer.evaluated.eval())


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
    assert set(asked.to_json()["machine"]) == {"symbols", "classes", "after", "chances"}
    assert asked.machine.size == asked.chosen.states


def test_the_network_draws_its_own_strings(round_and_round: Reading) -> None:
    strings = round_and_round.draw(50, 1)
    assert strings.shape == (50, 100)
    names = round_and_round.symbols
    texts = ["".join(names[k] for k in row) for row in strings.tolist()]
    assert sum(text.count("bc") for text in texts) > 0.9 * 50 * 25
    assert torch.equal(strings, round_and_round.draw(50, 1))
    assert not torch.equal(strings, round_and_round.draw(50, 2))


def test_an_automaton_with_the_network_s_own_chances_loses_nothing() -> None:
    uniform = Weighted(("a", "b"), ("a", "b"), torch.tensor([[0, 0]]), torch.tensor([[0.25, 0.75]]))
    assert uniform.walk(torch.tensor([[0, 1, 1]])).tolist() == [[0, 0, 0, 0]]
    assert uniform.machine().says == ("'b' 0.75 'a' 0.25",)


def test_clusters_that_lie_apart_are_found() -> None:
    random = torch.Generator().manual_seed(0)
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    owner = torch.randint(3, (300,), generator=random)
    points = centres[owner] + torch.randn(300, 2, generator=random)
    found = k_means(points, 3, seed=1)
    assert len({(a, b) for a, b in zip(owner.tolist(), found.tolist(), strict=True)}) == 3
