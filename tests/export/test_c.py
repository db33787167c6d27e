"""Exported C computes what the plain loop computes: every cell, every model that streams; sanitizers find nothing."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import recurra as rc
from recurra.cells.operations import OPERATIONS
from recurra.errors import EngineError, OptionError
from recurra.export import c as c_files
from recurra.export import c_library
from recurra.export.c import write_c
from recurra.export.c_check import Agreement, compare
from recurra.export.c_language import MATH, C, functions, with_functions
from recurra.export.c_library import CLibrary, compile_c, find_c_compiler, measure
from recurra.export.c_source import Source
from recurra.export.network import Network, describe
from tests.export.models import MODELS, make
from tests.helpers import CELLS

pytestmark = pytest.mark.skipif(find_c_compiler() is None, reason="needs a C compiler")
FAST = ("-ffinite-math-only", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math", "-fno-trapping-math")
"""What -ffast-math is, without the start-up code that changes how the whole process rounds."""
CORTEX = ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "-Wdouble-promotion")
STARTED = ("conditioned-state", "conditioned-both")
"""Models whose first state is computed from a condition, which no reset can do."""
STREAMING = [name for name in MODELS if not name.startswith(("classifier", "tagger")) and name not in STARTED]


def needs(*tools: str) -> pytest.MarkDecorator:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def make_layer(cell: str, **options: object) -> rc.Recurrent:
    """Two layers from a learned state, so that one export has all that a layer can have."""
    torch.manual_seed(0)
    given = {"layers": 2, "residual": True, "learn_initial": True, **options}
    layer = rc.Recurrent(CELLS.get(cell, cell), 3, 9, **given).eval()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "initial" in name:
                parameter.normal_(std=0.3)
    return layer


def write(folder: Path, network: Network, name: str, **options: bool) -> Source:
    """The two files, not compiled."""
    source = Source(network, name, **{"int8": False, "own_math": False, **options}, facts={})
    (folder / f"{source.name}.h").write_text(source.header())
    (folder / f"{source.name}.c").write_text(source.source)
    return source


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, bool], tuple[Source, Network]]]:
    """Every cell with `math.h` and without, as files; one of them serves for both where nothing is asked of it."""
    folder, made = tmp_path_factory.mktemp("cells"), {}
    for k, cell in enumerate(CELLS):
        network = describe(make_layer(cell))["model"]
        made[cell, False] = made[cell, True] = write(folder, network, f"cell_{k}"), network
        if "math.h" in made[cell, False][0].source:
            made[cell, True] = write(folder, network, f"cell_{k}_own", own_math=True), network
    return folder, made


@pytest.fixture(scope="module")
def library(cells) -> ctypes.CDLL:
    folder, _ = cells
    return ctypes.CDLL(str(compile_c(sorted(folder.glob("*.c")), folder / "all.so", "-O1", "-shared", "-fPIC")))


@pytest.mark.parametrize("cell", CELLS)
def test_cell_agrees_with_the_plain_loop(cell, cells, library):
    for source, network in {cells[1][cell, False], cells[1][cell, True]}:
        found = compare(CLibrary(source, library), network, steps=60)
        assert found.error < 1e-5, source.name


@pytest.mark.parametrize(
    ("name", "int8"), [*((name, False) for name in STREAMING), *((name, True) for name in ("events", "tied", "binary"))]
)
def test_model_agrees_with_the_plain_loop(name, int8, tmp_path):
    """A disagreement would be an error."""
    found = write_c(describe(make(name).model)["model"], tmp_path, name, int8=int8)
    assert found.agreement is not None
    assert found.agreement.error < 1e-5
    assert (found.int8_loss is not None) == int8


@pytest.mark.parametrize("name", ["classifier-last", "classifier-one-way", "tagger"])
def test_what_cannot_stream_is_refused(name, tmp_path):
    with pytest.raises(OptionError, match=r"cannot run step by step: it .*ONNX"):
        write_c(describe(make(name).model)["model"], tmp_path, name)
    assert not list(tmp_path.iterdir())


def test_a_disagreement_is_an_error(tmp_path, monkeypatch):
    network = describe(make_layer("gru"))["model"]
    monkeypatch.setattr(c_files, "compare", lambda *given, **options: Agreement(256, 2e-5, 1e-7, 2.0))
    with pytest.raises(EngineError, match=r"off by 2\.0e-05 from the model in 256 steps"):
        write_c(network, tmp_path, "gru")
    assert not list(tmp_path.iterdir())


def test_a_wrong_weight_is_found(tmp_path):
    layer = make_layer("gru")
    source = write(tmp_path, describe(layer)["model"], "gru")
    made = CLibrary.load(source, [tmp_path / "gru.c"], tmp_path)
    assert compare(made, describe(layer)["model"]).holds
    with torch.no_grad():
        layer.stack[1][0].U[0, 0] += 1e-2
    assert not compare(made, describe(layer)["model"]).holds


def test_without_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(c_files, "find_c_compiler", lambda: None)
    found = write_c(describe(make_layer("gru"))["model"], tmp_path, "gru")
    assert found.agreement is None
    assert "no C compiler was found here" in str(found)
    assert {file.name for file in found.files} == {file.name for file in tmp_path.iterdir()} == {"gru.h", "gru.c"}


def test_the_result_reads_well(tmp_path):
    found = write_c(describe(make_layer("lstm"))["model"], tmp_path, "my net", int8=True, facts={"recipe": "text"})
    text = str(found)
    assert "my_net.h" in text
    assert re.search(r"[\d,]+ bytes of code \(-Os, this machine\), [\d,]+ of weights", text)
    assert re.search(r"int8 changes the outputs by [\d.]+ % on random inputs", text)
    assert "recipe: text" in (tmp_path / "my_net.h").read_text()
    assert found.to_json()["sizes"]["code"] > 0


def test_hostile_names(tmp_path):
    """Names come from people's files: words of C, macros, other letters, and text that would end a comment."""

    @rc.cell
    def int32_t(x, U, state, k, *, EOF=rc.Learned(0.5), naïve=rc.Learned(0.1)):
        linux = rc.tanh(x.register + U.float(state) * EOF)
        drive_all = rc.sigmoid(x.given + U.result(linux) + naïve)
        α = drive_all * state
        return α + linux, rc.tanh(k + naïve * α)

    layer = rc.Recurrent(int32_t, 2, 9).eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.5)
    facts = {"recipe": 'a */ #error "no" /* b ??/', "other": "line\nbreak \u202e turned", "list": [1] * 1000}
    found = write_c(describe(layer)["model"], tmp_path, "../while-1", facts=facts)
    assert found.name == "while_1"
    assert found.agreement is not None
    assert found.agreement.holds
    text = (tmp_path / "while_1.h").read_text() + (tmp_path / "while_1.c").read_text()
    assert text.isascii()


