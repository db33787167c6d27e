"""One folder of tiny real runs, one lab, one browser for all tests of the lab."""

import os
import shutil
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
    """A few real runs, each of a second: `text`, `text-lstm`, `machine`, `tomita`, `dates`, `wave`."""
    folder = tmp_path_factory.mktemp("lab") / "runs"
    before = Path.cwd()
    os.chdir(folder.parent)
    small: dict[str, Any] = {"hidden_size": 12, "progress": "none"}
    try:
        rc.train("text", data=[TALE], cell="gru", steps=30, batch_size=4, out=folder / "text", **small)
        rc.train("text", data=[TALE], cell="lstm", steps=20, batch_size=4, out=folder / "text-lstm", **small)
        kept = {"training.snapshots": 4}
        rc.train("washing-machine", steps=20, out=folder / "machine", settings=kept, **small)
        rc.train("tomita", steps=120, out=folder / "tomita", settings={"data.strings": 2000}, **small)
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


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with playwright.sync_playwright() as started:
        path = found or started.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium is installed")
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def visit(lab: Any, browser: Any) -> Iterator[Visit]:
    """A person at the lab, in a fresh window; when they leave, nothing must have gone wrong."""
    visit = Visit(browser, lab.base)
    yield visit
    visit.leave()
