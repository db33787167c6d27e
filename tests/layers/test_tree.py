"""Recursive networks: level by level equals node by node, for every composition; outputs and all gradients."""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch import Tensor

from recurra.cells.catalogue import CATALOGUE, find_cell
from recurra.cells.notation import gains_in_order
from recurra.cells.zoneout import zoneout
from recurra.data.forest import Forest, make_forest
from recurra.errors import OptionError, ShapeError
from recurra.layers.tree import ChildSum, Fold, NAry, Plain, Sum, Tree
from recurra.layers.tree_lstm import CompiledLevels, run_in_torch

D, H, ARITY = 3, 4, 6
WITHOUT_AGO = [name for name, cell in CATALOGUE.items() if all(state.depth == 1 for state in cell.graph.states)]
MADE = [("plain", None), ("child-sum", None), ("n-ary", None)] + [
    (composition, cell) for composition in ("fold", "sum") for cell in WITHOUT_AGO
]


def make_layer(composition: str, cell: str | None, arity: int = ARITY, size: int = H) -> Tree:
    layer = Tree(
        D, size, composition=composition, cell=cell, arity=arity if composition in ("plain", "n-ary") else None
    ).double()
    with torch.no_grad():  # so that no parameter is zero by chance
        for parameter in layer.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return layer


def node_by_node(layer: Tree, x: Tensor, forest: Forest) -> Tensor:
    """The equations of each composition at one node after the other, as one would write them down."""
    parents = forest.parents.tolist()
    children: list[list[int]] = [[] for _ in parents]
    for n, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(n)

    def visit(n: int) -> tuple[Tensor, ...]:
        states[n] = compose(layer, x[n], [visit(child) for child in children[n]])
        return states[n]

    states: list[tuple[Tensor, ...]] = [()] * len(parents)
    for n, parent in enumerate(parents):
        if parent < 0:
            visit(n)
    return torch.stack([each[0] for each in states])


