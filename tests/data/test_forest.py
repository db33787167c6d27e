"""Forests: flat arrays of trees, parts of them, balanced trees, and the order of their levels."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from recurra.data.forest import Forest, balanced, make_forest, make_plan
from recurra.errors import DataError


def plant(shapes: list[list[int]]) -> Forest:
    """Each tree by a list of numbers: node n + 1 hangs under the node of that number, or below."""
    parents = [[-1, *(number % (n + 1) for n, number in enumerate(numbers))] for numbers in shapes]
    tokens = [[10 * k + n for n in range(len(tree))] for k, tree in enumerate(parents)]
    return make_forest(parents, tokens, [[-1] * len(tree) for tree in parents])


forests = some.lists(some.lists(some.integers(0, 10**6), max_size=20), min_size=1, max_size=5).map(plant)


def test_heights_and_positions() -> None:
    forest = make_forest([[-1, 0, 0, 2, 2], [-1]], [[7, 1, 8, 2, 3], [9]])
    assert forest.heights.tolist() == [2, 0, 1, 0, 0, 0]
    assert forest.positions.tolist() == [0, 0, 1, 0, 1, 0]
    assert forest.parents.tolist() == [-1, 0, 0, 2, 2, -1]
    assert forest.roots.tolist() == [0, 5]
    assert forest.depths.tolist() == [2, 0]
    assert (len(forest), forest.nodes, forest.widest) == (2, 6, 2)


@given(forests)
def test_some_of_the_trees(forest: Forest) -> None:
    rows = [*reversed(range(len(forest))), 0]
    taken = forest.take(torch.tensor(rows))
    starts = forest.roots.tolist()
    for place, k in enumerate(rows):
        own = slice(starts[k], starts[k] + int(forest.sizes[k]))
        there = int(taken.roots[place])
        part = slice(there, there + int(taken.sizes[place]))
        assert taken.tokens[part].tolist() == forest.tokens[own].tolist()
        assert taken.heights[part].tolist() == forest.heights[own].tolist()
        assert [p - there for p in taken.parents[part].tolist()[1:]] == [
            p - starts[k] for p in forest.parents[own].tolist()[1:]
        ]


@given(forests)
def test_a_schedule_hands_every_node_up_once(forest: Forest) -> None:
    """What arrives at each level are the true children of its nodes, in order of position and parent."""
    schedule = forest.schedule
    numbers = schedule.order.split([level.size for level in schedule.levels])
    groups: list[list[torch.Tensor]] = []
    seen = []
    for height, (level, nodes) in enumerate(zip(schedule.levels, numbers, strict=True)):
        assert set(forest.heights[nodes].tolist()) == {height}
        arrived = torch.cat([groups[lower][k] for lower, k in level.sources] or [torch.zeros(0, dtype=torch.int64)])
        arrived = arrived if level.arrive is None else arrived[level.arrive]
        assert forest.parents[arrived].tolist() == nodes[level.owners].tolist()
        assert forest.positions[arrived].tolist() == level.positions.tolist()
        assert level.owners.tolist() == [n for width in level.widths for n in range(width)]
        seen += arrived.tolist()
        groups.append(list((nodes if level.leave is None else nodes[level.leave]).split(level.groups)))
    assert sorted([*seen, *forest.roots.tolist()]) == list(range(forest.nodes))
    assert schedule.order[schedule.back].tolist() == list(range(forest.nodes))


@given(forests)
def test_a_plan_knows_children_and_parents(forest: Forest) -> None:
    arity = forest.widest + 1
    plan = make_plan(forest, arity)
    order, leaves, nodes = plan.order.tolist(), plan.bounds[1], forest.nodes
    assert plan.order[plan.back].tolist() == list(range(nodes))
    for height, (first, last) in enumerate(zip(plan.bounds, plan.bounds[1:], strict=False)):
        assert set(forest.heights[plan.order[first:last]].tolist()) == {height}
    for place, child in enumerate(plan.children.tolist()):
        if child < nodes:  # otherwise there is none at that position
            assert int(forest.parents[order[child]]) == order[leaves + place // arity]
            assert int(forest.positions[order[child]]) == place % arity
            assert int(plan.slots[child]) == place
    assert sum(child < nodes for child in plan.children.tolist()) == nodes - len(forest)
    assert int((plan.slots == len(plan.children)).sum()) == len(forest)  # roots


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 1000])
def test_balanced_trees_are_as_flat_as_can_be(length: int) -> None:
    forest = balanced([torch.arange(1, length + 1), torch.tensor([5])], inner=0)
    assert forest.depths.tolist() == [math.ceil(math.log2(length)), 0]
    first = forest.take(torch.tensor([0]))
    leaves = first.tokens[first.heights == 0]
    assert leaves.tolist() == list(range(1, length + 1))  # in the order of the sequence
    assert bool((first.tokens[first.heights > 0] == 0).all())
    assert first.nodes == 2 * length - 1
    assert first.widest == (2 if length > 1 else 0)


class TestRefused:
    def test_no_tree(self) -> None:
        with pytest.raises(DataError, match="no tree"):
            make_forest([], [])

    @pytest.mark.parametrize("parents", [[], [0], [-1, 1], [-1, -1], [-1, 0, 2]])
    def test_parents_that_are_none(self, parents: list[int]) -> None:
        with pytest.raises(DataError, match="tree 1: the parents must be -1"):
            make_forest([[-1], parents], [[0], [0] * len(parents)])

    def test_tokens_of_another_number(self) -> None:
        with pytest.raises(DataError, match="tokens must be one for each node"):
            make_forest([[-1, 0]], [[0]])

    def test_an_empty_sequence(self) -> None:
        with pytest.raises(DataError, match="sequence 1 is empty"):
            balanced([torch.tensor([1]), torch.tensor([], dtype=torch.int64)], inner=0)
