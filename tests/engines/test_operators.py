"""torch's own mechanisms: a run is one operator of a compiled or exported graph, and `torch.func` finds the plain loop."""

import copy
import inspect
import json
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from recurra import EngineError, Recurrent, ShapeError
from recurra.engines import run
from recurra.engines.choose import ENGINES
from recurra.engines.fused.kernels import kernel
from recurra.engines.operators import kept_memory, text_of
from recurra.layers import bidirectional, direction, dropout, initial, recurrent
from recurra.types import Shape
from tests.helpers import CELLS, flatten

DOUBLE = torch.float64


class Words(nn.Module):
    """A language model of two layers."""

    def __init__(self, cell="lstm", **options):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.layer = Recurrent(cell, 6, 5, layers=2, **options)
        self.head = nn.Linear(5, 11)

    def forward(self, tokens, lengths=None):
        trace = self.layer(self.embedding(tokens), lengths=lengths)
        return self.head(trace.outputs), trace.final


def words(**options):
    return Words(**options).double()


def gradients_of(model, call, *inputs):
    model.zero_grad()
    outputs, final = call(*inputs)
    (outputs.square().sum() + sum(each.sum() for each in flatten(final))).backward()
    return [outputs, *flatten(final), *(parameter.grad for parameter in model.parameters())]


def _is_check(function):
    return any(word in function.__code__.co_filename for word in ("jaxtyping", "beartype"))


@pytest.fixture
def unchecked(monkeypatch):
    """Without the checks of axes that tests put around functions: torch traces the functions themselves."""
    for module in (bidirectional, direction, dropout, initial, recurrent, run):
        owners = [module, *(each for each in vars(module).values() if inspect.isclass(each))]
        for owner in owners:
            for name, function in list(vars(owner).items()):
                if inspect.isfunction(function) and _is_check(function):
                    monkeypatch.setattr(owner, name, inspect.unwrap(function, stop=lambda each: not _is_check(each)))


@pytest.fixture
def compiled(unchecked):
    """Compiled by everything but the last step, which writes and compiles C++: the graph is what is tested here."""
    torch._dynamo.reset()
    counters.clear()
    yield lambda model: torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    torch._dynamo.reset()


@pytest.mark.parametrize(
    "engine", ["auto", "scan", *(pytest.param(name, marks=pytest.mark.slow) for name in ENGINES if name != "scan")]
)
def test_a_compiled_model_is_one_graph_for_all_sizes(engine, compiled):
    model = words(cell="lru" if engine == "scan" else "lstm", engine=engine)
    fast = compiled(model)
    for B, T in ((3, 7), (2, 9), (5, 4)):
        tokens, lengths = torch.randint(11, (B, T)), torch.randint(0, T + 1, (B,))
        for inputs in ((tokens,), (tokens, lengths)):
            found, expected = (gradients_of(model, call, *inputs) for call in (fast, model))
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert counters["stats"]["unique_graphs"] == 2  # with lengths and without


@pytest.mark.parametrize(
    "name",
    [
        "lru",
        "recurrent_dropout(gru)",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("skip(d=2)", "normed", "autonomous")),
    ],
)
def test_a_compiled_layer_equals_the_layer(name, compiled):
    model = Recurrent(CELLS[name], 4, 5, learn_initial=True, bidirectional=True, dtype=DOUBLE)
    fast, x = compiled(model), torch.randn(3, 7, 4, dtype=DOUBLE)

    def call(layer):
        torch.manual_seed(3)
        trace = layer(x)
        return trace.outputs, trace.final

    found, expected = (gradients_of(model, lambda layer=layer: call(layer)) for layer in (fast, model))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_lengths_that_are_too_long_are_refused_in_a_compiled_layer_too(compiled):
    fast = compiled(words())
    with pytest.raises(ShapeError, match="between 0 and T = 7; got 3 to 8"):
        fast(torch.randint(11, (2, 7)), torch.tensor([3, 8]))


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.torch.jit.script_method. is deprecated:DeprecationWarning"
)  # torch's own use of it
def test_inductor_compiles_it_within_the_graph(unchecked):
    torch._dynamo.reset()
    model = words()
    fast, tokens = torch.compile(model, fullgraph=True, dynamic=True), torch.randint(11, (3, 7))
    found, expected = (gradients_of(model, call, tokens) for call in (fast, model))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def export(model):
    sizes = {0: torch.export.Dim("B", min=2), 1: torch.export.Dim("T", min=2)}
    return torch.export.export(model, (torch.randint(11, (3, 7)),), dynamic_shapes={"tokens": sizes})


@pytest.mark.parametrize("engine", ["auto", "eager"])
def test_an_exported_model_runs_at_other_sizes(engine, unchecked):
    model = words(engine=engine).eval()
    exported = export(model)
    assert [str(node.target) for node in exported.graph.nodes].count("recurra.run.default") == 2
    for B, T in ((3, 7), (2, 33), (9, 2)):
        tokens = torch.randint(11, (B, T))
        torch.testing.assert_close(exported.module()(tokens), model(tokens))


