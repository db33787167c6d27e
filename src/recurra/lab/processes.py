"""Trainings that the lab starts: `recurra train` in a process of its own, which outlives the page and the lab."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

from recurra.errors import OptionError, RunError
from recurra.lab.folder import LabFolder
from recurra.runs.lock import holder
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.settings import override

LOGS = ".lab"
"""Where a training that the lab started writes what it would print, inside the folder of runs."""
TAIL = 4000
NAME = re.compile(r"[\w][\w.-]{0,79}")


def start(folder: LabFolder, recipe: str, assignments: list[str], name: str = "") -> str:
    """Train in a new run of the folder; its name. Settings are refused here as the command line would, before anything starts."""
    _check_files(folder, assignments)  # first: to check a cell of a file is to run the file
    override(find_recipe(recipe).settings, assignments)
    name = name or _free_name(folder, recipe)
    if not NAME.fullmatch(name):
        raise OptionError(f"name {name[:80]!r}: a run is named with letters, digits, '.', '_' and '-', 80 at most.")
    if (folder.path / name).exists():
        raise RunError(f"{name} exists already. Choose another name, or resume it.")
    _launch(folder, name, [recipe, *assignments, "--out", str(folder.path / name)])
    return name


def resume(folder: LabFolder, name: str) -> None:
    """Go on with a run from its last checkpoint."""
    path = folder.place(name)
    if holder(path) is not None:
        raise RunError(f"{name} is training already.")
    _check_files(folder, [f"model.cell={folder.run(name).folder.recipe.get('model', {}).get('cell', '')}"])
    _launch(folder, name, ["--resume", str(path)])


def stop(folder: LabFolder, name: str) -> None:
    """Ask a training to save and stop, as Ctrl-C does."""
    pid = holder(folder.place(name))
    if pid is None:
        raise RunError(f"{name} is not training now.")
    if pid == os.getpid():
        raise RunError(f"{name} is trained by this very process: stop it there, with Ctrl-C.")
    os.kill(pid, signal.SIGINT)


def log_of(folder: LabFolder, name: str) -> str:
    """The end of what a training that the lab started has printed; nothing if the lab did not start it."""
    if not NAME.fullmatch(name):
        return ""
    file = folder.path / LOGS / f"{name}.log"
    if file.is_symlink():
        return ""
    try:
        return file.read_bytes()[-TAIL:].decode(errors="replace")
    except OSError:
        return ""


def _launch(folder: LabFolder, name: str, arguments: list[str]) -> None:
    logs = folder.path / LOGS
    try:
        logs.mkdir(exist_ok=True)
        with (logs / f"{name}.log").open("wb") as log:
            command = [sys.executable, "-m", "recurra", "train", *arguments]
            made = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=folder.home
            )
    except OSError as error:
        raise RunError(f"{name} cannot be started: {error.strerror}.") from error
    Thread(target=made.wait, daemon=True).start()  # so that one that ended leaves the table of processes


def _check_files(folder: LabFolder, assignments: list[str]) -> None:
    """A page starts no code, and reads no file, from outside of the folder that the lab was started in."""
    for assignment in assignments:
        key, _, value = assignment.partition("=")
        if key.endswith("cell") and _is_kept(folder, value):
            continue
        if key.endswith("cell") and (".py" in value or "/" in value):
            raise OptionError(
                f"{key}={value[:80]}: a cell of a file is code, which the page does not start. Use recurra train."
            )
        if key.endswith("path") and value and value.lower() != "none":
            found = (folder.home / value).resolve()
            if not any(found.is_relative_to(root) for root in (folder.home, folder.path)):
                raise OptionError(
                    f"{key}={value[:80]} lies outside of {folder.home}. Start the lab where the data is, or use recurra train."
                )


def _is_kept(folder: LabFolder, value: str) -> bool:
    """Whether this is a cell that the lab itself keeps: data, not code."""
    return bool(re.fullmatch(r"[^:()]+\.json", value)) and Path(value).resolve().parent == folder.path / LOGS / "cells"


def _free_name(folder: LabFolder, recipe: str) -> str:
    k = 1
    while (folder.path / f"{recipe}-{k}").exists() or Path(folder.path / LOGS / f"{recipe}-{k}.log").exists():
        k += 1
    return f"{recipe}-{k}"
