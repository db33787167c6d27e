"""Windows of series: inputs and what follows them, steps that do not count, and other keys."""

import pytest
import torch

from recurra.data.windows import Windows
from recurra.errors import DataError

VALUES = torch.stack([torch.arange(20.0), torch.arange(20.0) + 100], dim=1)


def test_targets_are_the_next_values_and_pieces_may_overlap() -> None:
    batches = Windows(VALUES, torch.tensor([0, 3, 10]), torch.tensor([5, 5, 2]), 2, shuffle=False)
    first, second = batches.one_pass()
    assert first.lengths.tolist() == [2, 5]
    assert first.inputs[0, :2].tolist() == [[10, 110], [11, 111]]
    assert first.targets[0, :2].tolist() == [[11, 111], [12, 112]]
    assert not bool(first.inputs[0, 2:].any() or first.targets[0, 2:].any())
    assert second.inputs[0, :, 0].tolist() == [3, 4, 5, 6, 7]
    assert (first.tokens, second.tokens, first.all_tokens) == (7, 5, 7)


def test_whole_series() -> None:
    (batch,) = Windows.of([VALUES[:4], VALUES[10:12]], 8, shuffle=False).one_pass()
    assert batch.lengths.tolist() == [1, 3]
    assert batch.inputs[0, 0].tolist() == [10, 110]
    assert batch.targets[1, :, 0].tolist() == [1, 2, 3]


def test_steps_that_are_only_read() -> None:
    (batch,) = Windows(VALUES, torch.tensor([0, 8]), torch.tensor([5, 3]), 2, skip=2, shuffle=False).one_pass()
    assert batch.scored.tolist() == [[0, 0, 1, 0, 0], [0, 0, 1, 1, 1]]
    assert batch.tokens == batch.all_tokens == 4
    with pytest.raises(DataError, match="3 steps or more"):
        Windows(VALUES, torch.tensor([0]), torch.tensor([2]), 2, skip=2)


class TestOtherKeys:
    def rolls(self) -> list[torch.Tensor]:
        random = torch.Generator().manual_seed(0)
        made = []
        for low, high, frames in ((0, 6, 9), (3, 9, 5), (6, 12, 7)):
            roll = torch.zeros(frames, 12)
            roll[:, low:high] = torch.rand(frames, high - low, generator=random).round()
            roll[0, [low, high - 1]] = 1
            made.append(roll)
        return made

    def test_a_piece_is_moved_as_a_whole_and_nothing_falls_off(self) -> None:
        rolls = self.rolls()
        plain = Windows.of(rolls, 3, seed=1)
        moved = Windows.of(rolls, 3, seed=1, transpose=4)
        found = set()
        for _ in range(40):
            one, other = plain.next(), moved.next()
            for b in range(3):
                at, now = one.inputs[b].any(0).nonzero().min(), other.inputs[b].any(0).nonzero().min()
                by = int(now - at)
                low = int(torch.cat([one.inputs[b], one.targets[b]]).any(0).nonzero().min())
                assert abs(by) <= 4
                assert torch.equal(other.inputs[b], one.inputs[b].roll(by, -1))
                assert torch.equal(other.targets[b], one.targets[b].roll(by, -1))
                assert other.inputs[b].sum() == one.inputs[b].sum()
                found.add((low, by))
        assert {by for low, by in found if low == 3} == set(range(-3, 4))
        assert {by for low, by in found if low == 0} == set(range(5))
        assert {by for low, by in found if low == 6} == set(range(-4, 1))

    def test_evaluation_is_in_the_key_of_the_file_and_a_place_is_found_again(self) -> None:
        moved = Windows.of(self.rolls(), 2, seed=1, transpose=4)
        for one, other in zip(moved.one_pass(), Windows.of(self.rolls(), 2, seed=1).one_pass(), strict=True):
            assert torch.equal(one.inputs, other.inputs)
        for _ in range(3):
            moved.next()
        again = Windows.of(self.rolls(), 2, seed=1, transpose=4)
        again.load_state_dict(moved.state_dict())
        assert torch.equal(again.next().inputs, moved.next().inputs)

    def test_ranks_share_the_rows_of_one(self) -> None:
        whole = Windows.of(self.rolls(), 3, seed=1, transpose=4)
        parts = [Windows.of(self.rolls(), 3, seed=1, transpose=4, rank=k, world=2) for k in range(2)]
        for _ in range(5):
            together = torch.cat([part.next().inputs for part in parts])
            assert torch.equal(together, whole.next().inputs)
