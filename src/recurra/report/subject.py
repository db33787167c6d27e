"""What a report is about: a run, its model as trained so far, and how much effort is put into looking at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recurra.runs.folder import RunFolder
from recurra.tasks.catalogue import open_run, open_task
from recurra.tasks.task import Probe, Task


@dataclass(frozen=True)
class Subject:
    """A run. `is_trained` is false while it has no checkpoint: then the model is the one that training starts from.

    - `steps`, `starts`: how far back gradients are followed, and how many starts a search for fixed points has; left out,
      each section takes what suits the size of the network.
    """

    folder: RunFolder
    task: Task[Any]
    model: Any
    is_trained: bool
    steps: int | None = None
    starts: int | None = None
    _probes: dict[int, Probe] = field(default_factory=dict, repr=False)

    def probe(self, steps: int) -> Probe:
        """Typical inputs; those of one length are made once."""
        if steps not in self._probes:
            self._probes[steps] = self.task.probe(self.model, steps)
        return self._probes[steps]

    def command(self, command: str) -> str:
        """A command as it is typed; RUN in it is this run."""
        return "recurra " + command.replace("RUN", str(self.folder.path))


def open_subject(path: Path, steps: int | None = None, starts: int | None = None) -> Subject:
    """The run in a folder, also one that has no checkpoint yet."""
    folder = RunFolder.open(path)
    if folder.has("best") or folder.has("last"):
        return Subject(*open_run(path), True, steps, starts)
    task = open_task(folder)
    return Subject(folder, task, task.untrained_model(), False, steps, starts)
