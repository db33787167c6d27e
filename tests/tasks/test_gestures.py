"""The example in `examples/gestures.py` runs, and learns."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/gestures.py"


@pytest.mark.slow
def test_gestures(tmp_path: Path) -> None:
    assert runpy.run_path(str(EXAMPLE))["main"](tmp_path, steps=150) > 0.8
