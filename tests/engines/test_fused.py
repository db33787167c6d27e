"""The fused engine against the plain loop: every cell, odd sizes, both dtypes; then what autograd may ask of it."""

import itertools
import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from recurra import CATALOGUE, Recurrent, cell, sigmoid, tanh
from recurra.engines.fused.kernels import source_of
from recurra.engines.fused.memory import Buffer
from recurra.engines.fused.stages import plan
from tests.engines.fused_helpers import MIXTURES, assert_near, check_against_eager, everything, problem, tame_layer
from tests.helpers import CELLS, D, flatten

SINGLE, DOUBLE = torch.float32, torch.float64
SMOOTH = {
    name: each for name, each in {**CELLS, **MIXTURES}.items() if name not in ("toolbox", "banded", "elman(relu)")
}
"""Without the cells that jump, they or their gradients: there a rounding error may become a whole step."""


# -- agreement ---------------------------------------------------------------------------------------------------------


QUICK = ("elman", "lstm", "gru", "gru_after", "leaky", "skip", "deep_transition", "mingru", "orthogonal")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CATALOGUE]
)
def test_catalogue_in_single_precision(name):
    """In double precision `test_agreement` compares each of them."""
    check_against_eager(CATALOGUE[name], B=3, T=33, H=17, dtype=SINGLE, with_lengths=True)
    check_against_eager(CATALOGUE[name], B=1, T=2, H=65, dtype=SINGLE, with_lengths=False)


@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures_in_double_precision(name):
    check_against_eager(MIXTURES[name], B=5, T=33, H=17, dtype=DOUBLE, with_lengths=True)
    check_against_eager(MIXTURES[name], B=3, T=2, H=1, dtype=DOUBLE, with_lengths=False)
    check_against_eager(MIXTURES[name], B=1, T=1, H=65, dtype=DOUBLE, with_lengths=False, record=True)
    check_against_eager(MIXTURES[name], B=4, T=5, H=3, dtype=DOUBLE, with_lengths=True, record=True)


@pytest.mark.parametrize("with_lengths", [False, True])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_a_long_sequence_in_single_precision(name, with_lengths):
    check_against_eager(name, B=3, T=257, H=17, dtype=SINGLE, with_lengths=with_lengths)


@pytest.mark.slow
@pytest.mark.parametrize("T", [1, 2, 33, 257])
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("name", [*CELLS, *MIXTURES])
def test_all_sizes(name, dtype, T):
    if dtype == SINGLE and name not in SMOOTH:
        pytest.skip("its equations jump")
    for B, H in itertools.product((1, 3, 17), (1, 3, 17, 65)):
        for with_lengths in (False, True):
            check_against_eager(
                {**CELLS, **MIXTURES}[name], B, T, H, dtype, with_lengths=with_lengths, record=(B + H + T) % 3 == 0
            )


# -- memory that was never written -------------------------------------------------------------------------------------


@pytest.fixture
def nothing_is_zero_by_chance(monkeypatch):
    """All memory that is taken without being filled holds NaN: fresh, lent again, and of other sizes alike."""
    empty, new_empty, empty_like, lend = torch.empty, Tensor.new_empty, torch.empty_like, Buffer.__init__

    def filled(function):
        def call(*arguments, **options):
            made = function(*arguments, **options)
            return made.fill_(float("nan")) if made.is_floating_point() else made

        return call

    def lend_filled(self, *arguments, **options):
        lend(self, *arguments, **options)
        self._memory.fill_(float("nan"))

    monkeypatch.setattr(torch, "empty", filled(empty))
    monkeypatch.setattr(torch, "empty_like", filled(empty_like))
    monkeypatch.setattr(Tensor, "new_empty", filled(new_empty))
    monkeypatch.setattr(Buffer, "__init__", lend_filled)
    assert torch.empty(3).isnan().all()
    assert Buffer(3, SINGLE).data.isnan().all()
    assert torch.zeros(2).new_empty(5).isnan().all()


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("with_lengths", [False, True])
@pytest.mark.parametrize("name", ["lstm", *MIXTURES])
def test_unwritten_memory_is_never_read(name, with_lengths, record, nothing_is_zero_by_chance):
    chosen = {**CELLS, **MIXTURES}[name]
    for T, B, H in ((6, 4, 17), (1, 3, 5)):
        check_against_eager(chosen, B, T, H, DOUBLE, with_lengths=with_lengths, record=record)


