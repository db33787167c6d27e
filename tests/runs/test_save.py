"""A save may be killed, refused or damaged at any point: there is always a sound checkpoint, and never half of one."""

import errno
import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from recurra.errors import RunError
from recurra.runs.checkpoint import Checkpoint
from recurra.runs.folder import RunFolder

from .helpers import FILES, Killed, assert_weights, assert_whole, checkpoint, fail_at, failure, names, new_run


def test_saved_and_loaded(tmp_path):
    folder = new_run(tmp_path / "a")
    for step in (1, 2, 3):
        folder.save(checkpoint(step), best=step == 2)
    notices = []
    assert [folder.load(which, notices.append).step for which in ("last", "best")] == [3, 2]
    assert_whole(folder.load())
    assert notices == []
    assert names(folder.path / "checkpoints") == {"last", "previous", "best"}
    assert names(folder.path / "checkpoints" / "last") == set(FILES)


def test_the_best_keeps_the_weights_that_are_evaluated(tmp_path):
    folder = new_run(tmp_path / "a")
    value = torch.ones(2)
    folder.save(Checkpoint(1, {"W": value}, {"average.W": 3 * value, "moment": value}, {"position": 4}), best=True)
    best, last = folder.load("best"), folder.load()
    assert (best.step, best.tensors, best.facts) == (1, {}, {})
    assert torch.equal(best.weights["W"], 3 * value)
    assert torch.equal(last.weights["W"], value)
    assert torch.equal(last.evaluated["W"], 3 * value)


def damage(file: Path, how: str) -> None:
    data = bytearray(file.read_bytes())
    if how == "flipped":
        data[len(data) // 2] ^= 16
    file.write_bytes(data[:-1] if how == "cut" else data)
    if how == "gone":
        file.unlink()


@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("which", "before"), [("last", "previous"), ("best", "previous-best")])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, which, before, name, how):
    folder = new_run(tmp_path / "a")
    for step in (1, 2):
        folder.save(checkpoint(step), best=True)
    damage(folder.path / "checkpoints" / which / name, how)
    notices = []
    found = folder.load(which, notices.append)
    assert found.step == 1
    assert_sound(found, which)
    assert len(notices) == 1
    assert f"checkpoints/{which} cannot be used" in notices[0]
    assert name in notices[0]
    assert "of step 1, is used instead." in notices[0]
    assert "\n" not in notices[0]
    assert folder.load(which).step == 1  # nobody has to listen
    damage(folder.path / "checkpoints" / before / name, how)
    with pytest.raises(RunError, match=f"has no sound {which} checkpoint") as caught:
        folder.load(which, notices.append)
    assert len(notices) == 1
    assert str(caught.value).count(name) >= 2


def test_the_best_is_not_damaged_with_the_last(tmp_path):
    folder = new_run(tmp_path / "a")
    folder.save(checkpoint(1), best=True)
    file = folder.path / "checkpoints" / "last" / "weights.safetensors"
    with file.open("r+b") as opened:  # in place: the same file under another name would change too
        opened.write(b"\xff")
    assert folder.load("best").step == 1


def test_a_damaged_checkpoint_never_replaces_the_sound_one(tmp_path, monkeypatch):
    """Resumed from `previous` because `last` is damaged: until a new `last` is in place, `previous` stays."""
    for point in range(1, 100):
        folder = new_run(tmp_path / str(point))
        for step in (1, 2):
            folder.save(checkpoint(step))
        damage(folder.path / "checkpoints" / "last" / "weights.safetensors", "flipped")
        with monkeypatch.context() as patch:
            count = fail_at(patch, point, Killed())
            try:
                RunFolder.open(folder.path).save(checkpoint(3))
            except Killed:
                assert folder.load().step in (1, 3)
            if count() < point:
                break
    assert point > 5
    notices = []
    assert folder.load(notice=notices.append).step == 3
    damage(folder.path / "checkpoints" / "last" / "weights.safetensors", "flipped")
    assert folder.load(notice=notices.append).step == 1


