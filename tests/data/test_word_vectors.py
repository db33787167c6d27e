"""Vectors of words from a file: what is kept, what a header is, and refusals by line."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from recurra.data import word_vectors
from recurra.data.word_vectors import read_vectors
from recurra.errors import DataError

LINES = ["the 1 2 3", "good 0.5 -1 2e-1", "bad 4 5 6", "good 9 9 9"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "vectors.txt"
    made.write_text("\n".join(LINES) + "\n")
    return made


def test_only_the_words_that_are_asked_for(file: Path) -> None:
    found = read_vectors(file, ["good", "film"])
    assert found.size == 3
    assert list(found.vectors) == ["good"]
    np.testing.assert_allclose(found.vectors["good"], [0.5, -1, 0.2])  # the first of two
    assert found.find("film") is None


def test_a_header_gzip_and_the_end_without_a_newline(file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "vectors.txt.gz"
    packed.write_bytes(gzip.compress("\n".join(["4 3", *LINES]).encode()))
    for name in ("the", "bad"):
        np.testing.assert_array_equal(
            read_vectors(packed, [name]).vectors[name], read_vectors(file, [name]).vectors[name]
        )
    assert "4" not in read_vectors(packed, ["4", "the"]).vectors


def test_lower_case_stands_in(file: Path) -> None:
    found = read_vectors(file, ["Good", "THE"])
    np.testing.assert_allclose(found.find("Good"), [0.5, -1, 0.2])
    np.testing.assert_array_equal(found.find("THE"), [1, 2, 3])


def test_words_with_spaces_are_not_taken_for_others(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("a 1 2\n. . . 3 4\n. 5 6\n")
    np.testing.assert_array_equal(read_vectors(file, ["."]).vectors["."], [5, 6])


def test_read_in_parts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_vectors(file, ["the", "good", "bad"])
    monkeypatch.setattr(word_vectors, "PART", 5)
    parts = read_vectors(file, ["the", "good", "bad"])
    assert list(parts.vectors) == list(whole.vectors)
    for word, vector in parts.vectors.items():
        np.testing.assert_array_equal(vector, whole.vectors[word])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no vectors"),
        ("word\n", "line 1: expected WORD and its numbers, or a header N D; found 'word'"),
        ("2 0\na 1\n", "line 1: expected WORD"),
        ("the 1 2\n\ngood 1 x\n", "line 3: expected a word and 2 finite numbers, found 'good 1 x'"),
        ("the 1 2\ngood 1 nan\n", "line 2: expected a word and 2 finite numbers"),
        ("the 1 2\ngood 1e999 1\n", "line 2: expected a word and 2 finite numbers"),
        ("1 100001\ngood 1\n", "100,001 is more than 100,000 (columns of a table)"),
        ("1 9999999999999999999999\n", "is more than 100,000 (columns of a table)"),
    ],
)
def test_refused_by_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        read_vectors(file, ["the", "good"])
    assert said in str(caught.value)
    assert "vectors.txt" in str(caught.value)
    assert len(str(caught.value)) <= 300


def test_a_line_without_end(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_vectors, "LONGEST_LINE", 10)
    monkeypatch.setattr(word_vectors, "PART", 8)
    with pytest.raises(DataError, match=r"line 2 has over 10 bytes"):
        read_vectors(file, ["the"])


def test_too_many_numbers_to_keep(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECURRA_LIMITS", "cells=100")
    with pytest.raises(DataError, match=r"40 words of 3 numbers: 120 is more than 100.*Set data.min_count"):
        read_vectors(file, [f"w{k}" for k in range(40)])
