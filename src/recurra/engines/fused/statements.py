"""The one form to which a step is lowered, and what the printers of C++, CUDA C++ and Triton share in printing it.

A step is a few statements: `Dot` (products of whole rows, for which a GPU kernel waits first), `Let` (a value gets a
name, read from memory or computed), `Store` and `Reduce`. `lower_step` decides once, for every language, which values
get a line of their own and in which order; a printer says how its language reads a place, writes an operation and
stores a value.

Invariant: a `Let` stands after the `Let`s of what it is computed from and before the first statement that uses it, and
each node has at most one within a scope. So printing the statements in order, each by itself, is a program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from recurra.cells.graph import Node
from recurra.engines.fused.stages import Place, Product, Step


@dataclass(frozen=True, eq=False)
class Dot:
    """The products of one argument, for these units: wait until the argument's row is whole, then multiply."""

    product: Product


@dataclass(frozen=True, eq=False)
class Let:
    """A value, read from `place` or computed from its arguments. It gets a line, unless it is `inline`: read where it is used."""

    node: Node
    place: Place | None
    inline: bool = False


@dataclass(frozen=True, eq=False)
class Store:
    node: Node
    place: Place


@dataclass(frozen=True, eq=False)
class Reduce:
    """The mean of a value over all units: what LayerNorm and its derivative need besides elementwise operations."""

    node: Node
    number: int


Statement = Dot | Let | Store | Reduce


@dataclass(frozen=True, eq=False)
class Lowering:
    """The statements of each pass, and what each reads from memory: the first node that asks for a place, in order."""

    passes: tuple[tuple[Statement, ...], ...]
    reads: tuple[Mapping[Place, Node], ...]


def lower_step(
    step: Step,
    names: Collection[Node],
    *,
    soonest: Callable[[Place], int] = lambda place: 0,
    registers: Collection[str] | None = None,
    rows_in_registers: bool = False,
) -> Lowering:
    """The passes of a step as statements. Nodes in `names` get a line, and so does what is used twice.

    - `soonest`: stores come in this order, for instance what other thread blocks wait for first.
    - `registers`: all passes are one scope; what an earlier pass put into a place of these kinds is still at hand.
    - `rows_in_registers`: products take their arguments from there as well, and not from memory.
    """
    scope = _Scope(step, names, registers or ())
    stores = [sorted(each.stores, key=lambda store: soonest(store[1])) for each in step.passes]
    if registers is not None:
        for k, _ in enumerate(step.passes):
            scope.count(k, [node for node, _ in stores[k]])
        scope.uses.update({node: 2 for each in stores for node, _ in each if node.kind != "constant"})
    passes, reads = [], []
    for k, each in enumerate(step.passes):
        if registers is None:
            scope = _Scope(step, names, ())
            scope.count(k, [node for node, _ in stores[k]])
        statements: list[Statement] = []
        for product in each.products:
            if rows_in_registers:
                own = product.nodes[0].arguments
                statements += [let for argument in own for let in scope.need(k, argument)]
            statements.append(Dot(product))
        for node, place in stores[k]:
            statements += scope.need(k, node)
            statements.append(Reduce(node, place.number) if place.kind == "mean" else Store(node, place))
        passes.append(tuple(statements))
        reads.append(scope.reads)
    return Lowering(tuple(passes), tuple(reads))


class _Scope:
    """What has a name so far, in a pass or in a whole step."""

    def __init__(self, step: Step, names: Collection[Node], registers: Collection[str]):
        self.step, self.names, self.registers = step, names, registers
        self.uses: Counter[Node] = Counter()
        self.reads: dict[Place, Node] = {}
        self.done: set[Node] = set()

    def find(self, k: int, node: Node) -> Place | None:
        place = self.step.find(node, k)
        return None if place is None or place.kind in self.registers else place

    def count(self, k: int, roots: Iterable[Node]) -> None:
        """How often each value is used, and what is read."""
        stack = list(roots)
        while stack:
            node = stack.pop()
            self.uses[node] += 1
            if self.uses[node] > 1:
                continue
            place = self.find(k, node)
            if place is None:
                stack.extend(node.arguments)
            else:
                self.reads.setdefault(place, node)

    def need(self, k: int, node: Node) -> Iterator[Let]:
        """What must be said before a statement that uses the node."""
        if node in self.done or node.kind == "constant":
            return
        place = self.find(k, node)
        if place is None:
            for argument in node.arguments:
                yield from self.need(k, argument)
            if node not in self.names and self.uses[node] < 2:
                return  # used once, and written where it is used
        inline = place is not None and node.kind in ("product", "back") and self.uses[node] < 2
        if not inline:
            self.done.add(node)
        yield Let(node, place, inline)


