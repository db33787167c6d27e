"""The examples run as a user starts them, say what they promise, and are short; what was killed goes on to the same weights."""

import ast
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

EXAMPLES = Path(__file__).parents[1] / "examples"
SHORT = {
    "language_model": ["perplexity", "markov order", "def "],
    "classify_frame": ["always", "macro F1", "good", "probability"],
    "own_layer": ["attractor", "Lyapunov"],
    "own_automaton": ["even", "odd", "fidelity"],
    "forecast_array": ["seasonal naive", "tensor("],
    "open_and_export": ["forecast is for a task that forecasts"],
}
"""The examples that show one thing each, and words of what they print."""
FILES = {
    "classify_frame": ["confusion.png"],
    "own_layer": ["field.svg", "fixed_points.svg"],
    "own_automaton": ["automaton.svg"],
    "forecast_array": ["forecast.png"],
    "open_and_export": ["export/evaluate.json", "export/evaluate.csv", "export/field.npz", "export/automaton.json"],
}


def start(name: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, **pipes)


def run(name: str, folder: Path, *arguments: str) -> str:
    process = start(name, folder, *arguments)
    out, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert errors == ""  # no terminal here: no bar
    return out


@pytest.mark.parametrize("name", [*SHORT, "own_module"])
def test_at_most_25_lines(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 25


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_only_the_public_names(file: Path) -> None:
    """`import recurra as rc`, and the notation of cells from `recurra`; nothing from a file inside a room."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("recurra."), f"{file.name} imports from {node.module}"


@pytest.mark.parametrize("name", SHORT)
def test_it_runs(name: str, tmp_path: Path) -> None:
    printed = run(name, tmp_path)
    for word in SHORT[name]:
        assert word in printed
    for file in FILES.get(name, []):
        assert (tmp_path / file).stat().st_size > 0, file


def test_what_is_exported_are_the_numbers(tmp_path: Path) -> None:
    """Another run, by its folder: every file of the export can be read."""
    import recurra as rc

    made = rc.train("tomita", steps=5, hidden_size=4, out=tmp_path / "mine", progress="none")
    run("open_and_export", tmp_path, str(made.path))
    found = json.loads((tmp_path / "export/evaluate.json").read_text())
    assert found["scores"] == made.evaluate().to_json()["scores"]


@pytest.mark.slow
def test_killed_and_resumed_to_the_same_weights(tmp_path: Path) -> None:
    """SIGKILL at any moment after the first checkpoint; the second start ends where a run that was never killed ends."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    assert "200 steps made" in run("own_module", whole)
    steps = random.SystemRandom().randint(10, 150)
    log = killed / "runs/own/metrics.jsonl"
    process = start("own_module", killed)
    try:
        deadline = time.monotonic() + 300
        while not log.exists() or len(log.read_bytes().splitlines()) < steps:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert "200 steps made" in run("own_module", killed)
    weights = [load_file(each / "runs/own/checkpoints/last/weights.safetensors") for each in (whole, killed)]
    assert weights[0].keys() == weights[1].keys()
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), f"{name} after a kill at step {steps}"
    rows = [(each / "runs/own/metrics.jsonl").read_text().splitlines() for each in (whole, killed)]
    assert rows[0] == rows[1]


TOUR = EXAMPLES / "tour.ipynb"
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


def kinds(file: Path) -> list[list[list[str]]]:
    """By cell of code and output: what it is, and in which forms it is shown."""
    cells = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
    return [[[each["output_type"], *sorted(each.get("data", {}))] for each in cell["outputs"]] for cell in cells]


@pytest.mark.slow
def test_the_notebook_runs_to_what_is_stored(tmp_path: Path) -> None:
    """The same outputs in every cell: results as HTML, figures as PNG, one block for each training, and nothing else."""
    pytest.importorskip("nbclient")
    new = tmp_path / "tour.ipynb"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", EXECUTE, str(TOUR), str(new)]
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stderr[-3000:]
    assert kinds(new) == kinds(TOUR)


def test_the_notebook_is_stored_with_its_outputs() -> None:
    assert TOUR.stat().st_size < 1_000_000
    first, *others = kinds(TOUR)
    assert first == []
    assert all(others)
    shown = [form for outputs in others for _, *forms in outputs for form in forms]
    assert shown.count("image/png") >= 6
    assert shown.count("text/html") >= 10
    assert "UserWarning" not in TOUR.read_text()


def test_a_word_model_of_three_sizes_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    options = ("--sizes", "24", "20", "16", "--rows", "64", "--length", "12", "--steps", "3")
    first = run("word_model", tmp_path, *options)
    assert "step 3: perplexity" in first
    assert "on held-out words" in first
    kept = torch.load(tmp_path / "word_model.pt", weights_only=True)
    assert kept["step"] == 3
    assert [kept["model"][f"recurrent.layers.{k}.0.U"].shape for k in range(3)] == [(96, 24), (80, 20), (64, 16)]
    again = run("word_model", tmp_path, *options)
    assert "goes on after step 3" in again
    assert "step 6: perplexity" in again


@pytest.mark.slow
def test_a_compiled_word_model_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    options = ("--sizes", "24", "20", "16", "--rows", "64", "--length", "12", "--steps", "2", "--compile")
    assert "step 2: perplexity" in run("word_model", tmp_path, *options)
    assert "step 4: perplexity" in run("word_model", tmp_path, *options)
