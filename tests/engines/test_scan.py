"""Cells that are linear in their state, all of time side by side: kernels over units, and chunks that are put together."""

import copy

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from torch import Tensor

import recurra
from recurra import CATALOGUE, Cell, EngineError, Learned, Recurrent, ago, cell, sigmoid, tanh, where, zoneout
from recurra.cells.graph import evaluate, walk
from recurra.engines.affine import affine_form, transfer
from recurra.engines.choose import ENGINES, choose, order
from recurra.engines.fused import cuda_chunks, gpu_chunks
from recurra.engines.fused.stages import plan
from recurra.engines.linear_scan import linear_scan, scan_in_kernels
from recurra.engines.protocol import YES, Run, Support
from recurra.types import Shape
from tests.engines.fused_helpers import assert_near, everything, problem
from tests.helpers import compare_engines, flatten, make_layer, map_state, random_state

CPU = torch.device("cpu")


@cell
def delays(x, U, h, m):
    """States that are read several steps back, the second after the first."""
    return 0.3 * ago(h, 2) + sigmoid(x.a) * h + x.h, 0.2 * ago(m, 3) + 0.1 * h + x.m


@cell
def chain(x, U, o, c, h, m, *, k=Learned(0.5)):
    """Four groups of states, each linear only when those before it are known; nothing reads the output."""
    c = sigmoid(x.f) * c + x.i
    h = tanh(c) * sigmoid(x.o)
    m = where(x.w > 0, k * m + h, tanh(h) * m - 0.2)
    return m * m, c, h, m


SCANNED: dict[str, Cell] = {name: CATALOGUE[name] for name in ("mingru", "minlstm", "lru", "rotation", "carousel")} | {
    "delays": delays,
    "chain": chain,
    "zoneout(mingru)": zoneout(CATALOGUE["mingru"], 0.2),
    "zoneout(lru)": zoneout(CATALOGUE["lru"], {"a": 0.2, "b": 0.2}),
}


class Chunked:
    """The kernels of a GPU, in chunks of this length, as an engine on tensors of any device; results are float32."""

    name = "chunked"

    def __init__(self, length: int, dtype: torch.dtype):
        self.length, self.dtype = length, dtype

    def supports(self, *asked: object, **options: object) -> Support:
        return YES

    def run(self, cell: Cell, weights, x: Tensor, initial, lengths, *, record: bool = False) -> Run:
        options = {"record": record, "length": self.length, "dtype": self.dtype}
        run = gpu_chunks.run(cell, weights, x, initial, lengths, **options)
        states = None if run.states is None else tuple(each.float() for each in run.states)
        return Run(run.outputs.float(), tuple(each.float() for each in run.final), states)


@pytest.fixture
def chunked(monkeypatch, simulated):
    monkeypatch.setattr(cuda_chunks, "BORDER_WARPS", 2)
    monkeypatch.setattr(gpu_chunks, "BORDER_WARPS", 2)
    gpu_chunks.kernels.cache_clear()

    def use(length: int, dtype: torch.dtype = torch.float32) -> str:
        monkeypatch.setitem(ENGINES, "chunked", Chunked(length, dtype))
        return "chunked"

    yield use
    gpu_chunks.kernels.cache_clear()


