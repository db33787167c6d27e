"""Write docs/reference.md: every public name of recurra and of its rooms, by its docstring.

python docs/make_reference.py
"""

import ast
import builtins
import inspect
import re
import sys
from pathlib import Path
from types import GenericAlias, ModuleType
from typing import Any

import recurra as rc

PAGE = Path(__file__).parent / "reference.md"
ROOMS = ("models", "data", "training", "analysis", "plots", "metrics", "lecture")
OPERATIONS = (
    *("abs", "clamp", "cos", "erf", "exp", "floor", "gelu", "linear", "log", "maximum", "minimum", "relu", "sigmoid"),
    *("sign", "silu", "sin", "softplus", "sqrt", "tanh"),
)
GROUPS: dict[str, tuple[str, ...]] = {
    "Train, open, fit, export, serve": ("train", "fit", "open", "runs", "Run", "RECIPES", "export", "serve", "lab"),
    "Layers": ("Recurrent", "Stepper", "Tree", "Trace", "State", "detach", "spectral_radius"),
    "Cells": (
        *(
            "cell",
            "Cell",
            "Graph",
            "find_cell",
            "read_cell",
            "CATALOGUE",
            "ago",
            "norm",
            "where",
            "Learned",
            "Fixed",
            "Ramp",
        ),
        *("Groups", "Scattered", "zoneout", "recurrent_dropout"),
    ),
    "Analyses": (
        *("find_fixed_points", "vector_field", "gradient_flow", "lyapunov", "extract_automaton", "find_units"),
    ),
    "Errors": (
        "RecurraError",
        "CellError",
        "EquationError",
        "DataError",
        "EngineError",
        "OptionError",
        "RunError",
        "RunWarning",
        "ShapeError",
    ),
}
"""The names of recurra itself, in the order in which one meets them."""
ABOUT = {
    "RECIPES": "Every recipe by its name. `rc.RECIPES[NAME].settings` has its settings; called with settings it makes the task.",
    "CATALOGUE": "Every cell of the library by its name.",
    "State": "The state of a recurrent network: `state[layer][direction]` is a tuple in the order of the cell's arguments.",
}
"""What Python keeps no docstring for."""
INTRODUCTION = """# Reference

Every public name, with the first lines of its docstring; `help(rc.NAME)` shows all of it. `make docs` writes this page.
[Python](python.md) shows how the names go together.

```python
from pathlib import Path

import numpy as np
import torch

import recurra as rc
```
"""


def entry(name: str, value: Any, full: str) -> list[str]:
    """The lines of one name."""
    text = ABOUT.get(name) or documentation(value)
    lines = [f"### `{full}{signature(value)}`", ""]
    if text:
        lines += [" ".join(text.split("\n\n")[0].split()), ""]
    for example in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        public = publicly(example)
        yours = sorted(missing(public)) or re.findall(r'read_\w+\("(.*?)"', public)
        if yours and "write_text" not in public:
            lines.append(f"<!-- not run: it reads what you have, as {', '.join(yours)} -->")
        lines += [f"```python\n{public}```", ""]
    return lines


def methods(value: type) -> list[str]:
    """A table of its public methods and properties."""
    lines = ["| | |", "|---|---|"]
    for name, each in vars(value).items():
        function = getattr(each, "fget", None) or getattr(each, "func", None) or getattr(each, "__func__", each)
        if not name.startswith("_") and callable(function):
            arguments = signature(function).replace("(self, ", "(").replace("(self)", "()").replace("(cls, ", "(")
            about = " ".join(documentation(function).split("\n\n")[0].split())
            lines.append(f"| `{name}{arguments if function is each else ''}` | {about} |")
    return [*lines, ""]


def documentation(value: Any) -> str:
    """Its own docstring, without what Python writes for a dataclass and for built-in types."""
    text = (inspect.getdoc(value) or "") if callable(value) or isinstance(value, ModuleType) else ""
    return "" if text.startswith(f"{getattr(value, '__name__', '')}(") else text


def signature(value: Any) -> str:
    """Arguments and defaults, without types."""
    if not callable(value) or isinstance(value, ModuleType | GenericAlias):
        return ""
    if isinstance(value, type) and issubclass(value, Exception):
        return ""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    found, named = [], False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not named:
            found, named = [*found, "*"], True
        named = named or each.kind is each.VAR_POSITIONAL
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        default = "" if each.default is each.empty else f"={short(each.default)}"
        found.append(f"{star}{each.name}{default}")
    return f"({', '.join(found)})"


def short(value: Any) -> str:
    text = getattr(value, "__name__", None) or repr(value)
    return "…" if "<" in text or len(text) > 30 else text


def publicly(example: str) -> str:
    """An example with every public name as a user writes it: `rc.models.sample`."""
    where = {name: f"rc.{name}" for name in rc.__all__}
    for room in ROOMS:
        where = {name: f"rc.{room}.{name}" for name in getattr(rc, room).__all__} | where
    tree = ast.parse(example)
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    rows = example.split("\n")
    places = [
        (node.lineno - 1, node.col_offset, node.id)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in where and node.id not in own
        if id(node) in called or node.id[0].isupper()  # a value of that name is the example's own
    ]
    for row, column, name in sorted(places, reverse=True):
        line = rows[row].encode()  # places count bytes
        rows[row] = (line[:column] + where[name].encode() + line[column + len(name) :]).decode()
    return "\n".join(rows)


def missing(example: str) -> set[str]:
    """The names that an example reads and nobody defines."""
    tree = ast.parse(example)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    made |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    made |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return {node.id for node in names} - made - {"rc", "torch", "np", "Path"} - set(dir(builtins))


def reference() -> str:
    """The page."""
    lines = [INTRODUCTION]
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += entry(name, getattr(rc, name), f"rc.{name}")
            if name == "Run":
                lines += methods(rc.Run)
        if title == "Cells":
            operations = ", ".join(f"`{name}`" for name in OPERATIONS if name in rc.__all__)
            lines += [f"Elementwise, on values of a cell: {operations}, and Python's `abs`.", ""]
    for room in ROOMS:
        module = getattr(rc, room)
        lines += [f"## `rc.{room}`", "", " ".join(documentation(module).split()), ""]
        for name in module.__all__:
            if name in rc.__all__:
                lines += [f"### `rc.{room}.{name}`", "", f"The same as `rc.{name}`, above.", ""]
            else:
                lines += entry(name, getattr(module, name), f"rc.{room}.{name}")
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    PAGE.write_text(reference(), encoding="utf-8")
    print(f"written to {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