@pytest.mark.parametrize("best", [False, True])
@pytest.mark.parametrize("saves", [0, 1, 2])
def test_a_kill_at_each_point(tmp_path, monkeypatch, saves, best):
    for point in range(1, 200):
        folder = new_run(tmp_path / str(point))
        for step in range(1, saves + 1):
            folder.save(checkpoint(step), best=best)
        with monkeypatch.context() as patch:
            count = fail_at(patch, point, Killed())
            with suppress(Killed):
                folder.save(checkpoint(saves + 1), best=best)
            if count() < point:
                break
        after = RunFolder.open(folder.path)
        last = saved_step(after, "last")
        assert last in (saves, saves + 1)
        if best:  # resumed from `last`, which believes its best value: `best` must be there, or be made again
            assert saved_step(after, "best") in (last, saves + 1)
        after.save(checkpoint(saves + 2), best=best)
        assert after.load().step == saves + 2
        assert_whole(after.load())
        assert not {name for name in names(after.path / "checkpoints") if name.startswith(".")}
    assert point > 8


def saved_step(folder: RunFolder, which: str) -> int:
    if not folder.has(which):
        return 0
    found = folder.load(which)
    assert_sound(found, which)
    return found.step


def assert_sound(found: Checkpoint, which: str) -> None:
    """`last` is whole; `best` keeps the weights alone."""
    if which == "last":
        assert_whole(found)
    else:
        assert_weights(found)
        assert (found.tensors, found.facts) == ({}, {})


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_an_error_at_each_point(tmp_path, monkeypatch, code):
    for point in range(1, 200):
        folder = new_run(tmp_path / str(point))
        for step in (1, 2):
            folder.save(checkpoint(step), best=True)
        with monkeypatch.context() as patch:
            count = fail_at(patch, point, OSError(code, os.strerror(code)))
            said = failure(lambda folder=folder: folder.save(checkpoint(3), best=True))
            if count() < point:
                break
        assert f"step 3 cannot be saved: {os.strerror(code)}; the checkpoint before it is kept." in said
        notices = []
        assert folder.load(notice=notices.append).step in (2, 3)
        assert folder.load("best", notices.append).step in (2, 3)
        assert notices == []
        assert not {name for name in names(folder.path / "checkpoints") if name.startswith(".")}
        folder.save(checkpoint(4), best=True)
        assert folder.load().step == 4
    assert said == ""
    assert point > 20