def lengths_for(T: int) -> Tensor:
    return torch.tensor([T // 2 + 1, 0, T])


def test_what_can_be_scanned_is_known():
    """Of the catalogue just these: a new cell that qualifies belongs into the tests here."""
    assert {
        name for name, each in CATALOGUE.items() if not each.graph.obstacle_to_scan
    } == SCANNED.keys() & CATALOGUE.keys()
    for each in SCANNED.values():
        assert ENGINES["scan"].supports(each, CPU, torch.float64, Shape(1, 9, 4, 5))


@pytest.mark.parametrize("T", [1, 2, 7, 33, 1000])
@pytest.mark.parametrize("name", SCANNED)
def test_kernels_over_units_agree_with_the_plain_loop(name, T):
    layer = make_layer(SCANNED[name])
    x, state = torch.randn(3, T, 4, dtype=torch.float64), random_state(layer)
    compare_engines(layer, "scan", x, state)
    compare_engines(layer, "scan", x, state, lengths_for(T))


def agree_in_chunks(
    engine: str, cell: Cell | str, T: int, H: int, *, with_lengths: bool, tolerance: float = 1e-5, B: int = 3
) -> None:
    """Outputs, every state and every gradient of a float32 layer against the plain loop in float64."""
    torch.manual_seed(T + H)
    layer, x, state, lengths = problem(cell, B, T, H, with_lengths=with_lengths)
    expected = everything(layer, x, state, lengths, engine="eager", record=True)
    given = map_state(lambda s: s.float(), state)
    assert_near(everything(layer.float(), x.float(), given, lengths, engine=engine, record=True), expected, tolerance)


CHUNKS = [(1, 3, 5), (4, 7, 6), (5, 33, 5), (16, 33, 6)]
"""Their length, that of the sequence, and units: whole and broken chunks, units in pairs and by themselves."""
IN_PAIRS = ("mingru", "lru", "chain")
"""Cells whose units are run in pairs with every test run; others only by themselves, since each is a kernel to compile."""


@pytest.mark.parametrize(
    ("name", "length", "T", "H"),
    [
        pytest.param(name, *sizes, marks=pytest.mark.slow if sizes[2] % 2 == 0 and name not in IN_PAIRS else ())
        for name in SCANNED
        for sizes in CHUNKS
    ],
)
def test_chunks_agree_with_the_plain_loop(chunked, name, length, T, H):
    agree_in_chunks(chunked(length), SCANNED[name], T, H, with_lengths=H == 5)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in IN_PAIRS else pytest.mark.slow) for name in SCANNED] + ["kept"],
)
def test_chunks_that_keep_nothing(chunked, name):
    """Without gradients neither a tape nor a state that is no output is stored; what comes out is the same."""

    @cell
    def kept(x, U, h):
        """Its backward run needs more than the drives have room for."""
        gate = sigmoid(x.a)
        return gate * h + tanh(x.a + gate)

    assert plan(kept.graph).slots > len(kept.graph.drives)
    made = SCANNED.get(name, kept)
    layer, x, state, lengths = problem(made, 3, 11, 6, with_lengths=True, dtype=torch.float32)
    layer.engine = chunked(4)
    layer.eval()
    for record in (False, True):
        expected = layer(x, state, lengths, record=record)
        with torch.no_grad():
            found = layer(x, state, lengths, record=record)
        assert torch.equal(found.outputs, expected.outputs)
        assert all(map(torch.equal, flatten(found.final), flatten(expected.final)))


@pytest.mark.parametrize(
    ("dtype", "H"),
    [
        (torch.bfloat16, 5),
        (torch.float16, 4),
        pytest.param(torch.bfloat16, 4, marks=pytest.mark.slow),
        pytest.param(torch.float16, 5, marks=pytest.mark.slow),
    ],
)
def test_chunks_in_16_bits(chunked, dtype, H):
    agree_in_chunks(chunked(4, dtype), "lru", 11, H, with_lengths=True, tolerance=3e-2)


FORGETTING = ("mingru", "minlstm", "lru", "chain")
"""Cells in which rounding does not add up over all of time."""


