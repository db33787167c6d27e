"""The output-recurrent network: all steps at once equal step by step, no loop in training, and what it cannot hold."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from recurra.errors import OptionError
from recurra.models.jordan import Jordan


def make(B: int = 5, T: int = 12) -> tuple[Jordan, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return Jordan(3, 4, 7).double(), torch.randint(3, (B, T)), torch.randint(4, (B, T))


def test_all_steps_at_once_equal_step_by_step():
    model, inputs, targets = make()
    at_once = model(inputs, targets)
    before = torch.full((5,), 4)
    for t in range(12):
        torch.testing.assert_close(model.predict(inputs[:, t], before), at_once[:, t])
        before = targets[:, t]


def test_run_free_it_reads_what_it_said():
    model, inputs, _ = make()
    said, logits = model.run(inputs)
    assert torch.equal(said, logits.argmax(-1))
    torch.testing.assert_close(model(inputs, said), logits)
    drawn, logits = model.run(inputs, torch.Generator().manual_seed(1))
    assert not torch.equal(drawn, said)
    torch.testing.assert_close(model(inputs, drawn), logits)


def test_own_outputs_are_as_many_as_asked():
    model, inputs, targets = make(200, 50)
    assert torch.equal(model.own_outputs(inputs, targets, 0.0), targets)
    changed = (model.own_outputs(inputs, targets, 0.5) != targets).double().mean()
    assert float(changed) == pytest.approx(0.5 * 0.75, abs=0.05)  # an untrained network draws the target once in four


def test_there_is_no_loop_over_time_in_training():
    def operations(T: int) -> int:
        model, inputs, targets = make(4, T)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            model(inputs, targets).sum().backward()
        return sum(event.count for event in seen.key_averages() if event.key.startswith("aten::"))

    assert operations(16) == operations(128)


def test_sizes_must_be_positive():
    with pytest.raises(OptionError, match="at least 1; got 0, 2, 3"):
        Jordan(0, 2, 3)
