"""Run folders of version 0.1.0's first format, made before tasks and runs had their present form, still open.

`legacy.tar.gz` holds a run of every kind of task, stopped after its first step, with its small data; and, as `expected.json`,
what the code that made them reached when it resumed each to its last step and evaluated it.
"""

import json
import math
import tarfile
from pathlib import Path

import pytest

import recurra as rc

ARCHIVE = Path(__file__).with_name("legacy.tar.gz")
RENAMED = {"not told": "not conditioned", "given the true outputs": "teacher forcing", "run free": "free running"}
"""Rows of tables that have other names now."""


def expected() -> dict[str, dict[str, dict[str, float]]]:
    with tarfile.open(ARCHIVE) as archive:
        file = archive.extractfile("expected.json")
        assert file is not None
        found: dict[str, dict[str, dict[str, float]]] = json.load(file)
        return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all runs; paths in their recipes are relative to it."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", sorted(expected()))
def test_an_old_run_resumes_to_the_numbers_that_it_was_going_to(place: Path, name: str) -> None:
    run = rc.open(place / "runs" / name)
    assert run.is_trained or name == "reservoir"
    run.resume(progress="none")
    scores = run.evaluate().scores
    for model, row in expected()[name].items():
        for old, new in RENAMED.items():
            model = model.replace(old, new)
        for metric, value in row.items():
            # the kernels of another processor round otherwise
            assert math.isclose(scores[model][metric], value, rel_tol=1e-3, abs_tol=1e-3), (model, metric)


@pytest.mark.parametrize("name", ["text", "window", "names"])
def test_an_old_language_model_is_sampled_before_it_is_resumed(place: Path, name: str) -> None:
    run = rc.open(place / "runs" / name)
    assert len(str(run.sample(length=20, seed=0))) > 0
    assert run.evaluate(baselines=False).scores