def test_memory_of_the_system_is_never_read_either():
    """The same in a process whose allocator fills what it hands out with large numbers."""
    code = (
        "import torch\nfrom recurra import CATALOGUE\nfrom tests.engines.fused_helpers import check_against_eager\n"
        "for T, B, H in ((7, 5, 17), (40, 3, 65)):\n"
        "    check_against_eager('lstm', B, T, H, torch.float64, with_lengths=True)\n"
    )
    run_python(code, MALLOC_PERTURB_="128")


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- what autograd asks ------------------------------------------------------------------------------------------------


def small(name="lstm", **options):
    layer = tame_layer(name, D, 5, engine="fused", **options)
    return layer, torch.randn(3, 6, D, dtype=DOUBLE, requires_grad=True)


@pytest.mark.parametrize("engine", ["auto", "fused"])
def test_second_derivatives_are_those_of_the_plain_loop(engine):
    layer, x = small()
    layer.engine = engine
    assert torch.autograd.gradgradcheck(lambda x: layer(x[:1, :2]).outputs, x)


@pytest.mark.parametrize("name", ["lru", "zoneout(lstm)", "two_speeds"])
def test_second_derivatives_of_every_input(name):
    """Also of masks, lengths, folded parameters and states of several steps."""
    layer, x = small(CELLS[name], learn_initial=True)
    found = {}
    for engine in ("eager", "fused"):
        layer.engine = engine
        torch.manual_seed(7)
        outputs = layer(x, lengths=[6, 0, 3]).outputs
        inputs = [x, *layer.parameters()]
        first = torch.autograd.grad(outputs.square().sum(), inputs, create_graph=True, materialize_grads=True)
        second = torch.autograd.grad(
            sum(each.square().sum() for each in first), inputs, allow_unused=True, materialize_grads=True
        )
        found[engine] = [*first, *second]
    torch.testing.assert_close(found["fused"], found["eager"], rtol=1e-10, atol=1e-10)


def test_first_derivatives_agree_with_finite_differences():
    for name in ("echo", "banded"):
        layer, x = small(MIXTURES[name])
        assert torch.autograd.gradcheck(lambda x, layer=layer: layer(x, lengths=[6, 1, 3]).outputs, x)


