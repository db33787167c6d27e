"""Kernels written in Triton: on a GPU as they are, elsewhere in Triton's interpreter, one program at a time."""

import ast
import copy
import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the first import of triton

from recurra import CATALOGUE, Recurrent, cell, sqrt, tanh
from recurra.engines.choose import ENGINES, Choice, choose, order
from recurra.engines.fused import gpu, nvrtc
from recurra.engines.fused.gpu_kernel import Tiles
from recurra.engines.fused.stages import plan
from recurra.engines.fused.tiles import ALONE, choose_tiles, choose_triton, in_words, rows_at_once
from recurra.engines.fused.triton import emit
from recurra.engines.protocol import Support
from recurra.types import Shape
from tests.engines.fused_helpers import Tiled, banded, crossed, echo, tower
from tests.helpers import CELLS, B, D, compare_engines, make_layer, random_state, run_all

HERE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
H = 20
WAYS = {
    "alone": Tiles(H, 16, 32, alone=True),
    "shared": Tiles(H, 16, 32),
    "split": Tiles(H, 16, 32, split=2),
    "streamed": Tiles(H, 16, 32, resident=False),
}
"""One program each: in the interpreter programs run one after another, so none may wait for another."""
MORE = {each.name: each for each in (echo, tower, crossed, banded)}
TILED = {
    "alone": ("lstm", "lstm_coupled", "skip", "rotation", "carousel", "leaky(alpha=0.4)", "echo"),
    "split": (
        *("jordan", "indrnn", "mingru", "orthogonal", "two_speeds", "shared", "normed", "autonomous", "memory"),
        *("recurrent_dropout(gru)", "banded"),
    ),
    "streamed": (
        *("gru", "delayed", "deep_transition", "minlstm", "lru", "toolbox", "updater", "elman(relu)", "crossed"),
    ),
}
"""Which cell is compared with which tiles; `shared` for all others. Cells with several products, delays, LayerNorm or none of
these are in each row."""
interpreted = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy computes what a mask then leaves out


@pytest.fixture
def tiled(monkeypatch):
    pytest.importorskip("triton", reason="Triton is not installed")

    def use(tiles: Tiles) -> str:
        monkeypatch.setitem(ENGINES, "tiled", Tiled(tiles, tiles))
        return "tiled"

    return use


@interpreted
@pytest.mark.parametrize(
    ("name", "way"),
    [(name, next((way for way in TILED if name in TILED[way]), "shared")) for name in [*CELLS, *MORE]],
)
def test_generated_kernels_agree_with_the_plain_loop(tiled, name, way):
    layer = make_layer({**CELLS, **MORE}[name], hidden_size=H, learn_initial=True).float().to(HERE)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(0.5)
    engine = tiled(WAYS[way])
    x = torch.randn(B, 3, D, device=HERE)
    lengths = torch.tensor([2, 0, 3], device=HERE)
    compare_engines(layer, engine, x, random_state(layer), lengths, tolerance=2e-4)


@interpreted
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["lstm", "gru", "lstm_norm", "skip(d=2)"])
def test_every_kind_of_tiles_agrees(tiled, name, way):
    layer = make_layer(CELLS[name], hidden_size=H).float().to(HERE)
    compare_engines(layer, tiled(WAYS[way]), torch.randn(B, 3, D, device=HERE), tolerance=2e-4)


@interpreted
def test_a_diverged_network_ends(tiled):
    """NaNs are numbers that have been written: nobody waits for them for ever."""

    @cell
    def broken(x, U, h):
        return sqrt(tanh(x.h + U.h(h)) - 2)

    layer = Recurrent(broken, D, H).to(HERE)
    layer.engine = tiled(WAYS["shared"])
    assert layer(torch.randn(2, 3, D, device=HERE)).outputs.isnan().all()


@pytest.mark.parametrize("name", CELLS)
def test_the_source_is_python_and_names_every_argument_once(name):
    graph = CELLS[name].graph
    for units, batch in ((7, 3), (64, 16), (200, 40)):
        both = choose_triton(plan(graph), batch, units, 2, HERE)
        for forward, tiles in zip((True, False), both, strict=True):
            source = emit(plan(graph), tiles, "bfloat16", "ieee", forward=forward)
            ast.parse(source.text)
            assert len(set(source.arguments)) == len(source.arguments)


def test_the_forward_kernel_of_an_lstm_has_one_wait_and_one_product_of_four_gates():
    source = gpu.source_of(CATALOGUE["lstm"].graph, "triton").split('"""lstm, backward')[0]
    assert source.count("while tl.max(") == 1
    assert source.count("tl.dot(") == 1
    assert "tl.arange(0, UNITS * 4)" in source
    assert "debug_barrier" not in source


