"""The recipe that decides on the length first: learned lengths are those of the lines, and what is written keeps to them."""

from collections import Counter

import pytest

import recurra as rc
from recurra.errors import DataError, OptionError

LINES = ["ab", "abab", "ababab", "ab", "abab", "ab", "ba", "baba"] * 30
TRUE = {2: 0.5, 4: 0.375, 6: 0.125}
SMALL = {"hidden_size": 16, "embedding_size": 8, "dropout": 0.0, "learning_rate": 0.05, "warmup": 5}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> rc.Run:
    out = tmp_path_factory.mktemp("runs") / "lengths"
    return rc.train(
        "lengths", data=LINES, steps=120, validate_every=60, average=None, out=out, progress="none", **SMALL
    )


def test_learned_lengths_are_those_of_the_lines(trained: rc.Run) -> None:
    found = trained.model.length_probabilities().detach()
    assert float(found.sum()) == pytest.approx(1, abs=1e-6)
    for length, share in TRUE.items():
        assert float(found[length]) == pytest.approx(share, abs=0.08)


def test_what_is_written_has_lengths_that_follow_them(trained: rc.Run) -> None:
    counted = Counter(len(trained.sample(seed=seed).text) for seed in range(200))
    for length, share in enumerate(trained.model.length_probabilities().tolist()):
        assert counted[length] / 200 == pytest.approx(share, abs=0.1)
    assert {len(trained.sample("ab", length=2, seed=seed).text) for seed in range(20)} <= {0, 2}
    with pytest.raises(OptionError, match="longest sequence that was learned had 6"):
        trained.sample("abababab")


def test_it_predicts_as_well_as_with_an_end_symbol_and_scores_the_length(trained: rc.Run) -> None:
    scores = list(trained.evaluate().scores.values())
    assert scores[0]["nats"] < scores[1]["nats"] * 1.1
    found = trained.score("abab")
    assert list(found.tokens)[-1] == "τ = 4"
    assert "P(τ)" in found.factorisation
    with pytest.raises(DataError, match="longest sequence"):
        trained.score("abababab")
    with pytest.raises(OptionError, match="lengths is not one"):
        trained.automaton()
    assert trained.gradients(steps=5).lags[-1] == 5


def test_a_network_that_emits_a_stop_probability(tmp_path) -> None:
    run = rc.train(
        "names", data=LINES, ending="stop", steps=120, validate_every=60, average=None, out=tmp_path / "run",
        progress="none", **SMALL,
    )  # fmt: skip
    counted = Counter(len(run.sample(seed=seed).text) for seed in range(150))
    assert counted[2] + counted[4] + counted[6] > 140
    assert counted[2] / 150 == pytest.approx(0.5, abs=0.17)
    with pytest.raises(OptionError, match="one long text has no end"):
        rc.train("text", data=["a b c " * 200], ending="stop", out=tmp_path / "no")
