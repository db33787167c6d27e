"""Kernels written in CUDA C++: on a GPU as they are, elsewhere on one made of the processor's threads."""

import pytest
import torch

from recurra import CATALOGUE, Learned, Recurrent, cell, exp, sqrt, tanh, where
from recurra.cells.notation import Cell
from recurra.engines.choose import ENGINES
from recurra.engines.fused import budget, gpu, gpu_chunks, nvrtc
from recurra.engines.fused.gpu_kernel import Tiles
from recurra.engines.fused.stages import plan
from recurra.engines.fused.tiles import choose_tiles
from recurra.errors import EngineError
from tests.engines.conftest import LAUNCHED
from tests.engines.fused_helpers import Tiled, counter, crossed, echo, mixer, tower
from tests.helpers import CELLS, D, compare_engines, loss_of, make_layer, map_state, random_state, run_all

HERE = torch.device("cpu")
SOME = CELLS | {each.name: each for each in (echo, tower, crossed, mixer, counter)}


def is_native(cell: Cell) -> bool:
    made = plan(cell.graph)
    return bool(made.groups) and made.forward.means == made.backward.means == 0


@pytest.fixture
def simulate(monkeypatch, simulated):
    def use(forward: Tiles, backward: Tiles | None = None, dtype: torch.dtype = torch.bfloat16) -> str:
        LAUNCHED.clear()
        monkeypatch.setitem(ENGINES, "tiled", Tiled(forward, backward or forward, dtype))
        return "tiled"

    return use


def agree(cell: Cell, engine: str, units: int, batch: int, dtype: torch.dtype, limit: float, T: int = 3) -> None:
    """Outputs, final states and every gradient, in norm; what `dtype` can hold is compared. Kernels in CUDA C++ ran, with tiles
    that a GPU can run and at a size at which they are chosen there."""
    torch.manual_seed(0)
    made, tiled = plan(cell.graph), ENGINES[engine]
    if budget.REGISTERS > 1:
        assert all(tiles.native for tiles in choose_tiles(made, batch, units, dtype.itemsize, HERE))
        for step, tiles in zip((made.forward, made.backward), tiled.tiles, strict=True):
            assert budget.can_run(step, tiles, 227 * 1024)
    LAUNCHED.clear()
    layer = make_layer(cell, hidden_size=units, learn_initial=True).float()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(0.5).copy_(parameter.to(dtype))
    x, lengths = torch.randn(batch, T, D).to(dtype).float(), torch.randint(0, T + 1, (batch,))
    state = map_state(lambda s: s.detach().to(dtype).float(), random_state(layer, batch))
    exact, found = (run_all(layer, x, state, lengths, engine=name) for name in ("eager", engine))
    errors = {name: float((found[name] - value).norm() / value.norm().clamp(min=1e-3)) for name, value in exact.items()}
    assert max(errors.values()) <= limit, errors
    assert LAUNCHED == ["forward", "backward"]


