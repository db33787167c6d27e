"""Run folders that a stranger has made: nothing of theirs runs, nothing outside is touched, and every refusal is a line."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recurra as rc
from recurra.cli.main import run
from recurra.runs.manifest import make_manifest

EVIL = "\x1b[31m\x1b]0;title\x07\x9b2J<script>alert(1)</script>\u202e\"'&"
"""Control sequences, a script and a mark of direction, for every name that a stranger can choose."""
OPTIONS: dict[str, Any] = {"progress": "none", "engine": "eager", "hidden_size": 4, "steps": 4, "warmup": 1}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound run with a vocabulary and data of its own, and one with a cell of its own."""
    place = tmp_path_factory.mktemp("made")
    texts = [f"the cat {k} sat on a mat.\n" for k in range(40)]
    every = {"save_every": 2, "validate_every": 2}
    rc.train("text", texts, out=place / "text", truncation="every:8", batch_size=2, **OPTIONS, **every)
    code = f"from pathlib import Path\nPath({str(place / 'it ran')!r}).touch()\nfrom recurra import cell, tanh\n"
    (place / "own.py").write_text(code + "\n\n@cell\ndef mine(x, U, h):\n    return tanh(x.a + U.a(h))\n")
    rc.train("tomita", out=place / "own", cell=f"{place / 'own.py'}:mine", batch_size=4, **OPTIONS, **every)
    (place / "it ran").unlink()
    return place


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "text", tmp_path / "run"))


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "own", tmp_path / "own"))


def sign(folder: Path) -> None:
    """A stranger's manifest agrees with whatever they have put there."""
    names = [each.name for each in folder.iterdir() if each.name in ("recipe.json", "vocabulary.json", "cell.json")]
    (folder / "manifest.json").write_bytes(make_manifest(folder, sorted(names)))


def change(folder: Path, name: str, edit: Callable[[Any], Any]) -> None:
    file = folder / name
    value = json.loads(file.read_text())
    changed = edit(value)
    file.write_text(json.dumps(value if changed is None else changed))
    sign(folder)


