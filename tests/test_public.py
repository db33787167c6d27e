"""Every public name has a docstring, an example that runs, and a place in the documentation."""

import ast
import inspect
import re
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import recurra as rc

ROOT = Path(__file__).parents[1]
ROOMS = ("models", "data", "training", "analysis", "plots", "metrics", "lecture")
PAGES = "\n".join(page.read_text() for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
OPERATIONS = {
    *("clamp", "cos", "erf", "exp", "floor", "gelu", "linear", "log", "maximum", "minimum", "relu", "sigmoid", "sign"),
    *("silu", "sin", "softplus", "sqrt", "tanh"),
}
"""Plain operations of the notation: the page about cells lists them, and `EQUATION` uses them all."""
EQUATION = """
v, w = x.a + U.a(h), x.b
smooth = softplus(v) + silu(w) + gelu(h) + sin(v) * cos(w) + erf(v) + linear(w) + exp(-v * v) + log(1 + w * w) + sqrt(1 + h * h)
rough = relu(v) + sign(w) * floor(v) + minimum(v, w) + maximum(v, 0) + clamp(w, -1, 1)
return tanh(smooth) * sigmoid(rough)
"""
VALUES = ("CATALOGUE", "RECIPES", "State")
"""Objects that are no function and no class: the documentation uses them."""

NAMES = {f"rc.{name}": getattr(rc, name) for name in rc.__all__}
NAMES |= {f"rc.{room}.{name}": getattr(getattr(rc, room), name) for room in ROOMS for name in getattr(rc, room).__all__}
CALLED = {"rc.runs": rc.runs, "rc.export": rc.export, "rc.lab": rc.lab, "rc.serve": rc.serve}
"""Rooms that are functions too."""
OWN = {name: it for name, it in NAMES.items() if name.rpartition(".")[2] not in OPERATIONS | {*VALUES}}
OWN = {name: it for name, it in OWN.items() if not isinstance(it, ModuleType)} | CALLED


def own_docstring(value: Any) -> str:
    """The docstring as it was written for this very object, not for its parent and not by `dataclass`."""
    found = inspect.cleandoc(value.__dict__.get("__doc__") or "" if isinstance(value, type) else value.__doc__ or "")
    return "" if isinstance(value, type) and found.startswith(f"{value.__name__}(") else found


def examples(docstring: str) -> list[str]:
    return [textwrap.dedent(block) for block in re.findall(r"^ *```python\n(.*?)^ *```", docstring, re.M | re.S)]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in {f"rc.{value}" for value in VALUES}])
def test_has_a_docstring(name: str) -> None:
    assert own_docstring(NAMES[name]), f"{name} has no docstring"


@pytest.mark.parametrize("name", OWN)
def test_has_an_example_that_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, with `rc`, `torch` and `np`; an error shares the example of its root."""
    value = rc.RecurraError if inspect.isclass(OWN[name]) and issubclass(OWN[name], rc.RecurraError) else OWN[name]
    found = examples(own_docstring(value))
    assert found, f"{name} has no example: a ```python block in its docstring"
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "example.py"  # a cell reads its equations from its file
    for block in found:
        file.write_text(block)
        exec(compile(ast.parse(block), str(file), "exec"), {"rc": rc, "torch": torch, "np": np, "__name__": "example"})


def test_every_operation_runs(tmp_path: Path) -> None:
    names = sorted(OPERATIONS)
    assert all(re.search(rf"\b{name}\(", EQUATION) for name in names)
    body = textwrap.indent(EQUATION.strip(), "    ")
    file = tmp_path / "own.py"
    file.write_text(f"from recurra import cell, {', '.join(names)}\n\n\n@cell\ndef own(x, U, h):\n{body}\n")
    layer = rc.Recurrent(f"{file}:own", 3, 4)
    assert layer(torch.randn(2, 5, 3)).outputs.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_is_in_the_documentation(name: str) -> None:
    short = name.rpartition(".")[2]
    asked = rf"\b{short}\b" if short in OPERATIONS or name.count(".") == 1 else rf"\b{re.escape(name[3:])}\b|`{short}\b"
    assert re.search(asked, PAGES), f"{name} is on no page of the documentation"


@pytest.mark.parametrize("name", VALUES)
def test_values_are_used_in_the_documentation(name: str) -> None:
    assert re.search(rf"\brc\.{name}\b|\b{name}\b", PAGES)


@pytest.mark.parametrize("owner", [rc.Run, rc.Recurrent, rc.Trace], ids=lambda owner: owner.__name__)
def test_methods_have_docstrings(owner: type) -> None:
    for name, value in vars(owner).items():
        if not name.startswith("_") and (callable(value) or isinstance(value, property | classmethod)):
            assert inspect.getdoc(value), f"{owner.__name__}.{name} has no docstring"


class TestTheCheckItself:
    def test_what_dataclass_writes_is_no_docstring(self) -> None:
        from dataclasses import dataclass

        @dataclass
        class Bare:
            x: int

        assert own_docstring(Bare) == ""

    def test_a_child_does_not_inherit_one(self) -> None:
        class Child(rc.Run):
            pass

        assert own_docstring(Child) == ""

    def test_examples_are_found(self) -> None:
        assert examples("A line.\n\n```python\na = 1\n```\n\n```python\nb = 2\n```") == ["a = 1\n", "b = 2\n"]