def test_a_full_disk(tmp_path):
    """A real one, of 256 KiB, where this user may mount it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        not shutil.which("mount")
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True
        ).returncode
    ):
        pytest.skip("this user cannot mount a disk")
    try:
        folder = new_run(disk / "a")
        folder.append([{"step": 1}])
        folder.save(checkpoint(1))
        large = Checkpoint(2, {"W": torch.zeros(100_000)})
        with pytest.raises(RunError, match="step 2 cannot be saved: No space left on device") as caught:
            folder.save(large, best=True)
        assert "\n" not in str(caught.value)
        assert names(folder.path / "checkpoints") == {"last"}
        assert_whole(folder.load())
        with pytest.raises(RunError, match=r"metrics\.jsonl cannot be written: No space left on device"):
            folder.append([{"step": 2, "text": "x" * 300_000}])
        assert folder.metrics() == [{"step": 1}]
        with pytest.raises(RunError, match="cannot be made: No space left on device"):
            RunFolder.create(disk / "b", {"seed": 1}, {"tokens": "x" * 300_000})
        assert names(disk) == {"a"}
        folder.save(checkpoint(3))
        assert folder.load().step == 3
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_what_dead_writers_left_is_removed_and_what_living_ones_write_is_not(tmp_path):
    folder = new_run(tmp_path / "a")
    folder.save(checkpoint(1))
    dead, living = f".writing-{2**22 + 1}-last", f".writing-{os.getppid()}-last"
    for name in (dead, living):
        (folder.path / "checkpoints" / name).mkdir()
        (folder.path / "checkpoints" / name / "weights.safetensors").write_text("half")
    folder.save(checkpoint(2))
    assert names(folder.path / "checkpoints") == {"last", "previous", living}


def test_a_checkpoint_that_cannot_be_written_changes_nothing(tmp_path):
    folder = new_run(tmp_path / "a")
    folder.save(checkpoint(1))
    with pytest.raises(TypeError):
        folder.save(Checkpoint(2, {}, {}, {"loss": torch.tensor(1.0)}))
    assert folder.load().step == 1
    assert names(folder.path / "checkpoints") == {"last"}


def test_a_reader_beside_a_writer_sees_whole_checkpoints(tmp_path):
    folder = new_run(tmp_path / "a")
    folder.save(checkpoint(1))
    stop = threading.Event()

    def write() -> None:
        step = 1
        while not stop.wait(0.002):
            step += 1
            folder.save(checkpoint(step))

    writer = threading.Thread(target=write)
    writer.start()
    notices: list[str] = []
    try:
        seen = []
        for _ in range(150):
            found = RunFolder.open(folder.path).load(notice=notices.append)
            assert_whole(found)
            seen.append(found.step)
    finally:
        stop.set()
        writer.join()
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]
    assert notices == []


def test_a_reader_between_the_two_renames_looks_again(tmp_path, monkeypatch):
    folder = new_run(tmp_path / "a")
    for step in (1, 2):
        folder.save(checkpoint(step))
    last = folder.path / "checkpoints" / "last"
    last.rename(last.with_name("aside"))
    monkeypatch.setattr("recurra.runs.folder.time.sleep", lambda _: last.with_name("aside").rename(last))
    notices: list[str] = []
    assert folder.load(notice=notices.append).step == 2
    assert notices == []


def test_what_gets_a_name_is_on_the_disk_already(tmp_path, monkeypatch):
    """Power may fail at any point: files before the folder that lists them, both before the rename, the names after it."""
    folder = new_run(tmp_path / "a")
    folder.save(checkpoint(1), best=True)
    folder.append([{"step": 2}])
    synced: list[int] = []
    fsync, rename = os.fsync, os.rename

    def note_sync(handle):
        synced.append(os.fstat(handle).st_ino)
        fsync(handle)

    def check_rename(old, new):
        old = Path(old)
        if old.name.startswith(".writing"):
            own = [(old / name).stat().st_ino for name in FILES]
            assert (folder.path / "metrics.jsonl").stat().st_ino in synced
            assert set(own) < set(synced[: synced.index(old.stat().st_ino)])
        rename(old, new)
        synced.append(-1)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "rename", check_rename)
    folder.save(checkpoint(2), best=True)
    assert synced.count(-1) == 4
    assert synced[-2:] == [-1, (folder.path / "checkpoints").stat().st_ino]


KILLS = """
import os, random, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from recurra.runs.folder import RunFolder
from tests.runs.helpers import assert_whole, checkpoint

path = Path(sys.argv[1])
RunFolder.create(path, {"seed": 1}).save(checkpoint(0))
draw, finished, kills = random.Random(0), 0, 0
while kills < 20:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        folder, step = RunFolder.open(path), finished
        with folder.lock():
            while True:
                step += 1
                folder.save(checkpoint(step), best=step % 3 == 0)
                os.write(writer, b"%d\\n" % step)
    os.close(writer)
    time.sleep(draw.uniform(0.002, 0.08))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        steps = [int(line) for line in told]
    done = steps[-1] if steps else finished
    kills += bool(steps)
    found = RunFolder.open(path).load()
    assert_whole(found)
    assert found.step in (done, done + 1), (found.step, done)
    finished = found.step
    with RunFolder.open(path).lock():
        pass
print("sound", kills)
"""


def test_kills_at_random_moments(tmp_path):
    """20 processes that save without pause are killed: what loads is the last finished save, or the one under way."""
    command = [sys.executable, "-c", KILLS, str(tmp_path / "a")]
    root = Path(__file__).parents[2]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60)
    assert result.stdout == "sound 20\n", result.stderr
