"""Text: reading it, and splitting it into training, validation and test parts. Its tokens are in `tokenizers.py`."""

from __future__ import annotations

import glob
import hashlib
import math
import os
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from recurra.data.guard import open_file, reads
from recurra.data.limits import check_limit
from recurra.data.utf8 import decode
from recurra.errors import DataError, OptionError

HEAD = 8192
"""A file with a zero byte among its first bytes is binary; the rest of it is not read."""

NOT_LIBRARY = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
"""Folders under the standard library that hold something else: installed packages, tests and their data."""

Item = TypeVar("Item")
Whole = TypeVar("Whole")


@dataclass(frozen=True)
class Document:
    """One file's text. `name` is its path relative to what was read, with forward slashes."""

    name: str
    text: str


@dataclass(frozen=True)
class Split:
    """Whole documents in three parts, each in the order in which they were given."""

    train: list[Document]
    valid: list[Document]
    test: list[Document]


@reads
def read_documents(path: str | Path) -> list[Document]:
    """The text of a file, of every text file under a folder, or of every text file that a pattern matches.

    Text is UTF-8, plain or compressed (`.gz`); line ends become `\\n`. Under a folder or a pattern, files come sorted by
    path, and hidden, empty and binary ones are left out. A file that is named must hold text.
    """
    if not str(path).strip():
        raise DataError("No path was given to read text from. Name a file, a folder or a pattern ('books/*.txt').")
    asked = Path(path).expanduser()
    try:
        if asked.is_dir():
            documents = _read_files(_files_under(asked), asked)
            found = "there is no text file under it"
        elif asked.exists():
            return [Document(asked.name, _read_text(asked))]
        elif glob.has_magic(str(asked)):
            fixed = next(k for k, part in enumerate(asked.parts) if glob.has_magic(part))
            matches = sorted(Path(match) for match in glob.glob(str(asked), recursive=True))
            documents = _read_files(matches, Path(*asked.parts[:fixed]))
            found = f"it matches no text file ({len(matches)} paths in all)"
        else:
            raise DataError(f"Text was asked for from {asked}, which does not exist. Check the path.")
    except OSError as error:
        where = error.filename or asked
        raise DataError(f"{where} cannot be read ({error.strerror}). Check the path and its permissions.") from error
    if not documents:
        raise DataError(f"Text was asked for from {asked}, but {found}. Text is UTF-8, plain or gzip (.gz).")
    return documents


def python_source() -> list[Document]:
    """The standard library of the Python that is running, without its tests: text that is on every machine.

    About twelve million characters in seven hundred files, sorted by path. It differs from one version of Python to the next.
    """
    root = Path(sysconfig.get_path("stdlib"))
    files = [file for file in _files_under(root, NOT_LIBRARY) if file.suffix == ".py"]
    documents = _read_files(files, root)
    if not documents:
        raise DataError(f"Python's own source was asked for, but {root} holds no .py file. Name a file of your own.")
    return documents


def split_by_document(documents: Iterable[Document], valid: float = 0.05, test: float = 0.05, seed: int = 0) -> Split:
    """Each document goes whole into one part, by a hash of its name and the seed, whatever the order they come in.

    `valid` and `test` are fractions of the number of documents. A part that was asked for gets at least one.
    """
    _check_fractions(valid, test)
    given = list(documents)
    by_hash = sorted(range(len(given)), key=lambda k: (_hash(seed, given[k].name), given[k].name, given[k].text))
    n_test, n_valid = (max(1, round(len(given) * part)) if part else 0 for part in (test, valid))
    if len(given) < n_test + n_valid + 1:
        raise DataError(
            f"A split by document into {1 + bool(n_valid) + bool(n_test)} parts was asked for (valid={valid}, test={test}), "
            f"but there are {len(given)} documents. Give more, or split the text by position."
        )
    parts = (by_hash[n_test + n_valid :], by_hash[n_test : n_test + n_valid], by_hash[:n_test])
    return Split(*([given[k] for k in sorted(part)] for part in parts))


