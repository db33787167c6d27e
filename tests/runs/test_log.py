"""The metrics of a run while they grow."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from recurra.errors import OptionError
from recurra.runs.folder import RunFolder
from recurra.runs.lock import holder
from recurra.runs.log import Log, thin


def write(file: Path, rows: list[dict[str, float]], mode: str = "a") -> None:
    with file.open(mode) as out:
        out.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def steps(first: int, last: int) -> list[dict[str, float]]:
    return [{"loss": 10.0 / k, "step": k} for k in range(first, last + 1)]


def test_a_glance_follows_a_file_that_grows(tmp_path: Path) -> None:
    log = Log(tmp_path / "metrics.jsonl")
    assert log.glance().step == 0
    write(log.file, [*steps(1, 100), {"step": 100, "valid": 3.0}])
    assert (log.glance().step, log.glance().best_valid) == (100, 3.0)
    write(log.file, [{"step": 101, "valid": 2.5}, *steps(102, 103)])
    found = log.glance()
    assert (found.step, found.loss, found.best_valid) == (103, 10.0 / 103, 2.5)


def test_half_a_line_and_a_damaged_one_are_passed_over(tmp_path: Path) -> None:
    log = Log(tmp_path / "metrics.jsonl")
    log.file.write_text('{"loss":1.0,"step":1}\n{"loss":\n{"loss":0.5,"st')
    assert log.glance().step == 1
    assert log.curve("loss").steps.tolist() == [1]
    with log.file.open("a") as out:
        out.write('ep":3}\n')
    assert log.curve("loss").mean.tolist() == [1.0, 0.5]


def test_a_log_that_was_rewound_is_read_again(tmp_path: Path) -> None:
    log = Log(tmp_path / "metrics.jsonl")
    write(log.file, [*steps(1, 50), {"step": 50, "valid": 0.1}])
    assert log.glance().best_valid == 0.1
    assert len(log.curve("loss").steps) == 50
    log.file.unlink()
    write(log.file, [*steps(1, 20), {"step": 20, "valid": 0.9}])
    assert (log.glance().step, log.glance().best_valid) == (20, 0.9)
    assert len(log.curve("loss").steps) == 20


def test_a_curve_is_what_all_rows_give(tmp_path: Path) -> None:
    """Read in pieces or at once, thinned or whole: the same means, and no row is lost."""
    log = Log(tmp_path / "metrics.jsonl")
    for k in range(0, 1000, 100):
        write(log.file, steps(k + 1, k + 100))
        log.curve("loss")
    values = np.array([10.0 / k for k in range(1, 1001)])
    assert np.array_equal(log.curve("loss", 5000).mean, values)
    thinned = log.curve("loss", 10)
    assert np.allclose(thinned.mean, values.reshape(10, 100).mean(1))
    assert thinned.steps.tolist() == list(range(100, 1001, 100))
    assert np.array_equal(thinned.high, values[::100])
    assert np.array_equal(thinned.low, values[99::100])


@pytest.mark.parametrize(("rows", "points"), [(7, 3), (10, 4), (401, 400), (1, 1)])
def test_every_row_is_in_one_point(rows: int, points: int) -> None:
    made = thin("x", np.arange(rows), np.ones(rows), points)
    assert len(made.mean) == min(rows, points)
    assert np.all(made.mean == 1)
    assert made.steps[-1] == rows - 1


def test_several_threads_read_one_log(tmp_path: Path) -> None:
    log = Log(tmp_path / "metrics.jsonl")

    def ask(_: int) -> int:
        return len(log.curve("loss", 10**6).steps) if "loss" in log.names else 0

    with ThreadPoolExecutor(4) as pool:
        for k in range(0, 4000, 200):
            write(log.file, steps(k + 1, k + 200))
            list(pool.map(ask, range(8)))
    assert log.curve("loss", 10**6).steps.tolist() == list(range(1, 4001))


def test_numbers_that_json_lacks(tmp_path: Path) -> None:
    log = Log(tmp_path / "metrics.jsonl")
    log.file.write_text('{"loss":"NaN","step":1}\n{"loss":2.0,"step":2}\n{"step":2,"valid":"Infinity"}\n')
    assert np.isnan(log.curve("loss").mean[0])
    assert log.glance().best_valid is None


def test_a_metric_that_is_not_there(tmp_path: Path) -> None:
    log = Log(tmp_path / "metrics.jsonl")
    write(log.file, steps(1, 2))
    with pytest.raises(OptionError, match=r"'los' does not exist.*loss"):
        log.curve("los")


def test_who_writes_a_folder(tmp_path: Path) -> None:
    import os

    folder = RunFolder.create(tmp_path / "a", {"name": "x"})
    assert holder(folder.path) is None
    with folder.lock():
        assert holder(folder.path) == os.getpid()
    assert holder(folder.path) is None
    assert holder(tmp_path / "none") is None
    (folder.path / ".lock").write_text("4194304\n")  # of a process that is gone
    assert holder(folder.path) is None
