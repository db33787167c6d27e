"""Networks built from automata: equal to them on every prefix of ten thousand strings, and of one very long one."""

import pytest
import torch

from recurra.analysis.automata.finite import Moore
from recurra.errors import OptionError
from recurra.lecture.automaton_network import automaton_network
from recurra.lecture.machines import find_machine

LANGUAGES = [*(f"tomita:{k}" for k in range(1, 8)), "dyck:3", "parity"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_equals_its_automaton_on_ten_thousand_strings(language: str) -> None:
    network = automaton_network(find_machine(language))
    found = network.check(count=10_000, length=20)
    assert (found.strings, found.different) == (10_000, 0)
    assert "equal" in str(found)
    # both say more than one thing, so that equality means something
    assert len(set(network.predict(torch.randint(len(network.machine.symbols), (200, 12))).flatten().tolist())) > 1


def test_errors_do_not_add_up() -> None:
    network = automaton_network(find_machine("tomita:5"))
    assert network.check(count=1, length=20_000).different == 0


def test_units_that_are_not_steep_leak() -> None:
    assert automaton_network(find_machine("parity"), gain=2.0).check(count=100).different > 50


def test_a_machine_of_ones_own_with_three_outputs() -> None:
    draw = torch.Generator().manual_seed(1)
    after = torch.randint(6, (6, 3), generator=draw).tolist()
    machine = Moore(("a", "b", "c"), tuple(map(tuple, after)), ("x", "y", "z", "x", "y", "z"))
    network = automaton_network(machine)
    strings = torch.randint(3, (500, 30), generator=draw)
    said = [network.classes[k] for k in network.predict(strings)[:, -1].tolist()]
    assert said == [machine.outputs[k] for k in machine.walk(strings)[:, -1].tolist()]


def test_an_automaton_that_is_not_complete_is_refused() -> None:
    with pytest.raises(OptionError, match="1 transition"):
        automaton_network(Moore(("a",), ((-1,),), ("x",)))
    with pytest.raises(OptionError, match="tomita:1 to tomita:7"):
        find_machine("tomita:8")
