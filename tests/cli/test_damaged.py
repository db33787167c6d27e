"""Whatever is damaged in a run folder is named by every verb, with what stands in for it; `--strict` refuses it."""

import json
import shutil
from pathlib import Path

import pytest

import recurra as rc
from recurra.cli.main import run

VERBS = {
    "evaluate": ["--no-baselines"],
    "sample": ["--length", "5", "--seed", "1"],
    "score": ["the cat", "--no-baselines"],
    "explain": ["--gradients"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made")
    texts = [f"the cat {k} sat on a mat.\n" for k in range(40)]
    every = {"steps": 8, "save_every": 2, "validate_every": 2, "warmup": 1, "batch_size": 2, "truncation": "every:8"}
    rc.train("text", texts, out=place / "runs/run", hidden_size=4, engine="eager", progress="none", **every)
    return place / "runs"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs")) / "run"


def flip(file: Path, place: int = -3) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("verb", VERBS)
def test_a_damaged_best_is_named_by_every_verb(verb: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(folder / "checkpoints/best/weights.safetensors")
    assert run([verb, str(folder), *VERBS[verb], "--json"]) == 0
    out, err = capsys.readouterr()
    assert "checkpoints/best: cannot be used (weights.safetensors is damaged" in err
    assert "the checkpoint before it, of step 6, is used instead" in err
    (damage,) = json.loads(out)["damaged"]
    assert damage["file"] == "checkpoints/best"
    assert "weights.safetensors is damaged" in damage["found"]
    assert "of step 6" in damage["instead"]
    assert run([verb, str(folder), *VERBS[verb], "--strict"]) == 2
    assert "checkpoints/best: cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", ["recipe.json", "vocabulary.json", "data.txt"])
def test_what_nothing_stands_in_for_is_refused(
    verb: str, name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = folder / name
    if not found.exists():
        (found,) = folder.glob("data*")
    file = found if found.is_file() else sorted(each for each in found.rglob("*") if each.is_file())[0]
    flip(file, file.stat().st_size // 2)
    assert run([verb, str(folder), *VERBS[verb]]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "is damaged" in err
    assert file.name in err
    assert "Put back a copy of it" in err or "Traceback" not in err


@pytest.mark.parametrize("verb", [*VERBS, "runs"])
@pytest.mark.parametrize("what", ["a row", "the end", "the manifest"])
def test_metrics_and_manifest(verb: str, what: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / ("manifest.json" if what == "the manifest" else "metrics.jsonl")
    data = file.read_bytes()
    file.write_bytes(data[: data.rindex(b"\n", 0, len(data) // 2) + 1] if what == "the end" else data)
    if what != "the end":
        flip(file, data.index(b"loss") + 7 if what == "a row" else -8)
    arguments = [verb, str(folder if verb in VERBS else folder.parent), *VERBS.get(verb, []), "--json"]
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    assert f"{file.name}: " in err
    assert json.loads(out)["damaged"]
    assert run([*arguments, "--strict"]) == 2
    assert file.name in capsys.readouterr().err


def test_a_list_names_what_it_cannot_open(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(folder, folder.parent / "other")
    flip(folder / "recipe.json", 40)
    assert run(["runs", str(folder.parent), "--json"]) == 0
    out, err = capsys.readouterr()
    assert [Path(row["run"]).name for row in json.loads(out)["runs"]] == ["other"]
    assert "recipe.json is damaged" in err
    assert json.loads(out)["damaged"]


def test_in_python_it_is_a_warning_and_a_field(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoints/best")
    run = rc.open(folder)
    with pytest.warns(rc.RunWarning, match=r"checkpoints/best: cannot be used .*of step 6, is used instead"):
        run.evaluate(baselines=False)
    assert [each.file for each in run.damaged] == ["checkpoints/best"]
    with pytest.raises(rc.RunError, match="strict"):
        rc.open(folder, strict=True).evaluate()


def test_checkpoints_in_each_others_places(folder: Path) -> None:
    """Each is sound by itself."""
    best, last = folder / "checkpoints/best", folder / "checkpoints/last"
    best.rename(folder / "kept")
    last.rename(best)
    (folder / "kept").rename(last)
    with pytest.warns(rc.RunWarning, match="was not saved as best"):
        rc.open(folder).evaluate(baselines=False)
