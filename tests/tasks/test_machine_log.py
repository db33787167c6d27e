"""The washing machine's log: next states from state and trigger, noise flagged, beside counting and the machine itself."""

import json
from pathlib import Path

import pytest

from recurra.cli.main import run
from recurra.data.events import Case
from recurra.data.machine_log import simulate_log, write_log
from recurra.errors import DataError
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.machine_log import (
    CasePrediction,
    Counted,
    MachineLogTask,
    between,
    figures,
    true_machine,
    useful_triggers,
)
from tests.cli.test_train import refused

TRIGGERS = ["Power", "Start", "Program 1", "Start", "Level", "Power", "Timer", "Timer", "Timer"]
STATES = ["Off", "Idle", "Idle", "Programmed", "Soak", "Rinse", "Rinse", "Drain", "Dry"]
WASH = Case("1", TRIGGERS, None, {"state": STATES})
"""With two triggers that do nothing: Start without a program, and Power while it rinses."""


def test_noise_is_what_does_nothing() -> None:
    assert [t for t, useful in zip(TRIGGERS, useful_triggers(WASH), strict=True) if not useful] == ["Start", "Power"]


@pytest.mark.parametrize("seen", ["state", "output"])
def test_the_machine_itself_makes_no_mistake(seen: str) -> None:
    cases = simulate_log(cases=20, seed=5).cases
    found = figures(cases, (true_machine(case, seen) for case in cases), 0.5, seen)
    assert found == {f"next {seen}": 1, "pairs right": 1, "noise flagged": 1, "false alarms": 0}


def test_figures_of_a_case_by_hand() -> None:
    chances = [1.0, 0.01, 0.2, 0.9, 0.9, 0.3, 0.9, 0.05, 0.9]
    predicted = CasePrediction([*STATES[1:4], "Rinse", *STATES[5:]], chances)  # Start is taken to lead to Rinse
    found = figures([WASH], [predicted], 0.1, "state")
    assert found["next state"] == 5 / 6  # of eight steps, two are noise
    assert found["pairs right"] == 5 / 6
    assert found["noise flagged"] == 1 / 2
    assert found["false alarms"] == 1 / 7
    twice = figures([WASH, WASH], [predicted, CasePrediction(STATES[1:], chances)], 0.1, "state")
    assert twice["next state"] == 11 / 12
    assert twice["pairs right"] == 5 / 6


def test_the_threshold_lies_between_noise_and_the_rest() -> None:
    chances = [1.0, 0.01, 0.16, 0.9, 0.9, 0.04, 0.9, 0.9, 0.9]
    assert between([WASH], [CasePrediction([], chances)], 0.0) == pytest.approx(0.08)
    with pytest.raises(DataError, match="no noise"):
        between([Case("1", ["Power"], None)], [CasePrediction([], [1.0])], 0.0)


def test_counting_does_not_know_how_many_rounds_are_left() -> None:
    counted = Counted([WASH], "state")
    predicted = counted.predict(WASH)
    assert predicted.following == STATES[1:]
    assert predicted.chances[5:7] == [0.5, 0.5]
    longer = ["Power", "Program 3", "Start", "Level", "Timer", "Level"]
    other = Case("2", longer, None, {"state": ["Off", "Idle", "Programmed", "Soak", "Rinse", "Soak"]})
    assert counted.predict(other).following[-1] == "Drain"  # the machine soaks again
    assert counted.predict(other).chances[1] == 0
    assert counted.predict(other).following[1] == ""  # a pair that was never seen


def test_any_seed_makes_a_log_and_another_one_to_judge() -> None:
    settings = ["seed=-1", "data.cases=20", "data.length=10", "data.test=0.5"]
    made = find_recipe("washing-machine-log").configure(settings)
    assert isinstance(made, MachineLogTask)
    known, held = made.log.cases[:10], made.parts["test"]
    assert made.parts["train"] + made.parts["valid"] == known
    assert len(held) == 10
    assert not any(case.activities == other.activities for case in known for other in held)


