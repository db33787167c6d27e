"""Fuzzed run folders: files of a run changed by someone who knows what they hold, checksums and all, and verbs that use them."""

import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import recurra as rc
from recurra.cli.main import TRACEBACK, run
from recurra.errors import RecurraError
from recurra.runs.manifest import make_manifest
from recurra.runs.metrics import append_rows
from recurra.tasks.settings import describe
from tests.fuzz.files import FILES
from tests.fuzz.mutations import NASTY

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 1000, 10**6, 10**9, 2**31, 2**63, 10**30, -(10**30), 10**400, 0.5, -0.5),
    *(1e-320, 1e308, -1e308, float("nan"), float("inf"), "", "auto", "eager", "cuda", "none", "every:0", "gru", "lstm"),
    *(
        "{run}/../../etc/passwd",
        "{run}/recipe.json",
        "/dev/zero",
        "a.py:b",
        [],
        {},
        [[]],
        [1, "a", None],
        {"a": {"b": []}},
    ),
)
SETTINGS: dict[str, Any] = {
    "progress": "none",
    "engine": "eager",
    "hidden_size": 3,
    "steps": 4,
    "warmup": 1,
    "batch_size": 2,
    "save_every": 2,
    "validate_every": 2,
}
VERBS: dict[str, list[list[str]]] = {
    "text": [["sample", "--length", "5", "--seed", "1"], ["score", "the", "--no-baselines"], ["orders", "--most", "1"]],
    "names": [["sample", "--seed", "1"], ["score", "the", "--no-baselines"]],
    "classify": [["predict"]],
    "tomita": [["automaton"]],
    "forecast": [["forecast", "--steps", "3"]],
    "translate": [["translate", "a b"]],
    "events": [["predict"]],
    "tree": [],
    "words": [["sample", "--length", "5", "--seed", "1"], ["score", "the", "--no-baselines"]],
    "tag": [["predict"]],
    "conditioned": [["sample", "--given", "de", "--seed", "1"]],
    "piano-roll": [["forecast", "--steps", "3"]],
    "reservoir": [["forecast", "--steps", "3"]],
    "feedforward": [],
}
IN_FILES = {"tag": "a.conll", "conditioned": "classes.tsv", "piano-roll": "rolls.json"}
"""Kinds whose data is a file of the fuzzer."""
EVERY = [
    ["evaluate", "--no-baselines"],
    ["evaluate", "--no-baselines"],
    ["export"],
    ["runs"],
    ["train", "--resume"],
    ["explain"],
]
"""What every run can be asked; `explain` takes longest, and the campaign draws it least."""


def _data(kind: str) -> Any:
    words = ["the cat sat", "on a mat", "a cat", "the mat sat on"]
    draw = np.random.default_rng(0)
    if kind in IN_FILES:
        path = Path(tempfile.mkdtemp()) / IN_FILES[kind]
        path.write_bytes(FILES[path.name](random.Random(3)) * (12 if kind == "tag" else 1))
        return str(path)
    match kind:
        case "text" | "names" | "words":
            return [words[k % 4] for k in range(40)]
        case "classify":
            return ([draw.normal(size=(4, 2)).astype("float32") for _ in range(24)], [f"c{k % 2}" for k in range(24)])
        case "forecast":
            return draw.normal(size=80)
        case "translate":
            return [("a b", "b a"), ("b", "b"), ("a a b", "b a a"), ("b a", "a b")] * 6
        case "events":
            path = Path(tempfile.mkdtemp()) / "log.csv"
            rows = [f"{k // 3},{'abc'[k % 3]},2024-01-{1 + k % 28:02d}" for k in range(60)]
            path.write_text("case,activity,timestamp\n" + "\n".join(rows) + "\n")
            return str(path)
    return None


@cache
def sound(kind: str, place: Path) -> Path:
    """A sound run of a kind."""
    small = {"tree": {"count": 40, "depth": 2}, "tomita": {"strings": 60}, "feedforward": {"count": 60}}
    small["reservoir"] = {"length": 600, "washout": 10, "horizon": 2, "starts": 2}
    more: dict[str, Any] = small.get(kind, {})
    known = {key.rpartition(".")[2] for key, *_ in describe(rc.RECIPES[kind].settings)}
    known -= {"engine"} if kind == "feedforward" else set()
    given = {key: value for key, value in SETTINGS.items() if key in known or key == "progress"}
    if kind == "forecast":
        more |= {"window": 4, "horizon": 2, "samples": 2}
    return rc.train(kind, _data(kind), out=place / f"sound-{kind}", **given, **more).path


