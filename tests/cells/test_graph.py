"""The graph of a cell: stages, linearity, written equations, and the partial derivatives of every operation."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recurra import CATALOGUE, ago, cell, norm, relu, sigmoid, tanh
from recurra.cells import operations
from recurra.cells.graph import constant, evaluate, make, operation, walk, write
from recurra.cells.operations import OPERATIONS
from tests.helpers import CELLS, autonomous, make_layer, shared


def stages(name):
    """The names of the products, group by group, stage by stage."""
    return [[group.names for group in stage] for stage in CELLS[name].graph.stages]


def test_products_are_arranged_in_stages_and_groups():
    assert stages("lstm") == [[("i", "f", "o", "c")]]
    assert stages("gru") == [[("z", "r")], [("n",)]]
    assert stages("gru_after") == [[("r", "z", "n")]]
    assert stages("skip") == [[("h",), ("far",)]]
    assert stages("deep_transition") == [[("h",)], [("deep",)]]
    assert stages("mingru") == []
    assert stages("recurrent_dropout(gru)") == [[("z", "r")], [("n",)]]


def test_one_matrix_may_stand_in_two_groups():
    assert [[group.names for group in stage] for stage in shared.graph.stages] == [[("w", "v"), ("w",)]]
    assert shared.graph.matrices == ("w", "v")


def test_the_same_expression_is_one_node():
    h = make("state", name="h")
    assert operation("tanh", h) is operation("tanh", h)
    assert operation("add", h, constant(1)) is not operation("add", constant(1), h)


def test_what_costs_nothing_is_simplified():
    h, zero, one = make("state", name="h"), constant(0), constant(1)
    assert operation("add", h, zero) is operation("add", zero, h) is h
    assert operation("subtract", h, zero) is h
    assert operation("subtract", zero, h) is operation("negate", h)
    assert operation("multiply", one, h) is operation("multiply", h, one) is h
    assert operation("multiply", zero, h) is zero
    assert operation("multiply", h, constant(-1)) is operation("negate", h)
    assert operation("divide", h, one) is operation("power", h, one) is h
    assert operation("negate", operation("negate", h)) is h
    assert operation("subtract", constant(3), constant(1)) is constant(2)
    assert operation("divide", one, h).kind == "divide"


@pytest.mark.parametrize("name", CELLS)
def test_nodes_come_after_their_arguments(name):
    graph = CELLS[name].graph
    seen = set()
    for node in graph.nodes:
        assert seen.issuperset(node.arguments)
        seen.add(node)
    assert seen == set(walk(graph.updates))


LINEAR = {"mingru", "minlstm", "carousel", "rotation", "lru", "elman(linear)"}
DIAGONAL = {"indrnn", "mingru", "minlstm", "carousel", "rotation", "lru"}


@pytest.mark.parametrize("name", [*CATALOGUE, "elman(linear)", "elman(relu)", "shared", "toolbox"])
def test_linear_and_diagonal_recurrences_are_seen(name):
    graph = CELLS[name].graph
    assert graph.is_linear == (name in LINEAR)
    assert graph.is_diagonal == (name in DIAGONAL)


@pytest.mark.parametrize(
    ("equation", "linear", "diagonal"),
    [
        (lambda x, U, h: sigmoid(x.a) * h + U.b(tanh(x.b)), True, True),
        (lambda x, U, h: h / x.a - U.b(ago(h, 2) * x.b), True, False),
        (lambda x, U, h: x.a / h, False, True),
        (lambda x, U, h: h * h, False, True),
        (lambda x, U, h: h * U.a(h), False, False),
        (lambda x, U, h: operations.where(x.a > 0, h, x.b), True, True),
        (lambda x, U, h: operations.where(h > 0, h, x.b), False, True),
        (lambda x, U, h: norm(h + x.a), False, False),
        (lambda x, U, h: relu(x.a), True, True),
    ],
)
def test_linear_and_diagonal_by_equation(equation, linear, diagonal):
    graph = cell(equation).graph
    assert (graph.is_linear, graph.is_diagonal) == (linear, diagonal)


def test_the_equations_of_a_gru():
    assert CATALOGUE["gru"].graph.equations() == [
        "z = sigmoid(x.z + U.z(h))",
        "r = sigmoid(x.r + U.r(h))",
        "n = tanh(x.n + U.n(r * h))",
        "h' = (1 - z) * h + z * n",
    ]
    assert str(CATALOGUE["gru"].graph).splitlines() == CATALOGUE["gru"].graph.equations()


def test_the_equations_of_other_cells():
    assert CATALOGUE["lstm"].graph.equations()[-2:] == ["c' = f * c + i * g", "h' = o * tanh(c')"]
    assert CATALOGUE["clockwork"].graph.equations()[1:] == [
        "h' = where(clock < 0.5, n, h)",
        "clock' = (clock + 1) % period",
    ]
    assert autonomous.graph.equations() == ["h' = tanh(U.h(h) + 0.1 * age)", "age' = age + 1"]


def test_a_state_that_is_only_copied_is_written():
    @cell
    def pair(x, U, h, before):
        return tanh(x.h + U.h(h)), h

    assert pair.graph.equations() == ["h' = tanh(x.h + U.h(h))", "before' = h"]


def test_latex_of_a_gru():
    lines = CATALOGUE["gru"].graph.latex()
    assert lines[0] == (r"{z}^{(t)} &= \sigma(W_{\mathrm{z}} {x}^{(t)} + b_{\mathrm{z}} + U_{\mathrm{z}} {h}^{(t-1)})")
    assert lines[3] == (r"{h}^{(t)} &= \left(1 - {z}^{(t)}\right) \odot {h}^{(t-1)} + {z}^{(t)} \odot {n}^{(t)}")


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_can_be_written(name):
    graph = CELLS[name].graph
    assert len(graph.equations()) == len(graph.latex()) >= len(graph.states)
    for line in graph.latex():
        assert line.count("{") == line.count("}")


LEAVES = {name: make("state", name=name) for name in "abc"}
BINARY = ("add", "subtract", "multiply", "divide", "remainder", "power", "minimum")


@st.composite
def expressions(draw, depth=3):
    """A random tree of operations, as a node."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from([*LEAVES.values(), constant(2.0), constant(-3.0), constant(0.5)]))
    kind = draw(st.sampled_from([*BINARY, "negate", "tanh", "where"]))
    inner = expressions(depth - 1)
    if kind == "where":
        return operation("where", draw(conditions(depth - 1)), draw(inner), draw(inner))
    first, *rest = (draw(inner) for _ in range(2 if kind in BINARY else 1))
    if all(each.kind == "constant" for each in (first, *rest)):
        first = LEAVES["a"]
    return operation(kind, first, *rest)


