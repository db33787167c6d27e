"""States between calls, and batches without rows."""

import pytest
import torch
from torch import nn

import recurra as rc
from recurra.engines.choose import ENGINES
from recurra.types import Shape
from tests.helpers import B, D, H, flatten


def runs(engine, cell="lstm"):
    return ENGINES[engine].supports(rc.find_cell(cell), torch.device("cpu"), torch.float32, Shape(2, 3, D, H))


def test_a_detached_state_has_the_same_numbers_and_no_past():
    layer = rc.Recurrent("lstm", D, H, layers=2)
    trace = layer(torch.randn(B, 4, D))
    state = rc.detach(trace.final)
    assert all(torch.equal(a, b) for a, b in zip(flatten(state), flatten(trace.final), strict=True))
    assert all(each.requires_grad for each in flatten(trace.final))
    assert not any(each.requires_grad for each in flatten(state))
    assert rc.detach(None) is None


@pytest.mark.parametrize("cell", ["lstm", "skip(d=3)"])
@pytest.mark.parametrize(
    "rows", [[0, 2], torch.tensor([True, False, True]), [True, False, True], torch.tensor([0, -1])]
)
def test_some_rows_begin_anew(cell, rows):
    layer = rc.Recurrent(cell, D, H, layers=2, learn_initial=True)
    with torch.no_grad():
        for direction in (each[0] for each in layer.stack):
            for first in direction.initial:
                first.normal_()
    x = torch.randn(B, 4, D)
    state = layer(x).final
    again = layer(x, layer.reset(state, rows)).outputs
    torch.testing.assert_close(again[[0, 2]], layer(x).outputs[[0, 2]])
    torch.testing.assert_close(again[1], layer(x, state).outputs[1])
    assert all(torch.equal(a, b) for a, b in zip(flatten(layer.reset(state, [])), flatten(state), strict=True))


@pytest.mark.parametrize("rows", [[3], [-4], [0.5], torch.tensor([True, False])])
def test_rows_that_are_not_there_are_refused(rows):
    layer = rc.Recurrent("gru", D, H)
    with pytest.raises(rc.ShapeError, match=r"rows must be .*3.*got "):
        layer.reset(layer.initial_state(B), rows)


@pytest.mark.parametrize("engine", [name for name in ENGINES if runs(name)])
def test_a_batch_without_rows_is_as_torchs(engine):
    ours, theirs = rc.Recurrent("lstm", D, H, layers=2, engine=engine), nn.LSTM(D, H, num_layers=2, batch_first=True)
    empty = torch.zeros(0, 5, D, requires_grad=True)
    trace, (outputs, (h, _)) = ours(empty), theirs(empty)
    assert trace.outputs.shape == outputs.shape == (0, 5, H)
    assert trace.final[-1][0][0].shape == h[-1].shape == (0, H)
    (trace.outputs.sum() + outputs.sum()).backward()
    assert all(not p.grad.any() for p in (*ours.parameters(), *theirs.parameters()))
    again = ours(empty, trace.final, torch.zeros(0, dtype=torch.int64), record=True)
    assert again.record[0][0]["c"].shape == (0, 5, H)
    assert ours.step(torch.zeros(0, D), trace.final)[0].shape == (0, H)
    both = rc.Recurrent("gru", D, H, bidirectional=True)
    assert both(empty, lengths=[]).outputs.shape == (0, 5, 2 * H)


@pytest.mark.parametrize("rows", [0, 2])
def test_a_sequence_without_steps_is_refused_as_torch_does(rows):
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        nn.LSTM(D, H, batch_first=True)(torch.zeros(rows, 0, D))
    with pytest.raises(
        rc.ShapeError, match=rf"lstm expects inputs \[B, T, D\] with at least one step; got \[{rows}, 0, {D}\]"
    ):
        rc.Recurrent("lstm", D, H)(torch.zeros(rows, 0, D))


def test_the_first_state_belongs_to_one_call():
    """What a user writes into a final state, or a transform of torch leaves, never reaches the next call."""
    layer = rc.Recurrent("gru", 3, 4)
    x = torch.randn(2, 5, 3)
    expected = layer(x).outputs
    torch.func.functional_call(layer, dict(layer.named_parameters()), (x,))
    torch.func.grad(lambda given: layer(given).outputs.sum())(x)
    for (state,) in layer(x, lengths=torch.zeros(2, dtype=torch.int64)).final[0]:
        state.data.fill_(7.0)
    assert torch.equal(layer(x).outputs, expected)
