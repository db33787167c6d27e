"""A new run folder: there whole or not at all."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from recurra.errors import RunError
from recurra.runs.disk import WRITING, sync_folder, write_file, writing_name
from recurra.runs.lock import LOCK
from recurra.runs.manifest import MANIFEST, make_manifest

RECIPE, VOCABULARY, CELLS = "recipe.json", "vocabulary.json", "cell.json"


def refuse_unless_free(path: Path) -> None:
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
        known = (VOCABULARY, CELLS, MANIFEST)
        leavings |= {name for name in names if name in known or name.partition(".")[0] == "data"}
    if names - leavings:
        raise RunError(f"{path} is not empty, and not a run folder. Choose another folder for the run.")


def fill(path: Path, texts: dict[str, bytes], data: Path | None) -> None:
    """Write the files of a new run. The recipe comes in last: it is what makes a folder a run folder."""
    leavings = [each for each in path.iterdir() if each.name != LOCK]
    for leaving in sorted(leavings, key=lambda each: each.name.endswith(RECIPE)):  # which marks the rest as ours, last
        _remove(leaving)
    names = [name for name in texts if name != RECIPE]
    written = []
    try:
        for name, text in texts.items():
            written.append(path / writing_name(name))
            write_file(written[-1], text)
        if data is not None:
            names.append(data.name)
            written.append(path / writing_name(data.name))
            (shutil.copytree if data.is_dir() else shutil.copyfile)(data, written[-1])
        temporary = {writing_name(name): name for name in (*names, RECIPE)}
        written.append(path / writing_name(MANIFEST))
        write_file(written[-1], make_manifest(path, temporary, temporary))
        for name in (*names, MANIFEST, RECIPE):
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


def difference(was: dict[str, Any], now: dict[str, Any]) -> tuple[str, Any, Any]:
    """The first key, dotted, at which two recipes differ."""
    key = next(key for key in [*was, *now] if was.get(key) != now.get(key) or (key in was) != (key in now))
    one, other = was.get(key), now.get(key)
    if isinstance(one, dict) and isinstance(other, dict):
        inner, one, other = difference(one, other)
        key = f"{key}.{inner}"
    return key, one, other