@pytest.mark.gpu
@pytest.mark.parametrize("T", [1, 2, 7, 33, 1_000, 65_537])
@pytest.mark.parametrize(
    "name", [name for name, each in SCANNED.items() if not each.graph.noises]
)  # two devices, two draws
def test_scan_agrees_on_a_gpu(name, T):
    """Odd sizes and lengths, in float32, against float64; `fused` stands in for the plain loop where that takes minutes."""
    if T > 1_000 and name not in FORGETTING:
        pytest.skip("rounding adds up over so many steps")
    torch.manual_seed(T)
    layer, x, state, lengths = problem(SCANNED[name], 3 if T < 65_537 else 1, T, 33, with_lengths=T < 65_537)
    expected = everything(layer, x, state, lengths, engine="eager" if T < 1_000 else "fused", record=True)
    given = map_state(lambda s: s.float().cuda(), state)
    found = everything(layer.float().cuda(), x.float().cuda(), given, lengths, engine="scan", record=True)
    assert_near({name: value.cpu() for name, value in found.items()}, expected, 1e-5 if T < 1_000 else 1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("H", [256, 33])
@pytest.mark.parametrize("name", FORGETTING)
def test_scan_agrees_in_16_bits_on_a_gpu(name, H, dtype):
    layer = Recurrent(SCANNED[name], 24, H).to(dtype)
    x = torch.randn(3, 1_500, 24).to(dtype)
    expected = everything(copy.deepcopy(layer).float(), x.float(), engine="scan")
    found = everything(layer.cuda(), x.cuda(), engine="scan")
    assert_near({name: value.cpu() for name, value in found.items()}, expected, 3e-2)


@pytest.mark.gpu
@pytest.mark.parametrize(("T", "N", "R"), [(2, 5, 1), (1_000, 17, 3), (65_537, 16, 1), (4_096, 32, 2)])
def test_whole_matrices_on_a_gpu(T, N, R):
    A = torch.randn(T, N, N, R, dtype=torch.float64, device="cuda") / (3 * N) ** 0.5
    b = torch.randn(T, N, R, dtype=torch.float64, device="cuda")
    for backward in (False, True):
        expected = linear_scan(A.cpu(), b.cpu(), backward=backward).cuda()
        torch.testing.assert_close(linear_scan(A, b, backward=backward), expected, rtol=1e-9, atol=1e-9)
        found = linear_scan(A.float(), b.float(), backward=backward).double()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("B", "T", "H"), [(1, 65_537, 3), (2, 1_000, 33)])
@pytest.mark.parametrize("name", ["mingru", "lru", "chain"])
def test_long_sequences_agree_with_the_generated_loop(name, B, T, H):
    """Several chunks of the kernel, sizes that are no whole vector; `fused` is tested against the plain loop elsewhere."""
    torch.manual_seed(0)
    layer, x, state, lengths = problem(SCANNED[name], B, T, H, with_lengths=B > 1)
    expected = everything(layer, x, state, lengths, engine="fused", record=T < 2_000)
    assert_near(everything(layer, x, state, lengths, engine="scan", record=T < 2_000), expected, 1e-10)


@pytest.mark.parametrize("name", ["mingru", "lru", "rotation"])
def test_a_run_that_keeps_nothing_has_the_bits_of_fused(name):
    """So a sequence is the same whole or in chunks, whoever runs them."""
    layer = Recurrent(name, 24, 40).eval()
    x = torch.randn(2, 700, 24)
    with torch.no_grad():
        found = []
        for layer.engine in ("scan", "fused"):
            trace = layer(x)
            found.append([trace.outputs, *trace.final[0][0]])
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs)


def test_auto_takes_it_for_long_sequences_on_a_gpu():
    scan, cuda = ENGINES["scan"], torch.device("cuda")
    for T, better in ((512, False), (1_024, True), (65_536, True)):
        asked = CATALOGUE["mingru"], cuda, torch.bfloat16, Shape(16, T, 16, 64)
        assert (scan.priority(*asked) > 30) == better


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_share_the_units_of_one_sequence(threads):
    layer = make_layer("mingru", hidden_size=70)
    x = torch.randn(1, 900, 4, dtype=torch.float64)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        compare_engines(layer, "scan", x, random_state(layer, 1))
    finally:
        torch.set_num_threads(before)


