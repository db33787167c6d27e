"""Set against sequence: a bag of tokens and a shuffled test; padding that is read; the tree over the same tokens; a Jordan
network on tagged tokens; the three truncations on the same lines."""

import random

import pytest
import torch

import recurra as rc
from recurra.data.trees import Tree, reshaped
from recurra.models.classify import Classifier

SMALL = {"hidden_size": 16, "embedding_size": 8, "steps": 150, "validate_every": 75, "warmup": 5, "learning_rate": 0.02}


def test_where_order_decides_a_bag_knows_nothing_and_a_shuffled_test_fails(tmp_path) -> None:
    draw = random.Random(0)
    texts, labels = [], []
    for _ in range(300):
        inner = "".join(draw.choice("xyz") for _ in range(6))
        first = draw.random() < 0.5  # the same letters, in another order
        texts.append(f"a{inner}b" if first else f"b{inner}a")
        labels.append("ab" if first else "ba")
    run = rc.train("classify", data=(texts, labels), dropout=0.0, average=None, l2=0.0, ensemble=1, out=tmp_path / "run",
                   progress="none", **SMALL)  # fmt: skip
    scores = run.evaluate(shuffled=True).scores
    network, bag = scores["gru-16"], scores["bag of tokens"]
    assert network["accuracy"] > 0.95
    assert bag["accuracy"] < 0.8
    assert scores["gru-16, shuffled"]["accuracy"] < 0.8


def test_where_only_tokens_decide_a_bag_is_enough(tmp_path) -> None:
    texts = ["".join(random.Random(k).choices("abx" if k % 2 else "aby", k=12)) for k in range(200)]
    run = rc.train("classify", data=(texts, [str(k % 2) for k in range(200)]), out=tmp_path / "run", progress="none",
                   **(SMALL | {"steps": 2, "validate_every": 2}))  # fmt: skip
    scores = run.evaluate(shuffled=True).scores
    assert scores["bag of tokens"]["accuracy"] > 0.9
    # a bag that is mixed in hides what order is worth to the network: that is scored alone too
    alone, mixed = (scores[f"{name}, shuffled"] for name in ("5 × gru-16", "5 × gru-16 + bag of tokens"))
    assert mixed["accuracy"] > 0.9
    assert alone["nats"] > 2 * mixed["nats"]


@torch.no_grad()
def test_padding_is_read_at_the_side_that_was_asked_for() -> None:
    torch.manual_seed(0)
    layers = rc.Recurrent("gru", 4, 5)
    x, lengths = torch.randn(2, 6, 4), torch.tensor([6, 3])
    made = {side: Classifier(layers, 3, head="last", reads_padding=side).eval() for side in (None, "start", "end")}
    for model in made.values():
        model.output.load_state_dict(made[None].output.state_dict())
    late = torch.zeros(6, 4)
    late[3:] = x[1, :3]
    early = torch.zeros(6, 4)
    early[:3] = x[1, :3]
    for side, padded in (("start", late), ("end", early)):
        expected = made[None].output(layers(padded[None]).outputs[:, -1])
        torch.testing.assert_close(made[side](x, lengths)[1:], expected)
        torch.testing.assert_close(made[side](x, lengths)[0], made[None](x, lengths)[0])
    assert not torch.allclose(made[None](x, lengths)[1], made["end"](x, lengths)[1])


def test_a_balanced_tree_and_a_chain_over_the_same_tokens() -> None:
    tree = Tree(
        [None, "a", None, "b", "c", "d", "e"], [-1, 0, 0, 2, 2, 2, 2], ["yes", None, "no", None, None, None, None]
    )
    for shape, height in (("balanced", 3), ("chain", 4)):
        made = reshaped(tree, shape)
        assert [token for token in made.tokens if token] == [*"abcde"]
        assert made.labels == ["yes", *[None] * 8]
        depths = [0]
        for parent in made.parents[1:]:
            depths.append(depths[parent] + 1)
        assert max(depths) == height
    assert reshaped(tree, "given") is tree


@pytest.mark.parametrize("shape", ["balanced", "chain"])
def test_the_shape_is_a_setting(shape: str, tmp_path) -> None:
    run = rc.train("tree", count=100, depth=2, shape=shape, hidden_size=8, steps=4, validate_every=2,
                   out=tmp_path / "run", progress="none")  # fmt: skip
    assert 0 <= next(iter(run.evaluate().scores.values()))["accuracy"] <= 1
    depth = {"balanced": 6, "chain": 40}[shape]
    assert int(run.task.woods.train.depths.max()) <= depth


def test_a_jordan_network_learns_tags_that_depend_on_the_tag_before(tmp_path) -> None:
    draw = random.Random(0)
    words, tags = [], []
    for _ in range(150):
        line, now, out = [], "off", []
        for _ in range(draw.randint(3, 12)):
            word = draw.choice(["press", "wait"])
            now = {"off": "on", "on": "off"}[now] if word == "press" else now
            line.append(word)
            out.append(now)
        words.append(line)
        tags.append(out)
    run = rc.train("jordan", data=(words, tags), hidden_size=16, steps=200, validate_every=100, out=tmp_path / "run",
                   progress="none", min_count=1)  # fmt: skip
    scores = run.evaluate().scores
    assert scores["output-recurrent-16"]["accuracy"] > 0.99  # free running
    assert scores["output-recurrent-16, teacher forcing"]["accuracy"] > 0.99
    assert "order one" in run.task.factorisation
    assert run.predict().rows[0]["tags"]


@pytest.mark.parametrize("truncation", ["none", "every:3", "window:3"])
def test_three_truncations_on_the_same_lines(truncation: str, tmp_path) -> None:
    run = rc.train("names", data=["abab", "ab", "ababab"] * 20, truncation=truncation, dropout=0.0, average=None,
                   out=tmp_path / "run", progress="none", **(SMALL | {"steps": 40, "validate_every": 20}))  # fmt: skip
    assert run.evaluate(baselines=False).scores["lstm-16"]["nats"] < 0.5
