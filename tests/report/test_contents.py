"""A report for every recipe and every odd run: whole, small, without a word from outside."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from recurra.analysis import portrait
from recurra.cli.main import run
from recurra.errors import RunError
from recurra.report import contents
from recurra.report.contents import write_report
from recurra.report.page import Figure, Section
from recurra.report.subject import Subject
from recurra.results import Result
from recurra.runs.checkpoint import Checkpoint
from recurra.runs.folder import RunFolder
from recurra.tasks.catalogue import RECIPES as CATALOGUE
from recurra.tasks.train import open_run
from tests.report.conftest import RECIPES

Train = Callable[..., Path]
VOID = {"meta", "link", "img", "source", "br", "line", "polyline", "circle"}


class Page(HTMLParser):
    """Headings, addresses and pictures of a page; every element must be closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.addresses: list[str] = []
        self.unnamed: list[str] = []
        self.figures = 0
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.addresses += [str(given[name]) for name in ("src", "href", "srcset") if name in given]
        if tag == "img" and not given.get("alt"):
            self.unnamed.append(tag)
        if tag == "svg" and not (given.get("aria-label") or given.get("aria-hidden")):
            self.unnamed.append(tag)
        self.figures += tag == "figure"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def read(report: Path) -> Page:
    text = report.read_text()
    assert len(text) < 5_000_000
    page = Page(text)
    assert all(each.startswith(("data:", "#")) for each in page.addresses)
    assert not re.search(r"https?://(?!www\.w3\.org)", re.sub(r"data:[^\"]*", "", text))
    assert page.unnamed == []
    assert text.count('<p class="meaning">') == text.count('<p class="caveat">') == text.count("<code>") == page.figures
    return page


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are drawn in other tests: here an empty one stands for each, and planes are coarse."""

    def draw(result: Result, file: Path, **options: Any) -> None:
        file.parent.mkdir(exist_ok=True)
        for ground in ("", "-dark"):
            file.with_name(f"{file.name}{ground}.svg").write_text("<svg/>")

    monkeypatch.setattr(Result, "plot", draw)
    monkeypatch.setattr(portrait, "basins", partial(portrait.basins, size=20, steps=200))
    monkeypatch.setattr(portrait, "ends_of_plane", partial(portrait.ends_of_plane, size=8, steps=50))


ALL = {"What was trained", "Scores", "Samples", "Curves"}
INSIDE = {"Gradients through time", "Attractors and field"}
TEXT = ALL | INSIDE | {"Units over text"}
MACHINE, TREE = {"Automaton"}, {"Decision tree"}
EXPECTED = dict.fromkeys(RECIPES, ALL) | {
    "python-source": TEXT,
    "text": TEXT,
    "names": TEXT,
    "words": TEXT,
    "conditioned": ALL | INSIDE,
    "lengths": ALL | INSIDE,
    "tag": ALL | TREE,
    "signal-and-noise": ALL | INSIDE | TREE,
    "events": ALL | INSIDE | TREE | MACHINE,
    "washing-machine-log": ALL | INSIDE | TREE | MACHINE,
    "washing-machine-hidden": ALL | INSIDE | TREE | MACHINE,
    "forecast": ALL | INSIDE,
    "piano-roll": ALL | INSIDE,
    "long-memory": ALL | INSIDE,
    "long-memory-copying": ALL | INSIDE,
    "flip-flop": ALL | INSIDE,
    "delayed-flip-flop": ALL | INSIDE,
    "parity": ALL | INSIDE | MACHINE,
    "washing-machine": ALL | INSIDE | MACHINE,
    "tomita": ALL | INSIDE | MACHINE,
    "dyck": ALL | INSIDE | MACHINE,
    "reservoir": ALL | INSIDE,
    "pixels": ALL | INSIDE,
}


def test_every_recipe_is_among_them() -> None:
    assert set(RECIPES) == set(CATALOGUE)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.usefixtures("quick")
def test_a_report_for_every_recipe(recipe: str, train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    folder = train(recipe)
    capsys.readouterr()
    assert run(["explain", str(folder), "--steps", "8", "--starts", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["sections"]) == EXPECTED[recipe], found["left_out"]
    assert read(folder / "report.html").headings == found["sections"]
    if recipe in ("classify", "tag"):  # both directions: there is no state that goes forward alone
        assert set(found["left_out"]) == {"gradients", "attractors"}


def test_one_unit_with_its_pictures(train: Train) -> None:
    folder = train("python-source", "model.hidden_size=1", "model.embedding_size=1")
    assert run(["explain", str(folder), "--steps", "8", "--starts", "8"]) == 0
    page = read(folder / "report.html")
    assert "Attractors and field" in page.headings
    assert sum(each.startswith("data:image/svg+xml;base64,") for each in page.addresses) >= 6


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("recipe", ["names", "classify", "flip-flop", "reservoir"])
def test_an_untrained_run(recipe: str, train: Train) -> None:
    """A run that was stopped before its first checkpoint."""
    folder = train(recipe)
    shutil.rmtree(folder / "checkpoints")
    (folder / "metrics.jsonl").unlink()
    assert run(["explain", str(folder), "--steps", "8", "--starts", "8"]) == 0
    page = read(folder / "report.html")
    assert not {"Scores", "Curves"} & set(page.headings)
    assert "not at all: there is no checkpoint yet" in (folder / "report.html").read_text()


@pytest.mark.usefixtures("quick")
def test_a_run_whose_text_is_gone(train: Train, tmp_path: Path) -> None:
    folder = train("text")
    (tmp_path / "text.txt").unlink()
    left_out = write_report(open_run(folder), 8, 8).left_out
    assert set(left_out) == {"scores", "units"}
    assert "does not exist" in left_out["units"]
    page = read(folder / "report.html")
    assert {"What was trained", "Samples", "Curves"} <= set(page.headings)
    assert "What is left out, and why" in (folder / "report.html").read_text()


@pytest.mark.usefixtures("quick")
def test_what_is_in_the_text_stays_text(train: Train, tmp_path: Path) -> None:
    """Nothing that a model reads or writes becomes a part of the page."""
    (tmp_path / "text.txt").write_text("<script>alert(1)</script> & </pre>\n" * 60)
    folder = train("text")
    assert run(["explain", str(folder), "--steps", "8"]) == 0
    read(folder / "report.html")
    assert "<script" not in (folder / "report.html").read_text()


def test_scores_are_kept_for_the_weights_that_they_are_of(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    from recurra.report.scores import scores_section
    from recurra.tasks.feedforward import FeedforwardTask

    folder = train("feedforward")
    assert open_run(folder).kept_scores() is None
    assert run(["evaluate", str(folder)]) == 0
    kept = open_run(folder).kept_scores()
    assert kept is not None

    def fail(*_: object) -> None:
        raise AssertionError("evaluated again")

    with monkeypatch.context() as patch:
        patch.setattr(FeedforwardTask, "evaluate", fail)
        assert scores_section(Subject(open_run(folder))) is not None
    scores = folder / "explain/scores.json"
    sound = scores.read_text()
    scores.write_text(sound.replace('"tokens": 1000', '"tokens": 1001'))
    assert open_run(folder).kept_scores() is None
    scores.write_text(sound)
    assert open_run(folder).kept_scores() is not None
    last = open_run(folder).folder.load()
    moved = {name: value + 1 for name, value in last.weights.items()}
    open_run(folder).folder.save(replace(last, weights=moved, tensors={}), best=True)
    assert open_run(folder).kept_scores() is None


def test_a_section_of_your_own(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Section("A & B", [Figure("<p>body</p>", "meaning <1>", "caveat", "recurra x")])
    monkeypatch.setattr(contents, "SECTIONS", {"own": lambda subject: own, "does not apply": lambda subject: None})
    folder = train("feedforward")
    write_report(open_run(folder))
    assert read(folder / "report.html").headings == ["A & B"]
    assert "meaning &lt;1&gt;" in (folder / "report.html").read_text()


def test_options_of_a_part_need_it(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    folder = train("flip-flop")
    capsys.readouterr()
    assert run(["explain", str(folder), "--input", "zero"]) == 2
    assert "--fixed-points" in capsys.readouterr().err
    assert not (folder / "report.html").exists()


@pytest.mark.usefixtures("quick")
def test_a_run_that_has_diverged(train: Train) -> None:
    path = train("names")
    folder = RunFolder.open(path)
    kept = folder.load("best")
    weights = {
        name: torch.full_like(value, torch.nan) if value.is_floating_point() else value
        for name, value in kept.weights.items()
    }
    with folder.lock():
        folder.save(Checkpoint(kept.step, weights, {}, kept.facts), best=True)
    with pytest.raises(RunError, match=r"the checkpoint of step \d+, holds NaN or ±inf in"):
        write_report(open_run(path))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("taken", ["explain", "report.html"])
def test_a_place_that_is_taken(taken: str, train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    folder = train("feedforward")
    if taken == "explain":
        (folder / taken).write_text("a file, where a folder should be")
    else:
        (folder / taken).mkdir()
    capsys.readouterr()
    assert run(["explain", str(folder)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "cannot be written" in err
    assert not [file for file in folder.iterdir() if "writing" in file.name]
