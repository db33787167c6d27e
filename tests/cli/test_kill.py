"""A run that is killed again and again, or whose last checkpoint is damaged, ends as one that was left in peace, to the byte."""

import json
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from recurra.cli.main import run
from recurra.data.batches import Batch
from recurra.training.loop import Trainer
from tests.cli import test_train
from tests.cli.test_train import outcome, start, train

here = test_train.here

KILLS = 20
STEPS = 3000


def command(out: str) -> list[str]:
    return train("training.save_every=7", "training.validate_every=30", out=out, steps=STEPS)


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process that must still be running."""
    assert process.poll() is None, "the run ended before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def wait_for_change(process: "subprocess.Popen[bytes]", file: Path) -> None:
    """Wait until a file has been made or written to."""
    deadline = time.monotonic() + 60
    before = file.stat() if file.exists() else None
    while not file.exists() or file.stat() == before:
        assert process.poll() is None, "the run ended before it wrote anything"
        assert time.monotonic() < deadline
        time.sleep(0.0005)


@pytest.mark.slow
def test_killed_twenty_times_it_ends_with_the_same_bytes(here: Path) -> None:
    assert run(command("whole")) == 0
    moments = random.Random(0)
    metrics = here / "killed/metrics.jsonl"
    reached = []
    for number in range(KILLS):
        process = start(command("killed") if number == 0 else ["train", "--resume", "killed"])
        if number % 5 == 4:  # while it starts, reads the text and the checkpoint
            time.sleep(moments.uniform(0.5, 3.0))
        else:  # while it rewinds, trains, evaluates and saves
            wait_for_change(process, metrics)
            time.sleep(moments.uniform(0.0, 0.5))
        kill(process)
        reached.append(metrics.read_bytes().count(b"\n"))
    assert reached[-1] > reached[0], "every kill fell before the first checkpoint"
    process = start(["train", "--resume", "killed"])
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert outcome(here / "killed") == outcome(here / "whole")


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    place = len(data) - 5  # among the numbers: safetensors itself would not see it
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


class TestDamaged:
    """The last checkpoint is damaged between two starts of one run."""

    def stop(self, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Train until Ctrl-C in a step."""
        advance = Trainer.advance

        def stopped(self: Trainer, batch: Batch) -> None:
            advance(self, batch)
            if self.step == step:
                signal.raise_signal(signal.SIGINT)

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "advance", stopped)
            assert run(train(steps=20)) == 0

    @pytest.mark.parametrize("step", [14, 12], ids=["between", "at the best"])
    @pytest.mark.parametrize("how", [cut, flip], ids=lambda how: how.__name__)
    @pytest.mark.parametrize("name", ["weights.safetensors", "resume.safetensors"])
    def test_the_one_before_is_used_to_the_same_end(
        self,
        here: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        name: str,
        how: object,
        step: int,
    ) -> None:
        assert callable(how)
        assert run(train(out="whole", steps=20)) == 0
        self.stop(step, monkeypatch)
        checkpoints = here / "run/checkpoints"
        assert json.loads((checkpoints / "last/manifest.json").read_text())["step"] == step
        before = json.loads((checkpoints / "previous/manifest.json").read_text())["step"]
        assert 0 < before < step
        file = checkpoints / "last" / name
        file.write_bytes(how(file.read_bytes()))
        capsys.readouterr()
        assert run(["train", "--resume", "run"]) == 0
        out, err = capsys.readouterr()
        assert out == ""
        (warning,) = [line for line in err.splitlines() if "damaged" in line]
        assert str(Path("run/checkpoints/last")) in warning
        assert name in warning
        assert f"of step {before}, is used" in warning
        assert outcome(here / "run") == outcome(here / "whole")
