"""How fast the lab is, in figures that are printed: `pytest -m slow -s tests/lab/test_figures.py`."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recurra as rc
from recurra.lab.processes import holder
from recurra.runs.log import Log

from .browser import Visit

pytestmark = pytest.mark.slow


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    """A lab of its own, on an empty folder: nothing of it was looked at before."""
    folder = tmp_path / "runs"
    folder.mkdir()
    made = rc.lab(folder, port=0, browser=False)
    yield made
    made.close()


def test_the_first_view_of_many_long_runs(opened: Any, browser: Any, runs: Path) -> None:
    """200 runs of 10,000 steps: from the address to the table and the curves, at most a second."""
    recipe = json.loads((runs / "text/recipe.json").read_text())
    rows = []
    for k in range(1, 10_001):
        row = {
            "gradient_norm": 0.731234567 + k % 7,
            "learning_rate": 0.003,
            "loss": 3.0 / k**0.3 + 0.01 * (k % 13),
            "step": k,
        }
        rows.append(json.dumps(row, sort_keys=True, separators=(",", ":")))
        if k % 100 == 0:
            rows.append(json.dumps({"step": k, "valid": 3.1 / k**0.3}, separators=(",", ":")))
    text = "\n".join(rows) + "\n"
    for k in range(200):
        folder = opened.folder.path / f"run-{k:03}"
        folder.mkdir()
        (folder / "recipe.json").write_text(json.dumps(recipe | {"seed": k}))
        (folder / "metrics.jsonl").write_text(text)
    seconds = []
    for _ in range(3):
        lab = rc.lab(opened.folder.path, port=0, browser=False)
        visit = Visit(browser, lab.base)
        began = time.perf_counter()
        visit.page.goto(f"{lab.base}#/runs")
        rows = "document.querySelectorAll('table.runs tbody tr').length === 200"
        drawn = f"() => {rows} && document.querySelector('.curves canvas')"
        visit.page.wait_for_function(drawn)
        seconds.append(time.perf_counter() - began)
        assert "0.1956" in visit.page.locator("table.runs tbody tr").first.inner_text()  # the best validation
        visit.leave()
        lab.close()
    print(
        f"\nfirst view of 200 runs of 10,000 steps: {statistics.median(seconds):.2f} s ({[round(s, 2) for s in seconds]})"
    )
    assert statistics.median(seconds) <= 1.0


def test_the_heat_map_scrolls_smoothly(opened: Any, browser: Any) -> None:
    """512 units over 2,000 steps, scrolled in both directions by 40 pixels a frame: at least 30 frames a second."""
    text = ("the cat sat on the mat. (the dog) sat on the log. " * 60)[:2000]
    how: dict[str, Any] = {"cell": "gru", "hidden_size": 512, "steps": 1, "batch_size": 2, "progress": "none"}
    rc.train("text", data=[text * 2], out=opened.folder.path / "wide", **how)
    visit = Visit(browser, opened.base)
    page = visit.open(f"#/time?run=wide&text={text}&zoom=14")
    page.locator(".tokens span").nth(1990).wait_for()
    page.wait_for_load_state("networkidle")
    scroll = """async () => {
        const place = document.querySelector('.heat');
        const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
        for (let k = 0; k < 10; k++) await frame();
        const began = performance.now();
        let frames = 0, seen = new Set();
        while (performance.now() - began < 3000) {
            place.scrollLeft += 40; place.scrollTop += 25;
            await frame();
            frames += 1;
            seen.add(place.scrollLeft);
        }
        return [1000 * frames / (performance.now() - began), seen.size, place.scrollWidth, place.scrollHeight];
    }"""
    rates = [page.evaluate(scroll)]
    for _ in range(2):
        page.evaluate(
            "() => { const place = document.querySelector('.heat'); place.scrollLeft = place.scrollTop = 0; }"
        )
        rates.append(page.evaluate(scroll))
    visit.leave()
    assert rates[0][2] > 1999 * 14
    assert rates[0][3] > 512 * 14
    assert min(each[1] for each in rates) > 30  # it did move
    middle = statistics.median(each[0] for each in rates)
    print(
        f"\nheat map of 512 units over 2,000 steps: {middle:.0f} frames a second ({[round(each[0]) for each in rates]})"
    )
    assert middle >= 30


def test_twenty_pages_do_not_slow_a_training(opened: Any, browser: Any) -> None:
    """Steps in windows of 6 s, without and with 20 pages that follow the run, in turn: at most 5 % fewer."""
    folder = opened.folder.path / "mine"
    command = [sys.executable, "-m", "recurra", "train", "tomita", "training.steps=10000000", "--out", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    log, rates = Log(folder / "metrics.jsonl"), {0: list[float](), 20: list[float]()}
    try:
        while log.glance().step < 50:
            time.sleep(0.2)
        assert holder(folder) == process.pid
        for _ in range(4):
            for count in rates:
                visit = Visit(browser, opened.base)  # tabs of one browser
                tabs = [visit.context.new_page() for _ in range(count)]
                for each in tabs:
                    each.goto(f"{opened.base}#/runs?run=mine")
                    each.locator(".curves canvas").wait_for()
                visit.page.wait_for_timeout(1000)
                first, began = log.glance().step, time.perf_counter()
                visit.page.wait_for_timeout(6000)
                rates[count].append((log.glance().step - first) / (time.perf_counter() - began))
                assert all(each.locator("table.runs").get_by_text("training").count() for each in tabs)
                visit.leave()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    alone, watched = (statistics.median(each) for each in rates.values())
    print(f"\ntraining: {alone:.1f} steps a second alone, {watched:.1f} with 20 pages open: {watched / alone - 1:+.1%}")
    assert watched >= 0.95 * alone
