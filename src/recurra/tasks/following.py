"""Follow a training loop: every event to the metrics, to the checkpoints and to the display. Ctrl-C and SIGTERM save and stop."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import current_thread, main_thread
from typing import Any

from recurra.analysis.gradients import gradient_flow
from recurra.errors import RunError, ShapeError
from recurra.results import Result
from recurra.runs.checkpoint import Checkpoint
from recurra.runs.folder import RunFolder
from recurra.tasks.capabilities import Glimpses, Probes, find, offers
from recurra.tasks.engine_note import engine_sentence, note_engine
from recurra.tasks.keeping import Keeper
from recurra.tasks.progress import Display
from recurra.tasks.results import Comparison
from recurra.tasks.tensorboard import Board
from recurra.training.events import Finished, Measured, Save, Snapshot, Step, Validated
from recurra.training.loop import Loop
from recurra.training.soundness import enough_memory

GLIMPSES = 20.0
"""Seconds between two glimpses of what the model outputs, at least."""


@dataclass(frozen=True)
class Outcome(Result):
    """How training ended: why, at which step, and the best validation. `failed`: the weights are no longer finite.
    `comparison`: where the schedule was finished, the network beside its baselines on validation data."""

    why: str
    failed: bool
    step: int
    valid: float | None
    skipped: int
    seconds: float
    tokens_per_second: int
    comparison: Comparison | None = None

    def __str__(self) -> str:
        return self.why.removesuffix(".") + ("." if self.valid is None else f"; best validation {self.valid:.4f}.")


def train_in_folder(
    folder: RunFolder,
    task: Any,
    trainer: Loop,
    display: Display,
    *,
    resume: bool = False,
    monitor: int | None = None,
    tensorboard: bool = False,
) -> Outcome:
    """Train, and keep what the run folder keeps. Ranks other than the first take part, and write nothing."""
    first = task.ranks.is_first
    with folder.lock() if first else nullcontext():
        if resume and folder.has():
            checkpoint = folder.load(notice=display.say)
            restore(trainer, checkpoint, folder)
            if first:
                folder.rewind(checkpoint.step, display.say)
        elif resume and first:  # it was stopped before its first checkpoint, and starts again
            if folder.keeps_best:
                display.say(
                    f"{folder.path} has a best checkpoint and no last one to go on from: training starts again."
                )
            folder.rewind(0, display.say)
        if not first:
            return follow(trainer, task, display)
        world = f", {task.ranks.world} ranks" if task.ranks.world > 1 else ""
        display.say(
            f"{task.settings.name}: {task.about_data}; {task.about_model(trainer.model)}{world} → {folder.path}"
        )
        rows = folder.metrics() if resume else []
        note = note_engine(trainer.model, getattr(task.settings.training, "batch_size", 1), rows, trainer.step)
        if note is not None:
            display.say(f"engine {engine_sentence(note)}.")
            folder.append([note])
        board = Board(folder.path / "tensorboard") if tensorboard else None
        try:
            return follow(trainer, task, display, folder, board, monitor)
        finally:
            if board is not None:
                board.close()


def restore(trainer: Loop, checkpoint: Checkpoint, folder: RunFolder) -> None:
    """Go on from a checkpoint; one that holds other things than this training needs is refused in a line."""
    with belonging(f"{folder.path}: the checkpoint of step {checkpoint.step}"):
        trainer.restore(checkpoint)


@contextmanager
def belonging(what: str) -> Iterator[None]:
    """An error inside means that what a run folder keeps does not fit this run: it becomes one line. So does a lack of memory."""
    try:
        with enough_memory():
            yield
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError, AssertionError) as error:
        raise RunError(
            f"{what} does not fit this run ({type(error).__name__}: {str(error)[:120]}). It is of another training or was "
            "changed by hand."
        ) from error


class _Stop:
    """Ctrl-C and SIGTERM ask the loop to end after the step that is running."""

    def __init__(self) -> None:
        self.asked: str | None = None
        # only the main thread may handle signals; in another one, whoever started it decides
        numbers = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()
        self._before = {number: signal.signal(number, self._ask) for number in numbers}

    def _ask(self, number: int, frame: Any) -> None:
        self.asked = signal.Signals(number).name

    def close(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def look(task: Any, trainer: Loop) -> dict[str, Any]:
    """How gradients go back through time just now; nothing where the state is not finite."""
    probe = find(task, Probes, "monitor").probe(trainer.model, 80)
    try:
        flow = gradient_flow(probe.layer, probe.x[0].cpu(), steps=50)
    except ShapeError:
        return {}
    found = {"gradient_slope": flow.verdict.slope, "largest_lyapunov_exponent": float(flow.lyapunov[0])}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def follow(
    trainer: Loop,
    task: Any,
    display: Display,
    folder: RunFolder | None = None,
    board: Board | None = None,
    monitor: int | None = None,
) -> Outcome:
    """Every event of the training until it ends; without a folder nothing is kept."""
    began = last = time.monotonic()
    stop, tokens, why, failed = _Stop(), 0, "", False

    keeper, last_save = Keeper(folder, board, display), None
    keep = keeper.row
    try:
        for event in trainer.events():
            now = time.monotonic()
            match event:
                case Step():
                    tokens += event.tokens
                    row = {"step": event.step, "loss": event.loss, "gradient_norm": event.gradient_norm}
                    row |= {"learning_rate": event.learning_rate} | ({"skipped": True} if event.skipped else {})
                    keep(row)
                    if monitor is not None and event.step % monitor == 0:
                        keep({"step": event.step} | look(task, trainer))
                    display.step(event, tokens / max(1e-9, now - began))
                case Measured():
                    keep({"step": event.step} | event.values)
                case Validated():
                    keep({"step": event.step, "valid": event.valid})
                    display.validated(event)
                    if folder is not None and now - last > GLIMPSES and offers(task, Glimpses):
                        last = now
                        display.glimpse(task.glimpse(trainer.evaluated) or "")
                case Save():
                    last_save = event.make()
                    keeper.save(last_save, is_best=event.is_best)
                case Snapshot():
                    keeper.keep(event.make())
                case Finished():
                    why, failed = event.why, event.failed
                    keeper.close(None if failed else last_save)
            if stop.asked:
                trainer.asked_to_stop = f"stopped by {stop.asked}, saved"
    finally:
        stop.close()
    seconds = round(time.monotonic() - began, 3)
    valid = trainer.best if trainer.best < math.inf else None
    return Outcome(why, failed, trainer.step, valid, trainer.skipped, seconds, round(tokens / max(seconds, 1e-3)))
