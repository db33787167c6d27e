"""Training on disks that fill up, folders that go away and machines without a compiler: it says so, and nothing saved is lost."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import recurra as rc
from recurra.cli.main import run
from recurra.engines.fused import engine as fused
from recurra.runs import folder as folders
from recurra.runs.checkpoint import Checkpoint
from recurra.runs.folder import RunFolder
from recurra.tasks import engine_note
from recurra.training.loop import Trainer
from tests.faults.kills import contents

TRAIN = [
    *("train", "tomita", "model.hidden_size=4", "training.batch_size=4", "training.steps=12", "training.save_every=2"),
    *("training.validate_every=4", "training.warmup=2", "engine=eager", "--out"),
]


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, bytes]:
    assert run([*TRAIN, str(tmp_path / "whole")]) == 0
    return contents(tmp_path / "whole")


class Disk:
    """A disk on which some saves, or some rows, find no room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, full: Any):
        self.calls = 0
        for module, name in ((folders, "refuse_without_room"), (folders, "append_rows")):
            real = getattr(module, name)

            def call(*args: Any, real: Any = real, name: str = name) -> Any:
                self.calls += 1
                if full(name, self.calls):
                    if name == "append_rows":
                        raise rc.RunError("metrics.jsonl cannot be written: No space left on device.")
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return real(*args)

            monkeypatch.setattr(module, name, call)


@pytest.mark.parametrize(
    "full",
    [
        lambda name, k: name == "refuse_without_room" and k in range(3, 9),
        lambda name, k: name == "append_rows" and k in range(5, 9),
        lambda name, k: k in range(6, 9),
    ],
    ids=["saves", "rows", "both"],
)
def test_a_disk_that_is_full_for_a_while_costs_nothing(
    full: Any,
    whole: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Disk(monkeypatch, full)
    assert run([*TRAIN, str(tmp_path / "run")]) == 0
    assert "No space left on device" in capsys.readouterr().err
    assert contents(tmp_path / "run") == whole


def test_a_disk_that_stays_full_ends_training_with_the_last_good_state(
    whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        Disk(patch, lambda name, k: k > 9)
        assert run([*TRAIN, str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("recurra: ")
    assert RunFolder.open(tmp_path / "run").load().step > 0
    assert run(["train", "--resume", str(tmp_path / "run")]) == 0
    assert contents(tmp_path / "run") == whole


def test_room_is_asked_for_before_a_checkpoint_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.create(tmp_path / "a", {"seed": 1})
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((real[0], real[1], *real[2:4], 0, *real[5:])))
    with pytest.raises(
        rc.RunError, match=r"step 1 cannot be saved: No space left on device: [\d,]+ bytes are needed, and 0"
    ):
        folder.save(Checkpoint(1, {}))
    assert not list((tmp_path / "a/checkpoints").iterdir())


@pytest.mark.parametrize("how", ["moved", "removed"])
def test_a_folder_that_goes_away_while_it_is_trained_in(
    how: str,
    whole: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    advance = Trainer.advance

    def away(self: Trainer, batch: Any) -> None:
        advance(self, batch)
        if self.step == 7:
            (tmp_path / "run").rename(tmp_path / "moved")
            if how == "removed":
                shutil.rmtree(tmp_path / "moved")

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", away)
        assert run([*TRAIN, str(tmp_path / "run")]) == 2
    assert "is gone: it was moved or removed while it was trained in" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "run").exists()
    if how == "moved":
        assert run(["train", "--resume", str(tmp_path / "moved")]) == 0
        assert contents(tmp_path / "moved") == whole


@pytest.mark.parametrize("more", [[], ["training.average=ema:0.9"], ["training.learning_rate=3.0"]], ids=str)
def test_the_bytes_of_best_are_the_same_after_a_resume(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it was stopped: before the best evaluation, at it, or after it, when the resume finds no better one."""
    train = [*TRAIN[:-1], *more, "data.strings=200", "training.validate_every=2", "training.steps=10", "--out"]
    assert run([*train, str(tmp_path / "whole")]) == 0
    expected = contents(tmp_path / "whole")
    assert "checkpoints/best/weights.safetensors" in expected
    advance, stop = Trainer.advance, [0]

    def hooked(self: Trainer, batch: Any) -> None:
        advance(self, batch)
        if self.step == stop[0]:
            self.asked_to_stop = "a test"

    monkeypatch.setattr(Trainer, "advance", hooked)
    for stop[0] in (3, 4, 9):
        folder = tmp_path / f"stopped-{stop[0]}"
        assert run([*train, str(folder)]) == 0
        assert RunFolder.open(folder).load().step == stop[0]
        assert run(["train", "--resume", str(folder)]) == 0
        assert contents(folder) == expected


def test_a_clock_that_is_set_back(whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(10**9, 0, -1000))
    monkeypatch.setattr("time.time", lambda: float(next(times)))
    assert run([*TRAIN, str(tmp_path / "run")]) == 0
    assert contents(tmp_path / "run") == whole


def test_without_a_compiler_the_run_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (fused, engine_note):
        monkeypatch.setattr(module, "find_compiler", lambda: None)
    auto = [each for each in TRAIN if each != "engine=eager"]
    assert run([*auto, str(tmp_path / "run")]) == 0
    assert "from step 0 on: there is no C++ compiler on this machine" in capsys.readouterr().err
    (note,) = [row for row in rc.open(tmp_path / "run").metrics if "engine" in row]
    assert note["engine"] in ("eager", "vendor")
    assert run(["explain", str(tmp_path / "run")]) == 0
    assert "there is no C++ compiler on this machine" in (tmp_path / "run/report.html").read_text()


def test_a_training_that_cannot_begin_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Trainer, batch: Any) -> None:
        raise rc.EngineError("the compiler refused a kernel.")

    monkeypatch.setattr(Trainer, "advance", refuse)
    assert run([*TRAIN, str(tmp_path / "run")]) == 2
    assert not (tmp_path / "run").exists()
