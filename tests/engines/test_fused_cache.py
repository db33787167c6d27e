"""Compiled kernels on disk: built once, found by the next process, rebuilt when damaged, and clear words when it cannot be."""

import hashlib
import logging
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from recurra import EngineError, Recurrent, cell, tanh
from recurra.engines.fused import build as build_module
from recurra.engines.fused import cache as cache_module
from recurra.engines.fused.build import build, find_compiler
from recurra.engines.fused.cache import load_library, read_entry, sole_builder, write_entry

SOURCE = '#include "runtime.hpp"\nextern "C" long answer() { return 42; }\n'
LOAD = """
import logging, torch
from recurra import find_cell
from recurra.engines.fused.kernels import kernel
logging.basicConfig(level=logging.INFO)
made = kernel(find_cell("elman").graph, torch.float32)
print(made.kept_memory(made.Forward(T=2, B=3, D=4, H=5, threads=1)))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RECURRA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "cache" / "kernels"


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
    assert read_entry(library.name) is not None


def counting_compiler(folder: Path, monkeypatch) -> Path:
    """A compiler that takes its time and writes a line for each call."""
    script, calls = folder / "compiler", folder / "calls"
    script.write_text(f'#!/bin/sh\necho "$$" >> {calls}\nsleep 0.3\nexec {find_compiler()} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    find_compiler.cache_clear()
    build_module._machine()  # asks for its version
    calls.write_text("")
    return calls


def test_threads_that_need_the_same_kernel_compile_it_once(cache, tmp_path, monkeypatch, fresh_compiler):
    calls = counting_compiler(tmp_path, monkeypatch)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(build(SOURCE, "float", "a test").answer())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [42] * 4
    assert len(calls.read_text().split()) == 1
    assert not list(cache.glob("*.lock"))


def test_a_killed_owner_of_the_lock_holds_nobody_up(cache, tmp_path, monkeypatch, fresh_compiler):
    counting_compiler(tmp_path, monkeypatch)
    held = "import time\nfrom recurra.engines.fused.cache import sole_builder\nwith sole_builder('key'):\n"
    owner = start(held + "    print('held', flush=True)\n    time.sleep(600)")
    assert owner.stdout is not None
    assert owner.stdout.readline() == "held\n"
    entered = threading.Event()

    def enter() -> None:
        with sole_builder("key"):
            entered.set()

    waiting = threading.Thread(target=enter)
    waiting.start()
    assert not entered.wait(0.3)
    owner.kill()
    owner.communicate()
    assert entered.wait(10)
    waiting.join()


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


def forged(answer: int, folder: Path) -> bytes:
    """A library that somebody else has compiled."""
    (folder / "theirs.cpp").write_text(f'extern "C" long answer() {{ return {answer}; }}')
    subprocess.run([find_compiler(), "-shared", "-fPIC", "theirs.cpp", "-o", "theirs.so"], cwd=folder, check=True)
    return (folder / "theirs.so").read_bytes()


@pytest.mark.parametrize("how", ["bare", "with a checksum", "under another key", "another entry", "a link", "writable"])
def test_what_somebody_else_has_planted_is_not_run(how, cache, tmp_path, monkeypatch, caplog):
    """Neither with a code of their own, nor an entry of ours in the place of another one, nor through a link."""
    build(SOURCE, "float", "a test")
    (library,) = cache.glob("*.so")
    ours = library.read_bytes()
    theirs = forged(666, tmp_path)
    library.unlink()
    match how:
        case "bare":
            library.write_bytes(theirs)
        case "with a checksum":
            library.write_bytes(theirs + hashlib.sha256(theirs).digest())
            library.with_suffix(".sha256").write_bytes(b"\xff" + hashlib.sha256(theirs).hexdigest().encode())
        case "under another key":
            with monkeypatch.context() as other:
                other.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
                write_entry(library.name, theirs)
        case "another entry":
            write_entry("another.so", theirs)
            (cache / "another.so").rename(library)
        case "a link":
            (tmp_path / "elsewhere.so").write_bytes(ours)
            library.symlink_to(tmp_path / "elsewhere.so")
        case "writable":
            library.write_bytes(ours)
            library.chmod(0o666)
    caplog.set_level(logging.INFO, "recurra.engines")
    caplog.clear()
    assert build(SOURCE, "float", "a test").answer() == 42
    assert "compiling a test" in caplog.text
    assert read_entry(library.name) is not None
    assert not library.is_symlink()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("writable", r"can be written by others.*Mend it: chmod go-w \S*kernels"),
        ("somebody else's", r"belongs to user 12345.*sudo chown -R \d+ \S*kernels"),
        ("a link", r"is a link, which is not followed.*rm \S*kernels"),
    ],
)
def test_a_folder_that_others_can_write_is_refused_with_what_mends_it(how, said, cache, tmp_path, monkeypatch):
    build(SOURCE, "float", "a test")
    match how:
        case "writable":
            cache.chmod(0o777)
        case "somebody else's":
            if os.geteuid():
                pytest.skip("only root can give a folder away")
            os.chown(cache, 12345, -1)
        case "a link":
            cache.rename(tmp_path / "moved")
            cache.symlink_to(tmp_path / "moved")
    with pytest.raises(EngineError, match=said) as caught:
        build(SOURCE, "float", "a test")
    assert "\n" not in str(caught.value)


def test_the_key_is_the_users_alone(cache, tmp_path):
    build(SOURCE, "float", "a test")
    key = tmp_path / "state/recurra/cache.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.parent.stat().st_mode & 0o777 == 0o700
    assert cache.stat().st_mode & 0o777 == 0o700
    key.chmod(0o644)
    cache_module._key_at.cache_clear()
    with pytest.raises(EngineError, match=r"can be read by others or is not yours.*rm \S*cache\.key"):
        build(SOURCE, "float", "a test")


def test_without_a_place_for_the_key_kernels_are_built_and_not_kept(cache, tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "blocked"))
    assert build(SOURCE, "float", "a test").answer() == 42
    assert not list(cache.glob("*.so"))


@pytest.mark.slow
def test_authenticating_and_loading_a_kernel_takes_less_than_a_millisecond(cache):
    """What each kernel costs at the start of a process; the least of several, since others use the machine too."""
    made = Recurrent("lstm", 8, 8, engine="fused")
    made(torch.zeros(1, 2, 8))
    if not list(cache.glob("*.so")):  # another test has loaded it in this process, from another cache
        build(SOURCE, "float", "a kernel")
    names = [each.name for each in cache.glob("*.so")]
    taken = []
    for name in names * 30:
        began = time.perf_counter()
        content = read_entry(name)
        assert content is not None
        load_library(content)
        taken.append(time.perf_counter() - began)
    print(f"a kernel is authenticated and loaded in {1e3 * min(taken):.3f} ms")
    assert min(taken) < 1e-3


def test_libraries_are_told_apart(cache):
    """They are loaded from memory under numbers that come again."""
    sources = [SOURCE.replace("42", str(k)) for k in range(5)]
    assert [build(each, "float", "a test").answer() for each in sources] == [0, 1, 2, 3, 4]
    assert [build(each, "float", "a test").answer() for each in sources] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("command", ["head -c 3000 {real}", "head -c 40 {real}", "head -c 3000 /dev/zero", "printf ''"])
def test_a_compiler_that_writes_half_a_library_is_one_clear_sentence(
    command, cache, tmp_path, monkeypatch, fresh_compiler
):
    real = tmp_path / "real.so"
    real.write_bytes(forged(1, tmp_path))
    script = tmp_path / "half"
    script.write_text(
        f'#!/bin/sh\nwhile [ "$1" != "-o" ]; do shift || exit 0; done\n{command.format(real=real)} > "$2"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    find_compiler.cache_clear()
    with pytest.raises(EngineError, match="made a library of a test that cannot be loaded") as caught:
        build(SOURCE, "float", "a test")
    assert "\n" not in str(caught.value)
    assert not list(cache.glob("*.so"))


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
        f"the kernel cache {blocked}/kernels cannot be opened: Not a directory. Set RECURRA_CACHE to a writable folder."
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path, monkeypatch):
    tmp_path.chmod(0o500)
    monkeypatch.setenv("RECURRA_CACHE", str(tmp_path))
    with pytest.raises(EngineError, match=r"Permission denied\. Set RECURRA_CACHE to a writable folder"):
        build(SOURCE, "float", "a test")