@interpreted
def test_names_of_states_do_not_meet_those_of_their_roles(tiled):
    @cell
    def natural(x, U, h, h_final, h_initial, h_arriving):
        return tanh(x.h + U.h(h) + h_final), h, h_final, h_initial

    layer = make_layer(natural, hidden_size=H).float().to(HERE)
    compare_engines(
        layer, tiled(WAYS["shared"]), torch.randn(B, 3, D, device=HERE), random_state(layer), tolerance=1e-4
    )


def test_names_of_the_equations_do_not_meet_those_of_the_kernel(tiled):
    @cell
    def hostile(x, U, tape, rows):
        last_tape = tanh(x.t + U.h(tape))
        row_0_0 = 0.5 * rows + last_tape
        return row_0_0, last_tape

    layer = make_layer(hostile, hidden_size=H).float().to(HERE)
    compare_engines(layer, tiled(WAYS["shared"]), torch.randn(B, 2, D, device=HERE), tolerance=1e-4)


def test_tiles_fit_the_device():
    for name in ("lstm", "gru", "indrnn", "lstm_norm"):
        for size in (1, 31, 33, 512, 1024, 4096):
            for batch in (1, 17, 4096):
                for tiles in choose_tiles(plan(CATALOGUE[name].graph), batch, size, 2, torch.device("cpu")):
                    assert tiles.units * tiles.count >= size
                    assert tiles.alone or tiles.count <= 132
                    assert (rows_at_once(tiles, torch.device("cpu")) or 1) >= 1


def test_tiles_are_described_in_words():
    here = torch.device("cpu")

    def said(name, batch, units):
        return in_words(plan(CATALOGUE[name].graph), batch, units, 2, here)

    assert said("lstm", 16, 256) == "weights stay in registers, 16 thread blocks of 16 units and 16 batch rows"
    assert (
        said("lstm", 256, 1024)
        == "weights stay in registers, 64 thread blocks of 16 units and 64 batch rows, 2 launches"
    )
    assert said("lstm_norm", 16, 256).startswith("weights stay in shared memory")
    assert said("lstm", 1, 4096).startswith("weights are read again at every step")
    assert said("lstm", 4096, 20) == "each program has all units of its batch rows"
    assert said("mingru", 4096, 4096) == "units run on their own"
    asked = Choice("auto", ENGINES["fused"], {"fused": Support(True, how="so"), "vendor": Support(False, "too large")})
    assert str(asked).splitlines()[1:] == ["  fused    can run it: so", "  vendor   cannot: too large"]


def test_without_a_device_the_engine_says_what_is_missing():
    answer = ENGINES["fused"].supports(CATALOGUE["lstm"], torch.device("meta"), torch.float32, Shape(1, 1, 1, 1))
    assert not answer
    assert "meta" in answer.reason


# -- on a GPU ----------------------------------------------------------------------------------------------------------

LIMITS = {torch.float32: 1e-4, torch.bfloat16: 1e-2, torch.float16: 1e-2}
LONG = ("lstm", "gru", "leaky", "echo")
"""Cells that are also compared over 2,048 steps; the plain loop in float64 takes seconds for each."""


@pytest.fixture
def launched(monkeypatch):
    """The functions that were launched in CUDA C++."""
    functions: list[str] = []
    compiled = nvrtc.kernel

    def kernel(source, function, *rest):
        functions.append(function)
        return compiled(source, function, *rest)

    monkeypatch.setattr(nvrtc, "kernel", kernel)
    gpu.compiled.cache_clear()
    return functions


