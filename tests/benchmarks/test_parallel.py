"""Times of `scan` and `newton` beside `fused`: every row agrees, or is named."""

import json

from recurra.benchmarks import parallel
from recurra.cli.main import run

TINY = ["bench", "parallel", "--device", "cpu", "--scans", "1x40x8", "--solutions", "1x40x4", "--repeats", "1"]


def test_both_engines_are_timed_beside_fused(capsys):
    assert run([*TINY, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    named = [(row["engine"], row["cell"]) for row in found["rows"]]
    assert named == [*(("scan", name) for name in parallel.SCANNED), *(("newton", name) for name in parallel.SOLVED)]
    for row in found["rows"]:
        assert row["error"] <= row["limit"]
        assert row["milliseconds"].keys() == row["fused"].keys() == {"forward", "training"}
    assert all("iterations" in row["note"] for row in found["rows"] if row["engine"] == "newton")


def test_a_row_that_disagrees_is_named_and_the_exit_code_is_1(monkeypatch, capsys):
    monkeypatch.setitem(parallel.LIMITS, parallel.torch.float32, -1.0)
    assert run(TINY) == 1
    assert "DISAGREES" in capsys.readouterr().out


def test_a_sequence_too_long_for_fused_is_timed_alone(monkeypatch, capsys):
    monkeypatch.setattr(parallel, "LONGEST", 30)
    assert run(TINY) == 0
    assert "scan" in capsys.readouterr().out
