"""A run on disk.

    recipe.json  vocabulary.json  cell.json  manifest.json  metrics.jsonl  checkpoints/last/  checkpoints/best/
    explain/  report.html

Whatever moment a process is killed at, the folder holds a sound checkpoint of the last save that finished, or of the one
that was under way. Every save replaces `last` and keeps the one before as `previous` (`previous-best` for `best`). Weights
that are kept on the way stand beside them as `step-000123`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from recurra.errors import RunError, RunWarning, choose_from
from recurra.runs.checkpoint import Checkpoint, manifest_digest, open_checkpoint, read_checkpoint, read_manifest
from recurra.runs.creation import CELLS, RECIPE, VOCABULARY, difference, fill, refuse_unless_free
from recurra.runs.disk import (
    is_abandoned,
    reason,
    refuse_without_room,
    sync_folder,
    to_json,
    write_file,
    writing_name,
)
from recurra.runs.lock import LOCK, hold
from recurra.runs.manifest import MANIFEST, Damage, Manifest, refuse_ways_out
from recurra.runs.metrics import append_rows, glance, read_rows, rewind_rows
from recurra.runs.reading import read_object

METRICS, CHECKPOINTS = "metrics.jsonl", "checkpoints"
MOST_RECIPE = 1 << 24
INSIDE = "{run}/"
"""How a recipe names a file of its own run folder."""
BEFORE = {"last": "previous", "best": "previous-best"}
_OF_A_PROCESS = re.compile(r"/(dev/(?!shm/)|proc/|sys/)")
"""Paths of what is no file on a disk: pipes and descriptors (`/dev/stdin`), and what the kernel tells."""
_SNAPSHOT = re.compile(r"step-(\d{6,})")


class RunFolder:
    """One run's folder: made by `RunFolder.create`, found again by `RunFolder.open`.

    Whoever writes holds `lock()`; reading needs none.

    ```python
    folder = RunFolder.create(Path("runs/a"), recipe, vocabulary)
    with folder.lock():
        folder.append([{"step": 1, "loss": 4.2}])
        folder.save(Checkpoint(1, model.state_dict(), tensors, facts))
    ```
    """

    def __init__(self, path: Path, recipe: dict[str, Any], *, trust: bool = False, strict: bool = False) -> None:
        self.path = path
        self.recipe = recipe
        self.trust, self.strict = trust, strict
        self.manifest = Manifest(path)
        self.damaged: list[Damage] = []
        self.notice: Callable[[str], None] | None = None
        self._sound: set[str] = set()  # the checkpoints that this object wrote: no need to verify them before they move

    @classmethod
    def create(
        cls,
        path: Path,
        recipe: dict[str, Any],
        vocabulary: dict[str, Any] | None = None,
        *,
        cells: dict[str, Any] | None = None,
        data: Path | None = None,
        resume: bool = False,
    ) -> RunFolder:
        """A new run folder, whole or not at all; parents are made.

        - `path`: does not exist or is empty. With `resume`, it may be a run folder of the same recipe and vocabulary.
        - `cells`: cells of the user's own, without code. `data`: a file or folder to keep in it, under its own name.
        """
        path = Path(path)
        texts = {RECIPE: to_json(recipe, "recipe", pretty=True)}
        if vocabulary is not None:
            texts[VOCABULARY] = to_json(vocabulary, "vocabulary", pretty=True)
        if cells is not None:
            texts[CELLS] = to_json(cells, "cells", pretty=True)
        is_new = False
        try:
            if resume and (path / RECIPE).exists():
                return _reopen(path, texts)
            refuse_unless_free(path)
            is_new = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            with hold(path):
                refuse_unless_free(path)  # now that no other process can be making it
                try:
                    fill(path, texts, data)
                except OSError:
                    with suppress(OSError):
                        (path / LOCK).unlink()
                    raise
        except (OSError, RunError) as error:
            if is_new:
                with suppress(OSError):  # refused where somebody else has begun to fill it
                    path.rmdir()
            if isinstance(error, RunError):
                raise
            raise RunError(f"{path} cannot be made: {reason(error)}.") from error
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, *, trust: bool = False, strict: bool = False, glance: bool = False) -> RunFolder:
        """The run folder at `path`; an error says what it lacks.

        - `trust`: it is the user's own: links may lead out of it, and cells in Python files are run. `strict`: whatever is
          damaged is an error. `glance`: for a list of runs, only the recipe is looked at.
        """
        path = Path(path)
        try:
            if not path.is_dir():
                raise RunError(f"{path} is not a run folder: it {'is a file' if path.exists() else 'does not exist'}.")
            if not (path / RECIPE).is_file():
                raise RunError(f"{path} is not a run folder: {RECIPE} is missing.")
        except OSError as error:
            raise RunError(f"{str(path)[:200]} cannot be opened: {reason(error)}.") from error
        except ValueError as error:  # a name with a zero byte
            raise RunError(f"{str(path)[:200]!r} cannot be opened: {error}.") from error
        if not trust and not glance:
            refuse_ways_out(path)
        folder = cls(path, read_object(path / RECIPE, MOST_RECIPE), trust=trust, strict=strict)
        for name in (RECIPE,) if glance else (RECIPE, VOCABULARY, CELLS):
            folder.verify(name)
        return folder

    def verify(self, name: str) -> None:
        """Refuse a file that nothing can stand in for, if it is not as it was written."""
        why = self.manifest.check(name)
        if why:
            raise RunError(
                f"{self.path}: {why}. Put back a copy of it; or, if you changed it yourself, delete {MANIFEST}, and the files "
                "are taken as they are."
            )

    def tell(self, damage: Damage, notice: Callable[[str], None] | None = None) -> None:
        """Name what is damaged, once; with `strict`, refuse it."""
        if damage in self.damaged:
            return
        if self.strict:
            found = Damage(damage.file, damage.found)
            raise RunError(f"{self.path}: {found} Nothing else is used in its place, since --strict (strict=True).")
        self.damaged.append(damage)
        self.say(str(damage), notice)

    def say(self, sentence: str, notice: Callable[[str], None] | None = None) -> None:
        """Tell whoever listens something about the folder."""
        listener = notice or self.notice
        if listener is not None:
            listener(f"{self.path}: {sentence}")

    def look_over(self) -> None:
        """Name what is damaged besides checkpoints: the manifest, and rows of the metrics."""
        if self.manifest.why:
            self.tell(Damage(MANIFEST, self.manifest.why, "the files are used without a check"))
        last = read_manifest(self.path / CHECKPOINTS / "last")
        if last is not None and not self.manifest.is_there and "run" in last[0]:
            self.tell(Damage(MANIFEST, "it is missing", "the files are used without a check"))
        reached = self._look_at_rows(parsed=True)[1]
        if last is None and not self.has() and not self.has("best") and reached >= self._first_save():
            self.tell(Damage(CHECKPOINTS, f"it is missing, and the metrics go to step {reached}"))

    def _look_at_rows(self, *, parsed: bool) -> tuple[list[dict[str, Any]], int]:
        """The rows that a list of runs shows, and the step that they end at. What is damaged is named, and what is missing at the
        end: every row is written before the checkpoint of its step."""
        log = glance(self.path / METRICS, checked=self.manifest.is_there, run=self._run, parsed=parsed)
        self._tell_lines(log.damaged)
        reached = log.rows[-1]["step"] if log.rows else 0
        last, best = (read_manifest(self.path / CHECKPOINTS / which) for which in ("last", "best"))
        missing = ""
        if last is not None and reached < last[0]["step"]:
            missing = f"it ends at step {reached}, and the last checkpoint is of step {last[0]['step']}"
        elif last is not None and best is not None and best[0]["step"] <= last[0]["step"] and not log.damaged:
            step = best[0]["step"]
            if not any("valid" in row and row["step"] == step for row in log.rows):
                missing = f"the row with the validation of step {step}, that of the best checkpoint, is missing"
        if missing:
            self.tell(Damage(METRICS, missing, "the rows that are there are used"))
        return log.rows, reached

    def _first_save(self) -> float:
        """The step by which there should be a checkpoint."""
        training = self.recipe.get("training")
        found = [training.get(name) for name in ("save_every", "steps")] if isinstance(training, dict) else []
        return min((each for each in found if type(each) is int), default=math.inf)

    @cached_property
    def vocabulary(self) -> dict[str, Any] | None:
        """The vocabulary, of runs that have one."""
        file = self.path / VOCABULARY
        return read_object(file) if file.exists() else None

    @cached_property
    def cells(self) -> dict[str, Any]:
        """The cells of the user's own that the run was trained with, as they were stored."""
        file = self.path / CELLS
        return read_object(file, MOST_RECIPE) if file.exists() else {}

    def resolved_recipe(self) -> dict[str, Any]:
        """The recipe, with paths of data that the folder itself holds (`{run}/…`) as they are now."""

        def resolved(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: resolved(each) for name, each in value.items()}
            if isinstance(value, str) and value.startswith(INSIDE):
                return str(self._inside(value.removeprefix(INSIDE)))
            if isinstance(value, str) and _OF_A_PROCESS.match(os.path.abspath(value[:4096].replace("\0", ""))):
                return f"{value} of the process that trained"  # not that of this one, which would wait for it
            return value

        found: dict[str, Any] = resolved(self.recipe)
        return found

    def _inside(self, name: str) -> Path:
        """The path of what the folder holds; a name that leads out of it is refused, and so is data that is damaged."""
        path = self.path / name
        if name.startswith("/") or ".." in Path(name).parts or "\0" in name:
            raise RunError(f"{self.path}: {RECIPE} names {INSIDE + name[:80]!r}, which leads out of the run folder.")
        if os.path.lexists(path):  # where it is not, whoever needs it says so: the model can be used without its data
            self.verify(name)
        return path

    @property
    def explain(self) -> Path:
        """Where pictures and tables about the trained model go."""
        return self.path / "explain"

    @property
    def report(self) -> Path:
        """The page that tells the run's story."""
        return self.path / "report.html"

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def lock(self) -> AbstractContextManager[None]:
        """Be the run's only writer, until the block or the process ends. A second one is refused at once."""
        return hold(self.path)

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Add rows to the metrics, each with its `step`. Equal rows give equal bytes.

        The rows of a step come before the checkpoint of that step: then a resume, which rewinds to a checkpoint, gives the
        log of a run that was never stopped.
        """
        append_rows(self.path / METRICS, rows, self._run)

    def metrics(self) -> list[dict[str, Any]]:
        """Every row, in order. A last line that is still being written is left out, and so are damaged ones, which are named."""
        log = read_rows(self.path / METRICS, checked=self.manifest.is_there, run=self._run)
        self._tell_lines(log.damaged)
        return log.rows

    def glance(self) -> list[dict[str, Any]]:
        """The rows that a list of runs shows: those with a validation, and the last."""
        if self.manifest.why:
            self.tell(Damage(MANIFEST, self.manifest.why, "the files are used without a check"))
        return self._look_at_rows(parsed=False)[0]

    def rewind(self, step: int, notice: Callable[[str], None] | None = None) -> None:
        """Drop the rows after `step` and whatever is not a row; the bytes of the rest stay as they are."""
        self._tell_lines(rewind_rows(self.path / METRICS, step, self._run), notice)

    def _tell_lines(self, damaged: list[int], notice: Callable[[str], None] | None = None) -> None:
        if damaged:
            some = ", ".join(map(str, damaged[:5])) + (" …" if len(damaged) > 5 else "")
            lines = f"line {some} is" if len(damaged) == 1 else f"lines {some} are"
            self.tell(Damage(METRICS, f"{lines} damaged or not in place", "the other lines are used"), notice)

    def has(self, which: str = "last") -> bool:
        """Whether such a checkpoint has been saved: `last` or `best`."""
        names = (choose_from("checkpoint", which, BEFORE), BEFORE[which])
        return any((self.path / CHECKPOINTS / name).is_dir() for name in names)

    def discard(self) -> None:
        """Remove a new folder in which nothing was made: it has neither rows nor checkpoints."""
        if not (self.path / METRICS).exists() and not (self.path / CHECKPOINTS).exists():
            shutil.rmtree(self.path, ignore_errors=True)

    def save(self, checkpoint: Checkpoint, best: bool | Checkpoint = False) -> None:
        """Replace `last` (and, with `best`, `best`, which keeps the weights alone, or those of the checkpoint that is given).
        On an error the folder is as it was."""
        folder = self.path / CHECKPOINTS
        run = {} if self._run is None else {"run": self._run}
        # best first: a kill between the two must not leave a `last` that takes for granted a `best` that is not there
        better = best if isinstance(best, Checkpoint) else checkpoint
        files = {"best": better.weights_only().to_files(kind="best", **run)} if best else {}
        belongs = {"best": manifest_digest(files["best"])} if best else self._best_digest()
        files["last"] = checkpoint.to_files(kind="last", **run, **belongs)
        try:
            self._settle(folder)
            refuse_without_room(folder, sum(len(data) for each in files.values() for data in each.values()))
            for name, each in files.items():
                _write_checkpoint(folder / writing_name(name), each)
            for name in files:
                self._promote(folder / writing_name(name), folder / name)
            sync_folder(folder)
        except OSError as error:
            for name in files:
                shutil.rmtree(folder / writing_name(name), ignore_errors=True)
            if not self.path.is_dir():
                raise RunError(
                    f"{self.path} is gone: it was moved or removed while it was trained in. What was saved is where it went; "
                    f"step {checkpoint.step} is not."
                ) from error
            kept = "; the checkpoint before it is kept" if self.has() else ""
            raise RunError(f"{folder}: step {checkpoint.step} cannot be saved: {reason(error)}{kept}.") from error

    @cached_property
    def _run(self) -> str | None:
        """What tells checkpoints and metrics of this run from those of another; `None` where there is no sound manifest."""
        if not self.manifest.is_there or self.manifest.why:
            return None
        try:
            return hashlib.sha256((self.path / MANIFEST).read_bytes()).hexdigest()[:32]
        except OSError:
            return None

    def _best_digest(self) -> dict[str, str]:
        found = read_manifest(self.path / CHECKPOINTS / "best")
        return {} if found is None else {"best": found[1]}

    def load(self, which: str = "last", notice: Callable[[str], None] | None = None) -> Checkpoint:
        """The checkpoint, every byte of it verified.

        - `which`: `last` or `best`.
        - `notice`: is told, in one sentence, when that one is missing or damaged and the one before is used.
        """
        folder, before = self.path / CHECKPOINTS, BEFORE[choose_from("checkpoint", which, BEFORE)]
        if not self.has(which) and not (which == "best" and self.keeps_best):
            raise RunError(f"{self.path} has no {which} checkpoint yet.")
        why = ""
        for _ in range(4):  # a writer may be between its two renames: look again before it is called damaged
            try:
                return self._read(which)
            except RunError as error:
                why = str(error)
            time.sleep(0.005)
        try:
            found = self._read(before, stands_in=True)
        except RunError as error:
            raise RunError(
                f"{self.path} has no sound {which} checkpoint: in {which}, {why}; in {before}, {error}."
            ) from error
        # what is missing of a kill between two renames is no damage: the one before is the last that was saved
        instead = f"the checkpoint before it, of step {found.step}, is used instead"
        damage = Damage(f"{CHECKPOINTS}/{which}", f"cannot be used ({why})", instead)
        self.tell(damage, None if notice is None else lambda _: notice(f"{folder / which} {damage.found}; {instead}."))
        return found

    def load_evaluated(self) -> Checkpoint:
        """The checkpoint that a run is evaluated with: `best`, or `last` where no best was kept or none is sound."""
        if not self.keeps_best:
            return self.load("last")
        try:
            return self.load("best")
        except RunError as error:
            if self.strict or not self.has("last"):
                raise
            found = self.load("last")
            why = str(error).removeprefix(f"{self.path} ").removesuffix(".")
            self.tell(Damage(f"{CHECKPOINTS}/best", why, f"the last checkpoint, of step {found.step}, is used instead"))
            return found

    @property
    def keeps_best(self) -> bool:
        """Whether there is a best checkpoint, or should be one."""
        last = read_manifest(self.path / CHECKPOINTS / "last")
        return self.has("best") or (last is not None and "best" in last[0])

    def _read(self, name: str, *, stands_in: bool = False) -> Checkpoint:
        """One checkpoint, if it is sound and in its place: of this run, not older than the one before, and as `best` the one that
        the last checkpoint goes with."""
        folder = self.path / CHECKPOINTS
        found, said = open_checkpoint(folder / name)
        if self._run is not None and said.get("run", self._run) != self._run:
            raise RunError(f"{name} is of another run")
        kind = "best" if name in ("best", BEFORE["best"]) else "last"
        if said.get("kind", kind) != kind:
            raise RunError(f"{name} was not saved as {kind}")
        if stands_in:
            return found
        if name == "last":
            before = read_manifest(folder / BEFORE[name])
            if before is not None and before[0]["step"] > found.step:
                raise RunError(f"{name} is of step {found.step}, and older than {BEFORE[name]}")
        if name == "best":
            last = read_manifest(folder / "last")
            # a newer one than `last` is of a save that a kill cut short
            if last is not None and found.step <= last[0]["step"] and "best" in last[0]:
                own = read_manifest(folder / name)
                if own is None or own[1] != last[0]["best"]:
                    raise RunError(f"{name} is of step {found.step}, and not the one that last goes with")
        return found

    def keep(self, snapshot: Checkpoint) -> None:
        """Keep weights of the way beside `last` and `best`; one of the same step is replaced. On an error nothing is changed."""
        folder = self.path / CHECKPOINTS
        name = f"step-{snapshot.step:06d}"
        new = folder / writing_name(name)
        try:
            self._settle(folder)
            run = {} if self._run is None else {"run": self._run}
            _write_checkpoint(new, snapshot.weights_only().to_files(kind="snapshot", **run))
            if (folder / name).exists():  # a run that went on from before it
                shutil.rmtree(folder / name)
            new.rename(folder / name)
            sync_folder(folder)
        except OSError as error:
            shutil.rmtree(new, ignore_errors=True)
            raise RunError(f"{folder}: the weights of step {snapshot.step} cannot be kept: {reason(error)}.") from error

    def snapshots(self) -> list[int]:
        """The steps whose weights were kept on the way, in order."""
        try:
            names = [_SNAPSHOT.fullmatch(path.name) for path in (self.path / CHECKPOINTS).iterdir()]
        except OSError:
            return []
        return sorted(int(name[1]) for name in names if name)

    def load_snapshot(self, step: int) -> Checkpoint:
        """The weights of a step that were kept, every byte verified."""
        known = self.snapshots()
        if step not in known:
            kept = ", ".join(map(str, known)) or "none; set training.snapshots"
            raise RunError(f"{self.path} has no snapshot of step {step}. Kept: {kept}.")
        name = f"step-{step:06d}"
        found, said = open_checkpoint(self.path / CHECKPOINTS / name)
        if self._run is not None and said.get("run", self._run) != self._run:
            raise RunError(f"{name} is of another run")
        if found.step != step or said.get("kind", "snapshot") != "snapshot":
            raise RunError(f"{name} is not the snapshot of that step")
        return found

    def _settle(self, folder: Path) -> None:
        """Make ready for a save: the folder there, the leavings of dead writers gone, the metrics so far on the disk."""
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            sync_folder(self.path)
        for path in folder.iterdir():
            if is_abandoned(path):
                shutil.rmtree(path)
        with suppress(FileNotFoundError):
            handle = os.open(self.path / METRICS, os.O_RDONLY)
            try:
                os.fsync(handle)  # a checkpoint must not outlive the rows of its own past
            finally:
                os.close(handle)

    def _promote(self, new: Path, current: Path) -> None:
        """Put a finished checkpoint in place of the current one, which becomes the one before if it is sound."""
        before = current.with_name(BEFORE[current.name])
        if current.exists():
            if current.name in self._sound or _is_sound(current):
                if before.exists():
                    shutil.rmtree(before)
                current.rename(before)
            else:  # the one before is what was resumed from: it is all that there is until the new one is in place
                shutil.rmtree(current)
        try:
            new.rename(current)
        except OSError:
            with suppress(OSError):
                before.rename(current)
            raise
        self._sound.add(current.name)


def warn(sentence: str) -> None:
    """How a sentence about a folder reaches whoever uses Python."""
    warnings.warn(sentence, RunWarning, stacklevel=4)


def list_runs(root: Path, notice: Callable[[str], None] | None = None) -> list[RunFolder]:
    """The run folders directly in `root`, the one that was started last first. Other folders are passed over; of run folders
    that cannot be opened `notice` is told why."""
    try:
        paths = list(Path(root).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise RunError(f"{root} cannot be read: {reason(error)}.") from error
    found = []
    for path in paths:
        try:
            made = (path / RECIPE).stat().st_mtime_ns
        except (OSError, ValueError):
            continue
        try:
            found.append((made, path.name, RunFolder.open(path, glance=True)))
        except RunError as error:
            if notice is not None:
                notice(str(error))
    return [folder for _, _, folder in sorted(found, key=lambda run: run[:2], reverse=True)]


def _reopen(path: Path, texts: dict[str, bytes]) -> RunFolder:
    folder = RunFolder.open(path)
    asked = json.loads(texts[RECIPE])
    if folder.recipe != asked:
        key, was, now = difference(folder.recipe, asked)
        raise RunError(
            f"{path} is a run with {key}={was!r}, and {key}={now!r} was asked. Resume it as it is, or choose another folder."
        )
    if folder.vocabulary != (json.loads(texts[VOCABULARY]) if VOCABULARY in texts else None):
        raise RunError(
            f"{path} is a run with another vocabulary. Resume it on the same data, or choose another folder."
        )
    return folder


def _write_checkpoint(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir()
    for name, data in files.items():
        write_file(folder / name, data)
    sync_folder(folder)


def _is_sound(folder: Path) -> bool:
    try:
        read_checkpoint(folder)
    except RunError:
        return False
    return True
