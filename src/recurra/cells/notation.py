"""The notation: `@cell` traces a function of equations symbolically, once, into a graph.

    @cell
    def leaky(x, U, h, *, alpha=Learned(0.9, low=0, high=1)):
        return alpha * h + (1 - alpha) * tanh(x.h + U.h(h))

`x.NAME` is a drive, W_NAME x_t + b_NAME for all of time at once; `U.NAME(v)` is a recurrent product, U_NAME v; the further
positional arguments are the state, keyword-only arguments are per-unit parameters (`Learned`, `Fixed`) or plain options.
Everything else is elementwise.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn, overload

from torch import Tensor

from recurra.cells.graph import Graph, Node, Noise, StateVariable, arrange, constant, layer_norm, make, operation, walk
from recurra.cells.operations import ACTIVATIONS, OPERATIONS, Expression, Value
from recurra.cells.parameters import Fixed, Learned, spread
from recurra.errors import CellError, OptionError, nearest, quoted

CONSTRAINTS = ("antisymmetric", "orthogonal")
_OURS = ("notation.py", "operations.py", "graph.py", "zoneout.py", "recurrent_dropout.py")
_HERE = {str(Path(__file__).with_name(name)) for name in _OURS}  # frames of these files are not the user's equations


class Symbol(Expression):
    """A value of a cell that is being read. Arithmetic on it builds the graph; anything else is refused."""

    def __init__(self, node: Node, reading: _Reading):
        self.node, self.reading = node, reading

    def operate(self, name: str, arguments: tuple[Value, ...]) -> Symbol:
        self.reading.learn_names()
        kinds = [self._node(argument, name) for argument in arguments]
        if name == "clamp" and any(node.kind != "constant" for node in kinds[1:]):
            self.reading.fail("clamp takes numbers as bounds. Write minimum(maximum(v, low), high) for others.")
        needs_condition = name in ("and", "or", "not")
        for place, node in enumerate(kinds):
            wants = needs_condition or (name == "where" and place == 0)
            if wants and not node.is_condition:
                self.reading.fail(f"{name} takes a condition such as `h > 0`, not a value.")
            if node.is_condition and not wants:
                self.reading.fail(
                    f"a condition is not a number: write where(condition, a, b) instead of using it in {name}."
                )
        return self.reading.symbol(operation(name, *kinds))

    def _node(self, value: Value, name: str) -> Node:
        if isinstance(value, Symbol):
            return value.node
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            if isinstance(value, Tensor) and value.numel() == 1:
                return constant(float(value))
            if isinstance(value, _Whole):
                value.operate(name, (self, value))
            self.reading.fail(
                f"{name} takes values of the cell and numbers, not {_describe(value)}. Make it a keyword-only parameter, "
                "e.g. `*, scale=Fixed(...)`."
            )
        return constant(float(value))

    def __bool__(self) -> bool:
        self.reading.fail(
            "Python cannot branch on a value of the cell. Write where(condition, a, b) instead of if, and, or, not."
        )

    def _not_elementwise(self, what: str, why: str = "is not elementwise") -> NoReturn:
        self.reading.fail(
            f"{what} {why}. A cell may use + - * / ** %, comparisons with where, norm(v), U.NAME(v), and "
            f"{', '.join(sorted(set(OPERATIONS) & set(_FUNCTIONS)))}."
        )

    def __call__(self, *arguments: Any, **options: Any) -> NoReturn:
        called = f"x.{self.node.name}" if self.node.kind == "drive" else "this value"
        product = f"U.{self.node.name}(v)" if self.node.kind == "drive" else "U.NAME(v)"
        self.reading.fail(
            f"{called} is a value of the cell, which cannot be called. Write {product} for a product with the state, or * to "
            "multiply unit by unit."
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if name in _METHODS:
            return lambda *arguments: self.operate(name, (self, *arguments))
        self._not_elementwise(f"`.{name}`", _UNKNOWN)

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = {"mul": "multiply", "sub": "subtract", "div": "divide", "neg": "negate", "pow": "power"}.get(
            function.__name__.strip("_"), function.__name__.strip("_")
        )
        given = [*args, *(kwargs or {}).values()]
        given += [inner for each in given if isinstance(each, list | tuple) for inner in each]
        symbol = next(a for a in given if isinstance(a, Symbol))
        if name in OPERATIONS and not kwargs:
            return symbol.operate(name, tuple(args))
        if name in OPERATIONS:
            symbol.reading.fail(
                f"torch.{function.__name__} takes no named arguments in a cell; got {', '.join(kwargs)}. Use the function of "
                "recurra, e.g. clamp(v, low, high)."
            )
        symbol._not_elementwise(f"torch.{function.__name__}", _UNKNOWN)

    def __matmul__(self, other: Value) -> NoReturn:
        self._not_elementwise("@")

    __rmatmul__ = __matmul__

    def __getitem__(self, index: Value) -> NoReturn:
        self._not_elementwise("taking a part with [...]")

    def __iter__(self) -> NoReturn:
        self._not_elementwise("taking a value apart")

    def __len__(self) -> NoReturn:
        self._not_elementwise("len")

    def __float__(self) -> NoReturn:
        self._not_elementwise("turning a value into a number")

    __int__ = __index__ = __float__

    def __floordiv__(self, other: Value) -> NoReturn:
        self.reading.fail("// is not one of the operations of a cell. Write floor(a / b).")

    __rfloordiv__ = __floordiv__

    def __array__(self, *arguments: Any, **options: Any) -> NoReturn:
        self._not_elementwise("a function of numpy")

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        names = {"power": "power", "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide"}
        scalars = [each for each in inputs if isinstance(each, Symbol | int | float)]
        if function.__name__ in names and len(scalars) == len(inputs):  # a numpy number on the left of an operator
            return self.operate(
                names[function.__name__], tuple(e if isinstance(e, Symbol) else float(e) for e in inputs)
            )
        self._not_elementwise(f"numpy.{function.__name__}", _UNKNOWN)


_METHODS = {
    *("sigmoid", "tanh", "relu", "exp", "log", "sqrt", "abs", "sign", "floor", "sin", "cos", "erf"),
    *("minimum", "maximum", "clamp"),
}
"""Operations that tensors have as methods too, so that `h.tanh()` means the same when it is read and when it runs."""
_FUNCTIONS = {*_METHODS, "softplus", "where"}
_UNKNOWN = "is not one of the elementwise operations of a cell"


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return f"{value!r} ({type(value).__name__})" if not isinstance(value, _Whole) else "all of x or U"


class _Whole(Expression):
    """All of `x` or `U`, which only make sense by their parts, or a matrix without what it multiplies."""

    _reading: _Reading

    def operate(self, name: str, arguments: tuple[Value, ...]) -> NoReturn:
        self._reading.fail(
            f"{name} of all of x or U makes no sense. Name the part: x.NAME, which is W_NAME x + b_NAME, or U.NAME(v)."
        )

    def __call__(self, *arguments: Any) -> Any:
        self.operate("a call", arguments)

    def __getitem__(self, key: Any) -> NoReturn:
        self.operate("taking a part with [...]", ())

    def __iter__(self) -> NoReturn:
        self.operate("taking apart", ())

    def __len__(self) -> NoReturn:
        self.operate("len", ())

    def __bool__(self) -> NoReturn:
        self.operate("a truth value", ())

    def __matmul__(self, other: Any) -> NoReturn:
        self.operate("@", ())

    __rmatmul__ = __matmul__

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        next(each for each in args if isinstance(each, _Whole)).operate(f"torch.{function.__name__}", ())


class _Drives(_Whole):
    """`x` while a cell is being read."""

    def __init__(self, reading: _Reading):
        self._reading = reading

    def __getattr__(self, name: str) -> Symbol:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._reading.symbol(make("drive", name=name))


class _Products(_Whole):
    """`U` while a cell is being read."""

    def __init__(self, reading: _Reading):
        self._reading = reading

    def __getattr__(self, name: str) -> _Product:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Product(name, self._reading)


class _Product(_Whole):
    """`U.NAME` while a cell is being read."""

    def __init__(self, name: str, reading: _Reading):
        self._name, self._reading = name, reading

    def operate(self, name: str, arguments: tuple[Value, ...]) -> NoReturn:
        self._reading.fail(
            f"{name} of U.{self._name} makes no sense: it is a matrix, and a cell only multiplies by it. Write "
            f"U.{self._name}(v); another matrix, such as a transposed one, gets a name of its own."
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self.operate(f".{name}", ())

    def __call__(self, *arguments: Any) -> Symbol:
        self._reading.learn_names()
        if len(arguments) != 1:
            self._reading.fail(f"U.{self._name}(v) multiplies one vector; got {len(arguments)}.")
        v = arguments[0]
        if not isinstance(v, Symbol) or v.node.kind == "constant":
            found = "a number" if isinstance(v, Symbol) else _describe(v)
            self._reading.fail(f"U.{self._name}(...) multiplies a state-sized vector, not {found}.")
        if v.node.is_condition:
            self._reading.fail(f"U.{self._name}(...) multiplies a state-sized vector, not a condition.")
        return self._reading.symbol(make("product", v.node, name=self._name))


@dataclass
class _Reading:
    """What is learned while the equations of one cell run on symbols."""

    cell: str
    code: CodeType | None  # of the equations, whose local variables name the gates
    written: dict[Node, None] = field(default_factory=dict)  # in the order of the equations
    labels: dict[str, Node] = field(default_factory=dict)
    earlier: dict[str, list[Node]] = field(default_factory=dict)
    noises: dict[str, Noise] = field(default_factory=dict)
    gains: list[str] = field(default_factory=list)

    def learn_names(self) -> None:
        """The local variables of the equations are the names of their values."""
        frame = _user_frame("")
        if frame is None or frame.f_code is not self.code:
            return  # a helper function's variables are its own affair
        for name, value in frame.f_locals.items():
            if isinstance(value, Symbol) and value.node.kind not in ("state", "parameter", "drive", "noise"):
                self.call(name, value.node)

    def call(self, name: str, node: Node) -> None:
        """The value goes by this name from now on."""
        before = self.labels.get(name, node)
        if before is not node:
            self.earlier.setdefault(name, []).append(before)
        self.labels[name] = node

    def symbol(self, node: Node) -> Symbol:
        self.written.setdefault(node)
        return Symbol(node, self)

    def fail(self, message: str) -> NoReturn:
        frame = _user_frame(self.code.co_filename if self.code else "")
        where = _line(frame.f_code.co_filename, frame.f_lineno) if frame else ""
        raise CellError(f"{where}cell {self.cell!r}: {message}")


def _user_frame(filename: str) -> FrameType | None:
    """The innermost frame of that file; without a name, the innermost that is not of the notation itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (
        frame.f_code.co_filename != filename if filename else frame.f_code.co_filename in _HERE
    ):
        frame = frame.f_back
    return frame


