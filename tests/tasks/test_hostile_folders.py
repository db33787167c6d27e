"""Run folders by an attacker who has read the source, signed so that no checksum stands in the way. Each was a traceback, a hang,
memory without end, or a file elsewhere that was written; now it does nothing."""

import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

import recurra as rc
from recurra.cli.main import run
from recurra.data.tokenizers import build_tokenizer, tokenizer_from_json
from recurra.lab.folder import LabFolder
from recurra.lab.live import Live
from recurra.runs import manifest
from recurra.runs.lock import holder
from recurra.runs.log import Log
from tests.fuzz.folders import sign
from tests.tasks.test_strangers import OPTIONS, one_line

NESTED = "[" * 600 + "]" * 600
"""Few enough for a reader of JSON, and too many for what walks through what it read."""
LARGE = 4 << 30


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made")
    texts = ["the cat sat on a mat.\n"] * 40
    every = {"save_every": 2, "validate_every": 2}
    rc.train("text", texts, out=place / "text", truncation="every:8", batch_size=2, **OPTIONS, **every)
    return place / "text"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def change(folder: Path, name: str, edit: Callable[[Any], Any]) -> None:
    value = json.loads((folder / name).read_text())
    edit(value)
    (folder / name).write_text(json.dumps(value))
    sign(folder)


