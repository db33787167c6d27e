"""Labels from tokens: as Python's own tokenizer has them, and sensible on text that is none."""

import inspect
import io
import json
import textwrap
import tokenize

import numpy as np
import pytest

from recurra.analysis.source_labels import python_labels, text_labels


def marks(values: np.ndarray) -> str:
    return "".join(str(int(value)) for value in values)


def test_strings_and_comments() -> None:
    text = "f('a')  # 'b'\n"
    assert marks(python_labels(text)["inside-string"]) == "00110000000000"
    assert marks(python_labels(text)["inside-comment"]) == "00000000111110"
    quoted = "r\"\\\"#\"'''x\n\"\"\"'''#"
    found = python_labels(quoted)
    assert marks(found["inside-string"]) == "011110" + "1" * 10 + "00"
    assert marks(found["inside-comment"]) == "0" * (len(quoted) - 1) + "1"


def test_depths_and_blocks() -> None:
    text = textwrap.dedent(
        """\
        class A:
            def f(self,
        b):
                return {
        1: (2)}

        # far left
            x = 3
        y = 4
        """
    )
    found = python_labels(text)
    lines = text.splitlines(keepends=True)
    first = np.cumsum([0, *map(len, lines)])[:-1]
    assert [int(found["indentation-depth"][k]) for k in first] == [0, 1, 1, 2, 2, 2, 2, 1, 0]
    assert [int(found["inside-class"][k]) for k in first] == [0, 1, 1, 1, 1, 1, 1, 1, 0]
    assert [int(found["inside-def"][k]) for k in first] == [0, 0, 0, 1, 1, 1, 1, 0, 0]
    assert marks(found["bracket-depth"][first[3] : first[5]]) == "0" * 15 + "11" + "11122100"


def test_places_in_lines() -> None:
    found = python_labels("ab\n\nc")
    assert marks(found["position-in-line"]) == "01200"
    assert marks(found["line-end"]) == "01000"


@pytest.mark.parametrize("module", [json.decoder, textwrap, inspect, tokenize])
def test_as_python_reads_it(module: object) -> None:
    text = inspect.getsource(module)  # type: ignore[arg-type]
    starts = np.cumsum([0, *(len(line) + 1 for line in text.split("\n"))])
    string, comment, depth, level = np.zeros(len(text)), np.zeros(len(text)), np.zeros(len(text)), 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        begin, end = (starts[place[0] - 1] + place[1] for place in (token.start, token.end))
        if token.type == tokenize.STRING:
            prefix = len(token.string) - len(token.string.lstrip("rRbBuUfF"))
            string[begin + prefix : end - 1] = 1
        elif token.type == tokenize.COMMENT:
            comment[begin:end] = 1
        elif token.type == tokenize.OP and token.string in "([{)]}":
            level += 1 if token.string in "([{" else -1
            depth[begin:] = level
    found = python_labels(text)
    if not hasattr(tokenize, "FSTRING_START"):  # from Python 3.12 on, what stands in an f-string has tokens of its own
        assert (found["inside-string"] == string).all()
    assert (found["inside-comment"] == comment).all()
    assert (found["bracket-depth"] == depth).all()


@pytest.mark.parametrize("text", ["", "'", '"""', "))(", "def", "x = 'cut", "\t\tx\n y", "\\", "#"])
def test_text_that_makes_no_sense_is_read_all_the_same(text: str) -> None:
    for values in (*python_labels(text).values(), *text_labels(text).values()):
        assert values.shape == (len(text),)
        assert (values >= 0).all()


def test_any_text() -> None:
    found = text_labels('a "b" (c)\n\n" d')
    assert marks(found["inside-quotes"]) == "00110000000" + "111"
    assert marks(found["bracket-depth"]) == "000000" + "110" + "0" * 5
