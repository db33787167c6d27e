"""The classifier of trees: every node has its say, dropout is for training, and the baseline knows frequencies alone."""

import math

import pytest
import torch

from recurra.data.forest import make_forest
from recurra.errors import OptionError
from recurra.models.tree import BagOfTokens, MostFrequent, TreeClassifier

FOREST = make_forest([[-1, 0, 0], [-1]], [[0, 1, 2], [3]], [[1, 0, 0], [1]])


@pytest.mark.parametrize("composition", ["fold", "sum", "plain", "child-sum", "n-ary"])
def test_logits_of_every_node(composition: str) -> None:
    model = TreeClassifier(4, 3, 8, composition=composition)
    logits = model(FOREST)
    assert logits.shape == (4, 3)
    logits[FOREST.roots].logsumexp(-1).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    # a leaf is known by its symbol alone; a root by what is under it
    again = model(make_forest([[-1, 0, 0], [-1]], [[0, 1, 3], [3]]))
    torch.testing.assert_close(again[1], logits[1])
    torch.testing.assert_close(again[3], logits[3])
    assert not torch.allclose(again[0], logits[0])


def test_dropout_is_for_training() -> None:
    model = TreeClassifier(4, 3, 8, dropout=0.5)
    assert not torch.equal(model(FOREST), model(FOREST))
    model.eval()
    assert torch.equal(model(FOREST), model(FOREST))
    with pytest.raises(OptionError, match="dropout"):
        TreeClassifier(4, 3, 8, dropout=1.0)


def test_a_blank_has_no_dropout_and_one_vector() -> None:
    model = TreeClassifier(4, 3, 8, composition="n-ary", blank=0)
    plain = TreeClassifier(4, 3, 8, composition="n-ary")
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(FOREST), plain(FOREST))
    read: list[torch.Tensor] = []
    model.tree.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    model.dropout.p = 0.9
    model(FOREST)
    table = model.embedding.weight
    torch.testing.assert_close(read[0][0], table[0])
    kept = read[0][1:] != 0
    assert 0 < int(kept.sum()) < kept.numel() / 2
    ratio = (read[0][1:] / table[[1, 2, 3]])[kept]  # one factor for all, so that the mean stays
    torch.testing.assert_close(ratio, torch.full_like(ratio, 10.0), rtol=1e-3, atol=0)


def test_it_learns_what_needs_both_children() -> None:
    """Exclusive or of two leaves, at the root."""
    symbols = [[2, a, b] for a in (0, 1) for b in (0, 1)]
    forest = make_forest([[-1, 0, 0]] * 4, symbols, [[a ^ b, -1, -1] for _, a, b in symbols])
    model = TreeClassifier(3, 2, 8)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(100):
        loss = torch.nn.functional.cross_entropy(model(forest)[forest.roots], forest.labels[forest.roots])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert model(forest)[forest.roots].argmax(-1).tolist() == [0, 1, 1, 0]


def test_the_most_frequent_class() -> None:
    logits = MostFrequent(FOREST, 2)(FOREST)
    assert logits[FOREST.roots].argmax(-1).tolist() == [1, 1]
    expected = [math.log(1 / 4), math.log(3 / 4)]  # two roots of class 1, each class counted once more
    assert logits[0].tolist() == pytest.approx(expected)
    assert logits[1].exp().tolist() == pytest.approx([0.5, 0.5])


def test_a_bag_of_tokens_by_hand() -> None:
    """Naive Bayes of the tokens under each node, counted one by one."""
    V, C, blank = 6, 2, 1
    train = make_forest(
        [[-1, 0, 0, 2, 2], [-1, 0, 0], [-1]],
        [[1, 2, 1, 3, 4], [1, 2, 2], [5]],
        [[1, 0, 1, -1, 0], [0, 0, 1], [1]],
    )
    parents, tokens, labels = (each.tolist() for each in (train.parents, train.tokens, train.labels))

    def under(node: int) -> list[int]:
        below = [token for n, p in enumerate(parents) if p == node for token in under(n)]
        return [*([] if tokens[node] == blank else [tokens[node]]), *below]

    def fit(nodes: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        counts, seen = torch.ones(C, V, dtype=torch.float64), torch.ones(C, dtype=torch.float64)
        for n in nodes:
            if labels[n] >= 0:
                seen[labels[n]] += 1
                for token in under(n):
                    counts[labels[n], token] += 1
        return (counts / counts.sum(1, keepdim=True)).log(), (seen / seen.sum()).log()

    found = BagOfTokens(train, V, C, blank)(train)
    roots = train.roots.tolist()
    for n in range(len(parents)):
        logs, prior = fit(roots if n in roots else list(range(len(parents))))
        torch.testing.assert_close(found[n], prior + sum((logs[:, token] for token in under(n)), torch.zeros(C)))
