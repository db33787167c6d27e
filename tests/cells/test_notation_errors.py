"""What the notation says to equations that cannot be read: the user's line, what was found there, and what to do."""

import re
import runpy

import numpy as np
import pytest
import torch

from recurra import (
    CATALOGUE,
    CellError,
    Fixed,
    Learned,
    OptionError,
    Recurrent,
    ago,
    cell,
    find_cell,
    norm,
    recurrent_dropout,
    tanh,
    zoneout,
)

HEAD = """\
import math
import numpy as np
import torch
from recurra import *

w = torch.randn(5, 5)

@cell
def broken(x, U, h, c, *, k=Fixed(2.0)):
    a = x.a + h
"""
FIRST = HEAD.count("\n") + 1
NOT_ELEMENTWISE = r"is not (elementwise|one of the elementwise operations of a cell)\. A cell may use"


def read(tmp_path, body, head=HEAD):
    """Run a file with the cell in it, as a user would; its path, for the message."""
    path = tmp_path / "own.py"
    path.write_text(head + "".join(f"    {line}\n" for line in body.splitlines()))
    runpy.run_path(str(path))
    return path


def fails(tmp_path, body, line, message, head=HEAD, error=CellError):
    with pytest.raises(error) as caught:
        read(tmp_path, body, head)
    text = str(caught.value)
    assert "\n" not in text
    path = tmp_path / "own.py"
    source = path.read_text().splitlines()[line - 1].strip()
    assert text.startswith(f"{path}:{line}: `{source}`: cell 'broken': "), text
    assert re.search(message, text), text


