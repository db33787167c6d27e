"""Times of cells: what disagrees, rounds that interleave, and a spread that is too large to rely on."""

from dataclasses import replace

import pytest
import torch

from recurra import CATALOGUE
from recurra.benchmarks import timing
from recurra.benchmarks.cells import CellBenchmark, CellTimes, Row, bench_cell
from recurra.benchmarks.rivals import why_no_jax
from recurra.benchmarks.timing import Spread
from recurra.engines import choose
from recurra.engines.eager import Eager
from recurra.types import Shape


def test_an_engine_that_gives_nan_disagrees(monkeypatch):
    class Nothing(Eager):
        def run(self, *arguments, **options):
            right = super().run(*arguments, **options)
            return replace(right, outputs=right.outputs * float("nan"))

    monkeypatch.setitem(choose.ENGINES, "nothing", Nothing())
    result = bench_cell(CATALOGUE["elman"], Shape(2, 3, 4, 4), engines=["nothing"], repeats=1)
    assert not result.agrees


@pytest.mark.skipif(why_no_jax("cpu") is None, reason="jax is one more runner")
def test_rounds_go_through_all_runners_in_turn(monkeypatch):
    """Interleaved: whatever the machine does meanwhile falls on each of them."""
    clock = iter(range(1000))
    monkeypatch.setattr(timing, "seconds", lambda call, device: 0.001 * next(clock))
    result = bench_cell(CATALOGUE["elman"], Shape(2, 3, 4, 4), engines=["vendor"], repeats=4, forward_only=True)
    assert [row.name for row in result.rows] == ["vendor", "nn.RNN", "loop by hand"]
    # rounds 0 (warm-up) to 3 measure all three; the loop, which is slow, has no round 4
    assert [row.forward.median for row in result.rows] == pytest.approx([7.5, 8.5, 8.0])
    assert [(row.forward.low, row.forward.high) for row in result.rows] == [
        pytest.approx(quartiles) for quartiles in ((5.25, 9.75), (6.25, 10.75), (6.5, 9.5))
    ]


def benchmark(*times: Spread) -> CellBenchmark:
    rows = tuple(Row(f"runner {k}", False, 0.0, 1.0, spread) for k, spread in enumerate(times))
    machine = {"processor": "a", "cores": 2, "threads": 1, "gpu": None, "versions": {"torch": torch.__version__}}
    times_of_cell = CellTimes("gru", Shape(1, 2, 3, 3), 1.0, rows, {"vendor": "no kernel"})
    return CellBenchmark(machine, "cpu", "float32", 3, True, 1.0, (times_of_cell,), None)


def test_a_large_spread_is_one_line():
    calm, wide = Spread(10.0, 9.5, 10.5), Spread(10.0, 9.0, 12.0)
    assert "spread" not in str(benchmark(calm, calm))
    (line,) = [line for line in str(benchmark(calm, wide)).splitlines() if "spread" in line]
    assert "in 1 of 2 times" in line
    assert "10 (9–12)" in str(benchmark(wide).table())


def test_the_page_has_every_row_and_the_reasons():
    found = benchmark(Spread(10.0, 9.0, 12.0))
    page = found.page("recurra bench cells", "times.svg")
    assert "| gru | 1, 2, 3 | runner 0 | 10 (9–12) |" in page
    assert "- vendor did not run: no kernel." in page
    assert "(times.svg)" in page
