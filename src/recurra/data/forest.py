"""Many trees as flat arrays: a `Forest`, and the order in which a network can compute its nodes, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.errors import DataError
from recurra.types import Int

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees, one after the other; in each, a node stands before its children, so that the first one is the root.

    - `tokens`: what each node reads.
    - `parents`: the number of each node's parent in this forest; −1 at a root.
    - `heights`: 0 for a leaf; one more than the highest child for any other node. Nodes of one height are one *level*.
    - `positions`: of a node among its siblings, from 0.
    - `sizes`: how many nodes each tree has.
    - `labels`: the class of each node; −1 where it has none.

    ```python
    forest = make_forest([[-1, 0, 0, 2, 2]], [[7, 1, 8, 2, 3]])      # 7 has the children 1 and 8, and 8 has 2 and 3
    forest.heights.tolist()                                          # [2, 0, 1, 0, 0]
    ```
    """

    tokens: Int[Tensor, " N"]
    parents: Int[Tensor, " N"]
    heights: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    sizes: Int[Tensor, " B"]
    labels: Int[Tensor, " N"]

    def __len__(self) -> int:
        """How many trees."""
        return len(self.sizes)

    @property
    def nodes(self) -> int:
        """How many nodes, of all trees."""
        return len(self.tokens)

    @cached_property
    def roots(self) -> Int[Tensor, " B"]:
        """The number of each tree's root."""
        return self.sizes.cumsum(0) - self.sizes

    @property
    def depths(self) -> Int[Tensor, " B"]:
        """The height of each tree."""
        return self.heights[self.roots]

    @property
    def widest(self) -> int:
        """The most children that a node has."""
        return int(self.positions.max()) + 1 if bool((self.parents >= 0).any()) else 0

    def take(self, rows: Int[Tensor, " B"]) -> Forest:
        """Some of the trees, in that order."""
        which, ends = rows.numpy(), self.sizes.cumsum(0).numpy()
        sizes = self.sizes.numpy()[which]
        starts = np.cumsum(sizes) - sizes
        shift = np.repeat(ends[which] - sizes - starts, sizes)
        nodes = np.arange(len(shift)) + shift
        parents = self.parents.numpy()[nodes]
        parents = np.where(parents < 0, -1, parents - shift)
        tokens, heights, positions, labels = (
            each.numpy()[nodes] for each in (self.tokens, self.heights, self.positions, self.labels)
        )
        return Forest(*(torch.from_numpy(each) for each in (tokens, parents, heights, positions, sizes, labels)))

    @cached_property
    def schedule(self) -> Schedule:
        """The order in which its nodes can be computed."""
        return make_schedule(self)


def make_forest(
    parents: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]], labels: Sequence[Sequence[int]] | None = None
) -> Forest:
    """A forest from each tree's parents (−1 at the root, which comes first; a parent comes before its children) and tokens.

    ```python
    forest = rc.data.make_forest([[-1, 0, 0]], [[0, 1, 2]])         # one tree: a root with two leaves
    ```
    """
    if not parents:
        raise DataError("A forest was asked for, but there is no tree. Give at least one.")
    above: list[int] = []
    heights: list[int] = []
    positions: list[int] = []
    for k, tree in enumerate(parents):
        if not tree or tree[0] != -1 or any(not 0 <= parent < n for n, parent in enumerate(tree) if n):
            raise DataError(f"tree {k}: the parents must be -1 for the root, then numbers of nodes that came before.")
        start = len(above)
        above += [parent + start if n else -1 for n, parent in enumerate(tree)]
        high, count, place = [0] * len(tree), [0] * len(tree), [0] * len(tree)
        for n in range(1, len(tree)):
            place[n] = count[tree[n]]
            count[tree[n]] += 1
        for n in range(len(tree) - 1, 0, -1):  # children come after their parents
            high[tree[n]] = max(high[tree[n]], high[n] + 1)
        heights += high
        positions += place
    sizes = [len(tree) for tree in parents]
    for name, given in (("tokens", tokens), ("labels", labels)):
        if given is not None and [len(each) for each in given] != sizes:
            raise DataError(f"{name} must be one for each node of each tree, as parents are.")
    flat = [token for each in tokens for token in each]
    classes = [-1] * len(flat) if labels is None else [label for each in labels for label in each]
    return Forest(*(torch.tensor(each) for each in (flat, above, heights, positions, sizes, classes)))


