"""What a run folder must hold, and what it must not: checksums of the files that never change, and no way out of it.

`manifest.json` lists the files that a run is made with (recipe, vocabulary, cells, data of its own) with size and SHA-256, and
ends with a checksum of itself. Checkpoints have manifests of their own, and each line of the metrics its checksum.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurra.errors import RunError
from recurra.runs.disk import reason, to_json
from recurra.runs.reading import read_object

MANIFEST = "manifest.json"
FORMAT = 1
DEEPEST, MOST_ENTRIES, MOST_MANIFEST = 16, 1_000_000, 1 << 25


@dataclass(frozen=True)
class Damage:
    """A file of a run that is not as it was written: what was found, and what is used instead."""

    file: str
    found: str
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.found}" + (f"; {self.instead}." if self.instead else ".")


def make_manifest(folder: Path, names: Iterable[str], as_named: dict[str, str] | None = None) -> bytes:
    """The manifest of some files and folders; `as_named`: what those are called that still have another name."""
    files = {}
    for name in names:
        told = (as_named or {}).get(name, name)
        for file in _files(folder / name):
            inner = file.relative_to(folder / name).as_posix()
            files[told if inner == "." else f"{told}/{inner}"] = describe(file)
    return _encode(files)


def _encode(files: dict[str, Any]) -> bytes:
    listed = {"files": dict(sorted(files.items())), "format": FORMAT}
    digest = hashlib.sha256(to_json(listed, MANIFEST)).hexdigest()
    return to_json(listed | {"sha256": digest}, MANIFEST, pretty=True)


def describe(file: Path) -> dict[str, Any]:
    """Size and checksum of a file."""
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
        return {"sha256": digest, "size": os.fstat(opened.fileno()).st_size}


class Manifest:
    """The manifest of a folder, if it is sound; `is_there` tells a folder of an older version, which has none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, Any] = {}
        self.is_there = os.path.lexists(folder / MANIFEST)
        self.why = ""
        if not self.is_there:
            return
        try:
            said = read_object(folder / MANIFEST, MOST_MANIFEST)
            files = said["files"]
            if said.get("format") != FORMAT:
                self.why = f"its format is {said.get('format')!r:.40}, and this version reads {FORMAT}"
            elif _encode(files) != (folder / MANIFEST).read_bytes():
                self.why = "its checksum is not its own"
            elif any(name.startswith("/") or {"", ".", ".."} & {*name.split("/")} for name in files):
                self.why = "it names files by paths that may lead out of the folder"
            else:
                self.files = files
        except RunError as error:
            self.why = str(error).removeprefix(f"{folder / MANIFEST} ").removesuffix(".")
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            self.why = "it is not a manifest"

    def check(self, name: str) -> str:
        """What is wrong with a file or folder, and nothing where it is as it was written (or nothing is known of it)."""
        listed = [each for each in self.files if each == name or each.startswith(f"{name}/")]
        for each in listed:
            file = self.folder / each
            try:
                if not file.is_file():
                    return f"{each} is missing" if not os.path.lexists(file) else f"{each} is not a file"
                if file.stat().st_size != self.files[each]["size"] or describe(file) != self.files[each]:
                    return f"{each} is damaged: its size or checksum is not that of {MANIFEST}"
            except OSError as error:
                return f"{each} cannot be read: {reason(error)}"
            except (KeyError, TypeError):
                return f"{each} is not described by {MANIFEST}"
        return ""


def refuse_ways_out(folder: Path) -> None:
    """Refuse links that lead out of a run folder, and what is neither a file nor a folder: a stranger's folder must not make
    this process read, or write over, anything else."""
    inside = os.path.realpath(folder)
    seen = 0
    waiting = [(inside, 0)]
    while waiting:
        place, depth = waiting.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    seen += 1
                    path = folder / os.path.relpath(entry.path, inside)
                    if seen > MOST_ENTRIES or depth > DEEPEST:
                        raise RunError(f"{folder} holds more folders or files than a run does: it cannot be checked.")
                    if entry.is_symlink():
                        target = os.path.realpath(entry.path)
                        if os.path.commonpath([inside, target]) != inside:
                            raise RunError(
                                f"{path} is a link that leads out of the run folder: it is refused. Put the file itself there, "
                                "or open a run of your own with --trust (trust=True)."
                            )
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, depth + 1))
                    elif not stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                        raise RunError(f"{path} is neither a file nor a folder: it is refused. Remove it.")
        except FileNotFoundError:  # a writer has moved it meanwhile
            continue
        except OSError as error:
            raise RunError(f"{place} cannot be read: {reason(error)}.") from error


def _files(path: Path) -> Iterable[Path]:
    if path.is_dir():
        return sorted(each for each in path.rglob("*") if each.is_file())
    return [path]