def test_a_right_cell_is_read(tmp_path):
    read(tmp_path, "v = tanh(U.a(a) + k)\nreturn v, c")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("v = h @ w", rf"@ {NOT_ELEMENTWISE}"),
        ("v = w @ h", NOT_ELEMENTWISE),
        ("v = h.sum()", rf"`\.sum` {NOT_ELEMENTWISE}"),
        ("v = a.mean(-1)", rf"`\.mean` {NOT_ELEMENTWISE}"),
        ("v = h.T", rf"`\.T` {NOT_ELEMENTWISE}"),
        ("v = torch.softmax(h, -1)", rf"torch\.softmax {NOT_ELEMENTWISE}"),
        ("v = torch.nn.functional.linear(h, w)", NOT_ELEMENTWISE),
        ("v = torch.cumsum(h, dim=-1)", rf"torch\.cumsum {NOT_ELEMENTWISE}"),
        ("v = torch.cat([h, c], -1)", rf"torch\.cat {NOT_ELEMENTWISE}"),
        ("v = torch.stack([h, c])", rf"torch\.stack {NOT_ELEMENTWISE}"),
        ("v = h[0]", rf"taking a part with \[\.\.\.\] {NOT_ELEMENTWISE}"),
        ("v = h[:, :2]", rf"taking a part with \[\.\.\.\] {NOT_ELEMENTWISE}"),
        ("v, u = h", NOT_ELEMENTWISE),
        ("v = sum(h)", NOT_ELEMENTWISE),
        ("v = h * len(h)", rf"len {NOT_ELEMENTWISE}"),
        ("v = math.tanh(h)", rf"turning a value into a number {NOT_ELEMENTWISE}"),
        ("v = float(h)", rf"turning a value into a number {NOT_ELEMENTWISE}"),
        ("v = np.tanh(h)", r"tanh .*A cell may use"),
        ("v = np.sum(h)", NOT_ELEMENTWISE),
        ("v = np.dot(h, h)", NOT_ELEMENTWISE),
        ("v = h // 2", r"Write floor\(a / b\)"),
        (
            "v = h * w",
            r"multiply takes values of the cell and numbers, not a tensor of shape \[5, 5\]\. Make it a keyword-only",
        ),
        ("v = h + 'a'", r"add takes values of the cell and numbers, not 'a' \(str\)\. Make it a keyword-only"),
        ("v = h + True", r"add takes values of the cell and numbers, not True"),
        (
            "v = h + x",
            r"add of all of x or U makes no sense\. Name the part: x\.NAME, which is W_NAME x \+ b_NAME, or U\.NAME",
        ),
        ("v = (1 - h) * x", r"multiply of all of x or U makes no sense\. Name the part: x\.NAME"),
        ("v = x * h", r"multiply of all of x or U makes no sense\. Name the part: x\.NAME"),
        ("v = x[0] + h", r"taking a part with \[\.\.\.\] of all of x or U makes no sense\. Name the part: x\.NAME"),
        ("v = torch.tanh(x)", r"torch\.tanh of all of x or U makes no sense\. Name the part: x\.NAME"),
        ("v = x @ h", r"@ of all of x or U makes no sense\. Name the part"),
        ("v = h if x else c", r"a truth value of all of x or U makes no sense"),
        ("v, u = x", r"taking apart of all of x or U makes no sense"),
        (
            "v = x.h(h)",
            r"x\.h is a value of the cell, which cannot be called\. Write U\.h\(v\) for a product with the state, or \*",
        ),
        ("v = h(c)", r"this value is a value of the cell, which cannot be called\. Write U\.NAME\(v\)"),
        (
            "v = U.h.T(h)",
            r"\.T of U\.h makes no sense: it is a matrix.* Write U\.h\(v\); another matrix, such as a transposed one",
        ),
        ("v = U.h + h", r"add of U\.h makes no sense: it is a matrix.* Write U\.h\(v\)"),
        ("v = h * U.h", r"multiply of U\.h makes no sense: it is a matrix.* Write U\.h\(v\)"),
        ("v = U.h(h, c)", r"U\.h\(v\) multiplies one vector; got 2"),
        (
            "v = torch.atan(h)",
            r"torch\.atan is not one of the elementwise operations of a cell\. A cell may use .*tanh",
        ),
        (
            "v = torch.clamp(h, min=0.0)",
            r"torch\.clamp takes no named arguments in a cell; got min\. Use the function of recurra",
        ),
        ("v = tanh(x)", r"x\.NAME"),
        ("v = U(h)", r"U\.NAME"),
        ("v = U.a @ h", r"U\.a\(|U\.NAME"),
        ("v = U.a(2.0)", r"U\.a\(\.\.\.\) multiplies a state-sized vector, not 2\.0 \(float\)"),
        ("v = U.a(0 * h)", r"U\.a\(\.\.\.\) multiplies a state-sized vector, not a number"),
        ("v = U.a(x)", r"U\.a\(\.\.\.\) multiplies a state-sized vector, not all of x or U"),
        ("v = U.a(h > 0)", r"U\.a\(\.\.\.\) multiplies a state-sized vector, not a condition"),
        ("v = a if h > 0 else c", r"cannot branch on a value of the cell\. Write where\(condition, a, b\)"),
        ("v = h and c", r"cannot branch on a value of the cell\. Write where\(condition, a, b\)"),
        ("v = h or c", r"cannot branch.*Write where"),
        ("v = not h", r"cannot branch.*Write where"),
        ("v = max(h, c)", r"cannot branch.*Write where"),
        ("v = h if 0 < h < 1 else c", r"cannot branch.*Write where"),
        (
            "v = (h > 0) * c",
            r"a condition is not a number: write where\(condition, a, b\) instead of using it in multiply",
        ),
        ("v = tanh(h > 0)", r"a condition is not a number: write where\(condition, a, b\)"),
        ("v = where(h, a, c)", r"where takes a condition such as `h > 0`, not a value"),
        ("v = h & c", r"and takes a condition such as `h > 0`, not a value"),
        ("v = ~h", r"not takes a condition such as `h > 0`, not a value"),
        ("v = ago(h, 0)", r"ago\(state, d\) needs a whole number d >= 1; got 0\. ago\(h, 1\) is h itself"),
        ("v = ago(h, -2)", r"needs a whole number d >= 1; got -2"),
        ("v = ago(h, 1.5)", r"needs a whole number d >= 1; got 1\.5"),
        ("v = ago(h, True)", r"needs a whole number d >= 1; got True"),
        ("v = ago(a, 2)", r"ago takes a state argument of the cell as it stands, not a value computed from it"),
        ("v = ago(x.a, 2)", r"ago takes a state argument of the cell as it stands"),
        ("v = norm(h > 0)", r"norm takes a state-sized value, not a number or a condition"),
        ("v = norm(h, 'a') + norm(c, 'a')", r"two norms are called 'a'\. Give each its own name"),
    ],
)
def test_a_line_of_equations(tmp_path, line, message):
    fails(tmp_path, f"{line}\nreturn v, c", FIRST, message)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("b = tanh(a)\nif b > 0:\n    b = -b\nreturn b, c", FIRST + 1),
        ("while h < 3:\n    h = h + 1\nreturn h, c", FIRST),
        ("for _ in range(3):\n    a = a * a\nassert a > 0\nreturn a, c", FIRST + 2),
    ],
)
def test_a_branch_over_several_lines(tmp_path, body, line):
    fails(tmp_path, body, line, r"Write where\(condition, a, b\) instead of if")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return h",
            r"1 value\(s\) returned for 2 state\(s\) \(h, c\)\. Return the next value of each state, in this order",
        ),
        ("return h, c, a", r"3 value\(s\) returned for 2 state\(s\) \(h, c\)"),
        ("return h, c > 0", r"the next value of 'c' is a condition, not a state-sized value"),
        ("return None, c", r"the next value of 'h' is None \(NoneType\), not a state-sized value"),
        ("return h, x", r"the next value of 'c' is all of x or U, not a state-sized value"),
    ],
)
def test_what_is_returned(tmp_path, body, message):
    fails(tmp_path, f"v = tanh(a)\n{body}", FIRST + 1, message)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("def broken(x, U):", r"write it as f\(x, U, state, \.\.\.\) with at least one state, and parameters after \*"),
        ("def broken(x, U, *h):", r"write it as f\(x, U, state, \.\.\.\) with at least one state"),
        ("def broken(x, U, h, **more):", r"write it as f\(x, U, state, \.\.\.\)"),
        ("def broken(x, U, h, k=2):", r"'k' has a default; put parameters after a bare \*"),
        ("def broken(x, U, h, *, k):", r"parameter 'k' needs a default, e\.g\. k=Learned\(0\.0\)"),
    ],
)
def test_the_arguments_of_a_cell(tmp_path, definition, message):
    head = f"from recurra import *\n\n@cell\n{definition}\n"
    with pytest.raises(CellError, match=message) as caught:
        read(tmp_path, "return x.a", head)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith((f"{tmp_path / 'own.py'}:3: ", f"{tmp_path / 'own.py'}:4: "))


