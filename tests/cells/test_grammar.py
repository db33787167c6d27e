"""Equations from text: the same graph as the notation reads, nothing executed, every refusal at its line and column."""

import inspect
import json
import textwrap
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import recurra as rc
from recurra.cells import grammar
from recurra.cells.stored import restore_cell, store_cell
from recurra.engines.fused import gpu, kernels

CELLS = Path(inspect.getfile(grammar)).parent


@pytest.mark.parametrize("name", rc.CATALOGUE)
def test_the_catalogue_from_its_text(name):
    """Nodes are interned: equal graphs are made of the same nodes."""
    found, true = rc.read_cell((CELLS / f"{name}.py").read_text()), rc.CATALOGUE[name]
    assert found.graph.nodes == true.graph.nodes
    assert found.graph.updates == true.graph.updates
    assert list(found.graph.gates.items()) == list(true.graph.gates.items())
    assert found.graph.parameters == true.graph.parameters
    assert (found.graph.bias, found.graph.constraints) == (true.graph.bias, true.graph.constraints)
    assert (found.name, found.states, found.__doc__) == (true.name, true.states, true.__doc__)
    assert found.options == true.options


@pytest.mark.parametrize("name", ["lstm_norm", "skip", "clockwork", "lru", "indrnn"])
def test_it_runs_as_the_catalogue_does(name):
    """The plain loop interprets the text on tensors: LayerNorm's gains, delays, conditions and options included."""
    torch.manual_seed(0)
    true = rc.Recurrent(rc.CATALOGUE[name], 3, 8, engine="eager")
    found = rc.Recurrent(rc.read_cell((CELLS / f"{name}.py").read_text()), 3, 8, engine="eager")
    found.load_state_dict(true.state_dict())
    x = torch.randn(2, 9, 3)
    assert torch.equal(found(x).outputs, true(x).outputs)


def test_options_can_be_changed():
    found = rc.read_cell((CELLS / "elman.py").read_text())
    assert found(activation="relu").graph.nodes == rc.find_cell("elman(activation=relu)").graph.nodes
    assert rc.read_cell((CELLS / "skip.py").read_text())(d=8).graph.nodes == rc.find_cell("skip(d=8)").graph.nodes


def test_as_the_documentation_writes_it():
    """With `rc.` before the names, indented, without a decorator, with constants that are computed."""
    found = rc.read_cell(
        """
        import recurra as rc

        @rc.cell(bias={"f": -1.0})
        def mine(x, U, h, *, turn=rc.Learned(2 * rc.Ramp(0, 1).high if False else 0.5)):
            return h
        """.replace("2 * rc.Ramp(0, 1).high if False else 0.5", "math.pi / 4").replace(
            "return h", "f = rc.sigmoid(x.f)\n            return f * rc.where((h > 0) & ~(h == turn), h, -2 ** 2)"
        )
    )
    assert found.graph.equations() == ["f = sigmoid(x.f)", "h' = f * where((0 < h) & ~(h == turn), h, -4)"]
    assert found.graph.parameters["turn"].value == pytest.approx(0.785398)


REFUSED = {
    "return __import__('os').system('true')": (24, "only functions of the notation are called"),
    "return (lambda: h)()": (25, "only functions of the notation are called"),
    "return f'{h}'": (24, "text has no place"),
    "return [h for _ in (1,)]": (24, "ListComp is not part"),
    "return h.__class__.__mro__": (24, "`.__mro__` is not part"),
    "return x.__class__": (24, "not a name for a part"),
    "return x.operate": (24, "not a name for a part"),
    "return U._reading(h)": (24, "not a name for a part"),
    "return U.h": (24, "is a matrix"),
    "return tahn(x.h)": (24, "Did you mean 'tanh'"),
    "return hh + 1": (24, "'hh' has no value yet"),
    "return h ** 1e9 ** 1e9": (29, "this cannot be computed"),
    "return h + 9 ** 9 ** 9 ** 9": (33, "this cannot be computed"),
    "return h + 1e400": (28, "numbers are real"),
    "return h + (-1) ** 0.5": (28, "numbers are real"),
    "return h + 1 / 0": (28, "this cannot be computed: division by zero"),
    "return h // 2": (24, "Write floor"),
    "return h @ h": (24, "not elementwise"),
    "return 0 < h < 1": (24, "compare two values at a time"),
    "return h > 0": (17, "is a condition"),
    "return h and h": (24, "`and` and `or`"),
    "return not h": (24, "Write ~(condition)"),
    "return h if h else x.h": (24, "Write where"),
    "return h + (h > 0)": (24, "a condition is not a number"),
    "return h[0]": (24, "is not elementwise"),
    "return h, h": (17, "2 value(s) returned for 1 state(s)"),
    "return": (17, "return the next value"),
    "h = x.h": (17, "the last line returns"),
    "x = h; return x.h": (17, "x stays what it is"),
    "tanh = h; return h": (17, "a function or number of the notation"),
    "a, b = h; return h": (17, "1 value(s) for 2 names"),
    "a = h, h; return h": (17, "2 values for one name"),
    "h += 1; return h": (17, "write the assignment out"),
    "print(h); return h": (17, "this line does nothing"),
    "return (a := h)": (25, "line of its own"),
    "return ago(h, 0)": (24, "d >= 1"),
    "return ago(h, 10 ** 9)": (31, "whole number from 1 to"),
    "return norm(h, h)": (32, "name in quotes"),
    "return True": (24, "True and False"),
    "return tanh": (24, "is a function"),
    "return tanh(h, h)": (24, "tanh takes (v)"),
    "return tanh(*h)": (29, "no *"),
    "return x": (24, "all of x makes no sense"),
    "return 'h'": (24, "is not a number"),
    "return where(1 < 2, h, h)": (30, "at least one value"),
    "return tanh(h": (28, "was never closed"),
}