@st.composite
def conditions(draw, depth):
    kind = draw(st.sampled_from(["less", "less_equal", "and", "or", "not"]))
    if depth <= 0 or kind.startswith("less"):
        kind = kind if kind.startswith("less") else "less"
        return operation(kind, draw(st.sampled_from(list(LEAVES.values()))), draw(expressions(max(depth - 1, 0))))
    return operation(kind, *(draw(conditions(depth - 1)) for _ in range(1 if kind == "not" else 2)))


@settings(max_examples=150)
@given(node=expressions())
def test_a_written_expression_means_what_it_was(node):
    check_written(node)


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b, c: a * (b % c),
        lambda a, b, c: (a**b) ** c,
        lambda a, b, c: a ** (b**c),
        lambda a, b, c: a - (b - c),
        lambda a, b, c: a / (b / c),
        lambda a, b, c: -(a**2) + (-a) ** 2,
        lambda a, b, c: -(a + b) * c,
        lambda a, b, c: operations.where((a < b) & (b < c), a, b),
        lambda a, b, c: operations.where(~(a < b) | (b <= c), a, b),
        lambda a, b, c: operations.where(~((a < b) & (b <= c)), a, b),
    ],
)
def test_brackets_are_written_where_they_matter(build):
    (node,) = cell(lambda x, U, a, b, c: (build(a, b, c), b, c)).graph.updates[:1]
    check_written(node)


def check_written(node):
    """The text, run as Python on numbers, gives the values of the graph."""
    values = {name: torch.tensor(v, dtype=torch.float64) for name, v in (("a", 1.7), ("b", 2.9), ("c", 1.1))}
    expected = evaluate([node], lambda leaf: values[leaf.name], lambda name, v: v)[node]
    functions = {name: getattr(operations, name) for name in ("tanh", "where", "minimum")}
    found = eval(write(node), {**functions, **values})
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64), torch.as_tensor(expected, dtype=torch.float64), equal_nan=True
    )


