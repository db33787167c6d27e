"""What the tests of run folders share: a small checkpoint, and a way to fail at every point of a save."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from recurra.errors import RunError
from recurra.runs.checkpoint import Checkpoint
from recurra.runs.folder import RunFolder

FILES = ("weights.safetensors", "resume.safetensors", "resume.json", "manifest.json")
TOUCHES = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir")
"""The calls by which a save changes the disk, apart from writing into files that nobody reads yet."""


class Killed(BaseException):
    """Stands for a kill: no handler of ordinary errors may run."""


def checkpoint(step: int) -> Checkpoint:
    value = torch.full((3, 2), float(step))
    return Checkpoint(step, {"W": value}, {"moment": value / 2}, {"position": step * 10})


def new_run(path: Path) -> RunFolder:
    return RunFolder.create(path, {"seed": 1})


def assert_whole(found: Checkpoint) -> None:
    """All parts are of one step."""
    assert_weights(found)
    assert torch.equal(found.tensors["moment"], found.weights["W"] / 2)
    assert found.facts == {"position": found.step * 10}


def assert_weights(found: Checkpoint) -> None:
    """The weights are of the step that the checkpoint names."""
    assert torch.equal(found.weights["W"], torch.full((3, 2), float(found.step)))


def fail_at(monkeypatch: pytest.MonkeyPatch, point: int, error: BaseException) -> Callable[[], int]:
    """Make the call number `point` that touches the disk fail; the answer counts the calls so far."""
    count = 0

    def guard(real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == point:
                raise error
            return real(*args, **kwargs)

        return call

    for name in TOUCHES:
        monkeypatch.setattr(os, name, guard(getattr(os, name)))
    return lambda: count


def failure(act: Callable[[], Any]) -> str:
    """What a `RunError` says; nothing if there is none."""
    try:
        act()
    except RunError as error:
        return str(error)
    return ""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
