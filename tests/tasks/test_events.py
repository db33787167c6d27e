"""The events recipe: a log in, the next event, the time to it and improbable events out; nothing depends on batches."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from recurra import Recurrent
from recurra.cli.main import run
from recurra.data.cases import TIME_FEATURES, CaseCode, Cases
from recurra.data.events import Case
from recurra.errors import DataError
from recurra.models.events import EventModel
from recurra.tasks.catalogue import find_recipe, make_task
from recurra.tasks.event_reading import LONGEST, strings_of
from recurra.tasks.events import _counted
from tests.cli.test_train import refused

SETTINGS = [
    "model.hidden_size=16",
    "model.dropout=0",
    "training.steps=120",
    "training.validate_every=40",
    "training.warmup=5",
]
SETTINGS += ["training.learning_rate=0.02", "training.batch_size=32", "training.average=none"]


def write_log(path: Path, cases: int, *, noise: bool) -> None:
    """open → (check → repair)* → close, as often as the order's kind says; a day between events; `kick` is noise."""
    random, rows = np.random.default_rng(0), ["case,activity,time,kind"]
    for case in range(cases):
        rounds, second = int(random.integers(1, 3)), 86400.0 * case
        kind = "small" if rounds == 1 else "large"
        for what in ["open", *["check", "repair"] * rounds, *(["kick"] if noise and case % 10 == 0 else []), "close"]:
            rows.append(f"{case},{what},{second},{kind}")
            second += 86400
    path.write_text("\n".join(rows))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "log.csv", 200, noise=False)
    write_log(tmp_path / "noisy.csv", 60, noise=True)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_from_a_log_to_what_is_next_and_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "events", "data.path=log.csv", "data.attributes=kind", *SETTINGS, "--out", "run"]) == 0
    assert "case from 'case', activity from 'activity', time from 'time'" in capsys.readouterr().err
    assert run(["evaluate", "run", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores["lstm-16"]["accuracy"] == 1  # the kind says how many rounds there are
    assert scores["bigram"]["accuracy"] < 1
    assert scores["lstm-16"]["hours off"] < 8
    assert run(["evaluate", "run"]) == 0
    assert "after 5 or more" in capsys.readouterr().out

    open_cases = "case,activity,time,kind\n7,open,0,small\n7,check,86400,small\n8,open,0,large\n"
    Path("open.csv").write_text(open_cases)
    assert run(["predict", "run", "open.csv", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["predictions"]
    assert next(iter(first["probabilities"])) == "repair"
    assert next(iter(second["probabilities"])) == "check"
    assert 12 < first["seconds"] / 3600 < 48
    assert run(["predict", "run", "open.csv"]) == 0
    assert capsys.readouterr().out.startswith("7\trepair")

    assert run(["flag", "run", "noisy.csv", "--below", "0.05", "--json"]) == 0
    flags = json.loads(capsys.readouterr().out)["flags"]
    assert {flag["case"] for flag in flags if flag["activity"] == "kick"} == {str(case) for case in range(0, 60, 10)}
    assert run(["flag", "run"]) == 0
    assert "events with a probability below" in capsys.readouterr().out


@pytest.mark.usefixtures("here")
def test_attributes_of_the_next_event(capsys: pytest.CaptureFixture[str]) -> None:
    """Who does what: the worker of an event is said by its activity, so the next one can be known where the next activity is."""
    rows = Path("log.csv").read_text().splitlines()
    worker = {"open": "Ann", "check": "Bob", "repair": "Cem", "close": "Dan"}
    worked = [f"{row},{worker[row.split(',')[1]]}" for row in rows[1:]]
    Path("worked.csv").write_text("\n".join([f"{rows[0]},worker", *worked]))
    settings = ["data.path=worked.csv", "data.attributes=kind,worker", "data.predict=worker", *SETTINGS]
    assert run(["train", "events", *settings, "--out", "run"]) == 0
    assert run(["evaluate", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["lstm-16"]["next worker"] == 1
    Path("open.csv").write_text("case,activity,time,kind,worker\n7,open,0,small,Ann\n7,check,86400,small,Bob\n")
    assert run(["predict", "run", "open.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predictions"][0]["attributes"] == {"worker": "Cem"}
    assert run(["predict", "run", "open.csv"]) == 0
    assert capsys.readouterr().out.strip().endswith("worker Cem")
    assert run(["mimic", "run"]) == 0
    assert capsys.readouterr().out.count("accuracy of the network") == 1


@pytest.mark.usefixtures("here")
def test_what_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "data.path" in refused(["train", "events"], capsys)
    assert "no column 'what'" in refused(["train", "events", "data.path=log.csv", "data.activity=what"], capsys)
    wrong = ["data.path=log.csv", "data.predict=kind"]
    assert "must be one of data.attributes" in refused(["train", "events", *wrong], capsys)
    (here / "one.csv").write_text("case,activity\n" + "".join(f"{k},x\n" for k in range(30)))
    assert "one activity only" in refused(["train", "events", "data.path=one.csv"], capsys)
    (here / "two.csv").write_text("case,activity\n1,x\n1,y\n")
    assert "too few" in refused(["train", "events", "data.path=two.csv"], capsys)
    assert not (here / "runs").exists()


def test_predictions_of_a_case_do_not_depend_on_its_batch() -> None:
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    cases = [
        Case(str(k), [f"a{i}" for i in random.integers(4, size=n)], np.cumsum(random.random(n) * 1e4), {})
        for k, n in enumerate([3, 9, 1, 5, 9, 2])
    ]
    code = CaseCode.of(cases)
    model = EventModel(Recurrent("lstm", 7 + TIME_FEATURES, 8), len(code.activities), [], TIME_FEATURES).double().eval()
    batches = Cases([code.encode(case) for case in cases], 6, shuffle=False)
    whole = batches._take(np.arange(6))
    logits, gaps, _ = model(whole.inputs, whole.times, whole.attributes, whole.lengths)
    for k in range(6):
        alone = batches._take(np.array([k]))
        own, gap, _ = model(alone.inputs, alone.times, alone.attributes, alone.lengths)
        n = len(cases[k].activities)
        torch.testing.assert_close(own[0], logits[k, :n])
        torch.testing.assert_close(gap[0], gaps[k, :n])


def test_what_is_expected_has_a_name(here: Path) -> None:
    """Activities that training never saw have a number, 0, and no name: they are nothing that can be expected."""
    task = find_recipe("events").configure(["data.path=log.csv", "model.hidden_size=4"])
    model = task.make_model()
    with torch.no_grad():
        model.output.bias[0] = 20.0
        model.output.bias[3] = 10.0
    assert {flag.expected for flag in task.flag(model, below=1.1).flags} == {task.code.activities[3]}


def test_a_model_is_probed_where_its_log_no_longer_is(here: Path) -> None:
    rows = Path("log.csv").read_text().splitlines()
    Path("worked.csv").write_text("\n".join([f"{rows[0]},worker,empty", *(f"{row},Ann," for row in rows[1:])]))
    settings = ["data.path=worked.csv", "data.attributes=worker,empty", "model.hidden_size=4"]
    task = find_recipe("events").configure(settings)
    task = make_task(task.settings, vocabulary=task.vocabulary)
    Path("worked.csv").unlink()
    probe = task.probe(task.make_model(), 30)
    assert probe.x.shape == (8, 30, probe.layer.input_size)
    assert bool((probe.x[:, 1:] != probe.x[:, :-1]).any())


@pytest.mark.usefixtures("here")
def test_a_next_value_that_is_empty_is_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    rows = Path("log.csv").read_text().splitlines()
    worked = [f"{row},{'Ann' if ',open,' in row else ''}" for row in rows[1:]]
    Path("worked.csv").write_text("\n".join([f"{rows[0]},worker", *worked]))
    settings = ["data.path=worked.csv", "data.attributes=worker", "data.predict=worker", *SETTINGS]
    assert run(["train", "events", *settings, "training.steps=40", "--out", "run"]) == 0
    capsys.readouterr()
    assert run(["predict", "run"]) == 0
    assert all(line.endswith("\tworker (empty)") for line in capsys.readouterr().out.splitlines())


def test_counting_is_evaluated_where_it_counts() -> None:
    """`check` follows most often, but only what comes first: after two events or more the end does, and after `check` `fix`."""
    cases = [Case("1", ["open", "check", "fix"], None), Case("2", ["open", "check"], None)]
    train = [*cases, Case("3", ["open", "check", "fix"], None), Case("4", ["open"], None)]
    assert _counted(train, cases, 0) == [(2, False), (3, True), (2, True)]
    assert _counted(train, cases, 1) == [(2, True), (3, True), (2, False)]
    assert _counted([Case("5", ["open"], None)], cases, 1) == [(2, False), (3, False), (2, False)]


def test_a_rank_without_cases_takes_part_in_validation() -> None:
    cases = [Case(str(k), ["a", "b"], np.array([0.0, 60.0]), {}) for k in range(3)]
    code = CaseCode.of(cases)
    batches = Cases([code.encode(case) for case in cases], 2, shuffle=False, rank=1, world=2)
    assert [len(batch.inputs) for batch in batches.one_pass()] == [1, 0]


@pytest.mark.usefixtures("here")
def test_the_automaton_of_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "events", "data.path=log.csv", *SETTINGS, "--out", "run"]) == 0
    capsys.readouterr()
    assert run(["automaton", "run", "--most", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    machine = found["machine"]
    assert machine["symbols"] == ["check", "close", "open", "repair"]
    assert machine["classes"][-1] == "(end of case)"
    assert machine["chances"][0][2] == pytest.approx(1, abs=1e-3)  # every case begins with open, the strings say
    assert found["curve"][0]["lost"] > 0.3
    assert found["lost"] < 0.1
    assert found["curve"][-1]["nats"] == pytest.approx(found["nats_of_network"], abs=0.1)
    # after one round half of the cases close, and nothing before says which: a choice of two in 4 or 6 events
    assert 0.1 < found["nats_of_network"] < 0.3
    assert "each feature of time at its median" in found["about"]

    for method in ("quotient", "learning"):
        assert run(["automaton", "run", "--method", method, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["fidelity"] > 0.95
        assert found["fidelity_to_truth"] == pytest.approx(found["accuracy_of_network"], abs=0.1)
        assert set(found["machine"]["says"]) <= {"check", "close", "repair", "(end of case)", None}
    assert run(["automaton", "run", "--method", "quotient"]) == 0
    said = capsys.readouterr().out
    assert "as is true" in said
    assert "the true machine" not in said


@pytest.mark.usefixtures("here")
def test_what_an_automaton_holds_is_said_and_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """The kind says how many rounds there are: at its most frequent value, large, what the network says changes."""
    rows = Path("log.csv").read_text().splitlines()
    Path("timeless.csv").write_text("\n".join(",".join(row.split(",")[:2] + row.split(",")[3:]) for row in rows))
    shares = {}
    for name, attributes in (("kind", ["data.attributes=kind"]), ("none", [])):
        assert run(["train", "events", "data.path=timeless.csv", *attributes, *SETTINGS, "--out", name]) == 0
        capsys.readouterr()
        assert run(["automaton", name, "--states", "4"]) == 0
        shares[name] = capsys.readouterr().out
    assert "nothing is held" in shares["none"]
    assert "kind at its most frequent value" in shares["kind"]
    share = re.search(r"for ([\d.]+)% of \d+ held-out events", shares["kind"])
    assert share is not None
    assert 70 < float(share[1]) < 99


def test_cases_as_strings() -> None:
    cases = [Case("1", ["open", "close"], None), Case("2", ["open", "kick", "close"], None), Case("3", ["close"], None)]
    code = CaseCode.of(cases[:1])
    coded = [code.encode(case) for case in cases]
    assert strings_of(coded, lambda case: case.what - 1).tolist() == [[1, 0, -1], [0, -1, -1]]  # kick is not known
    cut = strings_of(coded, lambda case: case.what - 1, cut=True)
    assert cut.tolist() == [[1, 0, -1], [1, -1, -1], [0, -1, -1]]
    long = code.encode(Case("4", ["open"] * 500, None))
    assert strings_of([long], lambda case: case.what).tolist() == [[2] * LONGEST]  # nothing says that it ends there
    with pytest.raises(DataError, match="none of 1 cases"):
        strings_of(coded[1:2], lambda case: case.what - 1)
