"""The log of a run that was killed and resumed is, byte for byte, that of one that never was."""

import json
import math
import os
import re

import numpy as np
import pytest

from recurra.errors import RunError
from recurra.runs.folder import RunFolder
from recurra.runs.metrics import glance, read_rows

from .helpers import names, new_run


def row(step: int) -> dict:
    return {"step": step, "loss": 1 / (step + 3), "kind": "train"}


def test_rows_come_back(tmp_path):
    folder = new_run(tmp_path / "a")
    assert folder.metrics() == []
    rows = [row(1), {"step": 1, "kind": "sample", "text": "naïve\n\udc80", "deep": {"a": [1, 2.5, None, True]}}]
    folder.append(rows)
    folder.append([])
    folder.append([row(2)])
    assert folder.metrics() == [*rows, row(2)]


def test_numbers_that_json_lacks(tmp_path):
    folder = new_run(tmp_path / "a")
    folder.append([{"step": 1, "loss": math.inf, "low": -math.inf, "rate": float("nan")}])
    found = folder.metrics()[0]
    assert (found["loss"], found["low"]) == (math.inf, -math.inf)
    assert math.isnan(found["rate"])
    text = (folder.path / "metrics.jsonl").read_text()
    assert json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))["loss"] == "Infinity"


def test_equal_rows_give_equal_bytes(tmp_path):
    one, two = new_run(tmp_path / "one"), new_run(tmp_path / "two")
    one.append([{"step": 1, "loss": 0.1, "b": (1, 2)}])
    two.append([{"b": [1, 2], "loss": np.float64(0.1), "step": 1}])
    found = [(folder.path / "metrics.jsonl").read_bytes() for folder in (one, two)]
    assert found[0] == found[1]
    assert re.fullmatch(rb'{"b":\[1,2\],"loss":0\.1,"step":1,"crc":"[0-9a-f]{8}"}\n', found[0])


@pytest.mark.parametrize("bad", [{"loss": 1.0}, {"step": 1.0}, {"step": True}, {"step": 1, "loss": np.float32(1)}])
def test_a_row_that_cannot_be_kept_adds_nothing(tmp_path, bad):
    folder = new_run(tmp_path / "a")
    with pytest.raises(TypeError, match=r"step|float32"):
        folder.append([row(1), bad])
    assert folder.metrics() == []


def test_a_killed_run_gives_the_log_of_one_that_was_not(tmp_path):
    """Killed at every byte of the log after the checkpoint of step 4, resumed from it, and run to the end."""
    whole = new_run(tmp_path / "whole")
    for step in range(1, 8):
        whole.append([row(step), {"step": step, "kind": "check"}])
    expected = (whole.path / "metrics.jsonl").read_bytes()
    saved = len(b"".join(expected.splitlines(keepends=True)[:8]))
    folder = new_run(tmp_path / "killed")
    file = folder.path / "metrics.jsonl"
    for cut in range(saved, len(expected) + 1):
        file.write_bytes(expected[:cut])
        assert folder.metrics() == whole.metrics()[: expected[:cut].count(b"\n")]
        folder.rewind(4)
        for step in range(5, 8):
            folder.append([row(step), {"step": step, "kind": "check"}])
        assert file.read_bytes() == expected
    assert names(folder.path) == {"recipe.json", "manifest.json", "metrics.jsonl", ".lock"}


def test_rewinding_keeps_the_bytes_of_the_rest(tmp_path):
    folder = new_run(tmp_path / "a")
    file = folder.path / "metrics.jsonl"
    folder.rewind(3)
    assert not file.exists()
    file.write_bytes(b'{"step": 1,  "x": 1.50}\n{"step":9}\nhalf{"step":1}\n{"step":2}\n{"st')
    folder.rewind(3)
    assert file.read_bytes() == b'{"step": 1,  "x": 1.50}\n{"step":2}\n'
    before = file.stat().st_ino
    folder.rewind(3)
    assert file.stat().st_ino == before  # nothing to drop: not written again


def test_rewinding_that_fails_keeps_the_log(tmp_path, monkeypatch):
    folder = new_run(tmp_path / "a")
    folder.append([row(1), row(2)])

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(RunError, match=r"metrics\.jsonl cannot be rewound: No space left on device"):
        folder.rewind(1)
    assert folder.metrics() == [row(1), row(2)]
    assert names(folder.path) == {"recipe.json", "manifest.json", "metrics.jsonl", ".lock"}


def test_what_a_killed_rewind_left_is_removed(tmp_path):
    folder = new_run(tmp_path / "a")
    folder.append([row(1), row(2)])
    (folder.path / f".writing-{2**22 + 1}-metrics.jsonl").write_text("half")
    folder.rewind(1)
    assert names(folder.path) == {"recipe.json", "manifest.json", "metrics.jsonl", ".lock"}


