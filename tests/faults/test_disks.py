"""Training on real disks that are full, have no files left or are read-only, and on a clock that is set back.

A disk is a tmpfs of a few pages, which root can mount; where nothing can be mounted, these tests are skipped.
"""

import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ctypes.util import find_library
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from recurra.cli.main import run
from recurra.runs.folder import RunFolder
from recurra.training.loop import Trainer
from tests.faults.kills import contents, start, wait

pytestmark = pytest.mark.slow

TRAIN = [
    *("train", "tomita", "model.hidden_size=4", "training.batch_size=4", "training.steps=12", "training.save_every=2"),
    *("training.validate_every=4", "training.warmup=2", "engine=eager", "--out"),
]
RESUME = ["train", "--resume"]
STEPS = 12
NOBODY = 65534


def mount(place: Path, *options: str) -> None:
    made = subprocess.run(["mount", *options, str(place)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"this user cannot mount a disk: {made.stderr.strip()}")


@contextmanager
def disk(place: Path, options: str) -> Iterator[Path]:
    """A disk of its own, with these options of tmpfs."""
    place.mkdir(exist_ok=True)
    mount(place, "-t", "tmpfs", "-o", options, "tmpfs")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert run([*TRAIN, str(folder)]) == 0
    return contents(folder)


def finish(folder: Path, whole: dict[str, bytes]) -> None:
    """Go on with what is there, or begin: the files are those of a run that nothing happened to."""
    assert run([*RESUME, str(folder)] if (folder / "recipe.json").exists() else [*TRAIN, str(folder)]) == 0
    assert contents(folder) == whole


def check_saved(folder: Path) -> int:
    """The step of the last checkpoint, if there is any; it is whole, and so is everything else."""
    if not (folder / "recipe.json").exists():
        assert not folder.exists() or not [each for each in folder.iterdir() if each.name != ".lock"]
        return 0
    found = RunFolder.open(folder)
    notices: list[str] = []
    found.notice = notices.append
    found.look_over()
    step = found.load().step if found.has() else 0
    assert [each for each in notices if step or "checkpoints: it is missing" not in each] == []
    return step


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What a command that failed said last."""
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("recurra: ")
    assert "Traceback" not in "".join(lines)
    return lines[-1]


@pytest.fixture
def at_steps(monkeypatch: pytest.MonkeyPatch) -> dict[int, Callable[[], object]]:
    """What is done after a step of training, by its number."""
    done: dict[int, Callable[[], object]] = {}
    advance = Trainer.advance

    def hooked(self: Trainer, batch: Any) -> None:
        advance(self, batch)
        done.get(self.step, lambda: None)()

    monkeypatch.setattr(Trainer, "advance", hooked)
    return done


def test_disks_of_every_size(whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From one page on, until everything has room: what was saved is whole, and with more room it goes on as if nothing was."""
    saved, codes = [], []
    for pages in (*range(1, 30, 2), *range(30, 80, 5)):
        with disk(tmp_path / "disk", f"size={4 * pages}k") as place:
            codes.append(run([*TRAIN, str(place / "run")]))
            if codes[-1]:
                assert codes[-1] == 2
                assert "No space left on device" in one_line(capsys)
            saved.append(check_saved(place / "run"))
            mount(place, "-o", "remount,size=8m")
            finish(place / "run", whole)
    assert codes[0] == 2
    assert codes[-1] == 0
    assert saved[0] == 0
    assert saved[-1] == STEPS
    assert any(0 < each < STEPS for each in saved), "no disk was full in the middle of a training"


def test_a_disk_that_is_full_for_a_while(
    whole: dict[str, bytes],
    tmp_path: Path,
    at_steps: dict[int, Callable[[], object]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with disk(tmp_path / "disk", "size=1m") as place:

        def fill() -> None:
            with (place / "filler").open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(4096))

        at_steps |= {5: fill, 9: (place / "filler").unlink}
        assert run([*TRAIN, str(place / "run")]) == 0
        said = capsys.readouterr().err
        assert "No space left on device" in said
        assert "Training goes on" in said
        assert contents(place / "run") == whole


def test_no_file_is_left_although_there_is_room(
    whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As under a quota: asking for free bytes beforehand does not show it."""
    steps = []
    for files in range(4, 40, 3):
        with disk(tmp_path / "disk", f"size=8m,nr_inodes={files}") as place:
            if run([*TRAIN, str(place / "run")]):
                assert "No space left on device" in one_line(capsys)
            steps.append(check_saved(place / "run"))
            mount(place, "-o", "remount,nr_inodes=1000")
            finish(place / "run", whole)
    assert steps[0] == 0
    assert steps[-1] == STEPS


def test_explaining_on_a_full_disk_leaves_nothing_by_halves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused in a line or done; no file is empty or cut off, and with room it is as if nothing was."""
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on a mat. " * 40)
    small = [
        "model.hidden_size=4",
        "training.steps=4",
        "training.warmup=1",
        "training.truncation=every:8",
        "engine=eager",
    ]
    assert run(["train", "text", f"data.path={text}", *small, "--out", str(tmp_path / "run")]) == 0
    explain = ["--table", "the cat", "--gradients", "--steps", "8"]
    shutil.copytree(tmp_path / "run", tmp_path / "explained")
    assert run(["explain", str(tmp_path / "explained"), *explain]) == 0
    expected, codes = contents(tmp_path / "explained"), []
    need = sum(-(-len(data) // 4096) for data in contents(tmp_path / "run").values())
    for pages in (2, 4, 7, 12, 20, 35, 60, 400):
        with disk(tmp_path / "disk", f"size={4 * (need + 16 + pages)}k") as place:
            folder = Path(shutil.copytree(tmp_path / "run", place / "run"))
            codes.append(run(["explain", str(folder), *explain]))
            if codes[-1]:
                assert codes[-1] == 2
                assert "No space left on device" in one_line(capsys)
            found = contents(folder)
            assert {name: data for name, data in found.items() if expected.get(name) != data} == {}
            mount(place, "-o", "remount,size=32m")
            assert run(["explain", str(folder), *explain]) == 0
            assert contents(folder) == expected
    assert 2 in codes
    assert codes[-1] == 0


@contextmanager
def quota(place: Path, most: int, *, late: bool = False) -> Iterator[None]:
    """Bytes that files under a folder may have, enforced at the calls that write: no file system here has a quota to turn on. The
    disk itself has room, so that asking for free bytes beforehand shows nothing; what fits of a write is written.

    - `late`: the kernel takes every write and refuses when the file is to be on the disk, as one with delayed allocation may.
    """

    def room() -> int:
        return most - sum(each.stat().st_size for each in place.rglob("*") if each.is_file())

    def refuse() -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    def within(write: Callable[[Any], int], data: Any) -> int:
        left = len(data) if late else room()
        if left <= 0 and len(data):
            refuse()
        return write(memoryview(data)[:left])

    class Metered(io.FileIO):
        def write(self, data: Any) -> int:
            return within(super().write, data)

    def opened(self: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if "b" in mode and set(mode) & set("wxa"):
            return io.BufferedWriter(Metered(self, mode.replace("b", "")))
        return io.open(self, mode, *args, **options)  # noqa: UP020  Path.open is what is replaced here

    def sync(handle: int) -> None:
        if late and room() < 0:
            refuse()
        fsync(handle)

    fsync, write = os.fsync, os.write
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "open", opened)
        patched.setattr(os, "write", lambda handle, data: within(partial(write, handle), data))
        patched.setattr(os, "fsync", sync)
        yield


@pytest.mark.parametrize("late", [False, True])
def test_a_quota_of_every_size(
    whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], late: bool
) -> None:
    """In the middle of a checkpoint too: what was saved is whole, the half is gone, and with more room it goes on."""
    saved, codes, in_checkpoints = [], [], 0
    for size in (*range(1, 46, 2), 200):
        folder = tmp_path / f"disk-{size}" / "run"
        with quota(folder.parent, 1024 * size, late=late):
            codes.append(run([*TRAIN, str(folder)]))
        said = capsys.readouterr().err
        assert "Traceback" not in said
        if codes[-1]:
            assert codes[-1] == 2
            assert "Disk quota exceeded" in said.splitlines()[-1]
        in_checkpoints += "cannot be saved: Disk quota exceeded" in said
        saved.append(check_saved(folder))
        assert list(folder.parent.rglob(".writing-*")) == []
        finish(folder, whole)
    assert (codes[0], codes[-1], saved[0], saved[-1]) == (2, 0, 0, STEPS)
    assert any(0 < each < STEPS for each in saved), "no quota was reached in the middle of a training"
    assert in_checkpoints > 5


def test_a_quota_that_is_reached_for_a_while(
    whole: dict[str, bytes],
    tmp_path: Path,
    at_steps: dict[int, Callable[[], object]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The checkpoints of steps 6 and 8 cannot be written: it is said, training goes on, and nothing is missing at the end."""
    other = tmp_path / "other"
    other.touch()
    at_steps |= {5: lambda: os.truncate(other, 1 << 20), 9: other.unlink}
    with quota(tmp_path, 1 << 20):
        assert run([*TRAIN, str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert "Disk quota exceeded" in said
    assert "Training goes on" in said
    assert contents(tmp_path / "run") == whole


def test_a_quota_of_the_kernel(whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of btrfs, where removing a file may be refused too, since it takes room to write down that it is gone."""
    if shutil.which("mkfs.btrfs") is None:
        pytest.skip("btrfs-progs is not installed")
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(256 << 20)
    subprocess.run(["mkfs.btrfs", "--quiet", image], check=True, stderr=subprocess.DEVNULL)
    mount(place, "-o", "loop", str(image))
    saved, codes, in_checkpoints = [], [], 0
    try:
        subprocess.run(["btrfs", "quota", "enable", place], check=True)
        for size in (*range(16, 180, 8), 2000):
            volume = place / str(size)
            subprocess.run(["btrfs", "subvolume", "create", volume], check=True, stdout=subprocess.DEVNULL)
            number = subprocess.check_output(["btrfs", "inspect-internal", "rootid", volume], text=True).strip()
            subprocess.run(["btrfs", "qgroup", "limit", f"{size}k", f"0/{number}", place], check=True)
            codes.append(run([*TRAIN, str(volume / "run")]))
            said = capsys.readouterr().err
            assert "Traceback" not in said
            if codes[-1]:
                assert codes[-1] == 2
                assert "Disk quota exceeded" in said.splitlines()[-1]
            in_checkpoints += "cannot be saved: Disk quota exceeded" in said
            saved.append(check_saved(volume / "run"))
            subprocess.run(["btrfs", "qgroup", "limit", "none", f"0/{number}", place], check=True)
            finish(volume / "run", whole)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
    print(codes, saved, in_checkpoints)
    assert (codes[0], codes[-1], saved[0], saved[-1]) == (2, 0, 0, STEPS)
    assert any(0 < each < STEPS for each in saved), "no quota was reached in the middle of a training"
    assert in_checkpoints > 2


class Deadly(io.FileIO):
    """A file whose writer is killed at the moment when the disk is full."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as full:
            if full.errno == errno.ENOSPC:
                os.kill(os.getpid(), signal.SIGKILL)
            raise


def _deadly() -> None:
    def opened(self: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if "b" in mode and set(mode) & set("wxa"):
            return io.BufferedWriter(Deadly(self, mode.replace("b", "")))
        return io.open(self, mode, *args, **options)  # noqa: UP020  Path.open is what is replaced here

    Path.open = opened  # type: ignore[method-assign]


def test_a_kill_at_the_moment_when_the_disk_is_full(whole: dict[str, bytes], tmp_path: Path) -> None:
    killed = 0
    for pages in range(5, 60, 2):
        with disk(tmp_path / "disk", f"size={4 * pages}k") as place:
            code = wait(start([*TRAIN, str(place / "run")], tmp_path / "log.txt", _deadly))
            killed += code == -signal.SIGKILL
            mount(place, "-o", "remount,size=8m")
            finish(place / "run", whole)
    assert killed > 3


def test_a_disk_that_is_read_only(whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is trained there; what is there can be used."""
    with disk(tmp_path / "disk", "size=8m") as place:
        assert run([*TRAIN, str(place / "run")]) == 0
        mount(place, "-o", "remount,ro")
        for arguments in ([*TRAIN, str(place / "other")], [*RESUME, str(place / "run")]):
            assert run(arguments) == 2
            assert "Read-only file system" in one_line(capsys)
        assert run(["evaluate", str(place / "run"), "--json"]) == 0
        assert run(["runs", str(place), "--json"]) == 0
        assert capsys.readouterr().err == ""
        assert run(["explain", str(place / "run")]) == 2
        assert "Read-only file system" in one_line(capsys)
        assert contents(place / "run") == whole


def _closed_for_a_while(folder: Path) -> None:
    """As another user, to whom the run folder is closed from step 5 to step 9."""
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    advance = Trainer.advance

    def hooked(self: Trainer, batch: Any) -> None:
        advance(self, batch)
        if self.step in (5, 9):
            for each in (folder, folder / "checkpoints", folder / "metrics.jsonl"):
                each.chmod(0o500 if self.step == 5 else 0o700)

    Trainer.advance = hooked  # type: ignore[method-assign]


def test_a_folder_that_may_not_be_written_for_a_while(whole: dict[str, bytes], tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("only root can become another user")
    log, open_to_all = tmp_path / "log.txt", Path(tempfile.mkdtemp())
    open_to_all.chmod(0o755)
    try:
        with disk(open_to_all, "size=8m,mode=777") as place:
            folder = place / "run"
            code = wait(start([*TRAIN, str(folder)], log, partial(_closed_for_a_while, folder)))
            assert code == 0, log.read_text()
            assert "Permission denied" in log.read_text()
            assert "Training goes on" in log.read_text()
            assert contents(folder) == whole
    finally:
        open_to_all.rmdir()


CLOCK = """
import os, sys, time
from pathlib import Path
from recurra.cli.main import run
from recurra.training.loop import Trainer

advance, seen = Trainer.advance, []

def hooked(self, batch):
    Path(os.environ["FAKETIME_TIMESTAMP_FILE"]).write_text(["+0", "+400d", "-30y", "-1d"][self.step % 4])
    seen.append(time.time())
    advance(self, batch)

Trainer.advance = hooked
code = run(sys.argv[1:])
assert any(b < a - 1e8 for a, b in zip(seen, seen[1:])), seen
sys.exit(code)
"""


def test_a_clock_that_is_set_back(whole: dict[str, bytes], tmp_path: Path) -> None:
    """By years, and forth again, at every step, for the whole process."""
    library = find_library("faketime") or next(map(str, Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
    if library is None:
        pytest.skip("libfaketime is not installed")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    fake = {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CLOCK, *TRAIN, str(tmp_path / "run")],
        env=os.environ | fake | {"DONT_FAKE_MONOTONIC": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert contents(tmp_path / "run") == whole
