"""The robot: with the true machine as its network it makes no mistake, with a trained one neither; an untrained one does."""

import json

import pytest

import recurra as rc
from recurra.cli.main import run as command
from recurra.data.machine import Machine
from recurra.lecture.robot import operate


class TrueMachine:
    """An operator that knows the machine."""

    def __init__(self):
        self.machine = Machine()

    @property
    def belief(self):
        return self.machine.name

    def does_something(self, trigger):
        return self.machine.after(trigger).name != self.machine.name

    def read(self, trigger):
        self.machine = self.machine.after(trigger)


class Presser(TrueMachine):
    """One that expects Power to do something always."""

    def does_something(self, trigger):
        return trigger == "Power"


def test_who_knows_the_machine_makes_no_mistake():
    work = operate(TrueMachine())
    assert work.finished == (1, 2, 3, 4, 5, 6)
    assert (work.mistakes, work.misread) == (0, 0)
    assert {moment.trigger for moment in work.moments if moment.action == "wait"} == {"Level", "Timer"}
    first = [moment.trigger for moment in work.moments if moment.program == 1]
    assert first == ["Power", "Program 1", "Start", "Level", "Timer", "Timer", "Timer"]
    assert str(work) == "6 of 6 washes finished in 54 moments; 0 mistakes, 0 states misread."


def test_mistakes_are_counted():
    work = operate(Presser(), [2])
    assert work.finished == ()
    assert work.mistakes == len(work.moments) // 2
    assert work.moments[1].mistake == "switches the machine off before it has washed"
    with pytest.raises(rc.OptionError, match="program 7 does not exist"):
        operate(TrueMachine(), [7])


def test_an_untrained_network_is_no_robot(tmp_path, capsys):
    run = rc.train("washing-machine", steps=2, hidden_size=8, out=tmp_path / "run", progress="none")
    work = run.robot(programs=[1])
    assert work.mistakes > 0
    assert work.to_json()["mistakes"] == work.mistakes
    assert command(["robot", str(tmp_path / "run"), "--programs", "2,3", "--washes", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["asked"] == [2, 3, 2]
    assert command(["robot", str(tmp_path / "run"), "--washes", "1", "--moments"]) == 0
    assert "network's belief" in capsys.readouterr().out
    text = rc.train("tomita", steps=2, hidden_size=4, out=tmp_path / "other", progress="none")
    with pytest.raises(rc.OptionError, match="robot is for a task that works as a state machine"):
        text.robot()


@pytest.mark.slow
def test_a_trained_network_operates_the_machine(tmp_path):
    """Six washes in closed loop, no button that does nothing, no wait for a machine that waits."""
    run = rc.train("washing-machine", out=tmp_path / "run", progress="none")
    work = run.robot()
    print(work)
    assert work.finished == (1, 2, 3, 4, 5, 6)
    assert (work.mistakes, work.misread) == (0, 0)
