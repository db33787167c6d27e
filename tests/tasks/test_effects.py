"""Every setting of every recipe changes something, or is refused."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recurra.cli.main import run
from recurra.errors import OptionError, RecurraError
from recurra.tasks import tree
from recurra.tasks.catalogue import find_recipe, make_task
from recurra.tasks.settings import describe, from_dict, override, to_dict
from recurra.tasks.task import Settings
from recurra.training.events import Save

TRAINING = ["steps=4", "validate_every=2", "save_every=2", "batch_size=4", "warmup=1"]
TINY = [*(f"training.{each}" for each in TRAINING), "model.hidden_size=6"]
EAGER = [*TINY, "engine=eager"]
TOKENS = [*EAGER, "model.embedding_size=5"]
FORECAST = [*EAGER, "data.window=20", *(f"backtest.{each}" for each in ("horizon=4", "origins=4", "samples=5"))]
STRINGS = [*TOKENS, "data.strings=40", "data.length=6", "data.test_length=8", "data.test_strings=20"]
SOLVED = ["model.hidden_size=20", "training.washout=20"]
FORECAST_SOLVED = [*SOLVED, "training.starts=3", "training.horizon=10"]

CASES: dict[str, list[str]] = {
    "text": [*TOKENS, "data.path=text.txt", "training.truncation=every:8", "data.test=0.1"],
    "words": [*TOKENS[:-1], "data.path=text.txt", "training.truncation=every:8", "data.min_count=1"],
    "names": [*TOKENS, "data.path=names.txt"],
    "lengths": [*TOKENS, "data.path=names.txt"],
    "conditioned": [*TOKENS, "data.path=classes.txt"],
    "translate": [*TOKENS, "data.path=pairs.tsv"],
    "addition": [*TOKENS, "data.count=200"],
    "classify": [*TOKENS, "data.path=labels.csv"],
    "classify permuted": [*EAGER, "data.path=images.npz", "data.permute=true"],
    "tag": [*TOKENS, "data.path=tags.txt", "data.min_count=1"],
    "signal-and-noise": [*EAGER, "data.sequences=10", "data.test=10", "data.length=8"],
    "events": [*TOKENS, "data.path=log.csv"],
    "washing-machine-log": [*TOKENS, "data.cases=30", "data.length=8"],
    "forecast": [*FORECAST, "data.length=400"],
    "forecast of a file": [*FORECAST, "data.path=series.csv"],
    "piano-roll": [*EAGER, "data.path=rolls.json"],
    "long-memory": [*EAGER, "data.length=10"],
    "flip-flop": [*EAGER, "data.length=10"],
    "washing-machine": [*TOKENS, "data.length=10"],
    "tomita": STRINGS,
    "dyck": STRINGS,
    "regression": [*TINY, "data.count=60"],
    "jordan": [*TINY, "data.path=tags.txt", "data.min_count=1"],
    "fixed-window": [*TINY, "model.embedding_size=5", "data.path=text.txt", "data.test=0.1"],
    "output-recurrence": [*TINY, "data.length=10"],
    "tree": [*TINY, "model.embedding_size=5", "data.count=40", "data.depth=2"],
    "feedforward": [*TINY, "data.count=60"],
    "feedforward by a basis": [*TINY[:-1], "data.count=60", "model.kind=basis"],
    "reservoir": [*FORECAST_SOLVED, "data.length=500"],
    "reservoir of a file": [*FORECAST_SOLVED, "data.path=series.csv", "data.columns=a,b"],
    "reservoir on narma": [*SOLVED, "data.length=500", "data.task=narma"],
}

ALIKE = (
    "addition",
    "conditioned",
    "dyck",
    "fixed-window",
    "flip-flop",
    "forecast",
    "jordan",
    "lengths",
    "names",
    "words",
)
ALIKE += ("piano-roll", "regression", "reservoir")
ALIKE += ("signal-and-noise", "tag", "tomita", "washing-machine")
"""Cases whose settings are mostly those of others: they are looked at where there is more time."""

OTHERS: dict[str, list[str]] = {
    "cell": ["gru", "elman"],
    "decoder_cell": ["elman"],
    "truncation": ["every:5"],
    "optimiser": ["sgd"],
    "schedule": ["constant"],
    "save_every": ["1"],
    "clip_norm": ["1e-4"],
    "clip_value": ["1e-4"],
    "stop_at_gradient": ["1e9"],
    "reset": ["0.9"],
    "over_time": ["1/t"],
    "average": ["ema:0.05"],
    "feeding": ["free", "scheduled:1"],
    "input_dropout": ["0.4"],
    "softmax": ["adaptive"],
    "tokens": ["byte", "word"],
    "min_count": ["1000"],
    "dtype": ["float64"],
    "engine": ["fused", "eager"],
    "context": ["input"],
    "ending": ["stop"],
    "padding": ["start"],
    "combine": ["none"],
    "shape": ["chain"],
    "condition": ["state"],
    "attention": ["dot"],
    "head": ["last", "quantiles", "chain"],
    "noise": ["0.2"],
    "rest": ["2"],
    "text": ["other"],
    "label": ["kind"],
    "test_path": ["labels.csv"],
    "target_path": ["text.txt"],
    "path": ["elsewhere.csv"],
    "case": ["who"],
    "activity": ["what"],
    "time": ["what"],
    "attributes": ["who", "output"],
    "predict": ["who", "output"],
    "task": ["lorenz", "xor", "parity", "logic", "dates"],
    "family": ["tomita", "dyck"],
    "kind": ["linear"],
    "activation": ["tanh"],
    "basis": ["radial"],
    "pooling": ["average"],
    "composition": ["sum"],
    "labels": ["root"],
    "label_file": ["text.txt"],
    "columns": ["a"],
    "channels": ["4"],
    "leak": ["0.5"],
    "penalty": ["0.1"],
}
"""Other values of settings that are not simply numbers, or show in a few steps with some numbers only."""

ELSEWHERE = {
    "name": "cannot be set",
    "device": "there may be no other",
    "training.patience": "tests/training/test_loop.py: it takes many evaluations",
    "training.tree": "tests/training/test_tree_penalty.py: it takes many steps",
    "model.copy_unknown": "tests/tasks/test_translate.py: it changes what is written, not what is learned",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a small file for every recipe that reads one; it is where the tests run."""
    folder = tmp_path_factory.mktemp("effects")
    drawn = random.Random(0)

    def words(count: int) -> str:
        return " ".join(drawn.choice(("alpha", "beta", "gamma", "delta")) for _ in range(count))

    def letters() -> str:
        return "".join(drawn.choice("abcde") for _ in range(drawn.randint(2, 8)))

    files = {
        "text.txt": [words(4) for _ in range(120)],
        "names.txt": [letters() for _ in range(80)],
        "classes.txt": [f"{drawn.choice('xy')}\t{letters()}" for _ in range(80)],
        "pairs.tsv": [f"{words(3)}\t{words(3)}" for _ in range(80)],
        "labels.csv": [
            "text,other,label,kind",
            *(f"{words(3)},{words(2)},{drawn.choice('ab')},{drawn.choice('cd')}" for _ in range(80)),
        ],
        "tags.txt": [f"{words(1)} {drawn.choice('XY')}" if k % 4 else "" for k in range(1, 240)],
        "log.csv": [
            "case,activity,time,who,what",
            *(
                f"{case},{words(1)},2020-01-01T0{hour}:{drawn.randint(10, 59)}:00,{drawn.choice('ab')},{drawn.choice('cd')}"
                for case in range(40)
                for hour in range(4)
            ),
        ],
        "timeless.csv": ["case,activity", *(f"{case},{words(1)}" for case in range(40) for _ in range(4))],
        "steps.csv": ["a,b,c,class", *(f"{drawn.random()},{drawn.random()},1,{drawn.choice('xy')}" for _ in range(40))],
        "series.csv": ["time,a,b", *(f"{t},{drawn.random()},{drawn.random()}" for t in range(400))],
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    pieces = [[[drawn.randint(50, 70), 64] for _ in range(16)] for _ in range(6)]
    (folder / "rolls.json").write_text(json.dumps(dict.fromkeys(("train", "valid", "test"), pieces)))
    numbers = np.random.default_rng(0)
    images = numbers.integers(0, 255, (60, 5, 5)).astype(np.uint8)
    np.savez(folder / "images.npz", x=images, y=numbers.integers(0, 2, 60))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(tree, "VALID", 20)
        patch.setattr(tree, "TEST", 10)
        yield folder


def outcome(recipe: Settings) -> Iterator[str]:
    """What comes of a recipe, the cheapest first: what is learned, and how it is evaluated."""
    task = make_task(recipe)
    trainer = task.trainer()
    events = [(event.step, event.is_best) if isinstance(event, Save) else event for event in trainer.events()]
    weights = [float(value.double().sum()) for value in trainer.evaluated.state_dict().values()]
    yield repr((events, weights, task.vocabulary, task.about_data))
    try:
        yield repr(task.evaluate(trainer.evaluated.eval()))
    except RecurraError as error:
        yield str(error)


def others(key: str, value: Any) -> list[str]:
    name = key.rpartition(".")[2]
    if name in OTHERS:
        return [other for other in OTHERS[name] if other != str(value)]
    if isinstance(value, bool):
        return [str(not value).lower()]
    if isinstance(value, float):
        return [str(value / 2 if value else 0.3)]
    return [str((value or 0) + 3)]


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case in ALIKE), id=case) for case in CASES]
)
def test_a_setting_changes_something_or_is_refused(place: Path, case: str) -> None:
    preset, settings = find_recipe(case.split()[0]).settings, CASES[case]
    recipe = override(preset, settings)
    usual = list(outcome(recipe))
    idle = []
    for key, value, _ in describe(recipe):
        found = set()
        for other in others(key, value) if key not in ELSEWHERE else ():
            try:
                changed = override(preset, [*settings, f"{key}={other}"])
                same = all(one == before for one, before in zip(outcome(changed), usual, strict=True))
                found.add("nothing" if same else "something")
            except RecurraError:
                found.add("refused")
        if "nothing" in found and "something" not in found:
            idle.append(key)
    assert not idle


