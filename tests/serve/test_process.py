"""The server as a process: killed, stopped, with several workers, for a million steps."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import recurra as rc
from recurra.cli.main import run as run_command
from tests.serve.conftest import TEXT, new_session, open_client, step, store_of


@contextmanager
def serving(path: Path, *options: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """`recurra serve` in a process of its own, and its address."""
    command = [sys.executable, "-m", "recurra", "serve", str(path), "--port", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = ""
        while not told.endswith("}\n"):
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            told += line
        try:
            yield json.loads(told)["url"], process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(30)


def test_what_cannot_be_served_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text_run: rc.Run
) -> None:
    assert run_command(["serve", str(tmp_path / "none")]) == 2
    assert run_command(["serve", str(text_run.path), "--port", "99999"]) == 2
    assert run_command(["serve", str(text_run.path), "--api-key", "x"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("recurra: ") for line in lines)


@pytest.mark.slow
def test_a_killed_server_has_what_was_saved_an_interval_ago(text_run: rc.Run, tmp_path: Path) -> None:
    """kill -9: what was stepped at least one interval before is there, with the same bits; the steps after it may be."""
    options = ("--store", store_of(tmp_path), "--save-every", "0.5")
    stream = text_run.stream()
    with serving(text_run.path, *options) as (url, process), open_client(url) as client:
        ids = [new_session(client) for _ in range(20)]
        for id in ids:
            step(client, id, TEXT)
        time.sleep(1.0)  # an interval, and the time that it takes to save
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    stream.step(TEXT)
    expected = stream.step("the")
    with serving(text_run.path, *options) as (url, process), open_client(url) as client:
        for id in ids:
            assert step(client, id, "the") == {"session": id, "steps": len(TEXT) + 3, "prediction": expected}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_stopped_saves_everything(number: signal.Signals, text_run: rc.Run, tmp_path: Path) -> None:
    options = ("--store", store_of(tmp_path), "--save-every", "1000")
    with serving(text_run.path, *options) as (url, process), open_client(url) as client:
        id = new_session(client)
        step(client, id, TEXT)
        process.send_signal(number)
        process.wait(20)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    with serving(text_run.path, *options) as (url, process), open_client(url) as client:
        assert client.get(f"/v1/sessions/{id}").json()["steps"] == len(TEXT)


@pytest.mark.slow
def test_several_workers_share_the_sessions(text_run: rc.Run, tmp_path: Path) -> None:
    """Two processes behind one address: whichever answers, a session goes on with the same bits."""
    with serving(text_run.path, "--workers", "2", "--store", store_of(tmp_path)) as (url, _):

        def read(k: int) -> list[Any]:
            with open_client(url) as client:
                id = new_session(client)
            found = []
            for character in TEXT[k:]:
                with open_client(url) as client:  # another connection, perhaps to the other worker
                    found.append(step(client, id, character)["prediction"])
            return found

        with ThreadPoolExecutor(6) as threads:
            found = list(threads.map(read, range(6)))
    assert found == [text_run.stream().step(TEXT[k:], each=True) for k in range(6)]


@pytest.mark.slow
def test_a_million_steps(text_run: rc.Run, tmp_path: Path) -> None:
    """Memory stays where it was, and every session is where its offline stream is, bit for bit."""
    sessions, requests, size = 50, 40, 500
    texts = [(TEXT * 12)[k : k + size] for k in range(sessions)]
    options = ("--store", store_of(tmp_path), "--save-every", "0.5")
    with serving(text_run.path, *options) as (url, process), open_client(url) as client:
        ids = [new_session(client) for _ in range(sessions)]
        last: list[Any] = []
        memory: list[int] = []
        for _ in range(requests):
            asked = [{"session": id, "inputs": text} for id, text in zip(ids, texts, strict=True)]
            last = client.post("/v1/steps", json={"steps": asked}).json()["steps"]
            memory.append(int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
        states = [client.get(f"/v1/sessions/{id}").json() for id in ids]
    assert sum(each["steps"] for each in states) == 1_000_000
    half = len(memory) // 2
    growth = max(memory[half:]) - max(memory[:half])
    print(
        f"1,000,000 steps: {memory[0] / 2**20:.0f} MiB at first, {memory[-1] / 2**20:.0f} at last, grown by {growth / 2**20:.1f}"
    )
    assert growth < 8 * 2**20
    for told, answer, text in zip(states, last, texts, strict=True):
        stream = text_run.stream()
        for _ in range(requests - 1):
            stream.step(text)
        assert answer["prediction"] == stream.step(text)
        assert told["state"] == stream.state
