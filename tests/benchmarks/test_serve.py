"""The benchmark of the server: it starts both servers, compares their answers, and measures every way."""

import json
import math

import pytest

from recurra.cli.main import run

pytestmark = pytest.mark.slow


def test_every_way_is_measured_after_the_answers_were_compared(capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--hidden-size", "16", "--sessions", "100", "--seconds", "0.5", "--rounds", "1"]
    assert run(["bench", "serve", *quick, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["exact"] is True
    assert len(found["ways"]) == 5
    assert all(math.isfinite(each["rate"]["median"]) and each["rate"]["median"] > 0 for each in found["ways"].values())
    assert found["ratio"] > 1
