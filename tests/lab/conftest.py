"""One folder of tiny real runs, one lab, one browser for all tests of the lab."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recurra as rc

from .browser import Visit

TALE = "the cat sat on the mat. (the dog) sat on the log. " * 40


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few real runs, each of a second: `text`, `text-lstm`, `machine`, `dates`, `wave`."""
    folder = tmp_path_factory.mktemp("lab") / "runs"
    before = Path.cwd()
    os.chdir(folder.parent)
    small: dict[str, Any] = {"hidden_size": 12, "progress": "none"}
    try:
        rc.train("text", data=[TALE], cell="gru", steps=30, batch_size=4, out=folder / "text", **small)
        rc.train("text", data=[TALE], cell="lstm", steps=20, batch_size=4, out=folder / "text-lstm", **small)
        rc.train("washing-machine", steps=20, out=folder / "machine", **small)
        rc.train(
            "dates",
            steps=15,
            out=folder / "dates",
            settings={"data.count": 300, "model.hidden_size": 12},
            progress="none",
        )
        wave = [float(k % 12) for k in range(300)]
        rc.train("forecast", data=np.array(wave), steps=15, out=folder / "wave", **small)
    finally:
        os.chdir(before)
    return folder


@pytest.fixture(scope="session")
def lab(runs: Path) -> Iterator[Any]:
    pytest.importorskip("fastapi", reason="the extra `lab` is not installed")
    opened = rc.lab(runs, port=0, browser=False)
    yield opened
    opened.close()


@pytest.fixture
def visit(lab: Any, browser: Any) -> Iterator[Visit]:
    """A person at the lab, in a fresh window; when they leave, nothing must have gone wrong."""
    visit = Visit(browser, lab.base)
    yield visit
    visit.leave()


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs whose dynamics are looked at, in a folder of their own since one more is trained there: `machine`, `tomita`."""
    folder = tmp_path_factory.mktemp("watched") / "runs"
    small: dict[str, Any] = {"hidden_size": 12, "progress": "none"}
    rc.train("washing-machine", steps=20, out=folder / "machine", settings={"training.snapshots": 4}, **small)
    rc.train("tomita", steps=60, out=folder / "tomita", settings={"data.strings": 1000}, **small)
    return folder


@pytest.fixture(scope="session")
def watched_lab(watched: Path) -> Iterator[Any]:
    pytest.importorskip("fastapi", reason="the extra `lab` is not installed")
    opened = rc.lab(watched, port=0, browser=False)
    yield opened
    opened.close()


@pytest.fixture
def look(watched_lab: Any, browser: Any) -> Iterator[Visit]:
    """As `visit`, at the lab of `watched`."""
    visit = Visit(browser, watched_lab.base)
    yield visit
    visit.leave()
