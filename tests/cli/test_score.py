"""`recurra score`: the probability of a text is the product of those of its tokens."""

import json
from pathlib import Path

import pytest

from recurra.cli.main import run
from tests.cli.test_train import refused

SETTINGS = ["model.cell=gru", "model.hidden_size=8", "training.steps=4", "training.batch_size=4", "engine=eager"]


@pytest.fixture
def text_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("abcab" * 200)
    assert run(["train", "text", "data.path=text.txt", "training.truncation=every:16", *SETTINGS, "--out", "run"]) == 0


@pytest.mark.usefixtures("text_run")
class TestText:
    def test_a_text_is_the_product_of_its_tokens(self, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        logs = {}
        for text in ("abc", "abca"):
            assert run(["score", "run", text, "--json"]) == 0
            found = json.loads(capsys.readouterr().out)
            assert "product of conditionals" in found["factorisation"]
            assert "".join(found["tokens"]) == text
            logs[text] = found["log_probabilities"]
        for name, values in logs["abc"].items():
            assert logs["abca"][name][:3] == pytest.approx(values, rel=1e-5)
            assert all(value < 0 for value in values)
        predicted, network, counted = logs["abc"]
        assert "markov order" in predicted
        assert counted.startswith("markov order")
        assert "markov" not in network

    def test_a_person_reads_a_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        assert run(["score", "run", "abc", "--by-token"]) == 0
        out = capsys.readouterr().out
        assert "perplexity" in out
        assert "'a'" in out

    def test_a_token_that_is_unknown_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "z" in refused(["score", "run", "az"], capsys)


def test_a_run_that_reads_numbers_gives_no_text_a_probability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["data.length=6", "model.hidden_size=4", "training.steps=2", "engine=eager"]
    assert run(["train", "long-memory", *settings, "--out", "run"]) == 0
    assert "gives a text a probability; long-memory is not one" in refused(["score", "run", "abc"], capsys)
    assert run(["score", "run"]) == 0
    assert capsys.readouterr().out.startswith("Outputs are independent given the inputs")
