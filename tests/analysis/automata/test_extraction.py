"""From a network to its automaton: of networks that are exactly a machine, of such that are almost one, and of trained ones."""

import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from recurra.analysis.automata.extraction import METHODS, extract
from recurra.analysis.automata.finite import Moore
from recurra.data.formal import dyck, tomita
from recurra.data.machine import TRIGGERS, tables, washing_machine
from recurra.errors import OptionError
from recurra.tasks.catalogue import find_recipe
from tests.analysis.automata.machines import Slipping

SIZES = {1: 2, 2: 3, 3: 5, 4: 4, 5: 4, 6: 3, 7: 5}


def moore(number: int) -> Moore:
    language = tomita(number)
    return Moore(language.symbols, language.after, tuple(language.classes[k] for k in language.outputs))


def bits(number: int) -> Callable[[int, int], Tensor]:
    return lambda count, seed: tomita(number).draw(count, 20, seed, exactly=True)[0][:, 1:]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("number", [2, 3, 6])
def test_a_machine_is_found_as_it_is(method: str, number: int) -> None:
    found = extract(Slipping(moore(number), bits(number)), method, count=200, scored=200)
    assert found.machine == moore(number).minimised()
    assert found.is_the_truth
    assert (found.chosen.network, found.chosen.truth, found.accuracy) == (1, 1, 1)
    assert found.counterexamples == ()


@pytest.mark.parametrize("method", METHODS)
def test_of_a_machine_that_slips_the_machine_is_chosen(method: str) -> None:
    found = extract(Slipping(moore(3), bits(3), slips=0.003), method, count=200, most=32, scored=500)
    if method == "learning":
        assert found.curve[-1].states > 20  # to the last counterexample there is no end
    assert found.is_the_truth
    assert 0.99 < found.chosen.network < 1
    assert found.chosen.truth == 1
    assert found.accuracy is not None
    assert 0.99 < found.accuracy < 1
    network, machine = Slipping(moore(3), bits(3), slips=0.003), found.machine
    assert found.counterexamples
    for string in found.counterexamples:
        one = torch.tensor([string], dtype=torch.int64).view(1, -1)
        assert int(network.predictions(one)[0, -1]) != int(network.outputs_of(machine, one)[0, -1])


def test_the_truth_is_not_looked_at() -> None:
    network = Slipping(moore(3), bits(3), slips=0.003)
    first = extract(network, count=300, scored=100)
    network.truth = moore(6)
    other = extract(network, count=300, scored=100)
    assert first.machine == other.machine
    assert other.difference is not None
    assert not other.is_the_truth
    network.truth = None
    assert extract(network, count=300, scored=100).to_json()["fidelity_to_truth"] is None


@pytest.mark.parametrize("method", METHODS)
def test_ways_that_no_string_takes_are_not_known(method: str) -> None:
    """A log without noise never has a button pressed in vain: what would follow is left open, and all else is found."""
    machines, after, useful = tables()
    whole = Moore(TRIGGERS, tuple(map(tuple, after.tolist())), tuple(machine.name for machine in machines))

    known = {
        (machine.name, k) for machine, row in zip(machines, useful, strict=True) for k in row.nonzero()[0].tolist()
    }
    untaught = torch.tensor(
        [[k > 0 and (name, k) not in known for k in range(len(TRIGGERS))] for name in whole.outputs]
    )

    class Untaught(Slipping):
        """Triggers that never do anything in a state of this name lead anywhere."""

        def step(self, s: Tensor, symbol: Tensor) -> Tensor:
            there, in_vain = super().step(s, symbol), untaught[s[:, 0], symbol]
            return torch.stack([torch.where(in_vain, s[:, 1] % whole.size, there[:, 0]), there[:, 1]], dim=1)

    network = Untaught(whole, lambda count, seed: washing_machine(count, 60, seed, noise=0.0)[0], predicts_first=False)
    network.truth = whole.minimised()
    found = extract(network, method, count=300, scored=300)
    assert found.is_the_truth
    assert found.machine.size == 13
    for name, row in zip(found.machine.outputs, found.machine.after, strict=True):
        ways = [TRIGGERS[k] for k, then in enumerate(row) if then >= 0]
        assert name not in ("Soak", "Dry") or ways == ["none", "Level" if name == "Soak" else "Timer"]
    assert found.to_json()["unknown_ways"] > 60


def test_so_many_states_as_are_asked_for() -> None:
    network = Slipping(moore(3), bits(3))
    assert extract(network, states=4, count=200, scored=50).machine.size <= 4
    assert extract(network, states=40, count=200, scored=50).machine.size == 5
    with pytest.raises(OptionError, match="at least 1"):
        extract(network, states=0)
    with pytest.raises(OptionError, match="quotient"):
        extract(network, "quotients")


def train_and_extract(number: int, *extra: str, scored: int = 10_000) -> None:
    """A network of strings up to 20 symbols, and by both methods the true machine, held to strings of 100."""
    task = find_recipe("tomita").configure([f"data.language={number}", *extra])
    trainer = task.trainer()
    for _ in trainer.events():
        pass
    reading = task.reading(trainer.evaluated.eval())
    for method in METHODS:
        found = extract(reading, method, scored=scored)
        assert found.machine.size == SIZES[number]
        assert found.is_the_truth
        assert found.chosen.network == found.chosen.truth == found.accuracy == 1


def test_a_trained_network_gives_the_true_machine() -> None:
    train_and_extract(4, "training.steps=400", scored=500)


@pytest.mark.slow
def test_all_seven_in_three_minutes() -> None:
    started = time.process_time()  # what other programs take of the machine does not count
    for number in SIZES:
        train_and_extract(number)
    assert time.process_time() - started < 180


@pytest.mark.slow
def test_brackets_have_a_state_for_all_that_can_be_open() -> None:
    task = find_recipe("dyck").configure([])
    trainer = task.trainer()
    for _ in trainer.events():
        pass
    for method in METHODS:
        found = extract(task.reading(trainer.evaluated.eval()), method, scored=1000)
        assert found.machine.size == len(dyck(2, 3).after) == 16
        assert found.is_the_truth
        assert found.machine.is_complete
        assert found.chosen.network == 1