def _line(filename: str, number: int) -> str:
    source = linecache.getline(filename, number).strip()
    return f"{filename}:{number}: " + (f"`{source}`: " if source else "")


def _return_line(code: CodeType) -> int:
    lines = [i.positions.lineno for i in dis.get_instructions(code) if i.opname.startswith("RETURN") and i.positions]
    return max((line for line in lines if line), default=code.co_firstlineno)


_past: ContextVar[list[tuple[Tensor, Sequence[Tensor]]] | None] = ContextVar("past", default=None)


@contextmanager
def remember(past: list[tuple[Tensor, Sequence[Tensor]]]) -> Iterator[None]:
    """While a cell runs on tensors: each state as it stands, with its earlier values (oldest first), for `ago`."""
    token = _past.set(past)
    try:
        yield
    finally:
        _past.reset(token)


def ago(state: Value, d: int) -> Value:
    """The state as it was `d` steps before the step that is being computed; `ago(h, 1)` is `h` itself.

    ```python
    @rc.cell
    def echo(x, U, h):
        return rc.tanh(x.h + U.h(h) + 0.5 * rc.ago(h, 4))
    ```
    """
    if isinstance(state, Symbol):
        if isinstance(d, bool) or not isinstance(d, int) or d < 1:
            state.reading.fail(f"ago(state, d) needs a whole number d >= 1; got {d!r}. ago(h, 1) is h itself.")
        if state.node.kind != "state":
            state.reading.fail("ago takes a state argument of the cell as it stands, not a value computed from it.")
        return Symbol(make("state", name=state.node.name, delay=d), state.reading)
    for current, earlier in _past.get() or ():
        if current is state:
            return earlier[-d]
    raise CellError(
        "ago was called outside of a cell, or with something that is not one of the cell's state arguments."
    )


