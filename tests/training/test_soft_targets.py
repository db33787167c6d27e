"""Soft targets: what counts of other sequences predict, at the right places, and learned as a mixture."""

import pytest
import torch

from recurra.data.batches import Sequences
from recurra.errors import OptionError
from recurra.models.markov import Markov
from recurra.tasks.catalogue import find_recipe
from recurra.training import soft_targets
from recurra.training.objectives import weighted_nll
from recurra.training.soft_targets import FOLDS, SoftSequences, predicted_by_others, soft_nll


def lines(count: int = 23) -> list[torch.Tensor]:
    """Start, tokens 2 to 4, end."""
    random = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 7, (count,), generator=random).tolist()
    return [torch.tensor([0, *torch.randint(2, 5, (n,), generator=random).tolist(), 1]) for n in sizes]


def test_each_place_is_predicted_by_the_other_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soft_targets, "AT_ONCE", 2)
    sequences = lines()
    found = predicted_by_others(sequences, 2, 5).split([len(each) for each in sequences])
    for k in (0, 7, 22):
        others = [each for j, each in enumerate(sequences) if j % FOLDS != k % FOLDS]
        counted = Markov.fit(others, 2, 5)
        assert not found[k][0].any()
        for t in range(1, len(sequences[k])):
            expected = counted.probabilities(sequences[k][:t]).float()
            torch.testing.assert_close(found[k][t], expected)


def test_batches_have_the_same_rows_and_a_share_at_the_true_token() -> None:
    sequences = lines()
    soft = SoftSequences(sequences, 5, 4, share=0.25, order=1, seed=3)
    plain = Sequences(sequences, 4, seed=3)
    others = predicted_by_others(sequences, 1, 5)
    for _ in range(2 * plain.steps_per_epoch):
        mine, theirs = soft.next(), plain.next()
        assert torch.equal(mine.inputs, theirs.inputs)
        assert mine.lengths is not None
        inside = torch.arange(mine.inputs.shape[1]) < mine.lengths[:, None]
        torch.testing.assert_close(mine.targets.sum(-1)[inside], torch.ones(int(inside.sum())))
        at_true = mine.targets.gather(-1, theirs.targets[..., None])[..., 0][inside]
        assert bool((at_true >= 0.75).all())
        assert bool((at_true < 1).all())
    assert float(others.sum()) == pytest.approx(sum(len(each) - 1 for each in sequences), rel=1e-5)


def test_hard_targets_have_the_usual_loss() -> None:
    logits, targets, weights = torch.randn(2, 3, 5), torch.randint(5, (2, 3)), torch.rand(2, 3)
    hard = torch.nn.functional.one_hot(targets, 5).float()
    torch.testing.assert_close(soft_nll(logits, hard, weights), weighted_nll(logits, targets, weights))


def test_a_table_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soft_targets, "MOST_NUMBERS", 100)
    with pytest.raises(OptionError, match="soft_targets keeps 5 probabilities for each of"):
        SoftSequences(lines(), 5, 4, share=0.5, order=1)


def test_the_setting_changes_what_is_learned_and_is_for_sequences() -> None:
    names = ["emma", "anna", "otto", "hanna", "emil", "ida"] * 10
    how = {"hidden_size": 8, "embedding_size": 4, "steps": 6, "validate_every": 3}
    losses = []
    for share in (0.0, 0.9):
        trainer = find_recipe("names")(names, soft_targets=share, **how).trainer()
        losses.append([event.loss for event in trainer.events() if hasattr(event, "loss")])
    assert losses[0][0] != losses[1][0]
    with pytest.raises(OptionError, match=r"soft_targets.*many sequences"):
        find_recipe("text")("tale.txt", soft_targets=0.3)
