"""The graph of a recursive network over a tree: shared weights, and the gradient that reaches each word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from recurra.data.forest import Forest, make_forest
from recurra.data.trees import Tree, parse_expressions, reshaped
from recurra.errors import OptionError, ShapeError, quoted
from recurra.layers.tree import Tree as Network
from recurra.results import Result
from recurra.types import Float

MOST = 200
"""Nodes that a drawing has room for."""


@dataclass(frozen=True, eq=False)
class TreeGraph(Result):
    """A recursive network over one tree. Nodes are numbered from the root, 0, a parent before its children.

    - `tokens`: what a node reads; `None`: only its children. `labels`: its class, where it has one.
    - `parents`, `heights`: of each node. `weights`: by which its state goes to its parent (`""` at the root).
    - `sizes`: ‖∂h(root)/∂x(n)‖ of a given network for each node's input; 0 where it reads nothing.
    """

    tokens: tuple[str | None, ...]
    labels: tuple[str | None, ...]
    parents: tuple[int, ...]
    heights: tuple[int, ...]
    weights: tuple[str, ...]
    sizes: Float[Tensor, " N"] | None = None

    @property
    def height(self) -> int:
        """Steps from the lowest leaf to the root."""
        return self.heights[0]

    @property
    def leaves(self) -> list[int]:
        """Nodes without children, from the first token to the last."""
        inner, found, waiting = set(self.parents), [], [0]
        below: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            below.setdefault(parent, []).append(node)
        while waiting:
            node = waiting.pop()
            found += [node] if node not in inner else []
            waiting += reversed(below.get(node, []))
        return found

    def times_used(self) -> dict[str, int]:
        """How often each set of weights is used: W for what nodes read, U for children, V for the output of the root."""
        read = sum(token is not None for token in self.tokens)
        return {"W": read} | dict(sorted(Counter(self.weights[1:]).items())) | {"V": 1}

    def __str__(self) -> str:
        used = ", ".join(f"{name} {count}" for name, count in self.times_used().items())
        text = f"{len(self.leaves)} leaves, height {self.height}; shared weights, and how often they are used: {used}"
        if self.sizes is None:
            return text
        ends = [(str(self.tokens[node]), float(self.sizes[node])) for node in self.leaves]
        return text + "\n‖∂h(root)/∂x‖: " + ", ".join(f"{token} {size:.2g}" for token, size in ends)


def unroll_tree(
    tree: str | Sequence[str] | Tree,
    *,
    shape: str | None = None,
    network: Network | None = None,
    x: Float[Tensor, "N D"] | None = None,
) -> TreeGraph:
    """The graph of a recursive network over a tree.

    - `tree`: words, as text or as a list; or a tree in brackets, `(3 (2 not) (1 (2 so) (3 good)))`, as
      `rc.data.parse_expressions` reads it.
    - `shape`: `balanced`, ⌈log₂ n⌉ steps over n words (what words get if nothing is said); `chain`, n − 1 steps, as a recurrent
      network takes; `given` (what brackets get).
    - `network`: an `rc.Tree`; then the gradient of the root's state with respect to each node's input is measured. `x`: the
      inputs, one for each node; drawn at random unless given.

    ```python
    words = "the little brown fox jumps over the dog"
    assert rc.lecture.unroll_tree(words).height == 3 and rc.lecture.unroll_tree(words, shape="chain").height == 7
    graph = rc.lecture.unroll_tree(words, network=rc.Tree(4, 8, composition="plain"))
    print(graph)
    graph.plot("tree.svg")
    ```
    """
    if isinstance(tree, str):
        found = parse_expressions(tree) if "(" in tree or ")" in tree else []
        if len(found) > 1:
            raise OptionError(f"one tree is drawn; there are {len(found)} in {quoted(tree)}.")
        bracketed, tree = bool(found), found[0] if found else tree.split()
    else:
        bracketed = isinstance(tree, Tree)
    if not isinstance(tree, Tree):
        words = [str(word) for word in tree]
        if not words:
            raise OptionError("a tree needs at least one word; got none.")
        # a node that holds all words: `reshaped` puts another tree over them
        tree = Tree([None, *words], [-1, *[0] * len(words)], [None] * (len(words) + 1))
    tree = reshaped(tree, shape or ("given" if bracketed else "balanced"))
    if len(tree.tokens) > MOST:
        raise OptionError(f"a drawing has room for {MOST} nodes; this tree has {len(tree.tokens)}.")
    forest = make_forest([tree.parents], [[0] * len(tree.parents)])
    by_position = network is None or network.arity is not None
    weights = [f"U_{k + 1}" if by_position else "U" for k in forest.positions.tolist()]
    return TreeGraph(
        tuple(tree.tokens),
        tuple(tree.labels),
        tuple(tree.parents),
        tuple(forest.heights.tolist()),
        ("", *weights[1:]),
        None if network is None else _sizes(network, forest, x, [token is not None for token in tree.tokens]),
    )


def _sizes(network: Network, forest: Forest, x: Any, reads: list[bool]) -> Float[Tensor, " N"]:
    like = next(network.parameters())
    if x is None:
        x = torch.randn(forest.nodes, network.input_size, generator=torch.Generator().manual_seed(0))
    x = torch.as_tensor(x).to(like)
    if x.ndim != 2 or len(x) != forest.nodes:
        raise ShapeError(f"x must be one input for each of the {forest.nodes} nodes, [N, D]; got {list(x.shape)}.")
    J = jacobian(lambda x: network(x, forest)[0], x)
    sizes: Tensor = J.norm(dim=(0, 2)) * torch.tensor(reads, device=x.device)
    return sizes.detach().cpu()
