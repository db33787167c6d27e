"""`recurra bench language`: the same training on generated kernels and on torch's module."""

import json

import pytest

from recurra.cli.main import run

TINY = ["--size", "3x12x8", "--layers", "2", "--steps", "60"]


def test_both_runners_have_the_same_losses(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 20)
    assert run(["bench", "language", str(text), *TINY, "--json"]) == 0
    fused, torch = json.loads(capsys.readouterr().out)["runners"]
    assert (fused["name"], torch["name"]) == ("fused (float32)", "torch (float32)")
    assert fused["losses"][0] == torch["losses"][0]
    assert fused["losses"] == pytest.approx(
        torch["losses"], abs=0.05
    )  # torch's module has two biases, which learn twice
    assert fused["losses"][-1] < fused["losses"][0]
    assert len(fused["losses"]) == len(fused["at"]) == 4
    assert fused["rate"] > 0
    assert run(["bench", "language", str(text), *TINY]) == 0
    assert "loss at steps 0, 20, 40, 60" in capsys.readouterr().out


def test_a_text_that_is_too_short(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("short")
    assert run(["bench", "language", str(text), *TINY]) == 2
    assert "5 tokens" in capsys.readouterr().err
