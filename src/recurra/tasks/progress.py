"""What a person sees while a network learns: a live bar on a terminal, plain lines elsewhere. All of it on standard error."""

from __future__ import annotations

import sys
import time
from html import escape
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from recurra.errors import choose_from
from recurra.results import visible
from recurra.training.events import Step, Validated

PAUSE = 2.0
"""Seconds between two plain lines."""


class Display(Protocol):
    """Told about every step and validation, and given remarks and glimpses of what the model outputs."""

    def step(self, event: Step, speed: float) -> None: ...

    def validated(self, event: Validated) -> None: ...

    def say(self, line: str) -> None: ...

    def glimpse(self, text: str) -> None: ...

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Silent:
    """For the ranks that are not the first."""

    def step(self, event: Step, speed: float) -> None: ...

    def validated(self, event: Validated) -> None: ...

    def say(self, line: str) -> None: ...

    def glimpse(self, text: str) -> None: ...

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Lines(Silent):
    """A line every two seconds, one for each validation, one for each step that was skipped."""

    def __init__(self, steps: int, units: str):
        self.steps, self.units = steps, units
        self._shown = 0.0
        self._first: tuple[int, float] | None = None

    def step(self, event: Step, speed: float) -> None:
        now = time.monotonic()
        self._first = self._first or (event.step - 1, now)
        if now - self._shown < PAUSE and not event.skipped:
            return
        self._shown = now
        step, began = self._first
        steps = event.planned or self.steps
        left = (steps - event.step) * (now - began) / max(1, event.step - step)
        self.say(
            f"step {event.step}/{steps}  loss {event.loss:.4f}  gradient {event.gradient_norm:.3f}  "
            f"{speed:,.0f} {self.units}/s  {left:.0f} s left" + ("  SKIPPED: not a number" if event.skipped else "")
        )

    def validated(self, event: Validated) -> None:
        self.say(f"step {event.step}  validation {event.valid:.4f}{' (best)' if event.is_best else ''}")

    def say(self, line: str) -> None:
        print(visible(line), file=sys.stderr, flush=True)

    def glimpse(self, text: str) -> None:
        self.say("  | " + text.strip().replace("\n", "\n  | "))


class Live(Silent):
    """A bar with the figures of the last step; validations and glimpses scroll by above it."""

    def __init__(self, steps: int, units: str, console: Console):
        self.steps, self.units = steps, units
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss [b]{task.fields[loss]}[/b]  valid [b]{task.fields[valid]}[/b]"),
            TextColumn("[dim]gradient {task.fields[gradient]}  {task.fields[speed]}{task.fields[skipped]}[/dim]"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task("", total=steps, loss="…", valid="…", gradient="…", speed="", skipped="")
        self._skipped = 0

    def step(self, event: Step, speed: float) -> None:
        self._skipped += event.skipped
        self._bar.update(
            self._task,
            completed=event.step,
            total=event.planned or self.steps,
            loss=f"{event.loss:.4f}",
            gradient=f"{event.gradient_norm:.2f}",
            speed=f"{speed:,.0f} {self.units}/s",
            skipped=f"  [red]{self._skipped} skipped[/red]" if self._skipped else "",
        )

    def validated(self, event: Validated) -> None:
        self._bar.update(self._task, valid=f"{event.valid:.4f}")
        self.say(f"step {event.step}  validation {event.valid:.4f}{' (best)' if event.is_best else ''}")

    def say(self, line: str) -> None:
        self._bar.console.print(visible(line), markup=False, highlight=False)

    def glimpse(self, text: str) -> None:
        self._bar.console.print(Panel(Text(visible(text.strip())), border_style="dim", title="a glimpse", width=100))

    def __enter__(self) -> Live:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


class Notebook(Silent):
    """A block below the cell that is written over: what is trained, a bar with the figures of the last step, and how it ended."""

    def __init__(self, steps: int, units: str):
        self.steps, self.units = steps, units
        self._lines: list[str] = []
        self._bar: list[str] = []
        self._valid, self._shown = "", 0.0
        self._handle: Any = None

    def step(self, event: Step, speed: float) -> None:
        steps = event.planned or self.steps
        done = 30 * event.step // steps
        figures = f"{event.step}/{steps}  loss {event.loss:.4f}  {speed:,.0f} {self.units}/s"
        self._bar = [f"{'━' * done}{'┈' * (30 - done)} {figures}"]
        if time.monotonic() - self._shown > PAUSE / 4:
            self._show()

    def validated(self, event: Validated) -> None:
        self._valid = f"  valid {event.valid:.4f}"

    def say(self, line: str) -> None:
        self._lines.append(line)
        self._show()

    def _show(self) -> None:
        notebook: Any = import_module("IPython.display")  # there, since this is a notebook
        self._shown = time.monotonic()
        bar = [line + self._valid for line in self._bar]
        text = "\n".join([*self._lines[:1], *bar, *self._lines[1:]])
        block = notebook.HTML(f"<pre>{escape(text)}</pre>")
        if self._handle is None:
            self._handle = notebook.display(block, display_id=True)
        else:
            self._handle.update(block)


def make_display(steps: int, units: str, progress: str = "auto") -> Display:
    """The display that suits where standard error goes.

    - `progress`: `lines` prints plain lines where there is no terminal, `auto` is quiet there (a notebook has a bar), `none` is
      quiet everywhere.
    """
    choose_from("progress", progress, ("auto", "lines", "none"))
    console = Console(stderr=True)
    if progress == "none" or (progress == "auto" and not (console.is_terminal or console.is_jupyter)):
        return Silent()
    if console.is_jupyter:
        return Notebook(steps, units)
    return Live(steps, units, console) if console.is_terminal else Lines(steps, units)
