"""`recurra bench cells`: the table, the JSON, the page and the plot; no time without agreement; clear refusals."""

import builtins
import json
from dataclasses import replace

import pytest
import torch

from recurra.benchmarks import cells as benchmark
from recurra.benchmarks import timing
from recurra.benchmarks.rivals import why_no_jax
from recurra.cli.bench_cells import split
from recurra.cli.main import run
from recurra.engines import choose
from recurra.engines.eager import Eager

TINY = ("bench", "cells", "--sizes", "2x5x4", "--repeats", "2", "--threads", "1")


class Halved(Eager):
    """An engine that is wrong: its outputs are half of what they should be."""

    name = "halved"

    def run(self, *arguments, **options):
        right = super().run(*arguments, **options)
        return replace(right, outputs=right.outputs / 2)


class WrongGradient(Eager):
    """An engine whose outputs are right and whose gradients are not."""

    name = "wrong"

    def run(self, *arguments, **options):
        right = super().run(*arguments, **options)
        return replace(right, outputs=1.01 * right.outputs - 0.01 * right.outputs.detach())


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(benchmark, "matrix_rate", lambda device, dtype: 1.0)


def report(capsys, *options: str) -> tuple[int, dict]:
    capsys.readouterr()
    code = run([*TINY, "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def test_json(capsys):
    code, found = report(capsys, "--cells", "lstm,gru", "--no-streaming")
    assert code == 0
    assert set(found) == {
        *("machine", "device", "dtype", "repeats", "forward_only", "matrix_product_gflops", "agrees", "results"),
        "streaming",
    }
    assert found["agrees"] is True
    assert found["matrix_product_gflops"] == 1.0
    assert found["machine"]["threads"] == 1
    assert found["machine"]["versions"]["torch"] == torch.__version__
    assert [(r["cell"], r["B"], r["T"], r["H"]) for r in found["results"]] == [("lstm", 2, 5, 4), ("gru", 2, 5, 4)]
    lstm, gru = found["results"]
    engines = {row["name"] for row in lstm["rows"] if row["kind"] == "engine"}
    assert engines == {name for name in choose.ENGINES if name not in ("eager", *lstm["not_run"])}
    assert {"nn.LSTM", "loop by hand"} <= {row["name"] for row in lstm["rows"]}
    assert lstm["rival"] == "nn.LSTM"
    assert gru["rival"] == "loop by hand"
    assert "torch has kernels for" in gru["not_run"]["vendor"]
    for row in lstm["rows"] + gru["rows"]:
        assert row["agrees"]
        assert row["error"] <= row["limit"]
        assert row["forward_ms"] > 0
        assert row["train_ms"] > 0
        for what in ("forward", "train"):
            low, high = row[f"{what}_ms_quartiles"]
            assert low <= row[f"{what}_ms"] <= high


def test_ratios_and_rates_follow_from_the_times(capsys):
    _, found = report(capsys, "--cells", "elman", "--no-streaming")
    (result,) = found["results"]
    rival = next(row for row in result["rows"] if row["name"] == "nn.RNN")
    work = 2e-9 * 2 * 5 * 4 * (4 + 4)  # one drive and one product
    for row in result["rows"]:
        assert row["times_rival_forward"] == pytest.approx(rival["forward_ms"] / row["forward_ms"])
        assert row["times_rival_train"] == pytest.approx(rival["train_ms"] / row["train_ms"])
        assert row["gflops"] == pytest.approx(3 * work / row["train_ms"] * 1e3)


def test_forward_only(capsys):
    code, found = report(capsys, "--cells", "elman", "--forward-only", "--no-streaming", "--engines", "vendor")
    assert code == 0
    rows = found["results"][0]["rows"]
    assert [row["name"] for row in rows if row["kind"] == "engine"] == ["vendor"]
    assert all(row["train_ms"] is None and row["times_rival_train"] is None and row["gflops"] > 0 for row in rows)


@pytest.mark.parametrize("broken", [Halved(), WrongGradient()], ids=lambda engine: engine.name)
def test_an_engine_that_disagrees_is_reported_and_not_timed(broken, capsys, monkeypatch):
    monkeypatch.setitem(choose.ENGINES, broken.name, broken)
    code, found = report(capsys, "--cells", "elman", "--no-streaming", "--engines", f"{broken.name},vendor")
    assert code == 1
    assert found["agrees"] is False
    wrong, right = found["results"][0]["rows"][:2]
    assert (wrong["name"], wrong["agrees"]) == (broken.name, False)
    assert wrong["error"] > wrong["limit"]
    assert (wrong["forward_ms"], wrong["train_ms"], wrong["gflops"]) == (None, None, None)
    assert right["agrees"]
    assert right["forward_ms"] > 0
    assert run([*TINY, "--cells", "elman", "--no-streaming", "--engines", broken.name]) == 1
    out = capsys.readouterr().out
    assert "DISAGREES: off by" in out


def test_a_cell_of_your_own_and_options_in_brackets(capsys):
    assert split("lstm, skip(d=2, x=3),a.py:b") == ["lstm", "skip(d=2, x=3)", "a.py:b"]
    code, found = report(capsys, "--cells", "examples/fading.py:fading,skip(d=2)", "--no-streaming")
    assert code == 0
    assert [(result["cell"], result["rival"]) for result in found["results"]] == [
        ("fading", "loop (eager engine)"),
        ("skip", "loop (eager engine)"),
    ]


def test_streaming(capsys):
    code, found = report(capsys, "--cells", "elman", "--engines", "vendor", "--repeats", "1")
    assert code == 0
    stream = found["streaming"]
    assert stream["agrees"]
    assert [row["name"] for row in stream["rows"]] == [
        *("Stepper.chunk", "Stepper.step", "nn.LSTMCell", "nn.LSTM, one step a call")
    ]
    assert all(row["us_per_step"] > 0 for row in stream["rows"])


def test_the_table_and_progress(capsys):
    assert run([*TINY, "--cells", "gru_after", "--no-streaming"]) == 0
    out = capsys.readouterr().out
    assert "a large matrix product runs at 1 GFLOP/s here" in out
    row = next(line for line in out.splitlines() if "nn.GRU" in line)
    assert row.split()[:5] == ["gru_after", "2,", "5,", "4", "nn.GRU"]
    assert "rival" in row


def test_the_page_and_the_plot(capsys, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    page, plot = tmp_path / "docs" / "benchmarks.md", tmp_path / "times.svg"
    arguments = [*TINY, "--cells", "lstm", "--no-streaming", "--write", str(page), "--plot", str(plot)]
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/recurra", *arguments])
    assert run(arguments) == 0
    text = page.read_text()
    assert (
        f"$ recurra bench cells --sizes 2x5x4 --repeats 2 --threads 1 --cells lstm --no-streaming --write {page}"
        in text
    )
    assert "| lstm | 2, 5, 4 | nn.LSTM |" in text
    assert f"torch {torch.__version__}" in text
    assert "(times.svg)" in text
    drawing = plot.read_text()
    assert drawing.lstrip().startswith("<?xml")
    assert "<dc:date>" not in drawing


def test_without_matplotlib(capsys, monkeypatch, tmp_path):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert run([*TINY, "--plot", str(tmp_path / "p.svg")]) == 2
    assert "plots need matplotlib. Install it with pip install 'recurra[analysis]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sizes", "32x128"], "size '32x128' cannot be read"),
        (["--sizes", "0x1x1"], "size '0x1x1' cannot be read"),
        (["--cells", "lstn"], "cell 'lstn' does not exist. Did you mean 'lstm'"),
        (["--cells", ","], "nothing to time"),
        (["--engines", "fusd"], "engine 'fusd' does not exist. Did you mean 'fused'"),
        (["--device", "tpu"], "device 'tpu' does not exist"),
        (["--dtype", "float8"], "dtype 'float8' does not exist"),
        (["--repeats", "0"], "repeats"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(options, message, capsys):
    assert run(["bench", "cells", *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(capsys):
    assert run(["bench", "cells", "--device", "cuda"]) == 2
    assert "torch finds no CUDA device here" in capsys.readouterr().err


def test_threads_are_as_before(capsys):
    before = torch.get_num_threads()
    assert run([*TINY[:-1], "2", "--cells", "elman", "--engines", "vendor", "--no-streaming"]) == 0
    assert torch.get_num_threads() == before


def test_the_default_is_as_many_threads_as_torch_has(capsys):
    """As OMP_NUM_THREADS has it, on any number of cores."""
    with timing.threads(3):
        capsys.readouterr()
        assert (
            run([*TINY[:-2], "--cells", "elman", "--engines", "vendor", "--no-streaming", "--no-loop", "--json"]) == 0
        )
        assert json.loads(capsys.readouterr().out)["machine"]["threads"] == 3


@pytest.mark.skipif(why_no_jax("cpu") is not None, reason="jax is not installed")
def test_jax_agrees(capsys):
    code, found = report(capsys, "--cells", "lstm,skip,lstm_norm,clockwork", "--dtype", "float64", "--no-streaming")
    assert code == 0
    assert all(any(row["name"] == "JAX scan" for row in result["rows"]) for result in found["results"])
