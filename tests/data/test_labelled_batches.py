"""Batches of labelled sequences: every example with its own label, whatever the order and the share of a rank."""

import pytest
import torch

from recurra.data.batches import Batch
from recurra.data.labelled_batches import LabelledSequences
from recurra.errors import DataError

LENGTHS = torch.tensor([3, 0, 5, 1, 2])
VALUES = torch.arange(1, 12)
STARTS = [0, 3, 3, 8, 9]


def batches(batch_size: int = 2, **options: object) -> LabelledSequences:
    targets = VALUES * 10 if options.get("per_step") else torch.tensor([7, 8, 9, 10, 11])
    return LabelledSequences(VALUES, LENGTHS, targets, batch_size, **options)


def examples(batch: Batch) -> list[tuple[list[int], object]]:
    rows = []
    for k, n in enumerate(batch.lengths.tolist()):
        assert (batch.inputs[k, n:] == 0).all()
        rows.append((batch.inputs[k, :n].tolist(), batch.targets[k]))
    return rows


def test_every_sequence_once_with_its_label() -> None:
    found = {tuple(values): int(label) for batch in batches().one_pass() for values, label in examples(batch)}
    wanted = {
        tuple(VALUES[s : s + n].tolist()): 7 + k for k, (s, n) in enumerate(zip(STARTS, LENGTHS.tolist(), strict=True))
    }
    assert found == wanted


def test_rows_say_which_example_each_is() -> None:
    labels = torch.cat([batch.targets for batch in batches().one_pass()])
    assert (labels - 7).tolist() == batches().rows.tolist()


def test_tags_stand_at_their_steps() -> None:
    for batch in batches(per_step=True).one_pass():
        assert torch.equal(batch.targets, batch.inputs * 10)
        assert batch.tokens == int(batch.lengths.sum()) == batch.all_tokens


def test_what_counts_are_sequences() -> None:
    assert [batch.tokens for batch in batches().one_pass()] == [2, 2, 1]
    assert sum(batch.all_tokens for batch in batches().one_pass()) == 5


def test_numbers_have_channels() -> None:
    values = torch.randn(11, 4)
    batch = next(LabelledSequences(values, LENGTHS, torch.arange(5), 5).one_pass())
    last = batch.targets.tolist().index(2)
    torch.testing.assert_close(batch.inputs[last], values[3:8])


def test_ranks_share_a_batch() -> None:
    whole = batches(3)
    parts = [batches(3, rank=rank, world=2) for rank in range(2)]
    for _ in range(5):
        batch, shares = whole.next(), [part.next() for part in parts]
        assert torch.equal(batch.targets, torch.cat([share.targets for share in shares]))
        assert torch.equal(batch.inputs, torch.cat([share.inputs for share in shares]))
        assert {share.all_tokens for share in shares} == {batch.tokens}


def test_nothing_but_empty_sequences() -> None:
    empty = LabelledSequences(torch.zeros(0, 2), torch.tensor([0, 0]), torch.tensor([0, 1]), 2)
    assert next(empty.one_pass()).inputs.shape == (2, 1, 2)
    with pytest.raises(DataError, match="no sequence"):
        LabelledSequences(torch.zeros(0), torch.zeros(0, dtype=torch.int64), torch.zeros(0), 2)