def balanced(sequences: Sequence[Int[Tensor, " n"]], inner: int) -> Forest:
    """A binary tree over each sequence, as flat as it can be: τ tokens are the leaves of a tree of height ⌈log₂ τ⌉.

    - `inner`: the token of the nodes above the leaves.

    ```python
    rc.data.balanced([torch.tensor([4, 5, 6])], inner=0).tokens.tolist()       # [0, 0, 4, 5, 6]: ((4 5) 6)
    ```
    """
    parents: list[list[int]] = []
    tokens: list[list[int]] = []
    for k, sequence in enumerate(sequences):
        leaves = sequence.tolist()
        if not leaves:
            raise DataError(f"sequence {k} is empty: a tree has at least one leaf. Leave it out.")
        above, places = binary_tree(len(leaves))
        parents.append(above)
        tokens.append([inner if place is None else leaves[place] for place in places])
    return make_forest(parents, tokens)


def binary_tree(count: int, *, chain: bool = False) -> tuple[list[int], list[int | None]]:
    """A binary tree over `count` leaves, as flat as it can be, or as a chain from the first to the last: the parent of each node,
    and which leaf it is (`None`: an inner node)."""
    parents: list[int] = []
    places: list[int | None] = []
    waiting = [(-1, 0, count)]  # a parent, and the part of the sequence under one of its children
    while waiting:
        parent, start, stop = waiting.pop()
        parents.append(parent)
        places.append(start if stop - start == 1 else None)
        if stop - start > 1:
            middle = stop - 1 if chain else (start + stop + 1) // 2
            waiting += [(len(places) - 1, middle, stop), (len(places) - 1, start, middle)]
    return parents, places


@dataclass(frozen=True, eq=False)
class Level:
    """All nodes of one height. Those with more children come first.

    - `size`: how many there are.
    - `sources`: where their children come from: a lower level, and the number of its group that comes here.
    - `arrive`: those groups, one after the other, in order of (position, parent); `None`: they are already.
    - `owners`: whose child each of them then is, a number below `size`; `positions`: which child.
    - `widths`: how many nodes have a first child, a second, …: the first `widths[j]` nodes have a child at position j.
    - `leave`: the nodes in order of their parents' levels; `None`: they are already. `groups`: how many go to each.
    """

    size: int
    sources: list[tuple[int, int]]
    arrive: Int[Tensor, " M"] | None
    owners: Int[Tensor, " M"]
    positions: Int[Tensor, " M"]
    widths: list[int]
    leave: Int[Tensor, " n"] | None
    groups: list[int]


@dataclass(frozen=True, eq=False)
class Schedule:
    """`order`: the nodes, level by level; `back`: where each node is in that order; `levels`: from the leaves up.

    Every node is handed up once, to the level of its parent, so that the work is in proportion to the number of nodes,
    however deep the trees.
    """

    order: Int[Tensor, " N"]
    back: Int[Tensor, " N"]
    levels: list[Level]