def shake(draw: random.Random, value: Any) -> Any:
    """A value in which one place, however deep, is another."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        key = draw.choice(list(value))
        match draw.randrange(8):
            case 0:
                return {k: v for k, v in value.items() if k != key}
            case 1:
                return value | {draw.choice((*NASTY, key.upper(), "new")): value[key]}
            case 2:
                return value | {key: value[draw.choice(list(value))]}
        return value | {key: shake(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.85:
        at = draw.randrange(len(value))
        match draw.randrange(6):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return value + [value[at]] * draw.choice((1, 2, 500))
        return [*value[:at], shake(draw, value[at]), *value[at + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and draw.random() < 0.4:
        changed = (value + 1, value - 1, -value, value * 10, value * 10**6, str(value), [value])
        return draw.choice((*changed, value * 1e-3) if abs(value) < 1e300 else changed)
    return draw.choice((*VALUES, draw.choice(NASTY)))


def sign(folder: Path) -> None:
    """Make the manifests agree with what is there now, so that no checksum stands before what is to be tested."""
    names = [each.name for each in folder.iterdir() if each.name.startswith(("recipe", "vocab", "cell", "data"))]
    (folder / "manifest.json").write_bytes(make_manifest(folder, sorted(names)))
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()[:32]
    best = ""
    for name in ("best", "previous-best", "last", "previous"):
        manifest = folder / "checkpoints" / name / "manifest.json"
        if not manifest.exists():
            continue
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            said = json.loads(manifest.read_bytes())
            for file in said["files"]:
                data = (manifest.parent / file).read_bytes()
                said["files"][file] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
            with contextlib.suppress(ValueError, KeyError, TypeError):
                said["step"] = json.loads((manifest.parent / "resume.json").read_bytes())["step"]
            said |= {"run": digest} | ({"best": best} if name in ("last", "previous") and best else {})
            manifest.write_text(json.dumps(said, sort_keys=True, separators=(",", ":")) + "\n")
            if name == "best":
                best = hashlib.sha256(manifest.read_bytes()).hexdigest()[:32]


def damage(draw: random.Random, folder: Path) -> str:
    """Change one to three files of JSON of a run, and sign it; what was changed."""
    files = [*folder.glob("*.json"), *folder.glob("*.jsonl"), *folder.glob("checkpoints/*/resume.json")]
    likely = [each for each in files if each.name in ("recipe.json", "vocabulary.json", "cell.json")]
    chosen = [draw.choice(likely if draw.random() < 0.6 else files) for _ in range(draw.choice((1, 1, 2, 3)))]
    for file in chosen:
        if file.suffix == ".jsonl":
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            at = draw.randrange(len(rows))
            row = rows[at]
            rows[at] = shake(draw, {k: v for k, v in row.items() if k != "crc"} if isinstance(row, dict) else row)
            if draw.random() < 0.5 and all(isinstance(row, dict) for row in rows):
                with contextlib.suppress(Exception):  # with sound checksums, where there can be any
                    file.unlink()
                    append_rows(file, [{k: v for k, v in row.items() if k != "crc"} for row in rows], None)
                    continue
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            value = json.loads(file.read_text())
            for _ in range(draw.choice((1, 1, 1, 4))):
                value = shake(draw, value)
            file.write_text(json.dumps(value))
    if draw.random() < 0.8:
        sign(folder)
    elif draw.random() < 0.5:
        (folder / "manifest.json").unlink(missing_ok=True)
    return ", ".join(str(file.relative_to(folder)) for file in chosen)


def use(draw: random.Random, place: Path, kinds: tuple[str, ...] = tuple(VERBS)) -> None:
    """A damaged run, and a verb that uses it or refuses it in a line."""
    kind = draw.choice(kinds)
    folder = place / "runs" / "run"
    shutil.rmtree(place / "runs", ignore_errors=True)
    shutil.copytree(sound(kind, place), folder)
    damage(draw, folder)
    verb, *options = draw.choice([*VERBS[kind] * 2, *EVERY[:-1]] * 3 + EVERY)
    target = [str(folder.parent if verb == "runs" else folder)]
    out = ["--out", str(place / "exported")] if verb == "export" else []
    arguments = [verb, *options, *target, *out] if options == ["--resume"] else [verb, *target, *options, *out]
    said = io.StringIO()
    os.environ[TRACEBACK] = "1"  # what falls through to the last resort is a finding
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = run(arguments)
    lines = [line for line in said.getvalue().splitlines() if line.startswith("recurra: ")]
    if code == 0 or (code == 1 and verb == "train"):
        return
    if code != 2 or not lines or not lines[-1].isprintable():
        raise AssertionError(f"{arguments}: exit code {code}: {said.getvalue()[-400:]!r}")
    raise RecurraError(lines[-1].removeprefix("recurra: ")[:250])
