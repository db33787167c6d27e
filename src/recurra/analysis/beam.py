"""A beam search as a tree: the beginnings that the beam held at each step, and the one that won."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from recurra.models.search import BeamStep
from recurra.results import Result, Table

END = "∎"
"""How the end of a sequence is written."""


@dataclass(frozen=True)
class Node:
    """A beginning that the beam held: the node that it goes on from (−1: the empty one), its last token, the log-probability of
    all of it, and what it was ranked by. `is_best`: it lies on the way to the sequence that won."""

    parent: int
    step: int
    token: str
    log_probability: float
    score: float
    is_over: bool
    is_best: bool = False


@dataclass(frozen=True)
class BeamTree(Result):
    """Every beginning that a beam held, in the order in which they came."""

    source: str
    nodes: list[Node]

    def table(self) -> Table:
        rows = []
        for k, n in enumerate(self.nodes):
            where = [str(k), "" if n.parent < 0 else str(n.parent), str(n.step), n.token]
            rows.append([*where, f"{n.log_probability:.4f}", f"{n.score:.4f}", "best" if n.is_best else ""])
        return Table(["node", "goes on from", "step", "token", "log P", "score", ""], rows)

    def rows(self) -> list[float]:
        """A height for each node, so that no two of a step share one: leaves in order, parents in the middle of theirs."""
        children: dict[int, list[int]] = {}
        for k, node in enumerate(self.nodes):
            children.setdefault(node.parent, []).append(k)
        heights, free = [0.0] * len(self.nodes), 0.0
        order, stack = [], list(reversed(children.get(-1, [])))
        while stack:
            order.append(stack.pop())
            stack += reversed(children.get(order[-1], []))
        for k in order:
            if k not in children:
                heights[k], free = free, free + 1
        for k in reversed(order):
            if k in children:
                heights[k] = sum(heights[child] for child in children[k]) / len(children[k])
        return heights


class Growth:
    """Takes the steps of a beam of one sequence and makes the tree.

    - `end`: the token that ends a sequence. `write`: a token as text.
    """

    def __init__(self, end: int | None, write: Callable[[int], str]):
        self.end, self.write = end, write
        self.nodes: list[Node] = []
        self.slots: list[int] = []
        self.over: list[bool] = []
        self.scores: list[float] = []
        self.steps = 0

    def add(self, step: BeamStep) -> None:
        """One step, of the first sequence."""
        self.steps += 1
        slots, over = [], step.over[0].tolist()
        rows = zip(*(each[0].tolist() for each in (step.origin, step.tokens, step.total, step.score)), strict=True)
        for k, (origin, token, total, score) in enumerate(rows):
            parent = self.slots[origin] if self.slots else -1
            if self.over and self.over[origin]:  # it was over before, and stays as it is
                slots.append(parent)
            elif total == -float("inf"):  # an empty slot of a beam that is wider than what there is
                slots.append(-1)
            else:
                written = END if token == self.end else self.write(token)
                self.nodes.append(Node(parent, self.steps, written, total, score, over[k]))
                slots.append(len(self.nodes) - 1)
        self.slots, self.over, self.scores = slots, over, step.score[0].tolist()

    def tree(self, source: str) -> BeamTree:
        """The tree, with the way to the best of what the beam held at last."""
        nodes = list(self.nodes)
        held = [(score, slot) for score, slot in zip(self.scores, self.slots, strict=True) if slot >= 0]
        at = max(held)[1] if held else -1
        while at >= 0:
            nodes[at] = replace(nodes[at], is_best=True)
            at = nodes[at].parent
        return BeamTree(source, nodes)