def test_a_retained_graph_gives_the_same_gradients_again():
    layer, x = small("gru")
    loss = layer(x, lengths=[6, 2, 4]).outputs.square().sum()
    first = torch.autograd.grad(loss, [x, *layer.parameters()], retain_graph=True)
    layer(x).outputs.sum().backward()  # takes memory of the same sizes in between
    second = torch.autograd.grad(loss, [x, *layer.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, x)


def test_two_runs_before_one_backward():
    layer, x = small()
    other = torch.randn_like(x)
    apart = [torch.autograd.grad(layer(each).outputs.square().sum(), list(layer.parameters())) for each in (x, other)]
    traces = [layer(each) for each in (x, other)]
    together = torch.autograd.grad(sum(t.outputs.square().sum() for t in traces), list(layer.parameters()))
    for a, b, both in zip(*apart, together, strict=True):
        torch.testing.assert_close(a + b, both, rtol=1e-12, atol=1e-12)


def test_a_run_that_continues_another():
    layer, x = small()
    layer.engine = "eager"
    expected = torch.autograd.grad(layer(x).outputs.square().sum(), [x, *layer.parameters()])
    layer.engine = "fused"
    first = layer(x[:, :2])
    second = layer(x[:, 2:], first.final)
    loss = first.outputs.square().sum() + second.outputs.square().sum()
    for found, value in zip(torch.autograd.grad(loss, [x, *layer.parameters()]), expected, strict=True):
        torch.testing.assert_close(found, value, rtol=1e-12, atol=1e-12)


def test_outputs_that_were_changed_are_noticed():
    layer, x = small()
    trace = layer(x)
    with torch.no_grad():
        trace.outputs.mul_(2)
    with pytest.raises(RuntimeError, match="modified inplace"):
        trace.outputs.sum().backward()
    trace = layer(x)
    with pytest.raises(RuntimeError, match="inplace"):
        trace.outputs.mul_(2)


@pytest.mark.parametrize("parameter", ["W", "b", "U"])
def test_weights_that_were_changed_are_noticed(parameter):
    layer, x = small()
    outputs = layer(x).outputs
    with torch.no_grad():
        getattr(layer.stack[0][0], parameter).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


def test_inputs_that_were_changed_are_noticed():
    layer, x = small()
    outputs = layer(x).outputs
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


def test_final_states_may_be_changed():
    """They are copies: a carried state that is reset in place takes nothing from the gradients."""
    layer, x = small()
    expected = torch.autograd.grad(layer(x).outputs.sum(), x)
    trace = layer(x)
    with torch.no_grad():
        for state in flatten(trace.final):
            state.zero_()
    assert torch.equal(torch.autograd.grad(trace.outputs.sum(), x)[0], expected[0])


def test_lengths_may_be_changed_after_the_run():
    layer, x = small()
    lengths = torch.tensor([6, 1, 3])
    expected = torch.autograd.grad(layer(x, lengths=lengths).final[0][0][0].sum(), x)
    final = layer(x, lengths=lengths).final[0][0][0]
    lengths.fill_(2)
    assert torch.equal(torch.autograd.grad(final.sum(), x)[0], expected[0])


def test_gradients_that_nobody_asked_for_are_left_out():
    layer, x = small()
    layer.requires_grad_(False)
    (found,) = torch.autograd.grad(layer(x).outputs.square().sum(), x)
    layer.engine = "eager"
    torch.testing.assert_close(
        found, torch.autograd.grad(layer(x).outputs.square().sum(), x)[0], rtol=1e-12, atol=1e-12
    )
    assert all(p.grad is None for p in layer.parameters())


# -- how values lie in memory ------------------------------------------------------------------------------------------


def laid_out(kind, B, T, D):
    x = torch.randn(B, T, D, dtype=DOUBLE)
    match kind:
        case "time first":
            return x.transpose(0, 1).contiguous().transpose(0, 1)
        case "features first":
            return x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
        case "every second":
            return torch.randn(B, 2 * T, 2 * D, dtype=DOUBLE)[:, ::2, ::2]
        case "a part":
            return torch.randn(B + 1, T + 2, D + 3, dtype=DOUBLE)[1:, 1:-1, 2:-1]
        case "sliding windows":
            return torch.randn(B, T + D - 1, dtype=DOUBLE).unfold(1, D, 1)
        case "one batch row for all":
            return x[:1].expand(B, T, D)
        case "one step for all":
            return x[:, :1].expand(B, T, D)
        case "one number for all":
            return x[:1, :1, :1].expand(B, T, D)
    raise AssertionError(kind)


LAYOUTS = (
    *("time first", "features first", "every second", "a part", "sliding windows"),
    *("one batch row for all", "one step for all", "one number for all"),
)


@pytest.mark.parametrize("shape", [(3, 7, 4), (1, 5, 3), (4, 1, 1), (2, 3, 1)], ids=str)
@pytest.mark.parametrize("kind", LAYOUTS)
def test_inputs_of_any_layout(kind, shape):
    x = laid_out(kind, *shape)
    layer = tame_layer("lstm", shape[2], 5)
    lengths = torch.arange(shape[0], 0, -1).clamp(max=shape[1])
    for given in (None, lengths):
        expected = everything(layer, x.contiguous(), None, given, engine="eager")
        assert_near(everything(layer, x, None, given, engine="fused"), expected, 1e-12)


@pytest.mark.parametrize("H", [1, 5])
@pytest.mark.parametrize("kind", LAYOUTS)
def test_gradients_of_any_layout(kind, H):
    layer = tame_layer("lstm", 4, H)
    x = torch.randn(3, 7, 4, dtype=DOUBLE, requires_grad=True)
    arriving = laid_out(kind, 3, 7, H)
    found = []
    for engine in ("eager", "fused"):
        layer.engine = engine
        found.append(torch.autograd.grad(layer(x).outputs, [x, *layer.parameters()], arriving))
    for expected, value in zip(*found, strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)


def test_gradients_of_a_sum_and_of_final_states_alone():
    layer, x = small("gru")
    for loss in (lambda t: t.outputs.sum(), lambda t: t.final[0][0][0].sum(), lambda t: t.outputs[1, 2, 3]):
        found = []
        for engine in ("eager", "fused"):
            layer.engine = engine
            found.append(torch.autograd.grad(loss(layer(x)), [x, *layer.parameters()]))
        for expected, value in zip(*found, strict=True):
            torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "lengths",
    [torch.tensor([2, 9, 6, 9, 0, 9])[::2], torch.tensor(4).expand(3), torch.tensor([2, 6, 0], dtype=torch.int32)],
    ids=["every second", "one for all", "32 bits"],
)
def test_lengths_of_any_layout(lengths):
    layer, x = small()
    expected = everything(layer, x, None, lengths.tolist(), engine="eager")
    assert_near(everything(layer, x, None, lengths, engine="fused"), expected, 1e-12)


