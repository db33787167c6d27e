"""A run in training: its folder is made, its settings follow the data, the loop is followed, and the network is compared."""

from __future__ import annotations

import math
import os
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from recurra.errors import OptionError, RecurraError
from recurra.runs.folder import RunFolder
from recurra.tasks.capabilities import Compares, offers
from recurra.tasks.following import belonging, look, train_in_folder
from recurra.tasks.progress import make_display
from recurra.tasks.recipe import follow_data
from recurra.tasks.run import Run
from recurra.tasks.task import Task
from recurra.tasks.tensorboard import find_writer
from recurra.training.soundness import enough_memory

LEAST_SHARE = 0.1
"""The share of the given minutes that the schedule has however long it takes to begin."""


def train_run(
    task: Task[Any],
    run: Run | None,
    *,
    out: str | os.PathLike[str] | None = None,
    minutes: float | None = None,
    monitor: int | None = None,
    tensorboard: bool = False,
    progress: str = "auto",
) -> Run:
    """Train a task in a new folder, or go on with a run. Of several ranks the first makes the folder, and all share it."""
    began, ranks = time.monotonic(), task.ranks
    for name, value, least in (("minutes", minutes, 0), ("monitor", monitor, 1)):
        if value is not None and (not isinstance(value, int | float) or value < least):
            raise OptionError(f"{name} must be a number of at least {least}; got {value!r}.")
    if tensorboard:
        find_writer()  # where it is missing, that is reported before anything is written
    with enough_memory():
        derived = follow_data(task) if run is None else []
        with nullcontext() if run is None else belonging(f"{run.path}: what it keeps of its data"):
            trainer = task.trainer()
    if minutes is not None:
        trainer.fit_into(60 * max(minutes - (time.monotonic() - began) / 60, LEAST_SHARE * minutes))
    if monitor is not None:
        with torch.random.fork_rng():
            look(task, trainer)  # what cannot be followed is reported before anything is written
        trainer.report_every = math.gcd(trainer.report_every, monitor)  # to look at the weights of that very step
    resuming = run is not None
    with make_display(trainer.steps, task.units, progress if ranks.is_first else "none") as display:
        if derived:
            display.say("from the data: " + ", ".join(map(str, derived)))
        if run is None:
            made = Run.create(task, out) if ranks.is_first else None
            path = ranks.share(None if made is None else str(made.path))
            run = made or Run(RunFolder.open(Path(path)), task)
        how: dict[str, Any] = {"monitor": monitor, "tensorboard": tensorboard}
        try:
            with enough_memory():
                run.outcome = train_in_folder(run.folder, task, trainer, display, resume=resuming, **how)
        except RecurraError:
            if ranks.is_first and not resuming:
                run.folder.discard()  # nothing was learned: an empty run would only be in the way
            raise
        for name in ("model", "streamer"):  # there is a better one now
            run.__dict__.pop(name, None)
        if ranks.is_first:
            display.say(f"{run.outcome} Run folder: {run.path}")
        if ranks.world == 1 and not run.outcome.failed and trainer.asked_to_stop is None and offers(task, Compares):
            compared = run.compare()
            if compared is not None:
                run.outcome = replace(run.outcome, comparison=compared)
                display.say(str(compared))
    return run