def shortened(documents: Sequence[Document], limit: int, seed: int = 0) -> list[Document]:
    """Some of the documents, chosen by a hash of their names, that hold about `limit` characters; at least one."""
    kept: set[int] = set()
    size = 0
    for k in sorted(range(len(documents)), key=lambda k: (_hash(seed, documents[k].name), k)):
        if kept and size + len(documents[k].text) > limit:
            continue
        kept.add(k)
        size += len(documents[k].text)
    return [documents[k] for k in sorted(kept)]


def split_by_position(text: str, valid: float, test: float) -> tuple[str, str, str]:
    """The first part of one text to train on, then a part to validate, then one to test (empty with `test=0`)."""
    first, second = _cuts(len(text), valid, test)
    return text[:first], text[first:second], text[second:]


def split_lines(
    lines: Sequence[Item], valid: float, test: float, seed: int = 0
) -> tuple[list[Item], list[Item], list[Item]]:
    """Lines, or other items, split at random into training, validation and test; each part keeps their order."""
    first, second = _cuts(len(lines), valid, test)
    dealt = sorted(range(len(lines)), key=lambda k: _hash(seed, str(k)))
    train, validation, testing = (
        [lines[k] for k in sorted(part)] for part in (dealt[:first], dealt[first:second], dealt[second:])
    )
    return train, validation, testing


def read_split(
    read: Callable[[str], Whole],
    split: Callable[[Whole, float, float], Sequence[Whole]],
    path: str,
    valid_path: str | None = None,
    test_path: str | None = None,
    *,
    valid: float,
    test: float,
) -> tuple[Whole, Whole, Whole]:
    """Training, validation and test data: each from its own file where one is named, otherwise a share of `path`.

    ```python
    read_split(read_trees, split_lines, "bank.txt", test_path="test.txt", valid=0.1, test=0.1)
    ```

    - `read`: what a file holds. `split`: its three parts, by the shares of validation and test; both may be 0.
    - `valid`, `test`: those shares; a part that has its own file takes none.
    """
    own_valid, own_test = (0.0 if valid_path else valid), (0.0 if test_path else test)
    train, validation, testing = split(read(path), own_valid, own_test)
    return train, read(valid_path) if valid_path else validation, read(test_path) if test_path else testing


def _files_under(folder: Path, leave_out: Collection[str] = ()) -> list[Path]:
    """Every file that is not hidden, nor in a folder that is hidden or has a name that is left out, sorted by path."""

    def fail(error: OSError) -> None:
        raise error

    def walk() -> Iterator[Path]:
        for root, folders, names in os.walk(folder, onerror=fail):
            folders[:] = [name for name in folders if not name.startswith(".") and name not in leave_out]
            yield from (Path(root, name) for name in names if not name.startswith("."))

    return sorted(walk(), key=lambda file: file.relative_to(folder).parts)


def _read_files(files: Iterable[Path], root: Path) -> list[Document]:
    """Those of the files that hold text."""
    documents, size = [], 0
    for file in files:
        if file.is_file():  # not a pipe, which would never end
            size += file.stat().st_size
            check_limit("file", size, f"{root}, up to {file.name}")
            try:
                documents.append(Document(file.relative_to(root).as_posix(), _read_text(file)))
            except DataError:
                continue
    return documents


def _read_text(file: Path) -> str:
    with open_file(file) as stream:
        data = stream.read(HEAD)
        if b"\0" not in data:
            data += stream.read()
    if not data:
        raise DataError(f"Text was asked for from {file}, but the file is empty. Name one that holds text.")
    if b"\0" in data:
        raise DataError(
            f"Text was asked for from {file}, but it holds zero bytes: the file is binary or in another encoding. "
            "Convert it to UTF-8, or name another."
        )
    text = decode(data, str(file))
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _hash(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed}/{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _cuts(length: int, valid: float, test: float) -> tuple[int, int]:
    """Where the validation part starts, and where the test part does."""
    _check_fractions(valid, test)
    slack = 1e-6  # 1 - 0.05 - 0.05 is a little under 0.9
    return math.floor(length * (1 - valid - test) + slack), math.floor(length * (1 - test) + slack)


def _check_fractions(valid: float, test: float) -> None:
    if not (valid >= 0 and test >= 0 and valid + test < 1):
        raise OptionError(f"valid and test are fractions that leave some to train on; got valid={valid}, test={test}.")
