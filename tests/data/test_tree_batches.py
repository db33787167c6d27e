"""Batches of trees: every tree once, labelled nodes counted, shared by ranks, and a place that can be saved."""

from dataclasses import replace

import pytest
import torch

from recurra.data.tree_batches import TreeBatch, Trees
from recurra.data.trees import build_vocabulary, parse_expressions
from recurra.errors import DataError

TREES = parse_expressions(" ".join(f"(1 {'(0 a) b ' * (k + 1)})" for k in range(7)))
FOREST = build_vocabulary(TREES).plant(TREES)


def batches(batches: Trees) -> list[TreeBatch]:
    found = list(batches.one_pass())
    assert all(isinstance(batch, TreeBatch) for batch in found)
    return found  # type: ignore[return-value]


def test_labelled_nodes_are_scored_and_counted() -> None:
    (batch,) = batches(Trees(FOREST, 7))
    assert batch.tokens == batch.all_tokens == sum(k + 2 for k in range(7))
    assert batch.scored is not None
    assert batch.scored[0].tolist() == [float(label >= 0) for label in batch.forest.labels.tolist()]
    assert batch.inputs[0].tolist() == batch.forest.tokens.tolist()
    assert bool((batch.targets >= 0).all())


def test_every_tree_once_in_an_epoch() -> None:
    batches = Trees(FOREST, 3, seed=1)
    sizes = [int(size) for _ in range(batches.steps_per_epoch) for size in batches.next().forest.sizes]  # type: ignore[attr-defined]
    assert sorted(sizes) == FOREST.sizes.tolist()


def test_ranks_share_a_batch() -> None:
    whole = batches(Trees(FOREST, 4))
    parts = [batches(Trees(FOREST, 4, rank=rank, world=3)) for rank in range(3)]
    for k, batch in enumerate(whole):
        assert sum(part[k].tokens for part in parts) == batch.tokens
        assert all(part[k].all_tokens == batch.tokens for part in parts)
        assert torch.cat([part[k].forest.tokens for part in parts]).tolist() == batch.forest.tokens.tolist()


def test_a_rank_may_have_no_tree() -> None:
    one = FOREST.take(torch.tensor([0]))
    batch = batches(Trees(one, 4, rank=1, world=2))[0]
    assert (batch.tokens, batch.all_tokens, len(batch.forest)) == (0, 2, 0)


def test_a_place_that_is_saved() -> None:
    batches, other = Trees(FOREST, 3, seed=1), Trees(FOREST, 3, seed=1)
    for _ in range(4):
        batches.next()
    other.load_state_dict(batches.state_dict())
    for _ in range(4):
        assert torch.equal(batches.next().inputs, other.next().inputs)


def test_a_tree_without_a_label() -> None:
    labels = FOREST.labels.clone()
    labels[FOREST.roots[2] : FOREST.roots[3]] = -1
    with pytest.raises(DataError, match="tree 3 has no label"):
        Trees(replace(FOREST, labels=labels), 2)
