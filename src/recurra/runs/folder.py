"""A run on disk.

    recipe.json  vocabulary.json  metrics.jsonl  checkpoints/last/  checkpoints/best/  explain/  report.html

Whatever moment a process is killed at, the folder holds a sound checkpoint of the last save that finished, or of the one
that was under way. Every save replaces `last` and keeps the one before as `previous` (`previous-best` for `best`). Weights
that are kept on the way stand beside them as `step-000123`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from recurra.errors import RunError, choose_from
from recurra.runs.checkpoint import Checkpoint, read_checkpoint
from recurra.runs.disk import (
    WRITING,
    is_abandoned,
    reason,
    sync_folder,
    to_json,
    write_file,
    writing_name,
)
from recurra.runs.lock import LOCK, hold
from recurra.runs.metrics import append_rows, read_rows, rewind_rows

RECIPE, VOCABULARY, METRICS, CHECKPOINTS = "recipe.json", "vocabulary.json", "metrics.jsonl", "checkpoints"
INSIDE = "{run}/"
"""How a recipe names a file of its own run folder."""
BEFORE = {"last": "previous", "best": "previous-best"}
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

    def __init__(self, path: Path, recipe: dict[str, Any]) -> None:
        self.path = path
        self.recipe = recipe
        self._sound: set[str] = set()  # the checkpoints that this object wrote: no need to verify them before they move

    @classmethod
    def create(
        cls,
        path: Path,
        recipe: dict[str, Any],
        vocabulary: dict[str, Any] | None = None,
        *,
        data: Path | None = None,
        resume: bool = False,
    ) -> RunFolder:
        """A new run folder, whole or not at all; parents are made.

        - `path`: does not exist or is empty. With `resume`, it may be a run folder of the same recipe and vocabulary.
        - `data`: a file or folder to keep in it, under its own name.
        """
        path = Path(path)
        texts = {RECIPE: to_json(recipe, "recipe", pretty=True)}
        if vocabulary is not None:
            texts[VOCABULARY] = to_json(vocabulary, "vocabulary", pretty=True)
        is_new = False
        try:
            if resume and (path / RECIPE).exists():
                return _reopen(path, texts)
            _refuse_unless_free(path)
            is_new = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            with hold(path):
                _refuse_unless_free(path)  # now that no other process can be making it
                try:
                    _fill(path, texts, data)
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
    def open(cls, path: Path) -> RunFolder:
        """The run folder at `path`; an error says what it lacks."""
        path = Path(path)
        try:
            if not path.is_dir():
                raise RunError(f"{path} is not a run folder: it {'is a file' if path.exists() else 'does not exist'}.")
            if not (path / RECIPE).is_file():
                raise RunError(f"{path} is not a run folder: {RECIPE} is missing.")
        except OSError as error:
            raise RunError(f"{path} cannot be opened: {reason(error)}.") from error
        return cls(path, _read_object(path / RECIPE))

    @cached_property
    def vocabulary(self) -> dict[str, Any] | None:
        """The vocabulary, of runs that have one."""
        file = self.path / VOCABULARY
        return _read_object(file) if file.exists() else None

    def resolved_recipe(self) -> dict[str, Any]:
        """The recipe, with paths of data that the folder itself holds (`{run}/…`) as they are now."""

        def resolved(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: resolved(each) for name, each in value.items()}
            if isinstance(value, str) and value.startswith(INSIDE):
                return str(self.path / value.removeprefix(INSIDE))
            return value

        found: dict[str, Any] = resolved(self.recipe)
        return found

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
        append_rows(self.path / METRICS, rows)

    def metrics(self) -> list[dict[str, Any]]:
        """Every row, in order. A last line that is still being written is left out."""
        return read_rows(self.path / METRICS)

    def rewind(self, step: int) -> None:
        """Drop the rows after `step` and whatever is not a row; the bytes of the rest stay as they are."""
        rewind_rows(self.path / METRICS, step)

    def has(self, which: str = "last") -> bool:
        """Whether such a checkpoint has been saved: `last` or `best`."""
        names = (choose_from("checkpoint", which, BEFORE), BEFORE[which])
        return any((self.path / CHECKPOINTS / name).is_dir() for name in names)

    def save(self, checkpoint: Checkpoint, best: bool = False) -> None:
        """Replace `last` (and, with `best`, `best`, which keeps the weights alone). On an error the folder is as it was."""
        folder = self.path / CHECKPOINTS
        # best first: a kill between the two must not leave a `last` that takes for granted a `best` that is not there
        files = {"best": checkpoint.weights_only().to_files()} if best else {}
        files["last"] = checkpoint.to_files()
        try:
            self._settle(folder)
            for name, each in files.items():
                _write_checkpoint(folder / writing_name(name), each)
            for name in files:
                self._promote(folder / writing_name(name), folder / name)
            sync_folder(folder)
        except OSError as error:
            for name in files:
                shutil.rmtree(folder / writing_name(name), ignore_errors=True)
            kept = "; the checkpoint before it is kept" if self.has() else ""
            raise RunError(f"{folder}: step {checkpoint.step} cannot be saved: {reason(error)}{kept}.") from error

    def load(self, which: str = "last", notice: Callable[[str], None] | None = None) -> Checkpoint:
        """The checkpoint, every byte of it verified.

        - `which`: `last` or `best`.
        - `notice`: is told, in one sentence, when that one is missing or damaged and the one before is used.
        """
        folder, before = self.path / CHECKPOINTS, BEFORE[choose_from("checkpoint", which, BEFORE)]
        if not self.has(which):
            raise RunError(f"{self.path} has no {which} checkpoint yet.")
        why = ""
        for _ in range(4):  # a writer may be between its two renames: look again before it is called damaged
            try:
                return read_checkpoint(folder / which)
            except RunError as error:
                why = str(error)
            time.sleep(0.005)
        try:
            found = read_checkpoint(folder / before)
        except RunError as error:
            raise RunError(
                f"{self.path} has no sound {which} checkpoint: in {which}, {why}; in {before}, {error}."
            ) from error
        if notice is not None:
            notice(
                f"{folder / which} cannot be used ({why}); "
                f"the checkpoint before it, of step {found.step}, is used instead."
            )
        return found

    def keep(self, snapshot: Checkpoint) -> None:
        """Keep weights of the way beside `last` and `best`; one of the same step is replaced. On an error nothing is changed."""
        folder = self.path / CHECKPOINTS
        name = f"step-{snapshot.step:06d}"
        new = folder / writing_name(name)
        try:
            self._settle(folder)
            _write_checkpoint(new, snapshot.weights_only().to_files())
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
            found = ", ".join(map(str, known)) or "none; set training.snapshots"
            raise RunError(f"{self.path} has no snapshot of step {step}. Kept: {found}.")
        return read_checkpoint(self.path / CHECKPOINTS / f"step-{step:06d}")

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


def list_runs(root: Path) -> list[RunFolder]:
    """The run folders directly in `root`, the one that was started last first. Other folders are passed over."""
    try:
        paths = list(Path(root).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise RunError(f"{root} cannot be read: {reason(error)}.") from error
    found = []
    for path in paths:
        with suppress(RunError, OSError):
            found.append(((path / RECIPE).stat().st_mtime_ns, path.name, RunFolder.open(path)))
    return [folder for _, _, folder in sorted(found, key=lambda run: run[:2], reverse=True)]


def _refuse_unless_free(path: Path) -> None:
    """A folder is free if it is empty, or holds only what a killed `create` left."""
    if not path.exists():
        return
    if not path.is_dir():
        raise RunError(f"{path} is a file. Choose another folder for the run.")
    names = {entry.name for entry in path.iterdir()} - {LOCK}
    if RECIPE in names:
        raise RunError(f"{path} holds a run already. Resume it, or choose another folder.")
    leavings = {name for name in names if name.startswith(WRITING)}
    if any(name.endswith(RECIPE) for name in leavings):
        leavings |= {name for name in names if name == VOCABULARY or name.partition(".")[0] == "data"}
    if names - leavings:
        raise RunError(f"{path} is not empty, and not a run folder. Choose another folder for the run.")


def _fill(path: Path, texts: dict[str, bytes], data: Path | None) -> None:
    """Write the files of a new run. The recipe comes in last: it is what makes a folder a run folder."""
    leavings = [each for each in path.iterdir() if each.name != LOCK]
    for leaving in sorted(leavings, key=lambda each: each.name.endswith(RECIPE)):  # which marks the rest as ours, last
        _remove(leaving)
    names = [VOCABULARY] if VOCABULARY in texts else []
    written = []
    try:
        for name, text in texts.items():
            written.append(path / writing_name(name))
            write_file(written[-1], text)
        if data is not None:
            names.append(data.name)
            written.append(path / writing_name(data.name))
            (shutil.copytree if data.is_dir() else shutil.copyfile)(data, written[-1])
        for name in (*names, RECIPE):
            (path / writing_name(name)).replace(path / name)
            written.append(path / name)
        sync_folder(path)
        sync_folder(path.parent)
    except OSError:
        for each in written:
            with suppress(OSError):
                _remove(each)
        raise


def _remove(path: Path) -> None:
    """A file, or a folder with all that is in it; one that is not there is no matter."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _reopen(path: Path, texts: dict[str, bytes]) -> RunFolder:
    folder = RunFolder.open(path)
    asked = json.loads(texts[RECIPE])
    if folder.recipe != asked:
        key, was, now = _difference(folder.recipe, asked)
        raise RunError(
            f"{path} is a run with {key}={was!r}, and {key}={now!r} was asked. Resume it as it is, or choose another folder."
        )
    if folder.vocabulary != (json.loads(texts[VOCABULARY]) if VOCABULARY in texts else None):
        raise RunError(
            f"{path} is a run with another vocabulary. Resume it on the same data, or choose another folder."
        )
    return folder


def _difference(was: dict[str, Any], now: dict[str, Any]) -> tuple[str, Any, Any]:
    """The first key, dotted, at which two recipes differ."""
    key = next(key for key in [*was, *now] if was.get(key) != now.get(key) or (key in was) != (key in now))
    one, other = was.get(key), now.get(key)
    if isinstance(one, dict) and isinstance(other, dict):
        inner, one, other = _difference(one, other)
        key = f"{key}.{inner}"
    return key, one, other


def _read_object(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise RunError(f"{file} cannot be read: {reason(error)}.") from error
    except ValueError as error:
        raise RunError(f"{file} is damaged: {error}.") from error
    if not isinstance(value, dict):
        raise RunError(f"{file} is damaged: expected an object, found {type(value).__name__}.")
    return value


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