@pytest.mark.parametrize("body", REFUSED)
def test_refused_at_its_place(body):
    column, why = REFUSED[body]
    with pytest.raises(rc.EquationError) as caught:
        rc.read_cell(f"\ndef f(x, U, h): {body}")
    assert why in caught.value.remark
    assert (caught.value.line, caught.value.column) == (2, column)
    assert str(caught.value).startswith(f"line 2, column {column}: cell ")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("", "there is no cell"),
        ("import os\ndef f(x, U, h): return h", "Take the line out"),
        ("@evil\ndef f(x, U, h): return h", "only @cell"),
        ("@cell\n@cell\ndef f(x, U, h): return h", "only @cell"),
        ("@cell(bias=open('a'))\ndef f(x, U, h): return x.h", "written as"),
        ("@cell(bias={'z': 1})\ndef f(x, U, h): return x.h", "names no x.z"),
        ("@cell(constrain={'h': 'small'})\ndef f(x, U, h): return U.h(h)", "antisymmetric"),
        ("def f(x, U, h=open('a')): return h", "has no default"),
        ("def f(x, U, h, *, k=open('a')): return h", "a parameter is Learned"),
        ("def f(x, U, h, *, k=Learned(open('a'))): return h", "'open' is not a function"),
        ("def f(x, U, h, *, k=Learned(2, high=1)): return h", "open interval"),
        ("def f(x, U, h, *, k=Fixed(**{'value': 1})): return h", "by name"),
        ("def f(x, U, h, *, k=Fixed(1, 2)): return h", "Fixed takes value"),
        ("def f(x, U, h, *, k): return h", "needs a default"),
        ("def f(x, U, h, h): return h", "stands twice"),
        ("def f(x, U, *h): return h", "no * before"),
        ("def f(x, U): return x.h", "at least one state"),
        ("def f(x: int, U, h): return h", "annotation"),
        ("def f(x, U, h) -> int: return h", "annotation"),
        ("def f(x, U, h): return h\nprint(1)", "only one function"),
        ("def f(x, U, h): return h\ndef g(x, U, h): return h", "a second function"),
        ("def f(x, U, h):\n for _ in h: pass\n return h", "no loops"),
        ("class f: pass", "only one function"),
        ("async def f(x, U, h): return h", "only one function"),
        ("def f(x, U, h): return h" + " " * 1_000_000, "at most 10,000"),
        ("def f(x, U, h): return " + "(" * 4000 + "h" + ")" * 4000, "nested"),
        ("def f(x, U, h): return " + "-" * 9000 + "h", "nested"),
        ("def f(x, U, h): return " + "h+" * 4000 + "h", "nested"),
        ("def f(x, U, h): return " + "h" + ".a" * 4000, "nested"),
        ("def f(x, U, h):\n" + " h = h + h\n" * 500 + " return h", "too often"),
        ("def f(x, U, h): return \0h", "."),
        ("def f(x, U, h): return " + "9" * 5000, "."),
        ("def f(x, U, h): return h + \ud800", "."),
    ],
)  # fmt: skip
def test_hostile_text_is_refused(source, why):
    began = time.perf_counter()
    with pytest.raises(rc.EquationError) as caught:
        rc.read_cell(source)
    assert why in caught.value.remark
    assert caught.value.line >= 1
    assert caught.value.column >= 1
    assert time.perf_counter() - began < 2


def test_the_largest_text_is_still_compiled():
    """Whatever is read can be drawn, printed and generated: the bounds leave room on the stack."""
    lines = "".join(f" a{k + 1} = a{k} * a{k}\n" for k in range(196))
    cell = rc.read_cell(f"def f(x, U, h):\n a0 = h + x.h\n{lines} return a196")
    assert kernels.source_of(cell.graph)
    assert gpu.source_of(cell.graph, "triton")
    assert len(cell.graph.equations()) == 197
    with pytest.raises(rc.EquationError, match="too often"):
        rc.read_cell(f"def f(x, U, h):\n a0 = h + x.h\n{lines} b = a196 {'+ h ' * 10}\n return b")


