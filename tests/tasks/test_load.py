"""The example in `examples/load.py` runs, and learns."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/load.py"


def test_load(tmp_path: Path) -> None:
    scores = runpy.run_path(str(EXAMPLE))["main"](tmp_path, steps=60)
    network, naive = next(iter(scores.values())), scores["naive"]
    assert network["crps"] < 0.7 * naive["crps"]
    assert 0.7 < network["90% covered"] < 1
