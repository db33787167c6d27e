from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli.output import AsJson, print_json

if TYPE_CHECKING:
    from recurra.cli.progress import Display
    from recurra.runs.folder import RunFolder
    from recurra.tasks.task import Settings, Task
    from recurra.training.distributed import Ranks
    from recurra.training.loop import Loop

GLIMPSES = 20.0
"""Seconds between two glimpses of what the model says, at least."""


def train(
    recipe: Annotated[
        str, typer.Argument(help="A recipe (see `recurra recipes`), or a first KEY=VALUE.")
    ] = "python-source",
    settings: Annotated[list[str] | None, typer.Argument(help="Settings of the recipe, KEY=VALUE each.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/RECIPE-N otherwise.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Save and stop after this many minutes.")] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write RUN/tensorboard; needs the extra `log`.")
    ] = False,
    monitor: Annotated[
        int | None, typer.Option(min=1, help="Every so many steps, also log how gradients go back through time.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model; Ctrl-C saves and stops, --resume goes on. `torchrun -m recurra train …` for several processes."""
    from recurra.cli.progress import make_display
    from recurra.cli.tensorboard import find_writer
    from recurra.errors import OptionError
    from recurra.runs.folder import RunFolder
    from recurra.tasks.catalogue import begin, find_recipe, read_recipe
    from recurra.tasks.settings import override
    from recurra.training.distributed import join

    if tensorboard:
        find_writer()  # where it is missing, that is said before anything is written
    assignments = list(settings or [])
    if "=" in recipe:
        assignments, recipe = [recipe, *assignments], "python-source"
    folder: RunFolder | None = None
    if resume is not None:
        if assignments or out is not None or recipe != "python-source":
            raise OptionError(
                "--resume goes on with the recipe in the run folder: give no recipe, no settings and no --out with it."
            )
        folder = RunFolder.open(resume)
        plan = read_recipe(folder)
    else:
        plan = override(find_recipe(recipe), assignments)

    with join(plan.device) as ranks:
        task = begin(plan, ranks, folder.vocabulary if folder is not None else None)
        trainer = task.trainer()
        if monitor is not None:
            from torch.random import fork_rng

            with fork_rng():
                _look(task, trainer)  # what cannot be followed is said before anything is written
            trainer.report_every = math.gcd(trainer.report_every, monitor)  # to look at the weights of that very step
        with make_display(trainer.steps, task.units, is_first=ranks.is_first) as display:
            if folder is None and ranks.is_first:
                folder = _create(plan, task, out)
            if folder is None:
                result = _follow(trainer, display)
            else:
                result = _lead(folder, trainer, task, ranks, display, minutes, tensorboard, monitor, resume is not None)
        if not ranks.is_first or folder is None:
            return
    result |= {"run": str(folder.path)}
    if as_json:
        print_json(result)
    else:
        best = "none yet" if result["valid"] is None else f"{result['valid']:.4f}"
        display.say(f"{result['why']}; best validation {best}. Run folder: {folder.path}")
        verbs = (*task.verbs, "explain", "train --resume")
        display.say("next: " + "   ".join(f"recurra {verb} {folder.path}" for verb in verbs))
    if result["failed"]:
        raise typer.Exit(1)


def _create(plan: Settings, task: Task[Any], out: Path | None) -> RunFolder:
    from recurra.runs.folder import RunFolder
    from recurra.tasks.settings import to_dict

    path, k = out, 1
    while path is None or (out is None and path.exists()):
        path, k = Path("runs") / f"{plan.name}-{k}", k + 1
    return RunFolder.create(path, to_dict(plan), task.vocabulary)


def _lead(
    folder: RunFolder,
    trainer: Loop,
    task: Task[Any],
    ranks: Ranks,
    display: Display,
    minutes: float | None,
    tensorboard: bool,
    monitor: int | None,
    resuming: bool,
) -> dict[str, Any]:
    """Train, and keep what the run folder keeps. Ranks other than the first come here to resume, and write nothing."""
    from contextlib import nullcontext

    from recurra.cli.tensorboard import Board

    with folder.lock() if ranks.is_first else nullcontext():
        if resuming and folder.has():
            checkpoint = folder.load(notice=display.say)
            trainer.restore(checkpoint)
            if ranks.is_first:
                folder.rewind(checkpoint.step)
        elif resuming and ranks.is_first:  # it was stopped before its first checkpoint, and starts again
            folder.rewind(0)
        if not ranks.is_first:
            return _follow(trainer, display)
        board = Board(folder.path / "tensorboard") if tensorboard else None

        def keep(row: dict[str, Any]) -> None:
            folder.append([row])
            if board is not None:
                board.add(row)

        display.say(_headline(trainer, task, folder))
        try:
            return _run(trainer, display, keep, folder, task, minutes, monitor)
        finally:
            if board is not None:
                board.close()


def _headline(trainer: Loop, task: Task[Any], folder: RunFolder) -> str:
    plan = task.settings
    ranks = f", {task.ranks.world} ranks" if task.ranks.world > 1 else ""
    return f"{plan.name}: {task.about_data}; {task.about_model(trainer.model)}{ranks} → {folder.path}"


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


def _follow(trainer: Loop, display: Display) -> dict[str, Any]:
    """Train on a rank that is not the first: it takes part in checkpoints and writes none."""
    return _run(trainer, display, lambda row: None, None, None, None)


def _look(task: Task[Any], trainer: Loop) -> dict[str, Any]:
    """How gradients go back through time just now; nothing where the state is no number."""
    from recurra.analysis.gradients import gradient_flow
    from recurra.errors import ShapeError

    probe = task.probe(trainer.model, 80)
    try:
        flow = gradient_flow(probe.layer, probe.x[0].cpu(), steps=50)
    except ShapeError:
        return {}
    found = {"gradient_slope": flow.verdict.slope, "largest_lyapunov_exponent": float(flow.lyapunov[0])}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _run(
    trainer: Loop,
    display: Display,
    keep: Callable[[dict[str, Any]], None],
    folder: RunFolder | None,
    task: Task[Any] | None,
    minutes: float | None,
    monitor: int | None = None,
) -> dict[str, Any]:
    """Every event of the training: to the metrics, to the checkpoints, to the display."""
    from recurra.training.loop import Finished, Measured, Save, Step, Validated

    began = last = time.monotonic()
    stop, tokens = _Stop(), 0
    result: dict[str, Any] = {"failed": False, "why": ""}
    try:
        for event in trainer.events():
            now = time.monotonic()
            match event:
                case Step():
                    tokens += event.tokens
                    row = {"step": event.step, "loss": event.loss, "gradient_norm": event.gradient_norm}
                    row |= {"learning_rate": event.learning_rate} | ({"skipped": True} if event.skipped else {})
                    keep(row)
                    if monitor is not None and task is not None and event.step % monitor == 0:
                        keep({"step": event.step} | _look(task, trainer))
                    display.step(event, tokens / max(1e-9, now - began))
                case Measured():
                    keep({"step": event.step} | event.values)
                case Validated():
                    keep({"step": event.step, "valid": event.valid})
                    display.validated(event)
                    if task is not None and now - last > GLIMPSES:
                        last = now
                        text = task.glimpse(trainer.evaluated)
                        if text:
                            display.glimpse(text)
                case Save():
                    checkpoint = event.make()
                    if folder is not None:
                        folder.save(checkpoint, best=event.is_best)
                case Finished():
                    result |= {"why": event.why, "failed": event.failed}
            if stop.asked:
                trainer.asked_to_stop = f"stopped by {stop.asked}, saved"
            elif minutes is not None and now - began > 60 * minutes:
                trainer.asked_to_stop = f"{minutes:g} minutes are over"
    finally:
        stop.close()
    valid = trainer.best if trainer.best < float("inf") else None
    seconds = round(time.monotonic() - began, 3)
    return result | {
        "step": trainer.step,
        "valid": valid,
        "skipped": trainer.skipped,
        "seconds": seconds,
        "symbols_per_second": round(tokens / max(seconds, 1e-3)),
    }
