"""Text is UTF-8 everywhere: every kind of file with other bytes is refused by its name and line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recurra.data.events import read_log
from recurra.data.labelled import read_labelled
from recurra.data.number_table import read_table
from recurra.data.pairs import read_pairs
from recurra.data.rolls import read_rolls
from recurra.data.series import read_series
from recurra.data.text import read_documents
from recurra.data.trees import read_trees
from recurra.data.utf8 import decode
from recurra.errors import DataError

READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "text": ("a.txt", read_documents),
    "labels": ("a.csv", read_labelled),
    "numbers": ("a.csv", read_table),
    "series": ("a.csv", read_series),
    "log": ("a.csv", read_log),
    "pairs": ("a.tsv", read_pairs),
    "trees": ("a.txt", lambda path: read_trees(path, "every")),
    "rolls": ("a.json", read_rolls),
}


@pytest.mark.parametrize("kind", READERS)
def test_other_bytes_are_refused_by_line(tmp_path: Path, kind: str) -> None:
    name, read = READERS[kind]
    (tmp_path / name).write_bytes(b"a,b\n1,2\r\n3,\xe9\n")
    with pytest.raises(DataError, match=r"a\.\w+, line 3: byte 0xe9 is not UTF-8"):
        read(tmp_path / name)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_are_counted_after_a_mark_of_the_encoding(end: bytes) -> None:
    text = b"\xef\xbb\xbf" + end.join([b"a", "é".encode(), b"\xff"])
    with pytest.raises(DataError, match="it, line 3: byte 0xff"):
        decode(text, "it")
    assert decode(text[:-1], "it") == "a\né\n".replace("\n", end.decode())


def test_a_run_of_lines_goes_on_counting() -> None:
    with pytest.raises(DataError, match="it, line 7: byte 0xff"):
        decode(b"\xff", "it", 7)


def test_what_is_json_stays_so(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + json.dumps({"train": []}).encode())
    with pytest.raises(DataError, match="no list 'valid'"):
        read_rolls(tmp_path / "a.json")