def one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a refused command says, after remarks on what is damaged."""
    capsys.readouterr()
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines
    assert all(line.startswith("recurra: ") and len(line) < 1200 for line in lines), err
    return lines[-1]


VERBS = (
    ["evaluate", "--no-baselines"],
    ["sample", "--length", "5", "--seed", "1"],
    ["explain", "--gradients"],
    ["train"],
)


class TestCode:
    def test_a_cell_in_a_file_is_not_run(self, made: Path, own: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["evaluate", str(own), "--json"]) == 0
        expected = capsys.readouterr().out
        assert run(["explain", str(own), "--gradients"]) == 0
        assert run(["automaton", str(own), "--strings", "10", "--scored", "10"]) == 0
        assert not (made / "it ran").exists()
        assert run(["evaluate", str(own), "--json", "--trust"]) == 0
        assert capsys.readouterr().out.endswith(expected)

    def test_it_opens_without_the_file_and_from_elsewhere(
        self, made: Path, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scores = rc.open(made / "own").evaluate().scores
        monkeypatch.chdir(tmp_path)
        moved = made / "own.py"
        kept = moved.read_bytes()
        moved.unlink()
        try:
            assert rc.open(own).evaluate().scores == scores
            assert rc.open(own).resume(progress="none").is_trained
        finally:
            moved.write_bytes(kept)

    def test_a_file_that_has_changed_is_named_and_not_run(
        self, made: Path, own: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = made / "own.py"
        kept = file.read_bytes()
        file.write_bytes(kept.replace(b"tanh(x.a", b"tanh(2 * x.a"))
        try:
            assert run(["evaluate", str(own)]) == 0
            assert "own.py is no longer as it was when the run was made" in capsys.readouterr().err
            assert not (made / "it ran").exists()
            assert run(["evaluate", str(own), "--trust"]) == 0
            assert "own.py is no longer as it was" in capsys.readouterr().err
        finally:
            file.write_bytes(kept)
            (made / "it ran").unlink(missing_ok=True)

    @pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
    def test_without_its_equations_it_is_refused(
        self, verb: list[str], made: Path, own: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As in a folder of an older version, or one that a stranger has cut."""
        (own / "cell.json").unlink()
        sign(own)
        arguments = [verb[0], *(["--resume"] if verb == ["train"] else []), str(own), *verb[1:]]
        assert "if you trust it, add --trust" in one_line(arguments, capsys)
        assert not (made / "it ran").exists()

    def test_a_label_in_the_folder_is_not_run(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "labels.py").write_text(
            f"open({str(folder / 'it ran')!r}, 'w')\ndef f(text):\n    return [1] * len(text)"
        )
        said = one_line(["units", str(folder), "--label", f"{folder / 'labels.py'}:f"], capsys)
        assert "code of whoever made it" in said
        assert not (folder / "it ran").exists()

    @pytest.mark.parametrize(
        "edit",
        [
            lambda cell: cell["nodes"].append({"kind": "__import__", "name": "os"}),
            lambda cell: cell["nodes"][0].update(name="__class__"),
            lambda cell: cell.update(states=["h", "h"]),
            lambda cell: cell.update(nodes=cell["nodes"] * 5000),
            lambda cell: cell.update(updates=[10**400]),
            lambda cell: cell.clear(),
        ],
    )
    def test_crafted_equations_are_refused(
        self, edit: Callable[[Any], None], own: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def inner(kept: dict[str, Any]) -> None:
            for cell in kept["cells"].values():
                edit(cell)

        change(own, "cell.json", inner)
        assert "cell.json" in one_line(["evaluate", str(own)], capsys)


class TestWaysOut:
    @pytest.mark.parametrize(
        "name",
        ["explain", "metrics.jsonl", "checkpoints", ".lock", "report.html", "checkpoints/best/weights.safetensors"],
    )
    def test_links_out_of_the_folder(self, name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """They would be read, or written over."""
        target = folder.parent / "mine"
        target.write_text("mine")
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        for arguments in (["evaluate", str(folder)], ["explain", str(folder)], ["train", "--resume", str(folder)]):
            assert "is a link that leads out of the run folder" in one_line(arguments, capsys)
        assert target.read_text() == "mine"

    @pytest.mark.parametrize("inside", ["../mine", "/etc/passwd", "a/../../mine", "x\0y"])
    def test_paths_out_of_the_folder(self, inside: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        change(folder, "recipe.json", lambda recipe: recipe["data"].update(path="{run}/" + inside))
        assert "leads out of the run folder" in one_line(["evaluate", str(folder)], capsys)

    def test_a_pipe_is_not_waited_for(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        os.mkfifo(folder / "explain")
        assert "neither a file nor a folder" in one_line(["evaluate", str(folder)], capsys)

    def test_links_within_the_folder_and_the_folder_itself_may_be_links(self, folder: Path) -> None:
        (folder / "metrics.jsonl").rename(folder / "kept.jsonl")
        (folder / "metrics.jsonl").symlink_to("kept.jsonl")
        (folder.parent / "elsewhere").symlink_to(folder)
        assert run(["evaluate", str(folder.parent / "elsewhere")]) == 0


BOMBS: dict[str, Callable[[Path], None]] = {
    "a large recipe": lambda folder: os.truncate(folder / "recipe.json", 1 << 30),
    "a nested recipe": lambda folder: (folder / "recipe.json").write_text("[" * 200_000),
    "a large vocabulary": lambda folder: os.truncate(folder / "vocabulary.json", 1 << 40),
    "large weights": lambda folder: os.truncate(folder / "checkpoints/best/weights.safetensors", 1 << 42),
    "a large manifest": lambda folder: os.truncate(folder / "checkpoints/best/manifest.json", 1 << 42),
}
RECIPES: dict[str, Callable[[Any], Any]] = {
    "hidden_size": lambda recipe: recipe["model"].update(hidden_size=10**9),
    "many digits": lambda recipe: recipe["model"].update(hidden_size=10**4000),
    "layers": lambda recipe: recipe["model"].update(layers=10**9),
    "a list": lambda recipe: [],
    "no model": lambda recipe: {key: value for key, value in recipe.items() if key != "model"},
    "odd types": lambda recipe: recipe.update(model=3),
    "a name": lambda recipe: recipe.update(name=["text"]),
    "a dictionary as name": lambda recipe: recipe.update(name={}),
    "a long name": lambda recipe: recipe["data"].update(path="x" * 10_000),
    "null": lambda recipe: recipe["training"].update(steps=None),
}


class TestCrafted:
    @pytest.mark.parametrize("name", BOMBS)
    def test_bombs(self, name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        BOMBS[name](folder)
        shutil.rmtree(folder / "checkpoints/previous-best", ignore_errors=True)
        if "weights" in name or "manifest" in name:
            assert run(["evaluate", str(folder), "--json"]) == 0
            out, err = capsys.readouterr()
            assert "is used instead" in err
            assert json.loads(out)["damaged"]
        else:
            one_line(["evaluate", str(folder)], capsys)

    @pytest.mark.parametrize("name", RECIPES)
    def test_recipes(self, name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        change(folder, "recipe.json", RECIPES[name])
        shutil.rmtree(folder / "checkpoints/previous-best", ignore_errors=True)
        one_line(["evaluate", str(folder)], capsys)
        assert run(["runs", str(folder.parent)]) == 0

    @pytest.mark.parametrize("value", [3, [], {"a": 10**30}, {"tokens": None}, {"words": [["a"]]}, {"kind": "bpe"}])
    def test_vocabularies(self, value: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        change(folder, "vocabulary.json", lambda kept: value)
        one_line(["sample", str(folder)], capsys)

    @pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "x/" * 3000])
    def test_names_that_the_system_does_not_allow(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        for verb in ("evaluate", "runs"):
            one_line([verb, name], capsys)
        one_line(["train", "tomita", "--out", name], capsys)


class TestShown:
    """What comes from data, labels, classes and files is shown, and does nothing."""

    def assert_clean(self, text: str) -> None:
        assert not any(mark in text for mark in ("\x1b", "\x07", "\x9b", "\u202e"))

    def test_classes_and_columns(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        generator = np.random.default_rng(0)
        x = [generator.normal(size=(5, 2)).astype("float32") for _ in range(40)]
        labels = [f"{EVIL}{k % 2}" for k in range(40)]
        rc.train("classify", (x, labels), out=tmp_path / "run", batch_size=4, **OPTIONS)
        capsys.readouterr()
        for verb in (["predict"], ["evaluate"], ["explain"], ["runs"]):
            place = tmp_path if verb == ["runs"] else tmp_path / "run"
            assert run([*verb, str(place)]) == 0
            out, err = capsys.readouterr()
            self.assert_clean(out + err)
        assert "<script>alert" not in (tmp_path / "run/report.html").read_text()

    def test_text(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rc.train("text", [EVIL * 20] * 10, out=tmp_path / EVIL.replace("/", ""), batch_size=2, **OPTIONS)
        (folder,) = tmp_path.iterdir()
        capsys.readouterr()
        name = str(folder)
        for arguments in (
            ["sample", name, "--length", "300", "--seed", "1"],
            ["evaluate", name],
            ["score", name, EVIL],
            ["units", name, "--size", "200", "--unit", "0.h.1", "--html", str(tmp_path / "units.html")],
            ["explain", name, "--table", EVIL[:8]],
            ["train", "--resume", name],
        ):
            assert run(arguments) == 0
            out, err = capsys.readouterr()
            self.assert_clean(out + err)
        assert "<script>alert" not in (tmp_path / "units.html").read_text()

    @pytest.mark.slow
    def test_a_report_on_text(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rc.train("text", [EVIL * 20] * 10, out=tmp_path / "run", batch_size=2, **OPTIONS)
        capsys.readouterr()
        assert run(["explain", str(tmp_path / "run")]) == 0
        self.assert_clean("".join(capsys.readouterr()))
        assert "<script>alert" not in (tmp_path / "run/report.html").read_text()
