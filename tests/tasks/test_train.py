"""`train`, `open` and `runs`: a recipe by name, data as every kind of object, and what a signal does."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import recurra as rc
from recurra.tasks import training_run
from recurra.training.loop import Trainer

RANDOM = np.random.default_rng(0)
WALKS = [RANDOM.normal(size=int(n)).cumsum() for n in RANDOM.integers(5, 30, 60)]
SIDES = ["up" if walk[-1] > walk[0] else "down" for walk in WALKS]
TEXTS, LABELS = ["good film", "bad film", "very good", "very bad"] * 15, ["pos", "neg"] * 30
WORDS, TAGS = [["a", "b", "c"], ["b", "c", "a", "d"]] * 20, [["X", "Y", "X"], ["Y", "X", "X", "Z"]] * 20
LOG = pd.DataFrame(
    {
        "case": np.repeat(np.arange(40), 5),
        "activity": list("abcde") * 40,
        "time": pd.date_range("2024-01-01", periods=200, freq="h"),
    }
)
SERIES = np.sin(np.arange(400) / 8)
POINTS = RANDOM.normal(size=(120, 2))
SIGNS = (POINTS[:, 0] * POINTS[:, 1] > 0).astype(int)
PIECE = (RANDOM.random((30, 88)) < 0.05).astype(int)
NUMBERS = [(f"{k}", f"{k + 1}") for k in range(200)]
DATA: dict[str, dict[str, Any]] = {
    "text": {"texts": ["the cat sat on the mat. " * 40] * 3},
    "names": {"texts": ["anna", "bob", "carla", "dora", "emil"] * 20},
    "conditioned": {
        "pairs": [("f", "anna"), ("m", "bob"), ("f", "carla"), ("m", "emil")] * 20,
        "frame": pd.DataFrame({"text": ["anna", "bob"] * 40, "label": ["f", "m"] * 40}),
    },
    "translate": {"pairs": NUMBERS, "frame": pd.DataFrame(NUMBERS, columns=["source", "target"])},
    "classify": {
        "arrays": (WALKS, SIDES),
        "tensors": ([torch.tensor(walk) for walk in WALKS], SIDES),
        "lists": ([walk.tolist() for walk in WALKS], SIDES),
        "texts": (TEXTS, LABELS),
        "frame": pd.DataFrame({"text": TEXTS, "label": LABELS}),
        "dict": {"text": TEXTS, "label": LABELS},
        "dicts": [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)],
        "array": (RANDOM.normal(size=(60, 12)), RANDOM.integers(0, 2, 60)),
        "tensor": (torch.randn(60, 12, 3), torch.arange(60) % 2),
    },
    "pixels": {"array": (RANDOM.random((60, 16)), RANDOM.integers(0, 2, 60))},
    "tag": {
        "lists": (WORDS, TAGS),
        "dicts": [{"tokens": words, "tags": tags} for words, tags in zip(WORDS, TAGS, strict=True)],
    },
    "events": {"frame": LOG, "dicts": LOG.to_dict("records")},
    "forecast": {
        "array": SERIES,
        "columns": np.stack([SERIES, SERIES**2], 1),
        "tensor": torch.tensor(SERIES),
        "list": SERIES.tolist(),
        "series": pd.Series(SERIES, index=pd.date_range("2024", periods=400, freq="h")),
        "frame": pd.DataFrame({"a": SERIES, "b": 2 * SERIES}),
    },
    "piano-roll": {
        "arrays": {"train": [PIECE] * 4, "valid": [PIECE], "test": [PIECE]},
        "notes": {part: [[[60, 64], [62], []] * 10] * 2 for part in ("train", "valid", "test")},
    },
    "tree": {
        "texts": ["(1 (0 a) (1 b))", "(0 (0 a) (0 a))", "(1 (1 b) (1 b))"] * 20,
    },
    "feedforward": {
        "arrays": (POINTS, SIGNS),
        "tensors": (torch.tensor(POINTS), torch.tensor(SIGNS)),
        "frame": pd.DataFrame({"a": POINTS[:, 0], "b": POINTS[:, 1], "label": SIGNS}),
        "images": (RANDOM.random((60, 8, 8)), RANDOM.integers(0, 3, 60)),
    },
    "reservoir": {"array": SERIES, "frame": pd.DataFrame({"a": SERIES})},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "reservoir": {"washout": 20},
    "feedforward": {"steps": 2},
    "text": {"batch_size": 2},
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(recipe: str = "tomita", data: Any = None, **options: Any) -> rc.Run:
    small = {"steps": 2, "hidden_size": 4} if recipe not in ("reservoir", "feedforward") else {}
    return rc.train(recipe, data=data, progress="none", **small | SETTINGS.get(recipe, {}) | options)


@pytest.mark.parametrize(("recipe", "kind"), [(recipe, kind) for recipe, kinds in DATA.items() for kind in kinds])
def test_data_as_objects(recipe: str, kind: str) -> None:
    """A run keeps its data in its folder: it is evaluated, opened and resumed where the object no longer is."""
    run = train(recipe, DATA[recipe][kind])
    assert run.is_trained
    scores = run.evaluate().to_json()["scores"]
    run.path.rename("moved")
    assert rc.open("moved").evaluate().to_json()["scores"] == scores
    assert rc.open("moved").resume(progress="none").outcome is not None


def test_every_recipe_that_takes_data_is_tried() -> None:
    """Those that are left out share a task, and with it the kind of data, with one that is tried."""
    kinds = {rc.RECIPES[name].task.data_kind for name in DATA}
    assert {recipe.task.data_kind for recipe in rc.RECIPES.values()} - {None} <= kinds


def test_objects_and_files_give_the_same_run(place: Path) -> None:
    (place / "series.csv").write_text("a\n" + "".join(f"{value!r}\n" for value in SERIES.tolist()))
    weights = [
        train("forecast", data, out=out).model.state_dict()
        for data, out in (("series.csv", "file"), (pd.DataFrame({"a": SERIES}), "object"))
    ]
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name])


@pytest.mark.parametrize(
    ("recipe", "data", "words"),
    [
        ("tomita", [1], "the data of tomita is synthetic"),
        ("text", "nofile.txt", "nofile.txt, which does not exist"),
        ("text", "a text\nof two lines", r"is a text, and a path is asked for. Give the text in a list: data=\[text\]"),
        ("text", np.zeros(4), "a text or a list of texts is needed; got ndarray"),
        ("classify", [1, 2], r"\(sequences, labels\).*is needed; got list"),
        ("classify", (["a", "b"], [1]), "found 2 text, 1 label"),
        ("forecast", ["a", "b"], "numbers were expected"),
        ("events", pd.DataFrame({"x": [1]}), "column"),
    ],
)
def test_data_that_does_not_fit(
    recipe: str, data: Any, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(rc.RecurraError, match=words) as error:
        train(recipe, data)
    assert "\n" not in str(error.value)
    assert not Path("runs").exists()
    error.value.__traceback__ = None  # which holds the task
    del error
    gc.collect()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"recipe": "tomitta"}, "Did you mean 'tomita'"),
        ({"recipe": 3}, "recipe must be a name, a recipe or a task; got int"),
        ({"hiden_size": 3}, "Did you mean 'model.hidden_size'"),
        ({"steps": 2.5}, "expected a whole number; got float 2.5"),
        ({"length": 3}, "'length' is a setting of several groups"),
        ({"cell": rc.find_cell("gru")}, "give its name, or 'FILE.py:NAME'"),
        ({"progress": "bar"}, "Known: auto, lines, none"),
        ({"minutes": -1}, "minutes must be a number of at least 0; got -1"),
        ({"monitor": 0}, "monitor must be a number of at least 1; got 0"),
        ({"device": "gpu"}, "Known: cpu, cuda"),
        ({"settings": ["training.steps=2"]}, "not both"),
    ],
)
def test_options_that_do_not_exist(options: dict[str, Any], words: str) -> None:
    with pytest.raises(rc.OptionError, match=words) as error:
        rc.train(**{"recipe": "tomita", "progress": "none", "hidden_size": 4, "steps": 2} | options)
    assert "\n" not in str(error.value)
    assert not Path("runs").exists()


def test_a_task_that_is_configured() -> None:
    task = rc.RECIPES["tomita"](steps=2, hidden_size=4)
    assert rc.train(task, progress="none").outcome is not None
    with pytest.raises(rc.OptionError, match="configured already"):
        rc.train(task, steps=3)


def test_settings_as_on_the_command_line() -> None:
    run = rc.train("tomita", settings=["training.steps=2", "model.hidden_size=4"], progress="none")
    assert (run.settings.training.steps, run.settings.model.hidden_size) == (2, 4)


class TestOpen:
    def test_a_run_as_it_was(self) -> None:
        run = train(out="a")
        opened = rc.open("a")
        assert opened.settings == run.settings
        assert opened.evaluate().scores == run.evaluate().scores
        assert repr(opened) == "<Run a: tomita>"

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"path": "nix"}, "nix is not a run folder: it does not exist"),
            ({"device": "gpu"}, "Known: cpu, cuda"),
            ({"model": torch.nn.Linear(1, 1)}, "model is for runs of rc.fit; a is of tomita"),
        ],
    )
    def test_refusals(self, options: dict[str, Any], words: str) -> None:
        train(out="a")
        with pytest.raises(rc.RecurraError, match=words):
            rc.open(**{"path": "a"} | options)

    def test_runs_the_last_first(self) -> None:
        for out in ("some/a", "some/b"):
            train(out=out)
            time.sleep(0.01)
        assert [run.path.name for run in rc.runs("some")] == ["b", "a"]
        with pytest.raises(rc.RunError, match="nix is not there"):
            rc.runs("nix")


SCRIPT = """
import recurra as rc
run = rc.train("tomita", steps=100_000, hidden_size=4, out="run", save_every=1000)
print("returned", run.outcome, run.is_trained)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_train_returns(number: int, place: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log, deadline = place / "run/metrics.jsonl", time.monotonic() + 200
    while not log.exists() or log.stat().st_size < 500:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    out, errors = process.communicate(timeout=100)
    assert (process.returncode, errors) == (0, "")
    assert out.startswith(f"returned stopped by {signal.Signals(number).name}, saved")
    assert out.endswith("True\n")
    assert rc.open(place / "run").folder.has("last")


def test_minutes_are_time_for_a_whole_schedule() -> None:
    run = train(steps=100_000, minutes=0.02, save_every=100_000)
    assert run.outcome is not None
    assert run.outcome.why == f"{run.outcome.step} steps made; the schedule of 100000 was fitted into the time"
    assert run.outcome.step < 100_000
    assert run.outcome.valid is not None
    rates = [row["learning_rate"] for row in run.metrics if "learning_rate" in row]
    assert rates[-1] < 0.25 * max(rates)  # the schedule has come to its end, as near as one of a second can
    assert run.resume().outcome is not None  # nothing is left to do


@pytest.mark.parametrize(("minutes", "low", "high"), [(0.1, 5.0, 5.5), (0.01, 0.06, 0.06)])
def test_what_comes_before_the_first_step_counts_as_time(monkeypatch, minutes: float, low: float, high: float) -> None:
    given: list[float] = []
    real = Trainer.fit_into

    def fit_into(self: Trainer, seconds: float) -> None:
        given.append(seconds)
        real(self, seconds)

    def slowly(task: Any) -> list[Any]:
        time.sleep(0.6)
        return []

    monkeypatch.setattr(Trainer, "fit_into", fit_into)
    monkeypatch.setattr(training_run, "follow_data", slowly)
    train(steps=2, minutes=minutes)
    assert low <= round(given[0], 6) <= high


def test_a_missing_extra_says_which(place: Path) -> None:
    """Pictures without matplotlib."""
    code = "import sys; sys.modules['matplotlib'] = None\nimport recurra as rc\n"
    code += "try:\n    rc.find_fixed_points(rc.Recurrent('gru', 2, 2), starts=4).plot()\n"
    code += "except rc.OptionError as error:\n    print(error)\n"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=place)
    assert "pip install 'recurra[analysis]'" in found.stdout