ARITHMETIC = {
    "add": "({} + {})",
    "subtract": "({} - {})",
    "multiply": "({} * {})",
    "divide": "({} / {})",
    "negate": "(-{})",
    "less": "({} < {})",
    "less_equal": "({} <= {})",
    "equal": "({} == {})",
    "and": "({} & {})",
    "or": "({} | {})",
}
"""Operations that every language writes alike; one that has no form is a function of its name."""
CPP_WORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
    const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
    while xor xor_eq
    """.split()  # noqa: SIM905
)
"""Names that no variable of C++ can have."""
_PREFIXES = {"drive": "x_", "adjoint": "d_", "product": "u_", "back": "back_", "parameter": "", "noise": ""}


@dataclass(frozen=True)
class Language:
    """How a language writes operations, numbers and lines (of a value, of a condition), and which names are not free in it."""

    forms: Mapping[str, str]
    number: str
    nan: str
    infinity: str  # with a place for the sign
    line: str
    condition: str
    reserved: Collection[str]
    prefixes: tuple[str, ...] = ("tile_",)  # how names begin that the program around the equations uses

    def constant(self, value: float) -> str:
        if value != value:
            return self.nan
        if value in (float("inf"), float("-inf")):
            return self.infinity.format("-" if value < 0 else "")
        return self.number.format(value)


class Printer:
    """Prints the values of one scope in a language; `read` says how a value is read from a place."""

    def __init__(
        self,
        language: Language,
        names: Mapping[Node, str],
        read: Callable[[Node, Place], str],
        reserved: Iterable[str] = (),
    ):
        self.language, self.names, self.read = language, names, read
        self.done: dict[Node, str] = {}
        self.taken = {*language.reserved, *reserved}

    def value(self, node: Node) -> str:
        """The value's name or, inline, its text."""
        if node in self.done:
            return self.done[node]
        return self.language.constant(node.value) if node.kind == "constant" else self.operation(node)

    def operation(self, node: Node) -> str:
        inner = [self.value(argument) for argument in node.arguments]
        form = self.language.forms.get(node.kind, node.kind + "({})".replace("{}", ", ".join(["{}"] * len(inner))))
        return form.format(*inner)

    def let(self, statement: Let) -> list[str]:
        """A line that gives the value a name: the one of the equations if it is free."""
        node, place = statement.node, statement.place
        text = self.operation(node) if place is None else self.read(node, place)
        if statement.inline:
            self.done[node] = text
            return []
        wish = self.names.get(node, "").replace("'", "_next")
        if not wish and node.kind in _PREFIXES:
            wish = _PREFIXES[node.kind] + node.name
        if not wish and node.kind == "state":
            wish = f"{node.name}_{node.delay}"
        if like_a_macro(wish) or wish.startswith(self.language.prefixes):
            wish = f"v_{wish}"
        name, k = wish or "v1", 1
        while name in self.taken:
            k += 1
            name = f"{wish}_{k}" if wish else f"v{k}"
        self.taken.add(name)
        self.done[node] = name
        line = self.language.condition if node.is_condition else self.language.line
        return [line.format(name, _unwrapped(text))]


def like_a_macro(name: str) -> bool:
    return len(name) > 1 and name[1].isalpha() and name.isupper()


def _unwrapped(text: str) -> str:
    """Without the outermost brackets, if they enclose everything."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text


def indent(lines: Iterable[str], by: int = 4) -> list[str]:
    """Preprocessor lines stay where they are."""
    return [line if line.startswith("#") else " " * by + line for line in lines]