def test_an_exported_layer_gives_a_trace(unchecked):
    sizes = {0: torch.export.Dim("B", min=2), 1: torch.export.Dim("T", min=2)}
    layer, x = Recurrent("lstm", 3, 8), torch.randn(5, 33, 3)
    program = torch.export.export(layer, (torch.randn(4, 20, 3),), dynamic_shapes={"x": sizes})
    torch.testing.assert_close(program.module()(x).outputs, layer(x).outputs)


def test_a_compiled_layer_of_no_rows(compiled):
    fast = compiled(Recurrent("lstm", 3, 8))
    with torch.no_grad():
        assert fast(torch.zeros(0, 5, 3)).outputs.shape == (0, 5, 8)
        assert fast(torch.zeros(0, 5, 3), lengths=torch.zeros(0, dtype=torch.int64)).outputs.shape == (0, 5, 8)


def test_an_exported_model_runs_in_another_process(tmp_path, unchecked):
    """Which has never seen the cell: the operator carries its equations."""
    model = words().eval()
    model.layer = Recurrent(CELLS["two_speeds"], 6, 5, dtype=DOUBLE)
    torch.export.save(export(model), tmp_path / "model.pt2")
    tokens = torch.randint(11, (4, 12))
    code = (
        "import json, sys, torch, recurra\n"
        f"found = torch.export.load({str(tmp_path / 'model.pt2')!r}).module()(torch.tensor(json.loads(sys.argv[1])))\n"
        "print(json.dumps(found[0].tolist()))"
    )
    done = subprocess.run([sys.executable, "-c", code, json.dumps(tokens.tolist())], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(torch.tensor(json.loads(done.stdout), dtype=DOUBLE), model(tokens)[0])


@pytest.mark.parametrize("name", ["lstm", "two_speeds", "lru"])
def test_what_a_kernel_keeps_is_known_before_it_runs(name):
    """Of symbolic sizes an operator must say how much memory it gives back, without asking the kernel."""
    made = kernel(CELLS[name].graph, torch.float32)
    for T, B, D, H in ((1, 1, 1, 1), (7, 3, 4, 5), (33, 2, 8, 17)):
        size, _ = kept_memory(CELLS[name], Shape(B, T, D, H))
        assert size == made.kept_memory(made.Forward(T=T, B=B, D=D, H=H, threads=1))


@pytest.mark.parametrize("engine", ["auto", "eager"])
def test_the_operator_passes_torchs_own_checks(engine):
    layer = Recurrent(CELLS["two_speeds"], 4, 5, dtype=DOUBLE)
    weights = layer.stack[0][0].weights(7, 3)
    tensors = [each.detach().requires_grad_() for each in (weights.W, weights.b, weights.U)]
    units = [each.detach().requires_grad_() for each in weights.units.values()]
    first = [torch.randn(state.depth, 3, 5, dtype=DOUBLE, requires_grad=True) for state in layer.cell.graph.states]
    x = torch.randn(7, 3, 4, dtype=DOUBLE, requires_grad=True)
    given = (engine, text_of(layer.cell), True, x, *tensors, units, first, [], torch.tensor([7, 0, 4]))
    torch.library.opcheck(torch.ops.recurra.run.default, given, test_utils=("test_schema", "test_faketensor"))


def per_sample(layer, x):
    """The gradient of each sequence's own loss, by `torch.func`."""
    parameters = {name: each.detach() for name, each in layer.named_parameters()}

    def loss(parameters, sequence):
        return torch.func.functional_call(layer, parameters, (sequence[None],)).outputs.square().sum()

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)


def test_functional_transforms_take_the_plain_loop():
    layer, x = Recurrent("gru", 4, 5, dtype=DOUBLE), torch.randn(3, 6, 4, dtype=DOUBLE)
    found = per_sample(layer, x)
    for k in range(len(x)):
        expected = torch.autograd.grad(layer(x[k : k + 1]).outputs.square().sum(), list(layer.parameters()))
        for (name, _), value in zip(layer.named_parameters(), expected, strict=True):
            torch.testing.assert_close(found[name][k], value, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("engine", ["fused", "vendor"])
def test_a_named_engine_says_which_one_to_take_within_transforms(engine):
    layer = Recurrent("lstm", 4, 5, dtype=DOUBLE, engine=engine)
    with pytest.raises(EngineError, match=r"does not run within torch.func's transforms.*engine='auto'"):
        per_sample(layer, torch.randn(3, 6, 4, dtype=DOUBLE))


def test_a_functional_call_runs_on_any_engine():
    layer, x = Recurrent("lstm", 4, 5, dtype=DOUBLE, engine="fused"), torch.randn(3, 6, 4, dtype=DOUBLE)
    other = copy.deepcopy(layer)
    with torch.no_grad():
        for each in other.parameters():
            each.mul_(0.5)
    found = torch.func.functional_call(layer, dict(other.named_parameters()), (x,))
    torch.testing.assert_close(found.outputs, other(x).outputs)
