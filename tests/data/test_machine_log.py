"""The washing machine's event log: it follows the machine, has its share of noise, and is read back as it was written."""

from pathlib import Path

import pytest

from recurra.data.events import read_log
from recurra.data.machine import Machine
from recurra.data.machine_log import simulate_log, walk, write_log
from recurra.errors import DataError


def test_each_trigger_meets_the_state_that_the_one_before_led_to() -> None:
    log = simulate_log(cases=100, length=80, seed=1, noise=0.1)
    assert len(log.cases) == 100
    useless = 0
    for case in log.cases:
        assert case.activities[0] == "Power"
        machine = Machine()
        for trigger, state, output in zip(
            case.activities, case.attributes["state"], case.attributes["output"], strict=True
        ):
            assert (state, output) == (machine.name, machine.output)
            useless += machine.after(trigger) == machine
            machine = machine.after(trigger)
        assert machine == walk(case.activities)[-1]
    assert useless / log.events == pytest.approx(0.1, abs=0.01)
    assert log == simulate_log(cases=100, length=80, seed=1, noise=0.1)
    assert log != simulate_log(cases=100, length=80, seed=2, noise=0.1)


def test_what_is_seen_hides_states() -> None:
    seen = [machine.output for machine in walk(["Power", "Program 1", "Start", "Level", "Timer", "Timer", "Timer"])]
    assert seen == ["dark", "lit", "lit", "fills", "spins", "empties", "spins", "dark"]


def test_a_case_that_is_never_switched_on_by_then_is_switched_on_at_once() -> None:
    log = simulate_log(cases=50, length=1, seed=0, noise=0.9)
    assert {tuple(case.activities) for case in log.cases} == {("Power",)}


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = simulate_log(cases=5, length=20, seed=4)
    write_log(tmp_path / "log.csv", log)
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]
    assert (
        (tmp_path / "log.csv")
        .read_text()
        .startswith("case,step,state,output,trigger,next state\n1,1,Off,dark,Power,Idle\n")
    )
    read = read_log(tmp_path / "log.csv", activity="trigger", attributes=["state", "output"])
    assert read.cases == log.cases


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "log.csv").mkdir()
    with pytest.raises(DataError, match="cannot be written"):
        write_log(tmp_path / "log.csv", simulate_log(cases=1, length=3))
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]