QUICK = ("skip(d=2)", "zoneout(lstm)", "toolbox", "echo", "crossed", "counter")
"""Delays, masks, every operation, several states and passes, no drive; `elman`, `gru` and `lstm` are tested below."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
        for name, each in SOME.items()
        if is_native(each)
    ],
)
def test_generated_kernels_agree_with_the_plain_loop(simulate, name):
    engine = simulate(small(), dtype=torch.float32)
    agree(SOME[name], engine, H, 3, torch.float32, 1e-4)


@pytest.mark.parametrize(
    ("name", "forward", "backward", "batch"),
    [
        ("gru", (16, 8, 4), (16, 8, 1), 17),
        pytest.param("lstm", (32, 16, 4), (32, 16, 4), 21, marks=pytest.mark.slow),
        pytest.param("elman", (16, 16, 8), (64, 8, 4), 40, marks=pytest.mark.slow),
    ],
)
def test_every_kind_of_tiles_agrees(simulate, name, forward, backward, batch):
    """Several thread blocks that wait for each other, idle threads, several rows of tiles, inputs that are no whole block."""
    for dtype, limit in ((torch.bfloat16, 2e-2), (torch.float32, 1e-4)):
        both = [
            Tiles(40, rows, units, warps=warps, native=True, itemsize=dtype.itemsize, buffers=1 + rows // 32)
            for rows, units, warps in (forward, backward)
        ]
        agree(CELLS[name], simulate(*both, dtype=dtype), 40, batch, dtype, limit)


H = 40
"""More units than one tile has alone, in rows that are 16-byte aligned: CUDA C++ is chosen."""


def small(itemsize: int = 4) -> Tiles:
    return Tiles(H, 16, 16, warps=2, native=True, itemsize=itemsize)


def test_rows_in_several_pieces_and_a_late_first_look(simulate, monkeypatch):
    monkeypatch.setattr(budget, "REGISTERS", 1)
    monkeypatch.setattr(budget, "patience", lambda *asked: 200)
    for rows in (16, 32):
        tiles = Tiles(56, rows, 16, warps=1, native=True, itemsize=4)
        agree(CELLS["elman"], simulate(tiles, dtype=torch.float32), 56, 3, torch.float32, 1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_layer_that_is_in_16_bits_itself(simulate, dtype):
    """What is folded of its parameters is not: 0.999 would be 1 in bfloat16."""

    @cell
    def fader(x, U, h, *, a=Learned(-7.0)):
        return exp(-exp(a)) * h + 1e-6 * tanh(x.h + U.h(h))

    layer = Recurrent(fader, D, H).to(dtype)
    layer.engine = simulate(small(2), dtype=dtype)
    state = ((((torch.ones(2, H, dtype=dtype)),),),)
    last = layer(torch.randn(2, 40, D, dtype=dtype), state).outputs[:, -1]
    assert torch.allclose(last, torch.tensor(0.9642), atol=5e-3)


def test_lengths_may_be_scattered_in_memory_and_changed_later(simulate):
    layer, x = make_layer(CELLS["lstm"], hidden_size=H).float(), torch.randn(4, 5, D)
    engine = simulate(small(), dtype=torch.float32)
    for lengths in (torch.tensor([5, 0, 1, 0, 3, 0, 2, 0])[::2], torch.tensor([2]).expand(4)):
        compare_engines(layer, engine, x, lengths=lengths, tolerance=1e-4)
    lengths = torch.tensor([5, 1, 3, 2])
    expected = run_all(layer, x, lengths=lengths, engine="eager")
    layer.engine = engine
    layer.zero_grad()
    trace = layer(x, lengths=lengths)
    lengths.zero_()
    loss_of(trace).backward()
    assert torch.allclose(layer.layers[0][0].U.grad, expected["gradient of layers.0.0.U"], atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_diverged_network_ends(simulate, dtype):
    """NaNs are numbers that have been written: nobody waits for them for ever."""

    @cell
    def broken(x, U, h):
        return sqrt(tanh(x.h + U.h(h)) - 2)

    layer = Recurrent(broken, D, H)
    layer.engine = simulate(small(dtype.itemsize), dtype=dtype)
    assert layer(torch.randn(2, 3, D)).outputs.isnan().all()
    assert LAUNCHED == ["forward"]


@pytest.mark.parametrize("name", ["lstm", "mingru"])
def test_no_first_states_are_zeros(simulated, name):
    """With and without gradients, step after step and in chunks."""
    direction = Recurrent(name, D, H).layers[0][0]
    weights, x = direction.weights(5, 3), torch.randn(5, 3, D)
    tiles = (small(), small())

    def run(initial):
        if name == "mingru":
            return gpu_chunks.run(
                direction.cell, weights, x, initial, None, record=False, length=2, dtype=torch.float32
            )
        options = {"record": False, "dtype": torch.float32, "tiles": tiles}
        return gpu.run_tiled(direction.cell, weights, x, initial, None, **options)

    found = []
    for initial in ((), direction.first_state(3)):
        made = run(initial)
        gradient = torch.autograd.grad(made.outputs.square().sum() + made.final[0].sum(), [direction.W, direction.b])
        with torch.no_grad():
            assert torch.equal(run(initial).outputs, made.outputs)
        found.append([made.outputs, *made.final, *gradient])
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("name", ["lstm", "mingru"])
def test_second_derivatives_take_the_plain_loop(simulated, name):
    layer, x = Recurrent(name, D, H), torch.randn(2, 4, D, requires_grad=True)
    direction = layer.layers[0][0]
    weights, steps = direction.weights(4, 2), x.transpose(0, 1)
    if name == "mingru":
        outputs = gpu_chunks.run(direction.cell, weights, steps, (), None, record=False, length=2).outputs
    else:
        options = {"record": False, "dtype": torch.float32, "tiles": (small(), small())}
        outputs = gpu.run_tiled(direction.cell, weights, steps, (), None, **options).outputs
    layer.engine = "eager"
    found = []
    for made in (outputs.transpose(0, 1), layer(x).outputs):
        (first,) = torch.autograd.grad(made.square().sum(), x, create_graph=True)
        found += torch.autograd.grad(first.square().sum(), x)
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)


def test_names_of_states_do_not_meet_those_of_their_roles(simulate):
    @cell
    def natural(x, U, h, h_final, h_initial, h_arriving):
        return tanh(x.h + U.h(h) + h_final), h, h_final, h_initial

    agree(natural, simulate(small(), dtype=torch.float32), H, 2, torch.float32, 1e-4)


def test_names_of_the_equations_do_not_meet_those_of_the_kernel(simulate):
    @cell
    def hostile(x, U, row, put):
        p = tanh(x.t + U.h(row))
        next_row = 0.5 * put + p
        return next_row, p

    engine = simulate(small(), dtype=torch.float32)
    agree(hostile, engine, H, 2, torch.float32, 1e-4)


def test_infinities(simulate):
    @cell
    def bounded(x, U, h):
        return where(x.a < float("inf"), tanh(x.a + U.h(h)), float("-inf"))

    engine = simulate(small(), dtype=torch.float32)
    agree(bounded, engine, H, 2, torch.float32, 1e-4)


def test_the_forward_kernel_of_an_lstm_waits_once_for_one_product_of_four_gates():
    source = gpu.source_of(CATALOGUE["lstm"].graph, "cuda").split("// lstm, backward")[0]
    assert source.count(".multiply(") == source.count("sync();") == 1
    assert "Product<256, 4, false, 2>" in source
    assert source.count("put(s_h + (t + 1)") == 1
    assert source.index("put(s_h + (t + 1)") < source.index("put(tape")  # what others wait for comes first


def test_cells_without_products_are_left_to_triton():
    with pytest.raises(EngineError, match="--source triton"):
        gpu.source_of(CATALOGUE["mingru"].graph, "cuda")


def test_thread_blocks_fit_the_device():
    for name in ("lstm", "gru", "elman", "lstm_peephole"):
        made = plan(CATALOGUE[name].graph)
        for units in (40, 256, 1000):
            for batch in (1, 17, 4096):
                for itemsize in (2, 4):
                    for program, tiles in zip(
                        (made.forward, made.backward), choose_tiles(made, batch, units, itemsize, HERE), strict=True
                    ):
                        assert tiles.native
                        assert tiles.count <= 132
                        assert budget.shared_bytes(program, tiles) <= 227 * 1024


def test_rows_that_are_not_16_byte_aligned_are_left_to_triton():
    made = plan(CATALOGUE["lstm"].graph)
    assert not any(tiles.native for tiles in choose_tiles(made, 16, 250, 2, HERE))
    assert not any(tiles.native for tiles in choose_tiles(made, 16, 250, 4, HERE))
    assert all(tiles.native for tiles in choose_tiles(made, 16, 252, 4, HERE))


def test_compiled_kernels_are_kept_and_a_damaged_one_is_built_again(monkeypatch, tmp_path):
    built: list[str] = []
    loaded: list[bytes] = []

    def compile_for(source: str, target: str) -> bytes:
        built.append(target)
        return b"machine code"

    monkeypatch.setenv("RECURRA_CACHE", str(tmp_path))
    monkeypatch.setattr(nvrtc, "compile_for", compile_for)
    monkeypatch.setattr(nvrtc.Kernel, "__init__", lambda self, binary, *rest: loaded.append(binary))
    monkeypatch.setattr(nvrtc, "_version", lambda: (13, 0))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))

    def start() -> None:
        """As in a new process."""
        nvrtc.kernel.cache_clear()
        nvrtc.kernel("source", "forward", 4, 0, 0)

    start()
    start()
    assert built == ["sm_90"]
    (kept,) = tmp_path.rglob("*.cubin")
    kept.write_bytes(b"machine")
    start()
    assert built == ["sm_90", "sm_90"]
    assert loaded == [b"machine code"] * 3
    nvrtc.kernel.cache_clear()