def compose(layer: Tree, x: Tensor, children: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    made = layer.composition
    size = layer.hidden_size
    zero = x.new_zeros(size)
    if isinstance(made, Plain):
        total = made.W @ x + made.b
        for k, (h,) in enumerate(children):
            total = total + made.U[:, k * size : (k + 1) * size] @ h
        return (torch.tanh(total),)
    if isinstance(made, ChildSum):
        W, b, U = (each.split(size) for each in (made.W, made.b, made.U))
        together = sum((h for h, _ in children), zero)
        i, o, u = (W[g] @ x + b[g] + U[g] @ together for g in range(3))
        c = i.sigmoid() * u.tanh()
        for h, old in children:
            c = c + torch.sigmoid(W[3] @ x + b[3] + U[3] @ h) * old
        return o.sigmoid() * c.tanh(), c
    if isinstance(made, NAry):
        W, b = made.W.split(size), made.b.split(size)

        def U(row: int) -> Tensor:
            rows = made.U[row * size : (row + 1) * size].split(size, dim=1)
            return sum((rows[k] @ h for k, (h, _) in enumerate(children)), zero)

        i, o, u = (W[g] @ x + b[g] + U(g) for g in range(3))
        c = i.sigmoid() * u.tanh()
        for k, (_, old) in enumerate(children):
            c = c + torch.sigmoid(W[3] @ x + b[3] + U(3 + k)) * old
        return o.sigmoid() * c.tanh(), c
    if isinstance(made, Sum):
        states = [sum((child[k] for child in children), zero) for k in range(len(made.cell.states))]
        return step(made, x, states)
    assert isinstance(made, Fold)
    after = tuple(zero for _ in made.cell.states)
    for h in [*(child[0] for child in children), made.end]:
        after = step(made, torch.cat([x, h]), after)
    return after


def step(made: Fold | Sum, inputs: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The cell's equations as they stand, on vectors."""
    graph, size, units = made.cell.graph, made.hidden_size, made.weights.unit_values()
    drives = (made.weights.W @ inputs + made.weights.b).split(size)
    x = SimpleNamespace(**dict(zip(graph.drives, drives, strict=True)))
    U = SimpleNamespace(**{name: partial(torch.mv, made.weights.matrix(name)) for name in graph.matrices})
    gains = iter([units[name] for name in graph.parameters if name not in made.cell.options])
    with gains_in_order(gains):
        return made.cell.call(x, U, states, units)


def random_forest(shapes: list[list[int]]) -> Forest:
    """Each tree by a list of numbers: node n + 1 hangs under a node before it; at most ARITY children."""
    parents = []
    for numbers in shapes:
        above, count = [-1], [0]
        for number in numbers:
            free = [n for n, used in enumerate(count) if used < ARITY]
            parent = free[number % len(free)]
            above.append(parent)
            count[parent] += 1
            count.append(0)
        parents.append(above)
    return make_forest(parents, [[0] * len(above) for above in parents])


forests = some.lists(some.lists(some.integers(0, 10**6), max_size=14), min_size=1, max_size=4).map(random_forest)
CHAIN = make_forest([[-1, *range(30)], [-1], [-1, 0]], [[0] * 31, [0], [0, 0]])


def same(layer: Tree, forest: Forest) -> None:
    results = []
    for run in (layer, lambda x, trees: node_by_node(layer, x, trees)):
        torch.manual_seed(1)
        x = torch.randn(forest.nodes, D, dtype=torch.float64, requires_grad=True)
        weights = torch.randn(forest.nodes, layer.hidden_size, dtype=torch.float64)
        outputs = run(x, forest)
        gradients = torch.autograd.grad(
            (outputs * weights).sum(), [x, *layer.parameters()], allow_unused=True, materialize_grads=True
        )
        results.append([outputs.detach(), *gradients])
    for level_by_level, one_by_one in zip(*results, strict=True):
        torch.testing.assert_close(level_by_level, one_by_one, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("composition", "cell"), MADE)
def test_unary_chains_and_single_nodes(composition: str, cell: str | None) -> None:
    same(make_layer(composition, cell), CHAIN)


@pytest.mark.parametrize(
    ("composition", "cell"),
    [("plain", None), ("child-sum", None), ("n-ary", None), ("fold", "lstm"), ("fold", "gru"), ("sum", "elman")],
)
@given(forest=forests)
def test_random_trees(composition: str, cell: str | None, forest: Forest) -> None:
    same(make_layer(composition, cell), forest)


@pytest.mark.parametrize(("composition", "cell"), MADE)
def test_every_cell_on_a_forest(composition: str, cell: str | None) -> None:
    numbers = torch.randint(0, 10**6, (3, 12), generator=torch.Generator().manual_seed(3)).tolist()
    same(make_layer(composition, cell), random_forest(numbers))


def test_sum_of_elman_is_the_plain_recursive_network() -> None:
    layer = make_layer("sum", "elman")
    assert isinstance(layer.composition, Sum)
    weights = layer.composition.weights
    x = torch.randn(3, D, dtype=torch.float64)
    out = layer(x, make_forest([[-1, 0, 0]], [[0, 0, 0]]))
    leaves = torch.tanh(x[1:] @ weights.W.T + weights.b)
    torch.testing.assert_close(out[1:], leaves)
    torch.testing.assert_close(out[0], torch.tanh(weights.W @ x[0] + weights.b + weights.U @ leaves.sum(0)))


@pytest.mark.parametrize(
    ("composition", "depth"), [("child-sum", 1500), pytest.param("fold", 5000, marks=pytest.mark.slow)]
)
def test_deeper_than_pythons_recursion(composition: str, depth: int) -> None:
    """A chain, and a tree that has a leaf at every level."""
    assert depth > sys.getrecursionlimit()
    comb = [-1]
    for _ in range(depth):
        comb += [len(comb) - 1 if len(comb) == 1 else len(comb) - 2] * 2
    forest = make_forest([[-1, *range(depth)], comb], [[0] * (depth + 1), [0] * len(comb)])
    assert forest.depths.tolist() == [depth, depth]
    layer = Tree(D, H, composition=composition)
    x = torch.randn(forest.nodes, D, requires_grad=True)
    layer(x, forest)[forest.roots].sum().backward()
    assert x.grad is not None
    assert bool(torch.isfinite(x.grad).all())
    assert float(x.grad[forest.roots].abs().min()) > 0


def gradients_of(run: Callable[..., Tensor], *tensors: Tensor) -> list[Tensor]:
    outputs = run(*tensors)
    weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1), dtype=outputs.dtype)
    return [outputs, *torch.autograd.grad((outputs * weights).sum(), tensors)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shared", [True, False])
def test_the_compiled_levels_equal_those_in_torch(threads: int, shared: bool) -> None:
    """Enough trees for two threads; units that do not fill vectors; leaves with a drive of their own, other nodes with one."""
    size, some_seed = 37, torch.Generator().manual_seed(0)
    forest = random_forest(torch.randint(0, 10**6, (40, 29), generator=some_seed).tolist())
    wide = forest.widest
    leaf = forest.heights == 0
    rows = leaf.cumsum(0) * leaf if shared else None
    drives = torch.randn(
        int(leaf.sum()) + 1 if shared else forest.nodes, 4 * size, generator=some_seed, dtype=torch.float64
    )
    U = 0.1 * torch.randn((3 + wide) * size, wide * size, generator=some_seed, dtype=torch.float64)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        given = (drives.requires_grad_(), U.requires_grad_())
        compiled = gradients_of(lambda *given: CompiledLevels.apply(*given, forest, rows), *given)
        in_torch = gradients_of(lambda *given: run_in_torch(*given, forest, rows), *given)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(compiled, in_torch, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("composition", ["fold", "plain", "child-sum", "n-ary"])
def test_nodes_that_share_an_input(composition: str) -> None:
    layer = make_layer(composition, "gru" if composition == "fold" else None)
    forest = random_forest(torch.randint(0, 10**6, (3, 12), generator=torch.Generator().manual_seed(3)).tolist())
    rows = torch.arange(forest.nodes) % 5
    x = torch.randn(5, D, dtype=torch.float64, requires_grad=True)
    shared, each = (
        gradients_of(run, x) for run in (lambda x: layer(x, forest, rows), lambda x: layer(x[rows], forest))
    )
    for left, right in zip(shared, each, strict=True):
        torch.testing.assert_close(left, right)
    with pytest.raises(ShapeError, match="rows must name one input"):
        layer(x, forest, rows[:3])


def test_threads_may_change_between_the_runs() -> None:
    """What the forward run keeps lies by the shares of its threads."""
    forest = make_forest([[-1, *((k - 1) // 2 for k in range(1, 101))]] * 20, [range(101)] * 20)
    layer, x = Tree(D, 64, composition="n-ary", arity=2).double(), torch.randn(forest.nodes, D).double()
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (2, 1):
            torch.set_num_threads(2)
            loss = layer(x, forest).square().sum()
            torch.set_num_threads(threads)
            found.append(torch.autograd.grad(loss, list(layer.parameters())))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_rows_of_any_integer_type() -> None:
    forest = make_forest([[-1, 0, 0, 1, 1], [-1, 0]], [range(5), range(2)])
    layer, x = make_layer("n-ary", None), torch.randn(5, D).double()
    rows = torch.tensor([0, 1, 2, 3, 4, 0, 1])
    assert torch.equal(layer(x, forest, rows.int()), layer(x, forest, rows))


def test_trees_of_a_batch_do_not_touch_each_other() -> None:
    numbers = torch.randint(0, 10**6, (5, 9), generator=torch.Generator().manual_seed(3)).tolist()
    forest = random_forest(numbers)
    layer = make_layer("fold", "lstm")
    x = torch.randn(forest.nodes, D, dtype=torch.float64)
    together = layer(x, forest)
    for k, rows in enumerate(x.split(forest.sizes.tolist())):
        alone = layer(rows, forest.take(torch.tensor([k])))
        torch.testing.assert_close(alone, together.split(forest.sizes.tolist())[k])


class TestRefused:
    @pytest.mark.parametrize("composition", ["fold", "sum"])
    def test_cells_with_ago(self, composition: str) -> None:
        with pytest.raises(OptionError, match=r"several steps back \(ago\).*lstm or gru"):
            Tree(D, H, composition=composition, cell="skip(d=3)")

    def test_cells_with_masks(self) -> None:
        with pytest.raises(OptionError, match="draws masks"):
            Tree(D, H, cell=zoneout(find_cell("gru"), 0.1))

    def test_a_cell_where_there_is_none(self) -> None:
        with pytest.raises(OptionError, match="takes no cell; fold and sum do"):
            Tree(D, H, composition="child-sum", cell="gru")

    def test_arity_where_there_is_none(self) -> None:
        with pytest.raises(OptionError, match="any number of children; arity is for plain and n-ary"):
            Tree(D, H, composition="fold", arity=2)

    def test_an_unknown_composition(self) -> None:
        with pytest.raises(OptionError, match="Did you mean 'child-sum'"):
            Tree(D, H, composition="childsum")

    def test_too_many_children(self) -> None:
        with pytest.raises(
            ShapeError, match=r"a node has 3 children, but there are matrices for 2 \(arity\). Pass arity=3"
        ):
            Tree(D, H, composition="n-ary")(torch.randn(4, D), make_forest([[-1, 0, 0, 0]], [[0] * 4]))

    @pytest.mark.parametrize("wrong", [-1, 5])
    def test_rows_that_x_does_not_have(self, wrong: int) -> None:
        forest = make_forest([[-1, 0, 0]], [range(3)])
        with pytest.raises(
            ShapeError, match=rf"rows must be 0 to 4, the rows of x; got {min(wrong, 0)} to {max(wrong, 1)}"
        ):
            make_layer("n-ary", None)(torch.randn(5, D).double(), forest, torch.tensor([0, 1, wrong]))

    def test_inputs_of_another_size(self) -> None:
        with pytest.raises(ShapeError, match=r"size 3 \(input_size\) for each of the forest's 1 nodes; got \[2, 3\]"):
            Tree(D, H)(torch.randn(2, D), make_forest([[-1]], [[0]]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("composition", "cell"), [("fold", "lstm"), ("sum", "elman"), ("plain", None), ("child-sum", None), ("n-ary", None)]
)
def test_at_least_20_times_as_fast_as_node_by_node(composition: str, cell: str | None) -> None:
    """64 trees of 50 nodes, forward and backward, by the time of this process alone."""
    size = 64
    numbers = torch.randint(0, 10**6, (64, 49), generator=torch.Generator().manual_seed(0)).tolist()
    forest = random_forest(numbers)
    layer = make_layer(composition, cell, size=size).float()
    x = torch.randn(forest.nodes, D)
    torch.testing.assert_close(layer(x, forest), node_by_node(layer, x, forest))

    def seconds(run: object, times: int) -> float:
        best = float("inf")
        for _ in range(times):
            began = time.process_time()
            run(x, forest).sum().backward()  # type: ignore[operator]
            best = min(best, time.process_time() - began)
        return best

    fast = seconds(layer, 20)
    slow = seconds(lambda x, trees: node_by_node(layer, x, trees), 2)
    print(f"{composition} {cell or ''}: {slow:.3f} s / {fast:.4f} s = {slow / fast:.0f}")
    assert slow / fast >= 20
