"""The fixed-window model as a run: trained, evaluated beside tables, sampled; and what it cannot know."""

import pytest
import torch

import recurra as rc
from recurra.errors import OptionError

TEXT = "abcab" * 400
SMALL = {"hidden_size": 16, "embedding_size": 8, "steps": 100, "batch_size": 4, "validate_every": 50, "warmup": 5}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> rc.Run:
    out = tmp_path_factory.mktemp("runs") / "window"
    return rc.train("fixed-window", data=[TEXT], window=4, out=out, progress="none", **SMALL)


def test_it_learns_and_writes(trained: rc.Run) -> None:
    scores = trained.evaluate().scores
    assert scores["window of 4, 16 units"]["nats"] < 0.1
    assert trained.sample("abcab", length=15, greedy=True).text == "abcab" * 3
    assert "reach k tokens back" in trained.score("abcab").factorisation
    reopened = rc.open(trained.path)
    assert reopened.sample("abcab", length=5, greedy=True).text == "abcab"


def test_what_lies_further_back_changes_nothing(trained: rc.Run) -> None:
    model = trained.model
    one, other = torch.tensor([[1, 2, 3, 1, 2, 1]]), torch.tensor([[3, 3, 3, 1, 2, 1]])
    torch.testing.assert_close(model(one)[0][:, -1], model(other.index_fill(1, torch.tensor([2]), 3))[0][:, -1])
    assert not torch.equal(model(one)[0][:, 3], model(other)[0][:, 3])
    past = None
    for t in range(6):
        logits, past = model.step(one[:, t], past)
    torch.testing.assert_close(logits, model(one)[0][:, -1])


def test_without_a_state_there_is_nothing_to_look_into(trained: rc.Run) -> None:
    with pytest.raises(OptionError, match="fixed-window is not one"):
        trained.gradients()
    with pytest.raises(OptionError, match="fixed-window is not one"):
        trained.automaton()


def test_lines_can_be_read_too(tmp_path) -> None:
    run = rc.train(
        "fixed-window",
        data=["ab", "abab"] * 40,
        sequences=True,
        window=2,
        out=tmp_path / "run",
        progress="none",
        **SMALL,
    )
    assert run.evaluate().scores["window of 2, 16 units"]["nats"] < 0.6
    assert set(run.sample(seed=1).text) <= set("ab")


def test_tables_of_order_k_beside_a_network(trained: rc.Run) -> None:
    found = trained.orders(3)
    V = found.vocabulary
    assert [row.parameters for row in found.rows[:4]] == [V**k * (V - 1) for k in range(4)]
    assert found.rows[3].perplexity < 1.1 < found.rows[2].perplexity  # three tokens decide all
    assert found.rows[2].contexts == 6  # ab, bc, ca, ba, and two at the beginning
    assert found.rows[-1].parameters == sum(each.numel() for each in trained.model.parameters())
    assert "order 3" in str(found)


def test_embeddings_are_looked_at(trained: rc.Run) -> None:
    found = trained.embeddings()
    (nearest, cosine), *_ = found.neighbours("a", 1)
    a, b = (found.vectors[found.names.index(each)] for each in ("a", nearest))
    assert cosine == pytest.approx(float(torch.cosine_similarity(a, b, dim=0)))
    assert cosine == max(near for _, near in found.neighbours("a", 99))
    spread = found.vectors - found.vectors.mean(0)
    assert found.shown == pytest.approx(float(found.map.square().sum() / spread.square().sum()))
    with pytest.raises(OptionError, match="token 'zz' does not exist"):
        found.neighbours("zz")