def test_gates_whose_products_vanish(chunked):
    """A matrix that underflows to zero within a chunk is a matrix like any other."""
    layer = make_layer("mingru")
    with torch.no_grad():
        layer.stack[0][0].b.fill_(30.0)
    x = torch.randn(3, 64, 4, dtype=torch.float64)
    compare_engines(layer, "scan", x, random_state(layer))
    compare_engines(
        layer.float(), chunked(16), x.float(), map_state(lambda s: s.float(), random_state(layer)), tolerance=1e-5
    )


def test_second_derivatives_are_those_of_the_plain_loop():
    layer = make_layer("mingru")
    x = torch.randn(2, 7, 4, dtype=torch.float64, requires_grad=True)
    found = []
    for layer.engine in ("scan", "eager"):
        (first,) = torch.autograd.grad(layer(x).outputs.square().sum(), x, create_graph=True)
        found += torch.autograd.grad(first.square().sum(), x)
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("gru", "has recurrent products"), ("indrnn", "is not linear in its state"), ("elman", "has recurrent products")],
)
def test_other_cells_are_refused_with_the_reason(name, reason):
    with pytest.raises(EngineError, match=f"'scan' cannot run cell '{name}': {name} {reason}"):
        choose("scan", CATALOGUE[name], CPU, torch.float32, Shape(1, 9, 4, 5))


def test_auto_takes_it_where_fused_leaves_cores_idle(monkeypatch):
    asked = CATALOGUE["mingru"], CPU, torch.float32, Shape(1, 65_536, 16, 64)
    for threads, first in ((1, "fused"), (2, "scan"), (1, "fused")):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert order(*asked)[0] == first
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    scan, fused = ENGINES["scan"], ENGINES["fused"]
    for shape, better in [((1, 65_536, 16, 64), True), ((2, 65_536, 16, 64), False), ((1, 128, 16, 64), False)]:
        asked = CATALOGUE["mingru"], CPU, torch.float32, Shape(*shape)
        assert (scan.priority(*asked) > fused.priority(*asked)) == better


