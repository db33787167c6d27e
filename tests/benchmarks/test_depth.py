"""The comparison of places of depth: every place, at nearly equal numbers of parameters."""

import json
from pathlib import Path

import pytest

from recurra.benchmarks.depth import PLACES
from recurra.cli.main import run


def test_every_place_is_trained_at_equal_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 400)
    assert run(["bench", "depth", "--steps", "6", "--parameters", "5000", "--data", str(text), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    assert [row["place"] for row in found] == list(PLACES)
    assert all(abs(row["parameters"] - 5000) < 750 for row in found)
    assert len({row["valid"] for row in found}) == len(PLACES)