def norm(v: Value, name: str = "") -> Value:
    """LayerNorm of a gate over its units, with a learned gain: the one reduction that a cell may use.

    `name` names the gain (`gain_NAME`); without it gains are numbered.

    ```python
    @rc.cell
    def calm(x, U, h):
        return rc.tanh(rc.norm(x.h + U.h(h), "h"))                  # its gain is the parameter gain_h
    ```
    """
    if isinstance(v, Symbol):
        reading = v.reading
        reading.learn_names()
        if v.node.kind == "constant" or v.node.is_condition:
            reading.fail("norm takes a state-sized value, not a number or a condition.")
        gain = f"gain_{name or len(reading.gains) + 1}"
        if gain in reading.gains:
            reading.fail(f"two norms are called {name!r}. Give each its own name.")
        reading.gains.append(gain)
        return reading.symbol(make("norm", v.node, name=gain))
    gains = _gains.get()
    if gains is None:
        raise CellError("norm was called outside of a cell.")
    return layer_norm(v, next(gains))


_gains: ContextVar[Iterator[Tensor] | None] = ContextVar("gains", default=None)


@contextmanager
def gains_in_order(gains: Iterator[Tensor]) -> Iterator[None]:
    """While a cell runs on tensors: the gains that its calls of `norm` take, in the order of the calls."""
    token = _gains.set(gains)
    try:
        yield
    finally:
        _gains.reset(token)