def test_a_wrapped_cell_names_the_line_of_its_equations(tmp_path):
    path = tmp_path / "own.py"
    lines = ["from recurra import *", "", "@cell", "def broken(x, U, h, *, d=1):", "    return tanh(x.a + ago(h, d))"]
    path.write_text("\n".join([*lines, "zoneout(broken, 0.1)(d=0)"]))
    with pytest.raises(CellError, match=r"needs a whole number d >= 1; got 0") as caught:
        runpy.run_path(str(path))
    assert str(caught.value).startswith(f"{path}:5: `return tanh(x.a + ago(h, d))`: ")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda f: cell(bias={"a": 1.0, "bb": 1.0})(f),
            r"bias=\{'bb': \.\.\.\} names no x\.bb of its equations\. Did you mean 'b'\?",
        ),
        (
            lambda f: cell(constrain={"a": "orthogonal"})(f),
            r"constrain=\{'a': \.\.\.\} names no U\.a of its equations\..*Known: u",
        ),
        (
            lambda f: cell(constrain={"u": "ortogonal"})(f),
            r"constraint 'ortogonal' does not exist\. Did you mean 'orthogonal'\?",
        ),
        (lambda f: cell(f)(scael=2.0), r"cell 'f' has no option 'scael'\. Did you mean 'scale'\?"),
        (lambda f: cell(f)(activation="tahn"), r"activation='tahn' is not an activation\. Did you mean 'tanh'\?"),
        (lambda f: cell(f)(activation=3), r"activation=3 is not an activation"),
    ],
)
def test_keys_and_options(make, message):
    def f(x, U, h, *, scale=1.5, activation=tanh):
        return activation(scale * x.a + x.b + U.u(h))

    with pytest.raises(OptionError, match=message):
        make(f)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Learned(1.0, low=0, high=1),
        lambda: Learned(-0.1, low=0),
        lambda: Learned(0.0, low=0),
        lambda: Learned(5.0, high=4),
        lambda: Learned([0.5, 1.5], low=0, high=1),
    ],
)
def test_a_parameter_outside_its_interval(declare):
    with pytest.raises(
        OptionError, match=r"Learned\(.*\) starts outside its open interval\. Pass a value strictly between"
    ):
        declare()