def test_tokens_out_of_range_read_as_0(tmp_path):
    source = write(tmp_path, describe(make("language").model)["model"], "language", int8=True)
    made = CLibrary.load(source, [tmp_path / "language.c"], tmp_path)
    found = []
    for token in (0, -1, 11, 2**31 - 1, -(2**31)):
        made.reset()
        found.append(made.step({"tokens": np.array(token)})["logits"])
    assert all(np.array_equal(each, found[0]) for each in found)


def test_gaps_under_fast_math(tmp_path):
    """NaN is found by its bits: no option of a compiler can make it a number."""
    network = describe(make("forecaster-gaussian").model)["model"]
    source = write(tmp_path, network, "gaps")
    made = CLibrary.load(source, [tmp_path / "gaps.c"], tmp_path, "-O3", *FAST)
    assert compare(made, network).error < 1e-5


def test_nothing_is_asked_of_libraries(cells, tmp_path):
    """With own mathematics an object needs no symbol but what a compiler may ask of any program."""
    source, _ = cells[1]["toolbox", True]
    made = compile_c([cells[0] / f"{source.name}.c"], tmp_path / "made.o", "-Os", "-c")
    listed = subprocess.run(["nm", "-u", str(made)], capture_output=True, text=True, check=True).stdout
    asked = set(re.findall(r"U (\w+)", listed))
    assert asked <= {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}
    assert "math.h" not in source.source
    assert "math.h" in cells[1]["toolbox", False][0].source


def test_every_operation_has_a_form():
    assert OPERATIONS.keys() <= C.forms.keys()
    called = set(re.findall(r"\b(\w+)\(", " ".join(C.forms.values())))
    assert called <= functions().keys() | MATH.keys()
    assert set(MATH.values()) <= functions().keys()


FUNCTIONS = {
    "real_exp": (np.exp, np.linspace(-87, 88.5, 20001)),
    "real_sigmoid": (lambda x: 1 / (1 + np.exp(-x)), np.linspace(-80, 80, 20001)),
    "real_tanh": (np.tanh, np.concatenate([np.linspace(-12, 12, 20001), np.logspace(-30, 0, 1000)])),
    "real_log": (np.log, np.logspace(-44, 38, 20001)),
    "real_log1p": (np.log1p, np.logspace(-30, 3, 20001)),
    "real_sqrt": (np.sqrt, np.logspace(-44, 38, 20001)),
    "real_sin": (np.sin, np.linspace(-1000, 1000, 20001)),
    "real_cos": (np.cos, np.linspace(-1000, 1000, 20001)),
    "real_erf": (
        np.vectorize(__import__("math").erf),
        np.concatenate([np.linspace(-6, 6, 20001), np.logspace(-30, 0, 99)]),
    ),
    "real_floor": (np.floor, np.concatenate([np.linspace(-5, 5, 101), [1e9, -1e9, 8388607.5, -8388607.5]])),
}


