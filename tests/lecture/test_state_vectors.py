"""States and triggers of the washing machine as vectors: sums, logs, names of one's own, and a network that reads them."""

import csv
import json
from itertools import pairwise

import pytest
import torch

import recurra as rc
from recurra.cli.main import run as command
from recurra.data.machine import NAMES, TRIGGERS, VARIABLES, Machine, change_of, every_state


def test_states_are_those_of_the_table() -> None:
    found = rc.lecture.state_vectors(program=2)
    assert found.states["Off"] == (0,) * 8
    assert found.states["Idle"] == (1, *(0,) * 7)
    assert found.states["Programmed"] == (1, 2, *(0,) * 6)
    assert found.states["Soak"] == (1, 2, 1, 1, 1, 1, 0, 0)
    assert len(set(found.states.values())) == len(NAMES)
    assert found.triggers["Program 2"] == (0, 2, *(0,) * 6)


def test_state_plus_change_is_the_next_state_everywhere() -> None:
    for machine in every_state():
        for trigger in TRIGGERS:
            total = tuple(a + b for a, b in zip(machine.variables, change_of(machine, trigger), strict=True))
            assert total == machine.after(trigger).variables


def test_power_and_program_are_sums_of_their_trigger_vectors() -> None:
    found = rc.lecture.add_triggers(["Power", "Program 1"])
    assert found.changes == (rc.data.trigger_vector("Power"), rc.data.trigger_vector("Program 1"))
    assert found.states[-1] == (1, 1, 0, 0, 0, 0, 0, 0)


def test_the_log_of_the_command(tmp_path, capsys) -> None:
    file = tmp_path / "log.csv"
    assert command(["log", "washing-machine", "--out", str(file), "--cases", "2", "--vectors", "--json"]) == 0
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert json.loads(capsys.readouterr().out)["rows"] == len(rows)
    assert [rows[0][name] for name in ("step", "state", "trigger", "next state")] == ["1", "Off", "Power", "Idle"]
    for row, after in pairwise(rows):
        if after["case"] == row["case"]:
            assert after["state"] == row["next state"]
    machine = Machine()
    for row in (row for row in rows if row["case"] == "1"):
        assert tuple(int(row[name]) for name in VARIABLES) == machine.variables
        assert tuple(int(row[f"trigger {name}"]) for name in VARIABLES) == rc.data.trigger_vector(row["trigger"])
        machine = machine.after(row["trigger"])
    assert command(["log", "washing-machine", "--out", str(file), "--names", "Porwer=On"]) == 2
    assert "Power" in capsys.readouterr().err


def test_a_network_reads_the_vectors() -> None:
    x, y = rc.data.machine_vectors(8, 60, seed=1)
    assert x.shape == (8, 60, 16)
    assert torch.equal(x[:, 1:, :8], y[:, :-1])  # the next state is met at the next step
    assert torch.equal(x[:, 0, :8], torch.zeros(8, 8))


def test_names_of_ones_own_from_training_to_flag(tmp_path) -> None:
    names = {"Program 1": "Program Select", "Level": "Water Level reached", "Off": "Stop", "Dry": "Spin dry"}
    rc.data.write_log(tmp_path / "own.csv", rc.data.simulate_log(40, 30, seed=0), names=names)
    run = rc.train(
        "events",
        data=tmp_path / "own.csv",
        out=tmp_path / "run",
        hidden_size=16,
        steps=30,
        progress="none",
        **{"data.case": "case", "data.activity": "trigger", "data.attributes": "state", "data.predict": "state"},
    )
    flagged = run.flag(alarms=0.2).table()
    assert flagged is not None
    assert flagged.rows
    known = {names.get(name, name) for name in TRIGGERS}
    written = {cell for row in flagged.rows for cell in row}
    assert written & {"Program Select", "Water Level reached", *(known - {"none"})}
    assert "Level" not in written


@pytest.mark.slow
def test_the_robot_makes_no_mistake_in_a_thousand_cycles(tmp_path) -> None:
    run = rc.train("washing-machine", out=tmp_path / "run", progress="none")
    programs = [1 + k % 6 for k in range(1000)]
    work = run.robot(programs)
    print(work)
    assert len(work.finished) == 1000
    assert work.mistakes == 0
    assert work.misread == 0
