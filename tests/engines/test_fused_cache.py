"""Compiled kernels on disk: built once, found by the next process, rebuilt when damaged, and clear words when it cannot be."""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from recurra import EngineError, Recurrent, cell, tanh
from recurra.engines.fused import build as build_module
from recurra.engines.fused.build import build, find_compiler

SOURCE = '#include "runtime.hpp"\nextern "C" long answer() { return 42; }\n'
LOAD = """
import logging, torch
from recurra import find_cell
from recurra.engines.fused.kernels import kernel
logging.basicConfig(level=logging.INFO)
made = kernel(find_cell("elman").graph, torch.float32)
print(made.forward_memory(made.Forward(T=2, B=3, D=4, H=5, threads=1)))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RECURRA_CACHE", str(tmp_path))
    return tmp_path / "kernels"


@pytest.fixture
def fresh_compiler():
    """The compiler is looked for once in a process; here again, and once more afterwards."""
    find_compiler.cache_clear()
    build_module._machine.cache_clear()
    yield
    find_compiler.cache_clear()
    build_module._machine.cache_clear()


def start(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def test_a_second_process_loads_without_compiling(cache):
    _, first = finish(start(LOAD))
    assert re.search(r"recurra.engines:compiling the float kernel of elman \(once; cached in .*kernels\)", first)
    _, second = finish(start(LOAD))
    assert "compiling" not in second


def test_two_processes_that_compile_the_same_both_succeed(cache):
    both = [start(LOAD), start(LOAD)]
    sizes = [finish(process)[0] for process in both]
    assert sizes[0] == sizes[1]
    assert not [entry for entry in cache.iterdir() if entry.is_dir()]  # nothing half-done is left
    (library,) = cache.glob("*.so")
    assert build_module.is_sound(library)


def damage(library: Path, how: str) -> None:
    """A new file in the place of the old one, which this process still has in its memory."""
    content = bytearray(library.read_bytes())
    library.unlink()
    match how:
        case "cut off":
            content = content[: len(content) // 2]
        case "a changed byte":
            content[len(content) // 2] ^= 1
        case "empty":
            content = bytearray()
    if how != "gone":
        library.write_bytes(content)


@pytest.mark.parametrize("how", ["cut off", "a changed byte", "empty", "gone"])
def test_a_damaged_entry_is_built_again(how, cache, caplog):
    caplog.set_level(logging.INFO, "recurra.engines")
    assert build(SOURCE, "float", "a test").answer() == 42
    (library,) = cache.glob("*.so")
    sound = library.read_bytes()
    damage(library, how)
    caplog.clear()
    assert build(SOURCE, "float", "a test").answer() == 42
    assert "compiling a test" in caplog.text
    caplog.clear()
    assert len(library.read_bytes()) == len(sound)
    assert build(SOURCE, "float", "a test").answer() == 42
    assert not caplog.records


def test_a_checksum_that_is_missing_counts_as_damage(cache, caplog):
    caplog.set_level(logging.INFO, "recurra.engines")
    build(SOURCE, "float", "a test")
    (checksum,) = cache.glob("*.sha256")
    checksum.unlink()
    caplog.clear()
    build(SOURCE, "float", "a test")
    assert "compiling" in caplog.text


def test_the_source_is_kept_beside_the_library(cache):
    build(SOURCE, "float", "a test")
    (text,) = cache.glob("*.cpp")
    assert text.read_text() == SOURCE


def test_entries_differ_by_source_and_type(cache):
    build(SOURCE, "float", "a test")
    build(SOURCE, "double", "a test")
    build(SOURCE.replace("42", "43"), "float", "a test")
    assert len(list(cache.glob("*.so"))) == 3


def test_without_a_compiler_auto_takes_another_engine_and_says_so(monkeypatch, fresh_compiler):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    x = torch.randn(2, 3, 4)
    layer = Recurrent("gru", 4, 5)
    choice = layer.explain()
    assert choice.engine.name == "eager"
    assert re.search(r"fused +cannot: there is no C\+\+ compiler on this machine", str(choice))
    assert layer(x).outputs.isfinite().all()
    with pytest.raises(EngineError, match=r"engine 'fused' cannot run cell 'gru': there is no C\+\+ compiler.*'auto'"):
        Recurrent("gru", 4, 5, engine="fused")(x)


@pytest.mark.parametrize("command", ["false", "true"])
def test_a_compiler_that_does_not_work_is_one_clear_sentence(command, cache, monkeypatch, fresh_compiler):
    """`false` fails, `true` makes no library."""
    monkeypatch.setenv("CXX", command)
    with pytest.raises(EngineError, match="a test") as caught:
        build(SOURCE, "float", "a test")
    assert "\n" not in str(caught.value)
    assert not list(cache.glob("*.so"))


def test_a_source_that_the_compiler_refuses_is_one_clear_sentence(cache):
    with pytest.raises(EngineError, match=r"the compiler refused a test: .*error.*engine='eager'") as caught:
        build('#include "runtime.hpp"\nlong answer() { return nothing; }\n', "float", "a test")
    assert "\n" not in str(caught.value)
    assert not list(cache.iterdir())


def test_a_folder_that_cannot_be_written_is_one_clear_sentence(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("RECURRA_CACHE", str(blocked))

    @cell
    def unheard_of(x, U, h):
        return tanh(x.a + 0.123 * U.a(h))

    with pytest.raises(EngineError) as caught:
        Recurrent(unheard_of, 4, 5, engine="fused")(torch.randn(2, 3, 4))
    assert str(caught.value) == (
        f"the float kernel of unheard_of cannot be kept in {blocked}/kernels: Not a directory. "
        "Set RECURRA_CACHE to a writable folder."
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path, monkeypatch):
    tmp_path.chmod(0o500)
    monkeypatch.setenv("RECURRA_CACHE", str(tmp_path))
    with pytest.raises(EngineError, match=r"Permission denied\. Set RECURRA_CACHE to a writable folder"):
        build(SOURCE, "float", "a test")
