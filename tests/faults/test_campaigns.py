"""The campaigns: a few of each with every test run, and a thousand with the slow ones (`make faults`)."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import recurra as rc
from recurra.cli.main import OURS
from tests.faults.corruption import Answer, campaign, judge


def test_some_damaged_folders(tmp_path: Path) -> None:
    found = campaign(tmp_path, 34, seed=3, most_verbs=1)
    assert found.wrong == []
    assert found.counts["named"] + found.counts["refused"] > 5


def test_the_last_resort_is_wrong() -> None:
    """One line or not: that a fault of ours was caught is no answer."""
    sound = Answer(0, "{}", "")
    assert judge(sound, sound) == "same"
    assert judge(Answer(OURS, "", "recurra: a fault of Recurra's\n"), sound).startswith("WRONG: the last resort")


def start(name: str, *arguments: str) -> str:
    """A campaign in a process of its own; what it printed."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", f"tests.faults.{name}", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_a_thousand_damaged_folders() -> None:
    assert "1000 damaged run folders" in start("corruption", "--count", "1000")


@pytest.mark.slow
def test_a_thousand_kills() -> None:
    assert "lost: 0" in start("kills", "--kills", "1000")


@pytest.mark.slow
def test_a_list_of_five_thousand_runs_takes_five_seconds(tmp_path: Path) -> None:
    run = rc.train("tomita", steps=50, hidden_size=4, engine="eager", progress="none", out=tmp_path / "one")
    for k in range(5000):
        shutil.copytree(run.path, tmp_path / "runs" / f"run-{k}")
    command = [sys.executable, "-m", "recurra", "runs", str(tmp_path / "runs"), "--json"]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.monotonic() - began
    print(f"recurra runs over 5,000 folders: {seconds:.2f} s")
    assert len(json.loads(done.stdout)["runs"]) == 5000
    assert seconds <= 5