# -- the parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("N", [1, 3])
@pytest.mark.parametrize("T", [1, 2, 3, 8, 13])
def test_linear_scan_is_the_recurrence(T, N):
    A, b = torch.randn(T, N, N, 2, dtype=torch.float64), torch.randn(T, N, 2, dtype=torch.float64)
    states = [torch.zeros(N, 2, dtype=torch.float64)]
    for t in range(T):
        states.append(torch.einsum("ijk,jk->ik", A[t], states[-1]) + b[t])
    torch.testing.assert_close(linear_scan(A, b), torch.stack(states[1:]), rtol=1e-10, atol=1e-10)
    flipped = linear_scan(A.flip(0), b.flip(0), backward=True).flip(0)
    torch.testing.assert_close(flipped, torch.stack(states[1:]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("T", "N", "R"), [(2, 5, 1), (7, 6, 3), (23, 17, 2)])
def test_whole_matrices_are_put_together_in_kernels(simulated, T, N, R, dtype):
    A, b = torch.randn(T, N, N, R, dtype=dtype) / N, torch.randn(T, N, R, dtype=dtype)
    for backward in (False, True):
        expected, limit = linear_scan(A, b, backward=backward), 1e-12 if dtype == torch.float64 else 1e-5
        torch.testing.assert_close(scan_in_kernels(A, b, backward=backward), expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("name", SCANNED)
def test_slopes_and_offset_make_the_value(name):
    """Σ slope · state + offset is the update, and neither has a state of its own chain in it."""
    graph = SCANNED[name].graph
    draw = torch.Generator().manual_seed(0)
    values: dict[object, Tensor] = {}

    def leaf(node):
        return values.setdefault(node, torch.randn(6, generator=draw, dtype=torch.float64))

    def value(node):
        return torch.as_tensor(evaluate([node], leaf, lambda name, v: v)[node], dtype=torch.float64)

    updates = dict(zip((state.name for state in graph.states), graph.updates, strict=True))
    for group in graph.chains:
        for state in group:
            form = affine_form(updates[state], group)
            total = value(form.offset) + sum(value(slope) * leaf(of) for of, slope in form.slopes.items())
            torch.testing.assert_close(total, value(updates[state]), rtol=1e-12, atol=1e-12)
            read = walk([form.offset, *form.slopes.values()])
            own = {node.name for node in read if node.kind == "state"}
            assert not own & set(group)


def test_chains_come_after_what_they_read():
    assert chain.graph.chains == (("c",), ("h",), ("m",), ("o",))
    assert CATALOGUE["lru"].graph.chains == (("a", "b"), ("h",))
    assert CATALOGUE["lstm"].graph.chains == (("h", "c"),)


def test_a_transfer_carries_no_more_than_it_reads():
    made = transfer(CATALOGUE["lru"].graph, ("a", "b"))
    assert (made.given, len(made.graph.states)) == ((), 2 + 4)
    assert transfer(chain.graph, ("m",)).given == ("c",)  # the h that m reads is of the same step, made of c


# -- linear cells drawn at random ----------------------------------------------------------------------------------------


@st.composite
def linear_sources(draw) -> str:
    """A cell of 1 to 3 states that are linear in those at or after their own place and free in those before it."""
    states = ("h", "c", "m")[: draw(st.integers(1, 3))]

    def pick(*choices):
        return draw(st.sampled_from(choices))

    def free(known: tuple[str, ...]) -> str:
        """Between -1 and 1, of inputs, a parameter and states that come earlier in the chain."""
        atoms = [f"x.{pick('a', 'b', 'd')}", "p", *known]
        first, second = pick(*atoms), pick(*atoms)
        return pick(f"sin({first})", f"tanh({first} * {second})", f"where({first} > 0.1, 0.4, cos({second}))", "0.7")

    updates, known = [], ()
    for state in states:
        delay = draw(st.integers(1, 3))
        read = pick(state, f"ago({state}, {delay})")
        linear = pick(f"0.6 * {free(known)} * {read}", f"{read} / (2 + {free(known)})", f"0.3 * {read} - 0.3 * {state}")
        updates.append(f"{linear} + {free(known)}")
        known = (*known, state)
    if len(states) > 1 and draw(st.booleans()):  # the first two feed back on each other
        updates[0] = f"0.5 * {states[0]} - {free(())} * 0.4 * {states[1]} + x.a"
        updates[1] = f"0.4 * {states[0]} + 0.5 * {states[1]} + {free(())}"
    return f"def made_up(x, U, {', '.join(states)}, *, p=Learned(0.3)):\n    return {', '.join(updates)}\n"


COMPILED = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    "phases": [Phase.explicit, Phase.generate],  # each example is compiled: no search for a smaller one
}
LINEAR = {"source": linear_sources(), "T": st.sampled_from((1, 9, 33)), "with_lengths": st.booleans()}


def check_linear(chunked, source, T, with_lengths):
    note(source)
    scope = {name: getattr(recurra, name) for name in recurra.__all__}
    exec(source, scope)
    made = recurra.cell(scope["made_up"])
    assert not made.graph.obstacle_to_scan
    layer, x, state, lengths = problem(made, 3, T, 5, with_lengths=with_lengths)
    expected = everything(layer, x, state, lengths, engine="eager", record=True)
    assert_near(everything(layer, x, state, lengths, engine="scan", record=True), expected, 1e-10)
    agree_in_chunks(chunked(4), made, T, 5, with_lengths=with_lengths)


@pytest.mark.slow
@settings(max_examples=40, **COMPILED, derandomize=False)
@given(**LINEAR)
def test_linear_cells_drawn_at_random(chunked, source, T, with_lengths):
    check_linear(chunked, source, T, with_lengths)