@pytest.fixture(scope="module")
def mathematics(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("mathematics")
    wraps = [f"float of_{name}(float x);\nfloat of_{name}(float x) {{ return {name}(x); }}" for name in FUNCTIONS]
    for name in ("real_power", "real_fmod"):
        wraps.append(
            f"float of_{name}(float a, float b);\nfloat of_{name}(float a, float b) {{ return {name}(a, b); }}"
        )
    functions, body = with_functions("\n".join(wraps), own_math=True)
    (folder / "all.c").write_text("\n\n".join(["#include <stdint.h>", *functions, body, ""]))
    made = ctypes.CDLL(str(compile_c([folder / "all.c"], folder / "all.so", "-O2", "-shared", "-fPIC")))
    for name in (*FUNCTIONS, "real_power", "real_fmod"):
        function = getattr(made, f"of_{name}")
        function.restype = ctypes.c_float
        function.argtypes = [ctypes.c_float] * (2 if name in ("real_power", "real_fmod") else 1)
    return made


@pytest.mark.parametrize("name", FUNCTIONS)
def test_own_functions(name, mathematics):
    """To 1e-6 of the value; sine and cosine, which cross 0, to 1e-6 of 1."""
    exact, points = FUNCTIONS[name]
    points = points.astype(np.float32)
    function = getattr(mathematics, f"of_{name}")
    found = np.array([function(x) for x in points], np.float64)
    expected = exact(points.astype(np.float64))
    allowed = np.where(np.isin(name, ("real_sin", "real_cos")), 1.0, np.abs(expected)) * 1e-6 + 1e-44
    assert (np.abs(found - expected) <= allowed).all()
    if name not in ("real_sin", "real_cos"):
        assert np.isnan(function(float("nan")))


def test_own_power_and_remainder(mathematics):
    draw = np.random.default_rng(0)
    a, b = draw.uniform(0.01, 9, 3000).astype(np.float32), draw.uniform(-4, 4, 3000).astype(np.float32)
    found = np.array([mathematics.of_real_power(x, y) for x, y in zip(a, b, strict=True)])
    assert np.allclose(found, a.astype(np.float64) ** b.astype(np.float64), rtol=2e-6)
    assert [mathematics.of_real_power(x, y) for x, y in ((-3, 2), (-2, 3), (2, -2), (0, 0), (-2, 101), (0, 1.5))] == [
        9, -8, 0.25, 1, -(2.0**101), 0,
    ]  # fmt: skip
    assert np.isnan(mathematics.of_real_power(-2, 0.5))
    a = (draw.normal(size=3000) * 10.0 ** draw.integers(-3, 9, 3000)).astype(np.float32)
    found = np.array([mathematics.of_real_fmod(x, y) for x, y in zip(a, b, strict=True)])
    assert np.array_equal(found, np.fmod(a, b))


def driver(sources: list[Source]) -> str:
    """A program that resets, steps and runs chunks of networks, and prints one of the numbers that each writes."""
    lines = ["#include <stdio.h>", *(f'#include "{source.name}.h"' for source in sources), "int main(void)", "{"]
    lines += ["    int k, t;"]
    for source in sources:
        name, ports = source.name, [*source.inputs, *source.outputs]
        lines.append(f"    {{ static {name}_state s;")
        for port in ports:
            kind, size = ("int32_t", 1) if port.is_token else ("float", port.size)
            value = f"k * 7 % {port.size + 2} - 1" if port.is_token else "(float)(k * 7919 % 200 - 100) / 50.0f"
            lines.append(f"      static {kind} {port.c_name}[{50 * size}];")
            lines.append(f"      for (k = 0; k < {50 * size}; ++k) {port.c_name}[k] = {value};")
        one = [f"{p.c_name}[t]" if p.is_token else p.c_name for p in ports]
        many = [f"{p.c_name}[0]" if p.is_token and p.is_whole else p.c_name for p in ports]
        lines += [
            f"      {name}_reset(&s);",
            f"      for (t = 0; t < 20; ++t) {name}_step({', '.join(['&s', *one])});",
            f"      {name}_chunk({', '.join(['&s', *many, '50'])});",
            f"      {name}_reset(&s);",
            f"      {name}_chunk({', '.join(['&s', *many, '7'])});",
            f'      printf("{name} %.6f\\n", (double){source.outputs[0].c_name}[6 * {source.outputs[0].size}]); }}',
        ]
    return "\n".join([*lines, "    return 0;", "}", ""])


def run_driver(folder: Path, sources: list[Source], made: Path, *flags: str, under: str = "", **options: str) -> str:
    (folder / "driver.c").write_text(driver(sources))
    files = [folder / "driver.c", *(folder / f"{source.name}.c" for source in sources)]
    compile_c(files, made, *flags, **options)
    command = [*([under] if under else []), str(made)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[:2000]
    assert not result.stderr
    return result.stdout


def test_sanitizers_find_nothing(cells, tmp_path):
    """Every cell of the catalogue and models in 8 bits, with tokens out of range; conversions of numbers are checked too."""
    sources = [cells[1][cell, True][0] for cell in (*rc.CATALOGUE, "toolbox", "two_speeds")]
    for name in ("tied", "forecaster-gaussian", "events", "conditioned-class", "jordan", "echo-1-True"):
        sources.append(write(cells[0], describe(make(name).model)["model"], f"{name}_8", int8=True))
    flags = ("-O1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
    told = run_driver(cells[0], sources, tmp_path / "driver", *flags)
    assert told.count("\n") == len(sources)


@needs("clang")
def test_clang_takes_it(cells, tmp_path):
    files = [cells[0] / f"{cells[1][cell, True][0].name}.c" for cell in ("lstm", "toolbox", "skip")]
    compile_c(files, tmp_path / "all.so", "-O2", "-shared", "-fPIC", compiler="clang")


@needs("arm-none-eabi-gcc")
def test_cortex_takes_it(cells, tmp_path):
    for cell, own in (("lstm", True), ("skip", True), ("toolbox", True), ("toolbox", False)):
        file = cells[0] / f"{cells[1][cell, own][0].name}.c"
        compile_c([file], tmp_path / "made.o", "-Os", "-c", *CORTEX, compiler="arm-none-eabi-gcc")


@needs("arm-linux-gnueabihf-gcc", "qemu-arm")
def test_runs_on_arm(cells, tmp_path):
    """The same numbers as on this machine, to the digits printed."""
    sources = [cells[1][cell, True][0] for cell in ("lstm", "skip", "toolbox")]
    here = run_driver(cells[0], sources, tmp_path / "here", "-O1")
    flags = ("-O1", "-static", "-mcpu=cortex-a7", "-mfpu=vfpv4", "-mfloat-abi=hard")
    there = run_driver(
        cells[0], sources, tmp_path / "there", *flags, under="qemu-arm", compiler="arm-linux-gnueabihf-gcc"
    )
    for a, b in zip(here.splitlines(), there.splitlines(), strict=True):
        assert a.split()[0] == b.split()[0]
        assert abs(float(a.split()[1]) - float(b.split()[1])) < 3e-6


@pytest.mark.parametrize(("int8", "limit"), [(False, 24_000), (True, 8_000)], ids=["float32", "int8"])
def test_size_of_an_lstm_of_32_units(int8, limit, tmp_path):
    """One input; code and weights together, nothing asked of `math.h`."""
    source = write(tmp_path, describe(rc.Recurrent("lstm", 1, 32))["model"], "lstm", int8=int8, own_math=True)
    found = [measure(source, tmp_path / "lstm.c")]
    if shutil.which("arm-none-eabi-gcc"):
        options = {"compiler": "arm-none-eabi-gcc", "size": "arm-none-eabi-size"}
        found.append(measure(source, tmp_path / "lstm.c", *CORTEX, **options))
    for sizes in found:
        assert sizes is not None
        assert sizes.code + sizes.weights <= limit
        assert sizes.state == 2 * 32 * 4
        assert 0 < sizes.stack < 2000


def test_a_missing_compiler_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(c_library, "find_c_compiler", lambda: None)
    with pytest.raises(EngineError, match="Install gcc or clang"):
        compile_c([tmp_path / "x.c"], tmp_path / "x.o", "-c")


@pytest.mark.slow
@pytest.mark.parametrize("cell", rc.CATALOGUE)
def test_ten_thousand_steps(cell, tmp_path, capsys):
    """First weights; 1e-5, or by each step four times as far as float32 itself is off from float64 by then."""
    torch.manual_seed(0)
    network = describe(rc.Recurrent(cell, 3, 16).eval())["model"]
    source = write(tmp_path, network, cell)
    found = compare(CLibrary.load(source, [tmp_path / f"{source.name}.c"], tmp_path), network, steps=10_000)
    with capsys.disabled():
        print(
            f"{cell}: {found.error:.1e} from the model; float32 from float64: {found.plain:.1e}; "
            f"{found.excess:.2f} of what is allowed"
        )
    assert found.holds


@pytest.mark.parametrize("name", STARTED)
def test_a_first_state_that_is_computed_is_refused(name, tmp_path):
    with pytest.raises(rc.OptionError, match="the condition becomes the first state"):
        rc.export(make(name).model, "c", tmp_path)
