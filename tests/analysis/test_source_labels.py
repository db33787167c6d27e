"""Labels from tokens: as Python's own tokenizer has them, and sensible on text that is none."""

import inspect
import io
import json
import textwrap
import tokenize

import numpy as np
import pytest

from recurra.analysis.source_labels import c_labels, json_labels, python_labels, text_labels
from recurra.tasks.unit_search import usual_labels


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


def test_c_source() -> None:
    text = '#define A 1 // x\nf("a\\"//", \'b\'); /* c { */ { g[1]; }\n'
    found = c_labels(text)
    assert marks(found["inside-preprocessor"]).startswith("1" * 12 + "0000")
    assert [text[k] for k in range(len(text)) if found["inside-comment"][k]] == [*"// x", *"/* c { *"]
    assert "".join(text[k] for k in range(len(text)) if found["inside-string"][k]) == '"a\\"//\'b'
    assert found["bracket-depth"].max() == 2
    assert found["block-depth"].max() == 1
    assert found["block-depth"][text.index("g")] == 1
    assert c_labels("/* never closed")["inside-comment"].all()
    assert c_labels("}})")["bracket-depth"].min() == 0


def test_json() -> None:
    text = '{"k": [1, {"b": "c:d"}], "e": 2}'
    found = json_labels(text)
    assert "".join(text[k] for k in range(len(text)) if found["inside-key"][k]) == '"k"b"e'
    assert "".join(text[k] for k in range(len(text)) if found["inside-string"][k]) == '"k"b"c:d"e'
    assert "".join(text[k] for k in range(len(text)) if found["inside-array"][k]) == '[1, {"b": "c:d"}'
    assert found["bracket-depth"].max() == 3
    assert json_labels('[1, "a')["inside-array"].all()


def test_labels_are_chosen_by_the_endings_of_files() -> None:
    assert usual_labels(["a.c", "b.h.gz"]) is c_labels
    assert usual_labels(["a.json"]) is json_labels
    assert usual_labels(["a.py"]) is python_labels
    assert usual_labels(["a.c", "a.txt"]) is text_labels