def errors(layer, x, lengths, dtype, engine="fused"):
    """‖difference‖ / ‖value‖ of outputs, final states and every gradient, against the plain loop in float64."""
    exact = run_all(copy.deepcopy(layer).double(), x.double(), lengths=lengths, engine="eager")
    found = run_all(copy.deepcopy(layer).to(dtype), x.to(dtype), lengths=lengths, engine=engine)
    return {
        name: float((found[name].double() - value.double()).norm() / value.double().norm().clamp(min=1e-3))
        for name, value in exact.items()
    }


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("name", [*CATALOGUE, *MORE])
def test_kernels_agree_on_a_gpu(name, dtype, launched):
    """Within the limit; where numbers of that dtype are too coarse for the plain loop to be, about as good as the loop."""
    torch.manual_seed(0)
    made = plan({**CATALOGUE, **MORE}[name].graph)
    has_cuda = bool(made.groups) and not made.forward.means
    in_triton = [(5, 65, 47, True), (3, 2048, 33, True)]  # rows are not 16-byte aligned
    in_cuda = [(33, 40, 128, False), (5, 65, 48, True), (3, 2048, 40, True)]
    for batch, T, units, with_lengths in [*in_triton, *in_cuda]:
        size = units - units % 4 if name in ("clockwork", "banded") else units
        layer = Recurrent({**CATALOGUE, **MORE}[name], 12, size).cuda()
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(parameter.to(dtype))  # what is stored exactly is compared
        T = T if name in LONG else min(T, 65)
        x = torch.randn(batch, T, 12, device="cuda").to(dtype).float()
        lengths = torch.randint(0, T + 1, (batch,)) if with_lengths else None
        launched.clear()
        found = errors(layer, x, lengths, dtype)
        in_cuda_now = has_cuda and size > ALONE and size * dtype.itemsize % 16 == 0
        assert launched == (["forward", "backward"] if in_cuda_now else [])
        beyond = {key: error for key, error in found.items() if not error <= LIMITS[dtype]}
        if beyond:
            loop = errors(layer, x, lengths, dtype, "eager")  # NaN where its own arithmetic breaks down
            allowed = {key: 1.5 * error if error == error else 0.1 for key, error in loop.items()}
            if name == "orthogonal":  # its derivative jumps at zero: one rounding there is a term of the sum
                allowed["gradient of layers.0.0.units.b"] = 0.1 if dtype != torch.float32 else 1e-3
            worse = {key: (error, loop[key]) for key, error in beyond.items() if not error <= allowed[key]}
            assert not worse, (batch, T, size, worse)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_tiles_of_many_batch_rows_agree_on_a_gpu(name):
    torch.manual_seed(0)
    layer = Recurrent(CATALOGUE[name], 12, 1000).cuda().bfloat16().float()
    x = torch.randn(101, 9, 12, device="cuda").bfloat16().float()
    tiles = choose_tiles(plan(CATALOGUE[name].graph), 101, 1000, 2, x.device)
    assert all(each.native and each.rows == 64 for each in tiles)
    found = errors(layer, x, torch.randint(0, 10, (101,)), torch.bfloat16)
    assert max(found.values()) <= LIMITS[torch.bfloat16], found


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["lstm", "gru", "leaky"])
def test_products_in_tf32_where_torch_allows_them(name, monkeypatch):
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    layer, x = Recurrent(CATALOGUE[name], 12, 100).cuda(), torch.randn(5, 40, 12, device="cuda")
    found = errors(layer, x, None, torch.float32)
    assert max(found.values()) <= 2e-3, found
    assert max(found.values()) >= 1e-6, found  # it is not float32


@pytest.mark.gpu
def test_repeated_runs_are_identical():
    torch.manual_seed(0)
    layer = Recurrent("lstm", 64, 256, engine="fused").cuda().bfloat16()
    x = torch.randn(16, 2048, 64, device="cuda", dtype=torch.bfloat16)
    first = run_all(layer, x, engine="fused")
    for _ in range(50):
        again = run_all(layer, x, engine="fused")
        assert all(torch.equal(first[name], again[name]) for name in first)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("batch", "units"),
    [(1, 1), (4096, 1), (1, 4096), (3, 129), (300, 300), (4096, 64), (64, 2048), (512, 4096), (4096, 4096)],
)
def test_any_size_runs(batch, units):
    layer = Recurrent("lstm", 8, units, engine="fused").cuda().bfloat16()
    out = layer(torch.randn(batch, 16, 8, device="cuda", dtype=torch.bfloat16)).outputs
    out.float().square().mean().backward()
    expected = Recurrent("lstm", 8, units, engine="vendor").cuda().bfloat16()
    expected.load_state_dict(layer.state_dict())
    torch.manual_seed(0)
    x = torch.randn(batch, 16, 8, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        mine, theirs = layer(x).outputs.float(), expected(x).outputs.float()
    assert (mine - theirs).norm() <= 2e-2 * theirs.norm()


@pytest.mark.gpu
def test_auto_prefers_kernels_with_resident_weights():
    device = torch.device("cuda")
    small, large = Shape(16, 64, 256, 256), Shape(16, 64, 4096, 4096)
    assert choose("auto", CATALOGUE["lstm"], device, torch.bfloat16, small).name == "fused"
    assert choose("auto", CATALOGUE["lstm"], device, torch.bfloat16, large).name == "vendor"
    assert choose("auto", CATALOGUE["leaky"], device, torch.bfloat16, large).name == "fused"
    assert choose("auto", CATALOGUE["gru"], device, torch.bfloat16, small).name == "fused"
    assert choose("auto", CATALOGUE["leaky"], device, torch.bfloat16, small).name == "fused"
    assert order(CATALOGUE["lstm"], device, torch.bfloat16, small)[0] == "fused"