def test_weights_and_states_of_any_layout():
    layer = tame_layer(MIXTURES["echo"], 4, 5)
    first = layer.stack[0][0]
    for name in ("W", "U"):
        value = getattr(first, name).detach()
        setattr(first, name, torch.nn.Parameter(value.T.contiguous().T))
        assert not getattr(first, name).is_contiguous()
    x = torch.randn(3, 7, 4, dtype=DOUBLE)
    state = tuple(s.transpose(0, 1).contiguous().transpose(0, 1) for s in layer.initial_state(3)[0][0])
    expected = everything(layer, x, ((state,),), engine="eager")
    assert_near(everything(layer, x, ((state,),), engine="fused"), expected, 1e-12)


# -- threads -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def threads():
    yield torch.set_num_threads
    torch.set_num_threads(1)


@pytest.mark.parametrize("B", [1, 2, 3, 7])
@pytest.mark.parametrize("name", ["gru", "banded", "echo"])
def test_any_number_of_threads_gives_the_same(name, B, threads):
    """Large enough for every thread to be woken, with fewer batch rows than threads and with shares of unequal size."""
    layer, x, state, lengths = problem({**CELLS, **MIXTURES}[name], B, 130, 65, with_lengths=B > 2)
    results = []
    for count in (1, 2, 5):
        threads(count)
        results.append(everything(layer, x, state, lengths, engine="fused"))
    for each in results[1:]:
        assert_near(each, results[0], 1e-13)


def test_the_number_of_threads_may_change_between_a_run_and_its_gradients(threads):
    layer = tame_layer("lstm", 65, 65, engine="fused")
    x = torch.randn(7, 130, 65, dtype=DOUBLE, requires_grad=True)
    expected = torch.autograd.grad(layer(x).outputs.square().sum(), [x, *layer.parameters()])
    for before, after in ((1, 5), (5, 1), (2, 9)):
        threads(before)
        loss = layer(x).outputs.square().sum()
        threads(after)
        for found, value in zip(torch.autograd.grad(loss, [x, *layer.parameters()]), expected, strict=True):
            torch.testing.assert_close(found, value, rtol=1e-12, atol=1e-12)


