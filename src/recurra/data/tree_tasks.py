"""Synthetic trees: nested list operations and logical formulas, of a chosen depth, and parsed reviews; a value at every node."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recurra.data.reviews import review
from recurra.data.trees import Tree
from recurra.errors import OptionError, choose_from

MOST_ITEMS = 5
"""Of a list."""

NESTED = 0.2
"""The chance that an item is a list of its own; one of each list always is, as long as depth is left."""


@dataclass(frozen=True)
class Operation:
    """`least` to `most` arguments, whole numbers each, to a whole number."""

    name: str
    least: int
    most: int
    value: Callable[[Sequence[int]], int]


LIST_OPERATIONS = (
    Operation("MAX", 2, MOST_ITEMS, max),
    Operation("MIN", 2, MOST_ITEMS, min),
    Operation("MED", 2, MOST_ITEMS, lambda items: int(statistics.median(items))),
    Operation("SM", 2, MOST_ITEMS, lambda items: sum(items) % 10),
)
CONNECTIVES = (
    Operation("and", 2, 2, lambda values: values[0] & values[1]),
    Operation("or", 2, 2, lambda values: values[0] | values[1]),
    Operation("implies", 2, 2, lambda values: (1 - values[0]) | values[1]),
    Operation("not", 1, 1, lambda values: 1 - values[0]),
)
TRUTH = ("false", "true")
VARIABLES = "abcd"


def list_operations(depth: int, source: random.Random) -> Tree:
    """A list of digits and lists, such as `[MAX 2 9 [MIN 4 7 ] 0 ]`; its value is a digit. After Nangia & Bowman 2018.

    MAX, MIN, MED (the median, rounded down) and SM (the sum modulo 10) of 2 to 5 items. `depth`: how many lists are one
    inside the other.
    """
    return _grow(depth, source, LIST_OPERATIONS, lambda: (digit := source.randrange(10), str(digit)), str)


def formula(depth: int, source: random.Random) -> Tree:
    """A formula such as `(implies (not a=1) (or b=0 true))`; its value is `true` or `false`.

    `and`, `or`, `implies` and `not` of constants and of four variables, whose truth values are drawn once for each formula and
    stand beside their names. `depth`: how many connectives are one inside the other.
    """
    given = {name: source.randrange(2) for name in VARIABLES}

    def leaf() -> tuple[int, str]:
        if source.random() < 0.25:
            value = source.randrange(2)
            return value, TRUTH[value]
        name = source.choice(VARIABLES)
        return given[name], f"{name}={given[name]}"

    return _grow(depth, source, CONNECTIVES, leaf, lambda value: TRUTH[value])


TASKS: dict[str, Callable[[int, random.Random], Tree]] = {
    "listops": list_operations,
    "logic": formula,
    "reviews": lambda depth, source: review(source),
}
BY_DEPTH = ("listops", "logic")
"""Tasks whose trees are as deep as is asked for; a review is as deep as its parse."""


def synthetic(task: str, count: int, depths: Sequence[int], seed: int) -> list[Tree]:
    """Trees of a task; each of the depths comes equally often, where the task has depths. The same seed gives the same trees.

    ```python
    tree = synthetic("listops", count=1, depths=[2], seed=0)[0]
    tree.labels[0]                                                   # the value of the whole
    ```
    """
    grow = TASKS[choose_from("task", task, TASKS)]
    if count < 1 or not depths or min(depths) < 0:
        raise OptionError(f"{task}: count must be at least 1 and depths not negative; got {count} and {list(depths)}.")
    source = random.Random(f"{task}/{seed}")
    return [grow(depths[k % len(depths)], source) for k in range(count)]


def _grow(
    depth: int,
    source: random.Random,
    operations: Sequence[Operation],
    leaf: Callable[[], tuple[int, str]],
    name: Callable[[int], str],
) -> Tree:
    """A tree of exactly that depth: one child of each node on the way is as deep as it can be."""
    tokens: list[str | None] = []
    parents: list[int] = []
    leaves: dict[int, int] = {}
    chosen: dict[int, Operation] = {}
    waiting = [(-1, depth)]
    while waiting:
        parent, left = waiting.pop()
        here = len(parents)
        parents.append(parent)
        if left == 0:
            leaves[here], word = leaf()
            tokens.append(word)
            continue
        chosen[here] = operation = source.choice(operations)
        tokens.append(operation.name)
        count = source.randint(operation.least, operation.most)
        deepest = source.randrange(count)
        below = [
            left - 1 if k == deepest else source.randrange(left) if source.random() < NESTED else 0
            for k in range(count)
        ]
        waiting += [(here, each) for each in reversed(below)]
    arguments: list[list[int]] = [[] for _ in parents]
    values = [0] * len(parents)
    for n in range(len(parents) - 1, -1, -1):  # children come after their parents
        values[n] = leaves[n] if n in leaves else chosen[n].value(arguments[n][::-1])
        if n:
            arguments[parents[n]].append(values[n])
    return Tree(tokens, parents, [name(value) for value in values])
