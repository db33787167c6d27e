"""How the lab is started: from Python, from a notebook, from the command line."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import recurra as rc
from recurra.cli.main import run
from recurra.errors import OptionError, RunError
from recurra.lab import server


def test_a_run_opens_its_folder_with_itself_chosen(runs: Path) -> None:
    opened = rc.lab(rc.open(runs / "text"), port=0, browser=False)
    try:
        assert opened.address.endswith("#/runs?run=text")
        found = httpx.get(f"{opened.base}api/runs/list").json()
        assert found["selected"] == "text"
        assert {each["name"] for each in found["runs"]} == {"text", "text-lstm", "machine", "dates", "wave"}
        assert opened.address in opened._repr_html_()
        assert "<iframe" in opened._repr_html_()
    finally:
        opened.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(opened.base)


def test_two_labs_have_two_tokens_and_two_ports(lab: Any, runs: Path) -> None:
    other = rc.lab(runs, browser=False)
    try:
        assert other.base != lab.base
        token = lab.base.rstrip("/").rpartition("/")[2]
        port = other.base.split("/")[2]
        assert httpx.get(f"http://{port}/{token}/").status_code == 403
    finally:
        other.close()


def test_a_port_that_is_taken_and_a_folder_that_is_not_there(tmp_path: Path, capsys: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=f"port {port} cannot be used"):
            rc.lab(tmp_path, port=port, browser=False)
        assert run(["lab", str(tmp_path), "--port", str(port), "--no-browser"]) == 2
    with pytest.raises(RunError, match="not there"):
        rc.lab(tmp_path / "none", browser=False)
    assert run(["lab", str(tmp_path / "none"), "--no-browser"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert all(line.startswith("recurra: ") for line in told)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(OptionError, match=r"pip install 'recurra\[lab\]'"):
        rc.lab(tmp_path, browser=False)


def test_the_browser_is_opened_unless_it_is_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(server.webbrowser, "open", opened.append)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    first = rc.lab(tmp_path, port=0)
    first.close()
    assert opened == [first.address]
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    rc.lab(tmp_path, port=0).close()
    assert len(opened) == 1


def test_the_command_prints_its_address_and_ends_with_ctrl_c(runs: Path) -> None:
    command = [sys.executable, "-m", "recurra", "lab", str(runs), "--port", "0", "--no-browser", "--json"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, shells have it ignored
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        assert process.stdout
        lines = ""
        while not lines.rstrip().endswith("}"):
            lines += process.stdout.readline()
        address = json.loads(lines)["address"]
        assert address.startswith("http://127.0.0.1:")
        assert httpx.get(f"{address}api/runs/list").status_code == 200
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
        assert process.returncode == 0
        assert told == ""
    finally:
        process.kill()
        process.wait()