def test_fewer_threads_than_were_asked_for():
    """A limit of the system (OMP_THREAD_LIMIT, a busy machine with OMP_DYNAMIC) leaves shares without a thread of their own."""
    code = (
        "import torch\nfrom tests.engines.fused_helpers import assert_near, everything, problem\n"
        "layer, x, state, lengths = problem('gru', 64, 10, 65, with_lengths=True)\n"
        "expected = everything(layer, x, state, lengths, engine='eager')\n"
        "torch.set_num_threads(8)\n"
        "for _ in range(4): assert_near(everything(layer, x, state, lengths, engine='fused'), expected, 1e-11)\n"
    )
    run_python(code, OMP_THREAD_LIMIT="3")


# -- the generated source ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CATALOGUE, *MIXTURES])
def test_the_source_is_the_same_each_time_and_shows_the_equations(name):
    graph = {**CATALOGUE, **MIXTURES}[name].graph
    text = source_of(graph)
    assert source_of(graph) == text
    lines = [line.removeprefix("//").strip() for line in text.splitlines() if line.startswith("//")]
    assert name in lines[0]
    for equation in plan(graph).graph.equations():
        assert equation in lines


def test_the_source_is_the_same_in_every_process():
    """Otherwise the cache on disk would never be hit; names and sets are hashed differently in each process."""
    code = (
        "from recurra import CATALOGUE\nfrom recurra.engines.fused.kernels import source_of\n"
        "from tests.engines.fused_helpers import MIXTURES\n"
        "print(''.join(source_of(c.graph) for c in [*CATALOGUE.values(), *MIXTURES.values()]))"
    )
    here = "".join(source_of(each.graph) for each in [*CATALOGUE.values(), *MIXTURES.values()])
    assert run_python(code, PYTHONHASHSEED="1" if os.environ.get("PYTHONHASHSEED") != "1" else "2") == here + "\n"


@pytest.mark.parametrize(
    "name", ["gradient", "sums", "tape", "REAL", "NAN", "compl", "h_final", "weights_0", "tile_0", "σ"]
)
def test_any_name_may_be_a_state_or_a_gate(name):
    """Names of the generated code, of its macros and of C++ are free for users."""
    scope = {"tanh": tanh, "sigmoid": sigmoid}
    exec(
        f"def named(x, U, h, {name}):\n"
        f"    {name}_2 = sigmoid(x.a + U.a(h * {name}))\n"
        f"    {name} = {name}_2 * tanh({name} - U.b({name}_2))\n"
        f"    return {name}_2 * tanh({name}), {name}\n",
        scope,
    )
    made = cell(scope["named"])
    assert source_of(made.graph)
    if name in ("gradient", "NAN"):
        check_against_eager(made, B=2, T=3, H=5, dtype=DOUBLE, with_lengths=False)
    else:
        compiles(source_of(made.graph))


def compiles(source: str) -> None:
    """The compiler takes it, without the time that optimising costs."""
    from recurra.engines.fused.build import HEADERS, find_compiler

    command = [
        find_compiler(),
        "-std=c++17",
        "-fsyntax-only",
        "-w",
        "-DREAL=float",
        f"-I{HEADERS[0].parent}",
        "-xc++",
        "-",
    ]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_reduced_precision_is_declined():
    answer = Recurrent("lstm", D, 5, dtype=torch.bfloat16).explain().answers["fused"]
    assert not answer
    assert "float32 and float64" in answer.reason


def test_sums_over_many_steps_and_batch_rows_keep_their_digits():
    """The gradient of a bias is a sum over steps and batch rows, here of 140,000 equal numbers in single precision."""

    @cell
    def driven(x, U, h):
        return x.h + 0.0 * h

    layer = Recurrent(driven, 1, 3, engine="fused")
    outputs = layer(torch.randn(70, 2000, 1)).outputs
    (found,) = torch.autograd.grad(outputs, layer.stack[0][0].b, torch.full_like(outputs, 0.1))
    expected = 140_000 * float(torch.tensor(0.1))
    torch.testing.assert_close(found, torch.full_like(found, expected), rtol=1e-5, atol=0)
