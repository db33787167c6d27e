"""Equations as lines of a program: a line for each value that has a name or is used twice; the rest inline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping

from recurra.cells.graph import Node

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


class Writer(ABC):
    """Subclasses say how a language writes a number, an operation and a line, and which values it reads from memory."""

    forms: Mapping[str, str] = {}
    own: tuple[str, ...] = ("tile_",)  # how names begin that the program around the equations uses

    def __init__(self, names: Mapping[Node, str], reserved: Iterable[str]):
        self.names = names
        self.lines: list[str] = []
        self.done: dict[Node, str] = {}
        self.taken: set[str] = set(reserved)
        self.uses: Counter[Node] = Counter()

    @abstractmethod
    def read(self, node: Node) -> str | None:
        """The text that reads a value from memory; None: it is computed."""

    @abstractmethod
    def number(self, value: float) -> str: ...

    @abstractmethod
    def line(self, node: Node, name: str, text: str) -> str: ...

    def count(self, roots: Iterable[Node]) -> None:
        """How often each value is used."""
        stack = list(roots)
        while stack:
            node = stack.pop()
            self.uses[node] += 1
            if self.uses[node] == 1 and self.read(node) is None:
                stack.extend(node.arguments)

    def value(self, node: Node) -> str:
        """The value's name or, inline, its text; what it needs is written before it."""
        if node in self.done:
            return self.done[node]
        if node.kind == "constant":
            return self.number(node.value)
        text = self.read(node)
        if text is not None:
            return self.name(node, text) if node.kind not in ("product", "back") or self.uses[node] > 1 else text
        inner = [self.value(argument) for argument in node.arguments]
        form = self.forms.get(node.kind, node.kind + "({})".replace("{}", ", ".join(["{}"] * len(inner))))
        text = form.format(*inner)
        return self.name(node, text) if node in self.names or self.uses[node] > 1 else text

    def name(self, node: Node, text: str) -> str:
        """Write a line that gives the value a name: the one of the equations if it is free."""
        wish = self.names.get(node, "").replace("'", "_next")
        if not wish and node.kind in _PREFIXES:
            wish = _PREFIXES[node.kind] + node.name
        if not wish and node.kind == "state":
            wish = f"{node.name}_{node.delay}"
        if like_a_macro(wish) or wish.startswith(self.own):
            wish = f"v_{wish}"
        name, k = wish or "v1", 1
        while name in self.taken:
            k += 1
            name = f"{wish}_{k}" if wish else f"v{k}"
        self.taken.add(name)
        self.lines.append(self.line(node, name, _unwrapped(text)))
        self.done[node] = name
        return name


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
