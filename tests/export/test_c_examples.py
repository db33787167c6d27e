"""The examples around exported C are compiled and run: a program, WebAssembly, and the programs of the page about C."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import recurra as rc
from recurra.export.c_library import compile_c, find_c_compiler
from tests.export.test_c import CORTEX, needs

ROOT = Path(__file__).parents[2]
NUMBERS = ("0.5", "-1", "0.25", "3")
pytestmark = pytest.mark.skipif(find_c_compiler() is None, reason="needs a C compiler")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A folder with model.h and model.c, and what the model gives for `NUMBERS`."""
    torch.manual_seed(0)
    model = rc.models.Readout(rc.Recurrent("lstm", 1, 32), output_size=1).eval()
    folder = tmp_path_factory.mktemp("exported")
    rc.export(model, "c", folder, own_math=True)
    x = torch.tensor([float(number) for number in NUMBERS])
    with torch.no_grad():
        return folder, model(x[None, :, None])[0][0, :, 0].numpy()


def test_a_program(exported, tmp_path):
    folder, expected = exported
    example = ROOT / "examples/c/main.c"
    assert len(example.read_text().splitlines()) <= 20
    made = compile_c([example, folder / "model.c"], tmp_path / "program", "-O2", f"-I{folder}")
    told = subprocess.run([str(made)], input="\n".join(NUMBERS), capture_output=True, text=True, check=True).stdout
    assert np.allclose([float(line) for line in told.split()], expected, atol=1e-5)


@needs("clang", "wasm-ld", "node")
def test_webassembly(exported, tmp_path):
    folder, expected = exported
    example = ROOT / "examples/wasm/stream.mjs"
    text = example.read_text()
    assert len(text.splitlines()) <= 20
    command = " ".join(re.findall(r"^// +(clang.*?|-Wl.*?)\\?$", text, re.MULTILINE))
    subprocess.run(command.split(), cwd=folder, check=True)
    told = subprocess.run(
        ["node", str(example), str(folder / "model.wasm"), *NUMBERS], capture_output=True, text=True, check=True
    )
    assert np.allclose([float(line) for line in told.stdout.split()], expected, atol=1e-5)


@needs("arm-none-eabi-gcc")
def test_the_microcontroller_of_the_page(exported, tmp_path):
    """The program compiles for a Cortex-M4, warnings being errors, and links with stand-ins for a board's functions."""
    folder, _ = exported
    page = (ROOT / "docs/c.md").read_text(encoding="utf-8")
    program = next(
        text for text in re.findall(r"^```c\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "read_sample" in text
    )
    (tmp_path / "main.c").write_text(program)
    (tmp_path / "board.c").write_text(
        "float read_sample(void) { return 0.5f; }\nvoid write_result(float y) { (void)y; }\n"
    )
    for name in ("main", "board"):
        options = {"compiler": "arm-none-eabi-gcc"}
        compile_c([tmp_path / f"{name}.c"], tmp_path / f"{name}.o", "-Os", "-c", f"-I{folder}", *CORTEX, **options)
    if shutil.which("arm-none-eabi-ld") is None:
        return
    compile_c(
        [tmp_path / "main.o", tmp_path / "board.o", folder / "model.c"],
        tmp_path / "firmware.elf", "-Os", *CORTEX, "-nostartfiles", "-Wl,--entry=main", compiler="arm-none-eabi-gcc",
    )  # fmt: skip
    assert (tmp_path / "firmware.elf").stat().st_size > 0