@contextmanager
def open_input() -> Iterator[None]:
    """A standard input from which nothing comes, and that nobody closes."""
    ours, theirs = os.pipe()
    before = os.dup(0)
    os.dup2(ours, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        for handle in (ours, theirs, before):
            os.close(handle)


# -- other files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl"])
def test_another_name_for_a_file_elsewhere(name: str, folder: Path) -> None:
    """An archive can make hard links to what its reader owns: they are written by no name of a run."""
    mine = folder.parent / "mine"
    mine.write_bytes((folder / name).read_bytes() if name == "metrics.jsonl" else b"mine")
    (folder / name).unlink()
    os.link(mine, folder / name)
    before = mine.read_bytes()
    opened = rc.open(folder)
    with opened.folder.lock():
        opened.folder.append([{"step": 4, "loss": 1.0}])
    assert mine.read_bytes() == before
    assert len(opened.folder.metrics()) == len(rc.open(folder).metrics) > 1


@pytest.mark.parametrize("path", ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/tmp/../proc/self/fd/0"])
def test_data_that_is_the_input_of_whoever_opens_it(
    path: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(folder, "recipe.json", lambda recipe: recipe["data"].update(path=path))
    with open_input():
        for arguments in (["evaluate", str(folder)], ["train", "--resume", str(folder)]):
            assert "of the process that trained" in one_line(arguments, capsys)


def test_a_manifest_that_names_files_elsewhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Large ones, many times over: each would be read to its end for its checksum."""
    with (folder.parent / "large").open("wb") as file:
        file.truncate(LARGE)
    change(folder, "recipe.json", lambda recipe: recipe["data"].update(path="{run}/data"))
    files = json.loads((folder / "manifest.json").read_text())["files"]
    files |= {f"data/{'./' * k}../../large": {"sha256": "0" * 64, "size": LARGE} for k in range(1000)}
    (folder / "manifest.json").write_bytes(manifest._encode(files))
    run(["evaluate", str(folder)])
    assert "names files by paths that may lead out of the folder" in capsys.readouterr().err


def test_a_lock_that_never_opens(folder: Path) -> None:
    """The lab looks for who trains a run before it opens it."""
    (folder / ".lock").unlink()
    os.mkfifo(folder / ".lock")
    assert holder(folder) is None


# -- what a file holds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["recipe.json", "vocabulary.json"])
def test_nesting_that_json_can_just_read(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(folder, name, lambda value: value.update(more=json.loads(NESTED)))
    assert "nested too deep" in one_line(["evaluate", str(folder)], capsys)


def test_rows_that_no_log_has(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        f'{{"step": 5, "loss": 1, "more": {NESTED}}}',
        f'{{"step": 6, "loss": {10**400}, "valid": {10**400}}}',
        f'{{"step": {10**30}, "valid": 1.5}}',
        '{"step": 7, "loss": "x", "valid": []}',
        "[" * 10_000,
    ]
    (folder / "manifest.json").unlink()
    with (folder / "metrics.jsonl").open("a") as file:
        file.write("".join(f"{row}\n" for row in rows))
    log = Log(folder / "metrics.jsonl")
    assert log.glance().step == 4
    assert log.curve("loss").steps.max() == 4
    for arguments in (["runs", str(folder.parent)], ["evaluate", str(folder)], ["train", "--resume", str(folder)]):
        assert run(arguments) == 0
        assert "metrics.jsonl: lines" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["lstm", 3, [1]])
def test_one_odd_recipe_does_not_hide_the_other_runs_of_a_lab(model: Any, folder: Path) -> None:
    shutil.copytree(folder, folder.parent / "sound")
    change(folder, "recipe.json", lambda recipe: recipe.update(model=model))
    lab = LabFolder(folder.parent)
    try:
        live = Live(lab)
        live._look()
        assert live.runs["sound"].summary["cell"] == "lstm"
    finally:
        lab.close()


def test_a_manifest_of_a_million_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = json.loads((folder / "manifest.json").read_text())["files"]
    row = {"sha256": "0" * 64, "size": 1}
    text = json.dumps({"files": files | {f"data/{k}": row for k in range(400_000)}, "format": 1, "sha256": ""})
    (folder / "manifest.json").write_text(text)
    assert run(["evaluate", str(folder), "--no-baselines"]) == 0
    assert "at most 33,554,432 are read" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["metrics.jsonl", "checkpoints/best/weights.safetensors"])
def test_a_file_of_holes(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A few bytes on the disk and in an archive, and more than the memory when it is read."""
    size = 1 << 30  # read, where nothing looks at the memory first, which has room for less here
    monkeypatch.setattr(os, "sysconf", lambda name: size if name == "SC_PHYS_PAGES" else 1)
    os.truncate(folder / name, size)
    if name.startswith("checkpoints"):
        change(folder, "checkpoints/best/manifest.json", lambda said: said["files"][Path(name).name].update(size=size))
    run(["evaluate", str(folder), "--no-baselines"])
    assert "more than half of this machine's memory" in capsys.readouterr().err


def test_weights_that_predict_nothing_finite(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "checkpoints" / "best" / "weights.safetensors"
    tensors = load(file.read_bytes())
    large = {name: torch.full_like(each, 1e38) if each.is_floating_point() else each for name, each in tensors.items()}
    file.write_bytes(save(large))
    sign(folder)
    said = one_line(["sample", str(folder), "--length", "5", "--seed", "1"], capsys)
    assert "not finite" in said


# -- tokenizers ------------------------------------------------------------------------------------------------------------

SPLIT = {"type": "Split", "pattern": {"Regex": "^(([a-z])+.)+[A-Z]([a-z])+$"}, "behavior": "Isolated", "invert": False}
GROWS = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
PADS: dict[str, Any] = {"direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "a", "pad_to_multiple_of": 8}


@pytest.mark.parametrize(
    "planted",
    [
        {
            "pre_tokenizer": SPLIT
        },  # a regular expression that takes exponential time, and ends the process where it gives up
        {
            "normalizer": {"type": "Sequence", "normalizers": [GROWS] * 2}
        },  # each `a` a million times; of four, all memory
        {"padding": PADS | {"strategy": {"Fixed": 10**6}}},
        {"truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 4, "direction": "Right"}},
    ],
    ids=lambda planted: next(iter(planted)),
)
def test_what_the_package_would_do_besides(planted: dict[str, Any]) -> None:
    """Of a saved tokenizer, tokens and merges are read: everything else is what Recurra itself writes."""
    pytest.importorskip("tokenizers")
    text = "the cat sat " + "a" * 40
    tokenizer = build_tokenizer("bpe", [text] * 3, max_size=300)
    saved = tokenizer.to_json()
    again = tokenizer_from_json(saved | {"model": saved["model"] | planted})
    assert again.encode(text).tolist() == tokenizer.encode(text).tolist()
    assert again.to_json() == saved


@pytest.mark.parametrize(
    "planted",
    [
        {"vocab": {}, "merges": []},
        {"vocab": [], "merges": []},
        {"vocab": {"a": 0}, "merges": [["x", "y"]]},
        {"merges": [["t", "h", "e"]]},
        {"merges": [["€", "t"]]},
        {"merges": [[["t"], "h"]]},
        {"merges": 3},
    ],
)
def test_tokens_and_merges_that_are_none(planted: dict[str, Any]) -> None:
    pytest.importorskip("tokenizers")
    saved = build_tokenizer("bpe", ["the cat sat"], max_size=300).to_json()
    model = saved["model"]
    with pytest.raises(rc.DataError, match="not a saved vocabulary"):
        tokenizer_from_json(saved | {"model": model | {"model": model["model"] | planted}})


@pytest.mark.parametrize("numbers", [lambda k: 10**9 + k, lambda k: 0, lambda k: -k, lambda k: float(k)])
def test_numbers_of_tokens_that_are_none(numbers: Callable[[int], Any]) -> None:
    pytest.importorskip("tokenizers")
    saved = build_tokenizer("bpe", ["the cat sat"], max_size=300).to_json()
    vocab = saved["model"]["model"]["vocab"]
    saved["model"]["model"]["vocab"] = {token: numbers(k) for token, k in vocab.items()}
    with pytest.raises(rc.DataError, match="not a saved vocabulary"):
        tokenizer_from_json(saved)


# -- what is copied from a page or a terminal ------------------------------------------------------------------------------


def test_commands_name_a_folder_as_a_shell_reads_it(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "run; touch ran $(touch ran)"))
    capsys.readouterr()
    assert run(["train", "--resume", str(folder)]) == 0
    (said,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("next: ")]
    parts = shlex.split(said)
    assert str(folder) in parts
    assert "touch" not in parts
