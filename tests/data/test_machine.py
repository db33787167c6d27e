"""The washing machine: its states, its variables, its triggers, and logs with noise in them."""

import pytest
import torch

from recurra.data.machine import (
    NAMES,
    PROGRAMS,
    TRIGGERS,
    VARIABLES,
    Machine,
    every_state,
    is_the_machine,
    memories_of,
    rounds_of,
    washing_machine,
)
from recurra.errors import OptionError


def press(machine: Machine, *triggers: str) -> Machine:
    for trigger in triggers:
        machine = machine.after(trigger)
    return machine


def test_a_wash_from_off_to_off() -> None:
    machine, seen = Machine(), ["Off"]
    for trigger in ("Power", "Program 1", "Start", "Level", "Timer", "Timer", "Timer"):
        machine = machine.after(trigger)
        seen.append(machine.name)
    assert seen == [*NAMES, "Off"]


@pytest.mark.parametrize("program", range(1, PROGRAMS + 1))
def test_a_program_says_how_often_it_soaks(program: int) -> None:
    machine = press(Machine(), "Power", f"Program {program}", "Start")
    soaked = 1
    while machine.name != "Drain":
        machine = press(machine, "Level", "Timer")
        soaked += machine.name == "Soak"
    assert soaked == rounds_of(program)


def test_buttons_do_nothing_while_it_runs() -> None:
    soaking = press(Machine(), "Power", "Program 3", "Start")
    assert soaking.valid == ["Level"]
    assert press(soaking, "Power", "Program 5", "Start", "Timer", "none") == soaking


def test_the_eight_variables_of_each_state() -> None:
    assert len(VARIABLES) == 8
    assert Machine().variables == (0,) * 8
    assert press(Machine(), "Power").variables == (1, 0, 0, 0, 0, 0, 0, 0)
    rinsing = press(Machine(), "Power", "Program 4", "Start", "Level")
    assert rinsing.variables == (1, 4, 1, 1, 0, 1, 0, 1)


def test_the_future_depends_on_thirteen_memories() -> None:
    seen = every_state()
    assert len(seen) == len(set(seen)) == 2 + 6 + 12 + 12 + 6 + 6
    assert len({machine.memory for machine in seen}) == 13
    for one in seen:
        for other in seen:
            if one.memory == other.memory:
                assert all(one.after(t).memory == other.after(t).memory for t in TRIGGERS)


def test_a_log_follows_the_machine_and_has_its_share_of_noise() -> None:
    triggers, states = washing_machine(50, 200, seed=1, noise=0.1, pause=0.4)
    useless = pauses = 0
    for row, said in zip(triggers.tolist(), states.tolist(), strict=True):
        machine = Machine()
        for trigger, state in zip(row, said, strict=True):
            after = machine.after(TRIGGERS[trigger])
            pauses += trigger == 0
            useless += trigger != 0 and after == machine
            machine = after
            assert NAMES[state] == machine.name
    assert useless / triggers.numel() == pytest.approx(0.1, abs=0.01)
    assert pauses / triggers.numel() == pytest.approx(0.4, abs=0.02)
    assert torch.equal(triggers, washing_machine(50, 200, seed=1)[0])
    assert not torch.equal(triggers, washing_machine(50, 200, seed=2)[0])


def test_rests_are_long_and_come_in_half_of_the_logs() -> None:
    triggers, states = washing_machine(400, 100, seed=1, rest=50)
    pauses = (triggers == 0).float().mean(1)
    assert float(pauses[200:].mean()) == pytest.approx(0.4, abs=0.02)
    assert 0.6 < float(pauses[:200].mean()) < 0.8
    assert longest_rest(triggers[:200]) >= 40
    assert longest_rest(triggers[200:]) < 25
    held = triggers[:, 1:] == 0
    assert torch.equal(states[:, 1:][held], states[:, :-1][held])


def longest_rest(triggers: torch.Tensor) -> int:
    return max(len(part) for row in triggers.tolist() for part in "".join("01"[t == 0] for t in row).split("0"))


def table_of_memories() -> list[list[int]]:
    """The machine as it should be found: a state for each memory, Off first."""
    machines = {machine.memory: machine for machine in reversed(every_state())}
    memories = [Machine().memory, *(memory for memory in machines if memory != Machine().memory)]
    return [[memories.index(machines[memory].after(t).memory) for t in TRIGGERS] for memory in memories]


def test_the_machine_is_known_by_its_transitions() -> None:
    table = table_of_memories()
    assert is_the_machine(table)
    assert memories_of(table)[0][0] == {("Off", 0)}
    wrong = [list(row) for row in table]
    wrong[0][TRIGGERS.index("Start")] = 1
    assert not is_the_machine(wrong)
    lost = [list(row) for row in table]
    lost[3][0] = -1
    assert memories_of(lost)[1] == 1
    assert not is_the_machine(lost)
    assert not is_the_machine([])
    twice = [
        [k + 13 for k in row] for row in table
    ] + table  # every trigger leads to the other state of the same memory
    assert memories_of(twice)[0][0] == memories_of(twice)[0][13] == {("Off", 0)}
    assert not is_the_machine(twice)


def test_what_makes_no_log() -> None:
    with pytest.raises(OptionError, match="rest"):
        washing_machine(1, 10, rest=-1)
    with pytest.raises(OptionError, match="shares"):
        washing_machine(1, 10, noise=0.7, pause=0.4)
    with pytest.raises(OptionError, match="at least 1"):
        washing_machine(0, 10)
    with pytest.raises(OptionError, match="Did you mean 'Power'"):
        Machine().after("Powr")