def noise(x: Any, name: str, *, chance: float, scale: float, per: str) -> Value:
    """A random mask that belongs to the inputs of a step: see `Noise`. Used by `zoneout` and `recurrent_dropout`."""
    if isinstance(x, _Drives):
        reading = x._reading
        if name in reading.noises:
            reading.fail(f"two masks are called {name!r}. Wrap the cell once, or give the masks different names.")
        reading.noises[name] = Noise(name, chance, scale, per)
        return Symbol(make("noise", name=name), reading)
    return x[name]


class Cell:
    """A cell of equations: the function as it was written, and the graph that was read off it.

    - `cell(x, U, *state)` runs the equations as they stand, on tensors.
    - `cell(option=value)` gives the cell with other options or parameters: `skip(d=8)`, `leaky(alpha=0.5)`.
    - `cell.graph` is what the engines, pages and pictures use.

    ```python
    rc.find_cell("skip")(d=8).graph.parameters
    print(rc.find_cell("gru").graph)                            # the equations as they were read
    ```
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        states: tuple[str, ...],
        options: Mapping[str, Any],
        bias: Mapping[str, float],
        constraints: Mapping[str, str],
        equations: Callable[..., Any] | None = None,
    ):
        self.function, self.name, self.states = function, name, states
        self.equations = equations or function
        self.options, self.bias, self.constraints = dict(options), dict(bias), dict(constraints)
        self.__doc__ = inspect.getdoc(self.equations)
        self.__module__ = function.__module__
        self.__name__ = name
        self.graph = self._read()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not arguments:
            return self._variant(options)
        size = arguments[-1].shape[-1]
        units = {
            name: spread(each.value, size, self.about(name)).to(arguments[-1]) for name, each in self.units.items()
        }
        return self.function(*arguments, **{**self.options, **units, **options})

    def __repr__(self) -> str:
        return f"<cell {self.name}({', '.join(('x', 'U', *self.states))})>"

    def __deepcopy__(self, memo: Any) -> Cell:
        return self  # never changed after it was read, and nodes are told apart by identity

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by name if it is of the catalogue, otherwise by its graph: no code travels, none has to be found again."""
        catalogue, stored = import_module("recurra.cells.catalogue"), import_module("recurra.cells.stored")
        if catalogue.CATALOGUE.get(self.name) is self:
            return catalogue.find_cell, (self.name,)
        return stored.restore_cell, (stored.store_cell(self),)

    def _variant(self, changes: Mapping[str, Any]) -> Cell:
        options = dict(self.options)
        for key, value in changes.items():
            if key not in options:
                raise OptionError(f"cell {self.name!r} has no option {quoted(key)}.{nearest(key, options)}")
            if callable(options[key]) and not callable(value):
                if not isinstance(value, str) or value not in ACTIVATIONS:
                    raise OptionError(f"{key}={quoted(value)} is not an activation.{nearest(str(value), ACTIVATIONS)}")
                value = ACTIVATIONS[value]
            options[key] = value
        return Cell(
            self.function,
            name=self.name,
            states=self.states,
            options=options,
            bias=self.bias,
            constraints=self.constraints,
            equations=self.equations,
        )

    def about(self, name: str) -> str:
        """A per-unit parameter, as messages call it."""
        return f"parameter {name!r} of cell {self.name!r}"

    @property
    def units(self) -> dict[str, Learned | Fixed]:
        """The keyword arguments that are per-unit parameters."""
        return {name: value for name, value in self.options.items() if isinstance(value, (Learned, Fixed))}

    def call(self, x: Any, U: Any, states: Sequence[Tensor], units: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """One step on tensors: the equations as they stand, with the current values of the per-unit parameters."""
        new = self.function(x, U, *states, **{name: units.get(name, value) for name, value in self.options.items()})
        return tuple(new) if isinstance(new, (tuple, list)) else (new,)

    def _read(self) -> Graph:
        reading = _Reading(self.name, getattr(self.equations, "__code__", None))
        x, U = _Drives(reading), _Products(reading)
        states = [Symbol(make("state", name=name), reading) for name in self.states]
        options = {
            name: Symbol(make("parameter", name=name), reading) if isinstance(value, (Learned, Fixed)) else value
            for name, value in self.options.items()
        }
        returned = self.function(x, U, *states, **options)
        updates = self._updates(returned, reading)

        reachable = set(walk(updates))
        nodes = tuple(node for node in walk([*reading.written, *updates]) if node in reachable)
        stages = arrange(nodes)
        matrices = tuple(dict.fromkeys(name for stage in stages for group in stage for name in group.names))
        drives = tuple(node.name for node in nodes if node.kind == "drive")
        depth = dict.fromkeys(self.states, 1)
        for node in nodes:
            if node.kind == "state":
                depth[node.name] = max(depth[node.name], node.delay)
        self._check_keys("bias", self.bias, drives, "x")
        self._check_keys("constrain", self.constraints, matrices, "U")
        gates = {
            name: node
            for name, node in reading.labels.items()
            if node in reachable and not node.is_condition and name not in self.states and name not in self.options
        }
        return Graph(
            name=self.name,
            states=tuple(StateVariable(name, depth[name]) for name in self.states),
            updates=updates,
            drives=drives,
            nodes=nodes,
            matrices=matrices,
            parameters=self.units | {gain: Learned(1.0) for gain in reading.gains},
            noises=reading.noises,
            gates=gates,
            stages=stages,
            bias=self.bias,
            constraints=self.constraints,
            earlier={name: (*each, reading.labels[name]) for name, each in reading.earlier.items()},
        )

    def _updates(self, returned: Any, reading: _Reading) -> tuple[Node, ...]:
        values = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
        code = getattr(self.function, "__code__", None)
        where = _line(code.co_filename, _return_line(code)) if code else ""
        if len(values) != len(self.states):
            raise CellError(
                f"{where}cell {self.name!r}: {len(values)} value(s) returned for {len(self.states)} state(s) "
                f"({', '.join(self.states)}). Return the next value of each state, in this order; the first is the output."
            )
        nodes = []
        for name, value in zip(self.states, values, strict=True):
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                value = Symbol(constant(value), reading)
            if not isinstance(value, Symbol) or value.node.is_condition:
                kind = "a condition" if isinstance(value, Symbol) else _describe(value)
                raise CellError(
                    f"{where}cell {self.name!r}: the next value of {name!r} is {kind}, not a state-sized value."
                )
            nodes.append(value.node)
        return tuple(nodes)

    def _check_keys(self, what: str, given: Mapping[str, Any], known: Any, owner: str) -> None:
        for key in given:
            if key not in known:
                raise OptionError(
                    f"cell {self.name!r}: {what}={{{key!r}: ...}} names no {owner}.{key} of its equations.{nearest(key, known)}"
                )
        if what == "constrain":
            for value in given.values():
                if value not in CONSTRAINTS:
                    raise OptionError(
                        f"cell {self.name!r}: constraint {value!r} does not exist.{nearest(str(value), CONSTRAINTS)}"
                    )


@overload
def cell(function: Callable[..., Any]) -> Cell: ...
@overload
def cell(
    *, bias: Mapping[str, float] | None = None, constrain: Mapping[str, str] | None = None
) -> Callable[[Callable[..., Any]], Cell]: ...
def cell(
    function: Callable[..., Any] | None = None,
    *,
    bias: Mapping[str, float] | None = None,
    constrain: Mapping[str, str] | None = None,
) -> Cell | Callable[[Callable[..., Any]], Cell]:
    """Make a cell of a function of equations.

    - `bias`: first values of the drives' biases, e.g. `{"f": 1.0}` for an open forget gate; 0 elsewhere.
    - `constrain`: the form in which a recurrent matrix is kept while it is trained: `{"h": "antisymmetric"}` or
      `{"h": "orthogonal"}`.

    ```python
    from recurra import cell, sigmoid, tanh

    @cell(bias={"f": 1.0})
    def forgetful(x, U, h):
        f = sigmoid(x.f + U.f(h))
        return f * h + (1 - f) * tanh(x.h)

    rc.Recurrent(forgetful, 3, 8)(torch.zeros(2, 5, 3)).outputs     # [2, 5, 8]
    ```
    """

    def read(function: Callable[..., Any]) -> Cell:
        _check_mapping(
            function, "bias", bias, 'first values of biases, e.g. {"f": 1.0}; Recurrent(..., bias=False) has none'
        )
        _check_mapping(function, "constrain", constrain, 'forms of matrices, e.g. {"h": "orthogonal"}')
        states, options = _arguments(function)
        return Cell(
            function,
            name=function.__name__,
            states=states,
            options=options,
            bias=bias or {},
            constraints=constrain or {},
        )

    return read(function) if function is not None else read


def _check_mapping(function: Callable[..., Any], name: str, given: Any, wanted: str) -> None:
    if given is not None and not isinstance(given, Mapping):
        raise OptionError(f"cell {function.__name__!r}: {name} takes {wanted}; got {quoted(given)}.")


def _arguments(function: Callable[..., Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names of the states and the options with their defaults, from the function's signature."""
    where = _line(function.__code__.co_filename, function.__code__.co_firstlineno)
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 3 or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise CellError(
            f"{where}cell {function.__name__!r}: write it as f(x, U, state, ...) with at least one state, and parameters after *."
        )
    for p in positional:
        if p.default is not p.empty:
            raise CellError(
                f"{where}cell {function.__name__!r}: {p.name!r} has a default; put parameters after a bare *."
            )
    options = {}
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY:
            if p.default is p.empty:
                raise CellError(
                    f"{where}cell {function.__name__!r}: parameter {p.name!r} needs a default, e.g. {p.name}=Learned(0.0)."
                )
            options[p.name] = p.default
    return tuple(p.name for p in positional[2:]), options