def test_columns_count_characters():
    with pytest.raises(rc.EquationError) as caught:
        rc.read_cell("    def f(x, U, h):\n        α = 2 * x.α + wrong\n        return α")
    assert (caught.value.line, caught.value.column, caught.value.end_column) == (2, 23, 28)


def test_nothing_is_executed(monkeypatch):
    """Neither compiled to code, nor run: a text that is accepted reaches the graph through the tree alone."""
    for name in ("exec", "eval", "compile"):
        true = getattr(__import__("builtins"), name)

        def watched(source, *rest, _true=true, **named):
            flags = rest[2] if len(rest) > 2 else named.get("flags", 0)
            assert flags & 0x400, "only ast.parse may compile"  # PyCF_ONLY_AST
            return _true(source, *rest, **named)

        monkeypatch.setattr(f"builtins.{name}", watched)
    assert rc.read_cell("def f(x, U, h): return tanh(x.h + U.h(h))").graph.nodes


WORDS = st.sampled_from(
    [
        *[
            "def",
            "f",
            "(",
            ")",
            "(",
            ")",
            "x",
            "U",
            "h",
            "c",
            ",",
            ".",
            ":",
            "=",
            "+",
            "-",
            "*",
            "/",
            "**",
            "<",
            "&",
            "~",
            "tanh(",
            "sigmoid(",
            "where(",
            "U.h(",
            "x.h",
            "ago(",
            "norm(",
            "Learned(",
        ],
        *[
            "Fixed(",
            "1",
            "0.5",
            "9e99",
            "'a'",
            "return",
            "return",
            "lambda",
            "if",
            "else",
            "for",
            "in",
            "[",
            "]",
            "{",
            "}",
            "@",
            "cell",
            "import",
            "__import__",
        ],
        *("\n", "\n    ", "self", "_", "∂", "#", "\\", '"""', "pi", "and", "not", "*,"),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=200),
    st.lists(WORDS, max_size=40).map(" ".join),
    st.lists(WORDS, max_size=25).map(lambda words: "def f(x, U, h):\n    return " + " ".join(words)),
)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_any_text_gives_a_cell_or_a_place(source):
    try:
        found = rc.read_cell(source)
    except rc.EquationError as error:
        place = (error.line, error.column, "\n" in error.remark)
    else:
        place = (1, 1, not found.graph.equations())
    assert place >= (1, 1, False)
    assert not place[2]


def expressions():
    leaves = st.sampled_from(["h", "c", "x.a", "x.b", "k", "0.5", "2", "pi"])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%"]), inner).map(
                lambda t: f"({t[0]} {t[1]} {t[2]})"
            ),
            st.tuples(st.sampled_from(["tanh", "sigmoid", "relu", "gelu", "abs", "-", "U.a"]), inner).map(
                lambda t: f"{t[0]}(h + {t[1]})"
            ),
            st.tuples(inner, inner, inner).map(lambda t: f"where(h < {t[0]}, {t[1]}, {t[2]})"),
        ),
        max_leaves=12,
    )


@settings(max_examples=100, deadline=None)
@given(expressions(), expressions())
def test_the_same_graph_as_python_gives(first, second):
    """Random equations, read by the notation from a running function and from their text."""
    source = textwrap.dedent(
        f"""
        def f(x, U, h, c, *, k=Learned(0.1)):
            g = {first}
            return g * h, {second}
        """
    )
    scope = {name: getattr(rc, name) for name in rc.__all__ if not name.startswith("_")} | {"pi": 3.141592653589793}
    exec(source, scope)
    try:
        true = rc.cell(scope["f"])
    except (rc.CellError, ZeroDivisionError):
        with pytest.raises(rc.CellError):
            rc.read_cell(source)
        return
    found = rc.read_cell(source)
    assert found.graph.nodes == true.graph.nodes
    assert found.graph.gates == true.graph.gates


def test_a_stored_cell_by_its_file(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(store_cell(rc.find_cell("lstm"))))
    assert rc.find_cell(str(file)).graph.nodes == rc.find_cell("lstm").graph.nodes
    with pytest.raises(rc.OptionError, match=r"cannot be read: No such file"):
        rc.find_cell(str(tmp_path / "other.json"))
    file.write_text("[")
    with pytest.raises(rc.OptionError, match="is not JSON"):
        rc.find_cell(str(file))
    file.write_text("{}")
    with pytest.raises(rc.CellError, match="cannot be used"):
        rc.find_cell(str(file))


@pytest.mark.parametrize(("kind", "name"), [("drive", "operate"), ("drive", "_like"), ("product", "_reading")])
def test_a_stored_name_reaches_nothing_else(kind, name):
    """`x` and `U` are objects with a few attributes of their own."""
    stored = store_cell(rc.find_cell("elman"))
    for node in stored["nodes"]:
        if node["kind"] == kind:
            node["name"] = name
    stored["drives" if kind == "drive" else "matrices"] = [name]
    with pytest.raises(rc.CellError, match="another use"):
        restore_cell(stored)
