"""How near translations come: edits against a plain recursion, and BLEU where its package is."""

import sys
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recurra.errors import ShapeError
from recurra.metrics.matching import bleu, edit_distance, exact_match


def by_recursion(a: str, b: str) -> int:
    @cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, distance(i - 1, j - 1) + (a[i - 1] != b[j - 1]))

    return distance(len(a), len(b))


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_edits_by_the_plain_recursion(a: str, b: str) -> None:
    assert edit_distance(a, b) == by_recursion(a, b)


@pytest.mark.parametrize(("a", "b", "edits"), [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("", "", 0)])
def test_edits(a: str, b: str, edits: int) -> None:
    assert edit_distance(a, b) == edits
    assert edit_distance(list(a), list(b)) == edits


def test_exact_match() -> None:
    assert exact_match(["a", "b", "c", "d"], ["a", "b", "c", "x"]) == 0.75
    with pytest.raises(ShapeError, match="got 1 and 2"):
        exact_match(["a"], ["a", "b"])


def test_bleu() -> None:
    pytest.importorskip("sacrebleu")
    text = ["the cat sat on the mat", "a dog barked at the moon"]
    assert bleu(text, text) == pytest.approx(100)
    found = bleu(["the cat sat on a mat", "a dog barked at the moon"], text)
    assert found is not None
    assert 50 < found < 100


def test_without_its_package_there_is_no_bleu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    assert bleu(["a b c d"], ["a b c d"]) is None


def test_without_four_words_there_is_no_bleu() -> None:
    assert bleu(["2021-05-04", "a b c"], ["2021-05-04", "a b c"]) is None
