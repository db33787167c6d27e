"""Equations from text: one cell in the notation, read from Python's syntax tree. Nothing of the text is executed.

`read_cell` takes what stands below `@cell` in a file and gives the same `Cell`. It knows the notation and nothing else:

    statement   NAME = value   |   NAME, NAME = value, value   |   return value, value
    value       number | pi | NAME | x.NAME | U.NAME(value) | FUNCTION(value, …) | ago(STATE, n) | norm(value, "NAME")
                | value + - * / ** % value | -value | value < <= > >= == != value | condition & | condition | ~condition
    parameter   NAME=Learned(first, low=…, high=…) | NAME=Fixed(first) | NAME=number | NAME=FUNCTION
    first       number | [number, …] | Groups([number, …]) | Ramp(number, number) | Scattered(number, number, step=number)

Whatever else Python has is refused with its line, its column and what to write instead. Sizes are bounded, so that hostile
text can neither hang the reader nor exhaust its stack.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from recurra.cells.graph import Graph
from recurra.cells.interpreter import FUNCTIONS, REMEDIES, Equations
from recurra.cells.notation import CONSTRAINTS, Cell
from recurra.cells.operations import ACTIVATIONS
from recurra.cells.parameters import Fixed, Groups, Learned, Ramp, Scattered
from recurra.cells.stored import MOST_NODES
from recurra.errors import CellError, EquationError, OptionError, RecurraError, nearest

LONGEST, DEEPEST, MOST_VALUES, LONGEST_PATH = 10_000, 100, 1024, 200
"""Characters of a text, levels of nesting, numbers in a list, and operations that wait for one another in a step."""

_DECLARED = {"Learned": Learned, "Fixed": Fixed, "Groups": Groups, "Ramp": Ramp, "Scattered": Scattered}
_PACKAGES, _IGNORED = ("rc", "recurra"), ("recurra", "math", "__future__")


def read_cell(source: str) -> Cell:
    """The cell that a text describes, as `@cell` would read it; nothing of the text is executed.

    - `source`: one function in the notation, with or without `@cell(...)` above it and the imports of a file. At most 10,000
      characters.

    What is not of the notation raises `EquationError`, which says where (`line`, `column`) and what to write instead.

    ```python
    swift = rc.read_cell('''
    def swift(x, U, h, *, keep=Learned(0.9, low=0, high=1)):
        n = tanh(x.n + U.n(h))
        return keep * h + (1 - keep) * n
    ''')
    rc.Recurrent(swift, 3, 8)(torch.zeros(2, 5, 3)).outputs         # [2, 5, 8]
    ```
    """
    return _Reader(source).cell()


class _Reader:
    """A text on its way to a cell."""

    def __init__(self, source: str):
        if not isinstance(source, str):
            raise CellError(f"read_cell reads text; got {type(source).__name__}.")
        self.name = "cell"
        if len(source) > LONGEST:
            self.stop(f"the text has {len(source):,} characters, and at most {LONGEST:,} are read.", 1, 1)
        self.lines = re.split(r"\r\n|\r|\n", source)  # as the parser counts them
        plain = textwrap.dedent(source)
        self.indent = next(
            (
                len(was) - len(now)
                for was, now in zip(self.lines, re.split(r"\r\n|\r|\n", plain), strict=False)
                if now.strip()
            ),
            0,
        )
        self.function = self.only_function(self.parse(plain))
        self.name = self.function.name

    # -- messages ----------------------------------------------------------------------------------------------------

    def stop(self, message: str, line: int, column: int, end: int | None = None) -> NoReturn:
        raise EquationError(self.name, message, line, column, end)

    def fail(self, node: Any, message: str) -> NoReturn:
        """Refuse a node of the tree; its columns count bytes, and those of a message count characters."""
        line, end = getattr(node, "lineno", 1), getattr(node, "end_col_offset", None)
        text = self.lines[line - 1][self.indent :].encode() if line <= len(self.lines) else b""

        def column(offset: int) -> int:
            return self.indent + len(text[:offset].decode(errors="ignore")) + 1

        if getattr(node, "end_lineno", line) != line:
            end = None
        self.stop(message, line, column(getattr(node, "col_offset", 0)), None if end is None else column(end))

    def refuse(self, node: Any) -> NoReturn:
        known = REMEDIES.get(type(node))
        what = type(node).__name__
        self.fail(
            node, known or f"{what} is not part of the notation. Write assignments, arithmetic and known functions."
        )

    # -- from text to one function -----------------------------------------------------------------------------------

    def parse(self, text: str) -> ast.Module:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes in strings: nothing will run them
                tree = ast.parse(text)
        except SyntaxError as error:
            line, column = error.lineno or 1, (error.offset or 1) + self.indent
            self.stop(f"not a sentence of the notation: {error.msg}.", line, max(1, column))
        except (RecursionError, MemoryError):
            self.stop("the text is nested too deep to be read. Give parts names on lines of their own.", 1, 1)
        except ValueError as error:  # characters that no file can hold
            self.stop(f"the text cannot be parsed: {str(error)[:80]}.", 1, 1)
        for node, depth in _with_depth(tree):
            if depth > DEEPEST:
                self.fail(node, f"nested deeper than {DEEPEST} levels. Give parts names on lines of their own.")
        return tree

    def only_function(self, tree: ast.Module) -> ast.FunctionDef:
        found: list[ast.FunctionDef] = []
        for statement in tree.body:
            match statement:
                case ast.Import(names=names) if all(each.name.split(".")[0] in _IGNORED for each in names):
                    continue
                case ast.ImportFrom(module=str(module), level=0) if module.split(".")[0] in _IGNORED:
                    continue
                case ast.Import() | ast.ImportFrom():
                    self.fail(
                        statement, "nothing is imported here: the notation's functions are known. Take the line out."
                    )
                case ast.Expr(value=ast.Constant(value=str())):
                    continue  # the docstring of a file
                case ast.FunctionDef() if not found:
                    found.append(statement)
                case ast.FunctionDef():
                    self.fail(statement, f"a second function. One text is one cell; {found[0].name!r} stands above.")
                case _:
                    self.fail(statement, "only one function is read: def NAME(x, U, h): … and nothing beside it.")
        if not found:
            self.stop("there is no cell. Write def NAME(x, U, h): and its equations below.", 1, 1)
        return found[0]

    # -- the line with def -------------------------------------------------------------------------------------------

    def cell(self) -> Cell:
        function = self.function
        marked, bias, constraints = self.decorator(function.decorator_list)
        if getattr(function, "type_params", None):
            self.fail(function, "a cell has no type parameters.")
        if function.returns is not None:
            self.fail(function.returns, "leave the annotation out.")
        x, U, states, options = self.arguments(function.args)
        statements, about = self.statements(function.body)
        run = Equations(self, x, U, states, statements)

        def equations(x: Any, U: Any, *states: Any, **given: Any) -> Any:
            return run(x, U, states, given)

        equations.__doc__ = about
        try:
            made = Cell(equations, name=self.name, states=states, options=options, bias=bias, constraints=constraints)
        except EquationError:
            raise
        except OptionError as error:  # of bias and constrain
            self.fail(marked, self.bare(error))
        except CellError as error:  # of what is returned
            self.fail(statements[-1], self.bare(error))
        self.check_size(made.graph)
        return made

    def bare(self, error: RecurraError) -> str:
        """The message without the place in a file that the notation puts before it: this text has its own."""
        return str(error).rpartition(f"cell {self.name!r}: ")[2]

    def check_size(self, graph: Graph) -> None:
        """What draws, prints and compiles the cell walks it by recursion, and writes unnamed values wherever they are used."""
        if len(graph.nodes) > MOST_NODES:
            self.fail(self.function, f"{len(graph.nodes)} operations; at most {MOST_NODES} are read.")
        heights: dict[Any, int] = {}
        for node in graph.nodes:
            heights[node] = 1 + max((heights[argument] for argument in node.arguments), default=0)
            if heights[node] > LONGEST_PATH:
                self.fail(self.function, "one value is used within itself too often. Give parts names of their own.")

    def decorator(self, marks: list[ast.expr]) -> tuple[Any, dict[str, float], dict[str, str]]:
        """Where @cell stands, and its first biases and constraints."""
        if not marks:
            return self.function, {}, {}
        mark = marks[0]
        if len(marks) > 1:
            self.fail(marks[1], "only @cell stands above a cell.")
        called = mark.func if isinstance(mark, ast.Call) else mark
        if self.plain_name(called) != "cell":
            self.fail(mark, "only @cell stands above a cell, bare or as @cell(bias={...}, constrain={...}).")
        given: dict[str, dict[str, Any]] = {"bias": {}, "constrain": {}}
        if isinstance(mark, ast.Call):
            if mark.args:
                self.fail(mark.args[0], "@cell takes bias={...} and constrain={...}, by name.")
            for keyword in mark.keywords:
                if keyword.arg not in given:
                    self.fail(keyword, f"@cell has no option {keyword.arg!r}.{nearest(str(keyword.arg), given)}")
                given[keyword.arg] = self.mapping(keyword)
        return mark, given["bias"], given["constrain"]

    def mapping(self, keyword: ast.keyword) -> dict[str, Any]:
        if not isinstance(keyword.value, ast.Dict):
            self.fail(keyword.value, f'{keyword.arg} is written as {{"NAME": value}}.')
        found: dict[str, Any] = {}
        for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                self.fail(key or keyword.value, 'a key is a name in quotes: "f".')
            if keyword.arg == "bias":
                found[key.value] = float(self.number(value))
            elif isinstance(value, ast.Constant) and value.value in CONSTRAINTS:
                found[key.value] = value.value
            else:
                self.fail(value, f"a matrix is kept {' or '.join(repr(each) for each in CONSTRAINTS)}.")
        return found

    def arguments(self, given: ast.arguments) -> tuple[str, str, tuple[str, ...], dict[str, Any]]:
        positional = [*given.posonlyargs, *given.args]
        for star in (given.vararg, given.kwarg):
            if star is not None:
                self.fail(star, "name every argument: no * before a name.")
        if given.defaults:
            self.fail(given.defaults[0], "a state has no default. Put parameters after a bare *.")
        if len(positional) < 3:
            self.fail(
                self.function, f"write it as def {self.name}(x, U, h): with at least one state, parameters after *."
            )
        names: set[str] = set()
        for each in [*positional, *given.kwonlyargs]:
            if each.annotation is not None:
                self.fail(each.annotation, "leave the annotation out.")
            if each.arg in names:
                self.fail(each, f"{each.arg!r} stands twice among the arguments.")
            self.word(each, each.arg)
            names.add(each.arg)
        options: dict[str, Any] = {}
        for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            if default is None:
                self.fail(argument, f"parameter {argument.arg!r} needs a default, e.g. {argument.arg}=Learned(0.0).")
            options[argument.arg] = self.declaration(default)
        x, U, *states = (each.arg for each in positional)
        return x, U, tuple(states), options

    def word(self, node: Any, name: str) -> None:
        if name.startswith("_") or len(name) > 64:
            self.fail(node, f"{name[:40]!r} is not a name for a value: no leading _ and at most 64 letters.")
        if name in FUNCTIONS or name in _DECLARED or name == "pi":
            self.fail(node, f"{name!r} is a function or number of the notation. Choose another name.")

    def declaration(self, node: ast.expr) -> Any:
        """What a keyword-only parameter starts as."""
        if isinstance(node, ast.Call) and self.plain_name(node.func) in _DECLARED:
            return self.declared(node)
        if isinstance(node, ast.Name | ast.Attribute) and (name := self.plain_name(node)) != "pi":
            if name in ACTIVATIONS:
                return ACTIVATIONS[name]
            self.fail(node, f"{name!r} is not an activation.{nearest(name or '', ACTIVATIONS)}")
        if isinstance(node, ast.Call):
            self.fail(node, "a parameter is Learned(...), Fixed(...), a number, or the name of an activation.")
        return self.number(node)

    def declared(self, node: ast.Call) -> Any:
        name = self.plain_name(node.func) or ""
        for each in node.keywords:
            if each.arg is None:
                self.fail(each, f"{name} takes its options by name.")
        arguments = [self.first_value(each) for each in node.args]
        options = {str(each.arg): self.first_value(each.value) for each in node.keywords}
        try:
            made = _DECLARED[name](*arguments, **options)
        except TypeError:
            known = ", ".join(inspect.signature(_DECLARED[name]).parameters)
            self.fail(node, f"{name} takes {known}.")
        except RecurraError as error:
            self.fail(node, str(error))
        return made

    def first_value(self, node: ast.expr) -> Any:
        """A number, a list of numbers, or values spread over the units."""
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                if not 0 < len(parts) <= MOST_VALUES:
                    self.fail(node, f"a list holds 1 to {MOST_VALUES} numbers; got {len(parts)}.")
                return [self.number(part) for part in parts]
            case ast.Call(func=called) if self.plain_name(called) in ("Groups", "Ramp", "Scattered"):
                return self.declared(node)
            case ast.Constant(value=None):
                return None  # low=None: no bound
        return self.number(node)

    def number(self, node: ast.expr) -> int | float:
        """A number, written out: arithmetic of numbers and pi."""
        found = Equations(self, "", "", (), []).value(node, {})
        if isinstance(found, int | float):
            return found
        self.fail(node, "a number is expected here.")

    def plain_name(self, node: ast.expr) -> str | None:
        """`tanh`, or `rc.tanh` as the documentation writes it."""
        match node:
            case ast.Name(id=name):
                return name
            case ast.Attribute(value=ast.Name(id=package), attr=name) if package in _PACKAGES:
                return name
            case ast.Attribute(value=ast.Name(id="math"), attr="pi"):
                return "pi"
        return None

    # -- the lines below ---------------------------------------------------------------------------------------------

    def statements(self, body: Sequence[ast.stmt]) -> tuple[list[ast.Assign | ast.Return], str | None]:
        about: str | None = None
        kept: list[ast.Assign | ast.Return] = []
        for place, statement in enumerate(body):
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))) if place == 0:
                    about = inspect.cleandoc(text)[:4000]
                case ast.Assign():
                    for target in statement.targets:
                        self.target(target)
                    kept.append(statement)
                case ast.Return(value=ast.expr()):
                    kept.append(statement)
                    if place + 1 < len(body):
                        self.fail(body[place + 1], "nothing stands after return.")
                case ast.Expr():
                    self.fail(statement, "this line does nothing. Give its value a name, or take it out.")
                case ast.Return():
                    self.fail(statement, "return the next value of each state.")
                case _:
                    self.refuse(statement)
        if not kept or not isinstance(kept[-1], ast.Return):
            self.fail(body[-1], "the last line returns the next value of each state: return h, c.")
        return kept, about

    def target(self, node: ast.expr) -> None:
        for each in node.elts if isinstance(node, ast.Tuple | ast.List) else [node]:
            if not isinstance(each, ast.Name):
                self.fail(each, "a value is given to a plain name: a = value.")
            if each.id in [
                argument.arg for argument in [*self.function.args.posonlyargs, *self.function.args.args][:2]
            ]:
                self.fail(
                    each, f"{each.id} stays what it is: the inputs and the recurrent matrices. Choose another name."
                )
            self.word(each, each.id)


def _with_depth(tree: ast.AST) -> Iterator[tuple[ast.AST, int]]:
    """Every node with its depth, without recursion."""
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