def make_schedule(forest: Forest) -> Schedule:
    parents, heights, places = forest.parents.numpy(), forest.heights.numpy(), forest.positions.numpy()
    nodes, top = len(parents), int(heights.max()) + 1
    children = np.bincount(parents[parents >= 0], minlength=nodes)
    order = np.lexsort((-children, heights))
    back = np.empty_like(order)
    back[order] = np.arange(nodes)

    # from here on nodes are numbered by their place in that order
    above = np.where(parents[order] < 0, -1, back[parents[order]])
    level, position = heights[order], places[order]
    target = np.where(above < 0, top, level[above])  # of the parent; roots go beyond the top
    starts = np.searchsorted(level, np.arange(top + 1))
    leave = np.lexsort((target, level))
    # each (level, level of the parent) that occurs is a group; the node at which it begins, and its size
    begins = np.flatnonzero(np.r_[True, np.diff(level[leave] * (top + 1) + target[leave]) != 0])
    sizes = np.diff(np.r_[begins, nodes])
    sources: list[list[tuple[int, int]]] = [[] for _ in range(top + 1)]
    groups: list[list[int]] = [[] for _ in range(top)]
    for first, size in zip(leave[begins].tolist(), sizes.tolist(), strict=True):
        here = int(level[first])
        sources[int(target[first])].append((here, len(groups[here])))
        groups[here].append(size)

    inside = leave[above[leave] >= 0]  # by (level, target): within a target, by level, as the groups arrive
    arrived = inside[np.argsort(target[inside], kind="stable")]
    wanted = np.lexsort((above[arrived], position[arrived], target[arrived]))
    sorted_children = arrived[wanted]
    bounds = np.searchsorted(target[arrived], np.arange(top + 1))
    levels = []
    for k in range(top):
        part, own = slice(bounds[k], bounds[k + 1]), slice(starts[k], starts[k + 1])
        which = position[sorted_children[part]]
        levels.append(
            Level(
                size=int(starts[k + 1] - starts[k]),
                sources=sources[k],
                arrive=_permutation(wanted[part] - bounds[k]),
                owners=torch.from_numpy(above[sorted_children[part]] - starts[k]),
                positions=torch.from_numpy(which),
                widths=np.bincount(which).tolist(),
                leave=_permutation(leave[own] - starts[k]),
                groups=groups[k],
            )
        )
    return Schedule(torch.from_numpy(order), torch.from_numpy(back), levels)


@dataclass(frozen=True, eq=False)
class Plan:
    """Nodes in order of their height, and for each where its children and its parent are in that order.

    - `order`: the nodes, level by level, leaves first; `back`: where each node is in that order.
    - `bounds`: where each level begins, and the end.
    - `children`: of each node that has any, its children by position, side by side; N where there is none.
    - `slots`: of each node, where it is in `children`; the length of `children` for a root.

    A node has one parent, so that states go up by `children` and gradients come down by `slots`, both by taking rows and
    neither by adding to them.
    """

    order: Int[Tensor, " N"]
    back: Int[Tensor, " N"]
    bounds: list[int]
    children: Int[Tensor, " MK"]
    slots: Int[Tensor, " N"]

    def to(self, device: torch.device) -> Plan:
        """On a device."""
        if device.type == "cpu":
            return self
        return replace(
            self, **{name: getattr(self, name).to(device) for name in ("order", "back", "children", "slots")}
        )


def make_plan(forest: Forest, arity: int) -> Plan:
    """With room for `arity` children at each node."""
    parents, heights, positions = forest.parents.numpy(), forest.heights.numpy(), forest.positions.numpy()
    nodes, K = len(parents), arity
    top = int(heights.max())
    # whole numbers of 16 bits are sorted by counting them
    order = np.argsort(heights.astype(np.uint16) if top < 2**16 else heights, kind="stable")
    back = np.empty_like(order)
    back[order] = np.arange(nodes)
    bounds = np.r_[0, np.cumsum(np.bincount(heights))].tolist()
    inner = nodes - bounds[1]
    above = parents[order]
    slots = np.where(above < 0, inner * K, (back[above] - bounds[1]) * K + positions[order])
    children = np.full(inner * K + 1, nodes)
    children[slots] = np.arange(nodes)
    to = torch.from_numpy
    return Plan(to(order), to(back), bounds, to(children[:-1]), to(slots))


def _permutation(order: Whole) -> Tensor | None:
    """An order as an index; `None` where it changes nothing."""
    return None if bool((order[1:] > order[:-1]).all()) else torch.from_numpy(order)
