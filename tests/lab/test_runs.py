"""Runs: listed, compared, started, watched, stopped and resumed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import recurra as rc
from recurra.runs.lock import holder
from recurra.runs.log import Log

from .browser import Visit


def test_runs_are_listed_sorted_filtered_and_compared(visit: Visit) -> None:
    page = visit.open("#/runs?run=text&run=text-lstm")
    row = page.locator("table.runs tbody tr").filter(has_text="text-lstm")
    assert "finished" in row.inner_text()
    page.locator(".curves canvas").wait_for()
    assert page.locator(".curves canvas").count() == 1
    differing = page.get_by_role("region", name="Settings that differ")
    differing.wait_for()
    assert "model.cell" in differing.inner_text()
    assert "seed" not in differing.inner_text()

    page.get_by_role("button", name="step", exact=True).click()
    steps = page.locator("table.runs tbody tr td:nth-child(6)").all_inner_texts()
    assert len(steps) == 5
    assert [int(each) for each in steps] == sorted(int(each) for each in steps)
    page.get_by_label("Filter").fill("lstm")
    assert page.locator("table.runs tbody tr").count() == 1
    assert "1 of 5 runs" in page.locator("main").inner_text()

    page.get_by_label("Metric").select_option("valid")
    page.get_by_label("logarithmic").check()
    page.get_by_role("button", name="Python").click()
    assert "curve('valid'" in page.get_by_label("Python", exact=True).last.inner_text()
    with page.expect_download() as saved:
        page.get_by_role("group", name="As numbers").get_by_role("button", name="CSV").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0] == "run,step,valid"
    assert {line.split(",")[0] for line in lines[1:]} == {"text", "text-lstm"}
    assert "metric=valid" in page.url
    assert "filter=lstm" in page.url
    visit.check_all_looks()


def test_scores_are_asked_for(visit: Visit, runs: Path) -> None:
    page = visit.open("#/runs?run=text")
    (runs / "text/explain/scores.json").unlink(missing_ok=True)
    page.reload()
    page.get_by_role("button", name="Evaluate text").click()
    table = page.get_by_role("region", name="text: ")
    table.wait_for()
    assert "gru-12" in table.inner_text()
    assert rc.open(runs / "text").kept_scores() is not None


def wait_for(check: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_is_started_watched_stopped_and_resumed(visit: Visit, runs: Path) -> None:
    page = visit.open("#/runs")
    try:
        page.get_by_text("Start a run").click()
        page.get_by_label("Recipe").select_option("tomita")
        page.get_by_label("Name of the run").fill("mine")
        steps = page.get_by_label("training.steps")
        visit.is_refused = True
        steps.fill("-3")
        page.get_by_role("button", name="Train").click()
        assert "training.steps must" in page.get_by_role("alert").inner_text()  # refused before anything starts
        assert not (runs / "mine").exists()
        steps.fill("100000")
        page.get_by_label("model.hidden_size").fill("8")
        page.get_by_role("button", name="Train").click()
        row = page.locator("table.runs tbody tr").filter(has_text="mine")
        row.get_by_text("training").first.wait_for(timeout=60_000)
        cell = row.locator("td:nth-child(6)")
        wait_for(lambda: not cell.inner_text().startswith("0"))
        pid = holder(runs / "mine")
        assert pid
        assert os.getsid(pid) == pid  # in a session of its own, which no Ctrl-C at the lab reaches
        first = cell.inner_text()
        wait_for(lambda: cell.inner_text() != first)  # steps arrive without a reload
        page.get_by_label("What the training of mine prints").get_by_text("tomita").wait_for()
        row.get_by_role("button", name="Stop mine").click()
        row.get_by_text("stopped").wait_for(timeout=30_000)
        saved = rc.open(runs / "mine")
        reached = saved.metrics[-1]["step"]
        assert saved.folder.load().step == reached  # it saved as Ctrl-C does
        row.get_by_role("button", name="Resume mine").click()
        row.get_by_text("training").first.wait_for(timeout=60_000)
        wait_for(lambda: saved.metrics[-1]["step"] > reached)
        row.get_by_role("button", name="Stop mine").click()
        row.get_by_text("stopped").wait_for(timeout=30_000)
    finally:
        pid = holder(runs / "mine")
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(runs / "mine", ignore_errors=True)


@pytest.mark.slow
def test_many_tabs_of_one_browser_share_a_stream(visit: Visit, runs: Path) -> None:
    """A browser has six connections to one host: were each tab to hold one, the seventh would wait forever."""
    tabs = [visit.context.new_page() for _ in range(8)]
    for tab in tabs:
        tab.goto(f"{visit.base}#/runs?run=late")
        tab.locator("table.runs tbody tr").first.wait_for()
    shutil.copytree(runs / "text", runs / "late")
    try:
        for tab in tabs:
            tab.locator("table.runs tr.chosen").get_by_text("late").wait_for()
        tabs[0].close()  # whichever had the stream, another takes it over
        tabs[1].close()
    finally:
        shutil.rmtree(runs / "late")
    for tab in tabs[2:]:
        tab.locator("table.runs").get_by_text("late").wait_for(state="detached")


@pytest.mark.slow
def test_a_training_outlives_the_lab(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recurra", "lab", str(tmp_path), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout
    address = process.stdout.readline().strip()
    settings = {"training.steps": "100000", "model.hidden_size": "8"}
    httpx.post(f"{address}api/runs/start", json={"recipe": "tomita", "settings": settings, "name": "on"}, timeout=60)
    log = Log(tmp_path / "on/metrics.jsonl")
    wait_for(lambda: log.glance().step > 5, 120)
    os.killpg(process.pid, signal.SIGKILL)  # the lab, and whatever belongs to it
    process.communicate()
    step = log.glance().step
    wait_for(lambda: log.glance().step > step + 20)
    pid = holder(tmp_path / "on")
    assert pid
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: holder(tmp_path / "on") is None)
    assert rc.open(tmp_path / "on").folder.load().step >= step


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"model.cell": "evil.py:cell"}, "is code"),
        ({"data.path": "/etc/passwd"}, "outside"),
        ({"data.path": "../../secret"}, "outside"),
        ({"nothing": "1"}, "does not exist"),
    ],
)
def test_the_page_starts_no_code_and_reads_no_file_from_outside(lab: Any, settings: dict[str, str], line: str) -> None:
    answer = httpx.post(f"{lab.base}api/runs/start", json={"recipe": "text", "settings": settings, "name": "bad"})
    assert answer.status_code == 400
    assert line in answer.json()["error"]
    assert not (lab.folder.path / "bad").exists()