ARGUMENTS = {"where": 3, "clamp": 3}
POSITIVE = {"log", "sqrt", "power"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_partial_derivatives_agree_with_autograd(name):
    """At random points, for every argument; `None` says that the derivative is zero everywhere."""
    row = OPERATIONS[name]
    leaves = [torch.randn(200, dtype=torch.float64) for _ in row.partials]
    if name in POSITIVE:
        leaves = [leaf.abs() + 0.1 for leaf in leaves]
    if name == "clamp":
        leaves[1], leaves[2] = leaves[1] - 0.5, leaves[1] + 1.0
    if name in ("and", "or", "not"):
        leaves = [leaf > 0 for leaf in leaves]
    if name == "where":
        leaves[0] = leaves[0] > 0
    leaves = [leaf.requires_grad_() if leaf.is_floating_point() else leaf for leaf in leaves]
    y = row.value(*leaves)
    assert row.is_condition == (y.dtype == torch.bool)
    for leaf, partial in zip(leaves, row.partials, strict=True):
        if not leaf.is_floating_point() or not y.requires_grad:
            assert partial is None
            continue
        (expected,) = torch.autograd.grad(y.sum(), leaf, retain_graph=True, materialize_grads=True)
        found = torch.zeros(()) if partial is None else partial(y, *leaves)
        found = torch.as_tensor(found, dtype=torch.float64).expand_as(expected)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["minimum", "maximum", "relu", "abs", "clamp", "sign"])
def test_partial_derivatives_at_a_kink_are_those_of_torch(name):
    row = OPERATIONS[name]
    points = {"clamp": [0.5, -1.0, 0.5], "minimum": [0.5, 0.5], "maximum": [0.5, 0.5]}.get(name, [0.0])
    leaves = [torch.tensor([p], dtype=torch.float64, requires_grad=k < 2) for k, p in enumerate(points)]
    y = row.value(*leaves)
    (expected,) = torch.autograd.grad(y.sum(), leaves[0])
    found = 0.0 if row.partials[0] is None else row.partials[0](y, *leaves)
    assert torch.as_tensor(found).item() == expected.item()


def test_a_function_of_a_number_can_be_evaluated():
    """An option may make the argument of a function a plain number."""

    @cell
    def scaled(x, U, h, *, k=1.0):
        gate = sigmoid(k * x.a)
        return gate * h + x.b

    layer = make_layer(scaled(k=0.0))
    record = layer(torch.randn(2, 3, 4, dtype=torch.float64), record=True).record[0][0]
    assert torch.all(record["gate"] == 0.5)


def test_where_of_two_numbers_is_their_choice():
    condition = torch.tensor([True, False])
    assert OPERATIONS["where"].value(condition, 2, 3).tolist() == [2.0, 3.0]


def test_norm_has_zero_mean_and_the_gain_as_spread():
    v, gain = torch.randn(4, 50, dtype=torch.float64), torch.rand(50, dtype=torch.float64) + 0.5
    node = cell(lambda x, U, h: norm(h, "a")).graph.updates[0]
    found = evaluate([node], lambda leaf: gain if leaf.kind == "parameter" else v, None)[node]
    centred = v - v.mean(-1, keepdim=True)
    expected = gain * centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_name_that_is_given_again_is_written_once_for_each_value():
    @cell
    def highway(x, U, h):
        for k in range(10):
            t = sigmoid(getattr(U, f"t{k}")(h))
            h = t * tanh(getattr(U, f"n{k}")(h)) + (1 - t) * h
        return h

    lines = highway.graph.equations()
    assert sum(map(len, lines)) < 2000
    assert [line.partition(" = ")[0] for line in lines][:3] == ["h_1", "h_2", "h_3"]
    assert lines[1] == "h_2 = sigmoid(U.t1(h_1)) * tanh(U.n1(h_1)) + (1 - sigmoid(U.t1(h_1))) * h_1"
    assert len("".join(highway.graph.latex())) < 6000