@pytest.mark.parametrize(
    ("recipe", "settings", "words"),
    [
        ("addition", ["model.attention=dot"], "model.context=both"),
        ("forecast", ["data.path=series.csv", "data.task=lorenz"], "data.path=series.csv"),
        ("reservoir", ["data.task=narma", "data.path=series.csv"], "data.path=series.csv"),
        ("reservoir", ["data.task=narma", "training.starts=3"], "it is for forecasts, and data.task=narma is none"),
        ("feedforward", ["data.path=points.csv", "data.task=xor"], "data.path=points.csv"),
        ("tree", ["data.path=trees.txt", "data.task=logic"], "data.path=trees.txt"),
        ("text", ["training.momentum=0.5"], "training.optimiser=adamw"),
        ("text", ["model.residual=true"], "model.layers=1"),
        ("long-memory", ["model.weight_dropout=0.2"], "carousel has none"),
        ("classify", ["data.valid=0", "training.patience=3"], "the last model is kept"),
        ("addition", ["data.test_path=pairs.tsv"], "no data.path is given"),
        ("text", ["data.path=a.txt", "data.valid_path=b.txt", "data.valid=0.2"], "b.txt is the validation part"),
        ("tree", ["data.path=a.txt", "data.test_path=b.txt", "data.test=0.2"], "b.txt is the test part"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_would_change_nothing_is_refused_in_one_line(
    recipe: str, settings: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", recipe, *settings, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "would change nothing" in said
    assert words in said
    assert not (tmp_path / "run").exists()


def test_a_preset_may_have_settings_that_others_make_idle() -> None:
    """Only what is given is refused: a recipe keeps what it had, in a run folder too."""
    made = override(find_recipe("forecast").settings, ["data.path=series.csv"])
    assert made.data.task == "seasons"
    assert from_dict(type(made), to_dict(made)) == made


def test_settings_of_other_files_are_refused(place: Path) -> None:
    for setting in (
        "data.text=words",
        "data.tokens=word",
        "data.max_symbols=9",
        "data.min_count=2",
        "model.embedding_size=9",
    ):
        with pytest.raises(OptionError, match="npz holds images"):
            find_recipe("classify").configure(["data.path=images.npz", setting]).trainer()


@pytest.mark.parametrize(
    ("recipe", "file", "setting"),
    [
        ("events", "timeless.csv", "time_weight=0.5"),
        ("classify", "steps.csv", "data.whiten=0.5"),
        ("pixels", "images.npz", "data.whiten=0.5"),
    ],
)
def test_settings_that_a_file_makes_idle_are_refused(
    place: Path, recipe: str, file: str, setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", recipe, f"data.path={file}", setting, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{setting} would change nothing here" in said
    assert file in said
    assert not (tmp_path / "run").exists()


def test_noise_of_a_text_is_added_to_the_vectors_of_its_tokens(place: Path) -> None:
    def made(*settings: str) -> Any:
        return find_recipe("classify").configure([*CASES["classify"], *settings]).make_model()

    assert made().noise == 0.0
    assert made("model.noise=0.2").noise == 0.2
    numbers = find_recipe("classify").configure([*EAGER, "data.path=images.npz"]).make_model()
    assert numbers.noise == 0.3