def test_half_a_line_does_not_spoil_the_next_row(tmp_path):
    folder = new_run(tmp_path / "a")
    folder.append([row(1)])
    with (folder.path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step":2,"lo')
    assert folder.metrics() == [row(1)]
    folder.append([row(2)])
    assert folder.metrics() == [row(1), row(2)]


def test_a_damaged_line_of_an_older_log_is_named(tmp_path):
    folder = new_run(tmp_path / "a")
    (folder.path / "manifest.json").unlink()
    (folder.path / "metrics.jsonl").write_bytes(b'{"step":1}\n{"step\n{"step":2}\n')
    folder = RunFolder.open(folder.path)
    assert folder.metrics() == [{"step": 1}, {"step": 2}]
    assert [str(each) for each in folder.damaged] == [
        "metrics.jsonl: line 2 is damaged or not in place; the other lines are used."
    ]
    strict = RunFolder.open(folder.path, strict=True)
    with pytest.raises(RunError, match="line 2 is damaged or not in place"):
        strict.metrics()
    folder.rewind(9)
    folder.append([row(3)])
    assert RunFolder.open(folder.path).metrics() == [{"step": 1}, {"step": 2}, row(3)]


def damaged_lines(folder):
    log = read_rows(folder.path / "metrics.jsonl", checked=True, run=folder._run)
    return log.damaged


def test_every_changed_byte_of_the_log_is_seen(tmp_path):
    folder = new_run(tmp_path / "a")
    folder.append([row(1), row(2), row(3)])
    file = folder.path / "metrics.jsonl"
    sound = file.read_bytes()
    assert damaged_lines(folder) == []
    for place in range(len(sound)):
        for bit in (0, 3, 5, 7):
            changed = sound[:place] + bytes([sound[place] ^ (1 << bit)]) + sound[place + 1 :]
            file.write_bytes(changed)
            # half a line at the end is what a kill leaves
            assert damaged_lines(folder) or (place == len(sound) - 1 and folder.metrics() == [row(1), row(2)])


@pytest.mark.parametrize(
    ("change", "damaged"),
    [
        (lambda lines: [lines[0], lines[2], lines[3]], [2]),
        (lambda lines: [lines[1], lines[0], lines[2], lines[3]], [1, 2, 3]),
        (lambda lines: [lines[0], lines[1], lines[1], lines[2], lines[3]], [3]),
        (lambda lines: lines[1:], [1]),
        (lambda lines: [lines[0], b'{"loss":0.5,"step":2}', *lines[2:]], [2, 3]),
    ],
    ids=["lost", "in another order", "twice", "the first lost", "without a checksum"],
)
def test_lines_that_are_lost_or_moved_are_seen_and_a_resume_mends_the_rest(tmp_path, change, damaged):
    folder = new_run(tmp_path / "a")
    folder.append([row(1), row(2), row(3), row(4)])
    file = folder.path / "metrics.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in change(file.read_bytes().splitlines())))
    assert damaged_lines(folder) == damaged
    folder.rewind(9)
    assert damaged_lines(folder) == []
    folder.append([row(5)])
    assert damaged_lines(folder) == []
    assert glance(file).rows == [row(5)]


@pytest.mark.parametrize(
    "line",
    [
        b'{"step":1,"valid":"x"}',
        b'{"step":1e400}',
        b'{"step":-1}',
        b'{"step":' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"step":1,"loss":null}',
        b"\xff\xfe",
        b"",
    ],
)
def test_what_is_no_row_is_damage_and_never_more(tmp_path, line):
    folder = new_run(tmp_path / "a")
    (folder.path / "manifest.json").unlink()
    (folder.path / "metrics.jsonl").write_bytes(line + b"\n")
    folder = RunFolder.open(folder.path)
    assert folder.metrics() == []
    assert folder.damaged


def test_a_write_that_is_cut_short_goes_on_or_leaves_nothing(tmp_path, monkeypatch):
    folder = new_run(tmp_path / "a")
    folder.append([row(1)])
    write, room = os.write, 10

    def short(handle, data):
        nonlocal room
        if room == 0:
            raise OSError(28, "No space left on device")
        size = write(handle, data[: min(room, 4)])
        room -= min(room, 4)
        return size

    monkeypatch.setattr(os, "write", short)
    before = (folder.path / "metrics.jsonl").read_bytes()
    with pytest.raises(RunError, match=r"metrics\.jsonl cannot be written: No space left"):
        folder.append([row(2)])
    assert (folder.path / "metrics.jsonl").read_bytes() == before
    room = 1000
    folder.append([row(2)])
    assert folder.metrics() == [row(1), row(2)]
