"""What a report is about: a run, and how much effort is put into looking at it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from recurra.tasks.run import Run


@dataclass(frozen=True)
class Subject:
    """- `steps`, `starts`: how far back gradients are followed, and how many starts a search for fixed points has; left out,
    each section takes what suits the size of the network."""

    run: Run
    steps: int | None = None
    starts: int | None = None

    def command(self, command: str) -> str:
        """A command as it is typed; RUN in it is this run."""
        return "recurra " + re.sub(r"\bRUN\b", lambda _: shlex.quote(str(self.run.path)), command, count=1)


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
