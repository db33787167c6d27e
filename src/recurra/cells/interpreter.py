"""The equations of a text at work: each node of the syntax tree that the notation knows, on symbols, tensors and numbers.

While a cell is read, values are symbols, and arithmetic on them builds the graph; when the plain loop runs the cell, they are
tensors. No other node of the tree is ever evaluated.
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from recurra.cells import operations
from recurra.cells.notation import Symbol, ago, norm
from recurra.cells.operations import ACTIVATIONS
from recurra.cells.stored import MOST_DELAY
from recurra.errors import CellError, EquationError, RecurraError, nearest

LARGEST = 1e15
"""The largest number of a text."""

_NAMES = ("log", "sqrt", "sign", "floor", "where", "minimum", "maximum", "clamp")
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **ACTIVATIONS,
    **{name: getattr(operations, name) for name in _NAMES},
    "ago": ago,
    "norm": norm,
}
_SIGNATURES = {name: inspect.signature(function) for name, function in FUNCTIONS.items()}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
REMEDIES: dict[type[ast.AST], str] = {
    ast.FloorDiv: "// is not an operation of a cell. Write floor(a / b).",
    ast.MatMult: "@ is not elementwise. A recurrent product is U.NAME(v).",
    ast.BitXor: "^ is not an operation of a cell. A power is a ** b.",
    ast.Not: "`not` asks for one truth value, and a cell has one for each unit. Write ~(condition).",
    ast.BoolOp: "`and` and `or` ask for one truth value. Write (a) & (b) or (a) | (b).",
    ast.IfExp: "`a if condition else b` asks for one truth value. Write where(condition, a, b).",
    ast.If: "`if` asks for one truth value. Write where(condition, a, b).",
    ast.For: "a cell has no loops: it is one step. Layers and time are the library's affair.",
    ast.While: "a cell has no loops: it is one step. Layers and time are the library's affair.",
    ast.AugAssign: "write the assignment out: a = a + b.",
    ast.AnnAssign: "leave the annotation out: a = value.",
    ast.Subscript: "taking a part with [...] is not elementwise. Use a state of its own for each part.",
    ast.Lambda: "a cell is written in plain equations: no lambda.",
    ast.JoinedStr: 'text has no place in an equation, except the name in norm(v, "name").',
    ast.NamedExpr: "give the value a line of its own: a = value.",
    ast.Starred: "name every value: no *.",
    ast.Tuple: "several values stand only on the right of an assignment to as many names, or after return.",
    ast.List: "a list stands only in Learned([...]) or Fixed([...]): equal groups of units.",
}


class Refuses(Protocol):
    """Whoever knows where in the text a node stands."""

    def fail(self, node: Any, message: str) -> NoReturn: ...

    def refuse(self, node: Any) -> NoReturn: ...

    def plain_name(self, node: ast.expr) -> str | None: ...

    def bare(self, error: RecurraError) -> str: ...


class Equations:
    """The statements of a cell at work: on symbols while the cell is read, on tensors when the plain loop runs it."""

    def __init__(
        self, reader: Refuses, x: str, U: str, states: tuple[str, ...], statements: list[ast.Assign | ast.Return]
    ):
        self.reader, self.x, self.U, self.states, self.statements = reader, x, U, states, statements

    def __call__(self, x: Any, U: Any, states: Sequence[Any], given: Mapping[str, Any]) -> Any:
        names = {self.x: x, self.U: U, **dict(zip(self.states, states, strict=True)), **given}
        for statement in self.statements:
            if isinstance(statement, ast.Return):
                return self.several(statement.value, names)
            found = self.several(statement.value, names)
            for target in statement.targets:
                self.assign(target, found, names)
        raise AssertionError("the reader lets no cell pass that returns nothing")

    def several(self, node: ast.expr | None, names: dict[str, Any]) -> Any:
        assert node is not None
        if isinstance(node, ast.Tuple):
            return tuple(self.value(each, names) for each in node.elts)
        return self.value(node, names)

    def assign(self, target: ast.expr, found: Any, names: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            if isinstance(found, tuple):
                self.reader.fail(target, f"{len(found)} values for one name. Write as many names as values.")
            names[target.id] = found
            return
        assert isinstance(target, ast.Tuple | ast.List)
        count = len(found) if isinstance(found, tuple) else 1
        if count != len(target.elts) or not isinstance(found, tuple):
            self.reader.fail(target, f"{count} value(s) for {len(target.elts)} names. Write as many values as names.")
        for each, value in zip(target.elts, found, strict=True):
            assert isinstance(each, ast.Name)
            names[each.id] = value

    def value(self, node: ast.expr, names: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=bool()):
                self.reader.fail(node, "True and False are not values of a cell. Write a condition such as h > 0.")
            case ast.Constant(value=int() | float()):
                return self.checked(node, node.value)
            case ast.Name():
                return self.named(node, names)
            case ast.Attribute():
                return self.attribute(node, names)
            case ast.BinOp(left=left, op=op, right=right):
                function = _BINARY.get(type(op))
                if function is None:
                    self.reader.fail(node, REMEDIES.get(type(op), "this operator shifts bits, and a cell has none."))
                return self.operate(node, function, [left, right], names)
            case ast.UnaryOp(op=op, operand=operand):
                if type(op) not in _UNARY:
                    self.reader.fail(node, REMEDIES[ast.Not])
                return self.operate(node, _UNARY[type(op)], [operand], names)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
                return self.operate(node, _COMPARED[type(op)], [left, right], names)
            case ast.Compare(ops=[_]):
                self.reader.fail(node, "values are compared with < <= > >= == !=.")
            case ast.Compare():
                self.reader.fail(node, "compare two values at a time: (a < b) & (b < c).")
            case ast.Call():
                return self.call(node, names)
            case ast.Constant():
                self.reader.fail(node, f"{str(node.value)[:40]!r} is not a number.")
        self.reader.refuse(node)

    def named(self, node: ast.Name, names: dict[str, Any]) -> Any:
        name = node.id
        if name == "pi":
            return math.pi
        if name in names and name in (self.x, self.U):
            part = f"{self.U}.NAME(v)" if name == self.U else f"{self.x}.NAME"
            self.reader.fail(node, f"all of {name} makes no sense here. Name the part: {part}.")
        if name in names and not _is_function(names[name]):
            return names[name]
        if name in FUNCTIONS or name in names:
            self.reader.fail(node, f"{name} is a function: write {name}(v).")
        known = [each for each in (*names, *FUNCTIONS) if each]
        self.reader.fail(node, f"{name!r} has no value yet.{nearest(name, known)}")

    def attribute(self, node: ast.Attribute, names: dict[str, Any]) -> Any:
        if self.reader.plain_name(node) == "pi":
            return math.pi
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if owner and owner == self.x:
            return getattr(names[self.x], self.part(node))
        if owner and owner == self.U:
            self.reader.fail(node, f"{self.U}.{node.attr} is a matrix. Write {self.U}.{node.attr}(v).")
        self.reader.fail(
            node, f"`.{node.attr}` is not part of the notation. It has x.NAME, U.NAME(v), and functions: tanh(v)."
        )

    def part(self, node: ast.Attribute) -> str:
        """NAME in x.NAME or U.NAME, which becomes the name of a weight."""
        if node.attr.startswith("_") or len(node.attr) > 64 or node.attr == "operate":
            self.reader.fail(node, f"{node.attr[:40]!r} is not a name for a part of x or U. Choose another.")
        return node.attr

    def call(self, node: ast.Call, names: dict[str, Any]) -> Any:
        called = node.func
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == self.U:
            name = self.part(called)
            if len(node.args) != 1 or node.keywords:
                self.reader.fail(node, f"{self.U}.{name}(v) multiplies one value.")
            return self.operate(node, lambda v: getattr(names[self.U], name)(v), node.args, names)
        name = self.reader.plain_name(called) or ""
        if (
            name in names
            and isinstance(called, ast.Name)
            and _is_function(names[name])
            and name not in (self.x, self.U)
        ):
            return self.operate(node, names[name], self.positional(node, "abs"), names)
        if not name or name in names or name not in FUNCTIONS:
            known = (
                f"{name!r} is not a function of the notation." if name else "only functions of the notation are called."
            )
            self.reader.fail(called, known + nearest(name, FUNCTIONS))
        if name == "norm":
            return self.norm(node, names)
        return self.operate(node, FUNCTIONS[name], self.positional(node, name), names)

    def positional(self, node: ast.Call, name: str) -> list[ast.expr]:
        """The arguments of a call in the order of the function's own."""
        for each in node.args:
            if isinstance(each, ast.Starred):
                self.reader.refuse(each)
        try:
            bound = _SIGNATURES[name].bind(*node.args, **{str(each.arg): each.value for each in node.keywords})
        except TypeError:
            takes = ", ".join(_SIGNATURES[name].parameters)
            self.reader.fail(node, f"{ast.unparse(node.func)[:64]} takes ({takes}); got {len(node.args)} value(s).")
        return list(bound.arguments.values())

    def norm(self, node: ast.Call, names: dict[str, Any]) -> Any:
        inner, *rest = self.positional(node, "norm")
        called = rest[0] if rest else ast.Constant(value="")
        text = called.value if isinstance(called, ast.Constant) else None
        if not isinstance(text, str) or (text and not (text.isidentifier() and len(text) <= 64)):
            self.reader.fail(called, 'the gain of norm has a name in quotes: norm(v, "h").')
        return self.operate(node, lambda v: norm(v, text), [inner], names)

    def operate(
        self, node: ast.expr, function: Callable[..., Any], arguments: Sequence[ast.expr], names: dict[str, Any]
    ) -> Any:
        values = [self.value(argument, names) for argument in arguments]
        self.learn(names)
        if all(isinstance(each, int | float) for each in values):
            return self.of_numbers(node, function, values)
        if function is ago and not (isinstance(values[1], int) and values[1] <= MOST_DELAY):
            self.reader.fail(arguments[1], f"ago(state, n) takes a whole number from 1 to {MOST_DELAY}.")
        try:
            return function(*values)
        except EquationError:
            raise
        except CellError as error:
            self.reader.fail(node, self.reader.bare(error))
        except (TypeError, ArithmeticError) as error:
            self.reader.fail(node, f"this cannot be computed: {str(error)[:100]}.")

    def of_numbers(self, node: ast.expr, function: Callable[..., Any], values: list[Any]) -> int | float:
        if function in _COMPARED.values() or function in (operator.and_, operator.or_, operator.invert):
            self.reader.fail(node, "a condition compares at least one value of the cell, not two numbers.")
        if function is operator.pow:
            values = [float(each) for each in values]  # a whole number with a million digits is of no use to anyone
        try:
            found = function(*values)
        except (CellError, TypeError, ValueError, ArithmeticError) as error:
            self.reader.fail(node, f"this cannot be computed: {str(error)[:100]}.")
        return self.checked(node, found)

    def checked(self, node: ast.expr, found: Any) -> int | float:
        if isinstance(found, complex) or not math.isfinite(found) or abs(found) > LARGEST:
            self.reader.fail(node, f"numbers are real, and at most {LARGEST:g} in size.")
        return found  # type: ignore[no-any-return]

    def learn(self, names: Mapping[str, Any]) -> None:
        """Names of values are the names of gates, as when the function itself runs on symbols."""
        for name, value in names.items():
            if isinstance(value, Symbol) and value.node.kind not in ("state", "parameter", "drive", "noise"):
                value.reading.call(name, value.node)


def _is_function(value: Any) -> bool:
    """Values of the cell can be called too, to say that they cannot."""
    return callable(value) and not isinstance(value, operations.Expression)