def test_two_masks_of_one_name():
    with pytest.raises(CellError, match="two masks are called 'zoneout_h'"):
        zoneout(zoneout(CATALOGUE["gru"], 0.1), 0.1)
    assert recurrent_dropout(zoneout(CATALOGUE["gru"], 0.1), 0.1).graph.noises.keys() == {"zoneout_h", "kept"}


@pytest.mark.parametrize("call", [lambda v: ago(v, 2), norm], ids=["ago", "norm"])
def test_outside_of_a_cell(call):
    with pytest.raises(CellError, match="outside of a cell"):
        call(torch.zeros(3))


def test_a_file_that_cannot_be_run(tmp_path):
    path = tmp_path / "own.py"
    path.write_text("from recurra import *\n\nvalue = 1 / 0\n")
    with pytest.raises(OptionError, match=rf"{path}:3: the file cannot be run: ZeroDivisionError"):
        find_cell(f"{path}:f")
    path.write_text("from recurra import *\n\ndef f(:\n")
    with pytest.raises(OptionError, match=rf"{path}:3: the file cannot be run: SyntaxError"):
        find_cell(f"{path}:f")
    path.write_text("from recurra import *\n\n@cell\ndef mine(x, U, h):\n    return h.sum()\n")
    with pytest.raises(CellError, match=rf"{path}:5: .*`\.sum` is not one of the elementwise operations"):
        find_cell(f"{path}:mine")


def test_a_file_or_a_cell_that_is_not_there(tmp_path):
    path = tmp_path / "own.py"
    with pytest.raises(OptionError, match=rf"there is no file '{path}'"):
        find_cell(f"{path}:mine")
    path.write_text("from recurra import *\n\n@cell\ndef mine(x, U, h):\n    return tanh(x.h)\n")
    with pytest.raises(OptionError, match=r"has no cell 'mein'\. Did you mean 'mine'\?"):
        find_cell(f"{path}:mein")


def test_a_parameter_prints_as_it_was_written():
    assert repr(Learned(0.9, low=0, high=1)) == "Learned(0.9, low=0, high=1)"
    assert repr(Fixed([1, 2])) == "Fixed([1, 2])"


@pytest.mark.parametrize(
    ("value", "units", "message"),
    [
        (
            [0, 1, 2],
            4,
            r"parameter 'k' of cell 'own' has 3 values for 4 units\. Take a number of units that 3 divides, or Groups",
        ),
        ([0, 1, 2], 2, r"has 3 values for 2 units"),
        (torch.arange(4.0), 6, r"has 4 values for 6 units\. Pass one for each unit"),
        (torch.arange(3.0), 6, r"has 3 values for 6 units\. Pass one for each unit"),
        (np.arange(3.0), 6, r"has 3 values for 6 units\. Pass one for each unit"),
        ([], 4, r"has 0 values for . units"),
    ],
)
@pytest.mark.parametrize("kind", [Fixed, Learned])
def test_values_that_do_not_fit_the_units_are_refused_with_sizes(kind, value, units, message):
    def make():
        @cell
        def own(x, U, h, *, k=kind(value)):
            return k * h + x.h

        return Recurrent(own, 2, units)

    with pytest.raises(OptionError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_options_of_a_cell_that_are_no_tables_are_refused():
    def own(x, U, h):
        return x.h + U.h(h)

    with pytest.raises(
        OptionError, match=r"cell 'own': bias takes first values of biases.*Recurrent\(\.\.\., bias=False\).*got False"
    ):
        cell(bias=False)(own)
    with pytest.raises(
        OptionError, match=r"cell 'own': constrain takes forms of matrices, e\.g\. \{.*got 'orthogonal'"
    ):
        cell(constrain="orthogonal")(own)