@pytest.mark.parametrize(("recipe", "seen"), [("washing-machine-log", "state"), ("washing-machine-hidden", "output")])
def test_only_what_is_seen_is_read(recipe: str, seen: str) -> None:
    made = find_recipe(recipe).configure(["data.cases=20", "data.length=10"])
    assert isinstance(made, MachineLogTask)
    assert list(made.code.values) == [seen]
    truth = made.reading(made.untrained_model()).truth
    assert truth is not None
    assert set(truth.outputs) <= set(made.code.values[seen])
    assert truth.symbols[0].startswith(f"{made.code.values[seen][1]} · ")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scores(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, float]]:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    found: dict[str, dict[str, float]] = json.loads(capsys.readouterr().out)["scores"]
    return found


MADE = ["data.cases=240", "data.length=40"]
QUICK = ["training.steps=150", "training.learning_rate=0.01", "training.batch_size=16"]
QUICK += ["training.validate_every=50", "training.warmup=10", "training.average=none", "model.hidden_size=32"]


@pytest.mark.usefixtures("here")
def test_from_the_machine_to_its_noise(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "washing-machine-log", *MADE, *QUICK, "--out", "run"]) == 0
    found = scores(["evaluate", "run"], capsys)
    assert found["gru-32"]["next state"] > 0.95
    assert found["gru-32"]["noise flagged"] > 0.6
    assert found["gru-32"]["false alarms"] < 0.05
    assert found["the machine"] == {"next state": 1, "pairs right": 1, "noise flagged": 1, "false alarms": 0}
    assert found["counting pairs"]["next state"] < 1

    assert run(["automaton", "run", "--strings", "100", "--scored", "30", "--json"]) == 0
    automaton = json.loads(capsys.readouterr().out)
    assert automaton["fidelity"] > 0.9
    assert automaton["accuracy_of_network"] > 0.9
    assert "Off · Power" in automaton["machine"]["symbols"]

    log = simulate_log(cases=30, length=40, seed=99)
    write_log("other.csv", log)
    found = scores(["evaluate", "run", "--data", "other.csv"], capsys)
    assert run(["flag", "run", "other.csv", "--json"]) == 0
    flags = {(flag["case"], flag["number"]) for flag in json.loads(capsys.readouterr().out)["flags"]}
    noise = {(c.name, k) for c in log.cases for k, useful in enumerate(useful_triggers(c), start=1) if not useful}
    assert len(flags & noise) / len(noise) == pytest.approx(found["gru-32"]["noise flagged"])
    assert len(flags - noise) / (log.events - len(noise)) == pytest.approx(found["gru-32"]["false alarms"])


@pytest.mark.usefixtures("here")
def test_a_log_from_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    write_log("log.csv", simulate_log(cases=240, length=40, seed=0))
    assert run(["train", "washing-machine-hidden", "data.path=log.csv", *QUICK, "--out", "run"]) == 0
    found = scores(["evaluate", "run"], capsys)
    assert found["gru-32"]["next output"] > found["counting pairs"]["next output"]
    assert found["the machine"]["next output"] == 1


@pytest.mark.usefixtures("here")
def test_what_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "both output" in refused(["train", "washing-machine-log", "data.attributes=output"], capsys)
    assert "data.noise" in refused(["train", "washing-machine-log", "data.noise=0"], capsys)
    assert "data.cases" in refused(["train", "washing-machine-log", "data.cases=2"], capsys)
    (here / "log.csv").write_text("case,trigger\n1,Power\n")
    assert "no column 'state'" in refused(["train", "washing-machine-log", "data.path=log.csv"], capsys)
    assert not (here / "runs").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("recipe", "column"), [("washing-machine-log", "state"), ("washing-machine-hidden", "output")])
def test_every_valid_pair_is_learned_and_noise_is_found(
    recipe: str, column: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", recipe, f"seed={seed}", "--out", "run"]) == 0
    found = scores(["evaluate", "run"], capsys)["gru-64"]
    assert found[f"next {column}"] == found["pairs right"] == 1
    assert found["noise flagged"] >= 0.99
    assert found["false alarms"] <= 0.01
