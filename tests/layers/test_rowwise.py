"""Linear maps by rows: the map of torch, and for each row the same bits whatever stands beside it."""

import pytest
import torch
from torch import nn

import recurra as rc
from recurra.layers.rowwise import Rowwise, by_rows, squashed


@pytest.mark.parametrize(("size", "outputs"), [(33, 9), (64, 65), (7, 1), (1, 100)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_the_linear_map(size: int, outputs: int, dtype: torch.dtype) -> None:
    linear = nn.Linear(size, outputs).to(dtype)
    x = torch.randn(5, 300, size, dtype=dtype)  # more rows than are computed at once
    torch.testing.assert_close(Rowwise(linear)(x), linear(x).detach())
    torch.testing.assert_close(Rowwise(linear, squashed)(x), linear(x).detach().tanh())


@pytest.mark.parametrize(("size", "outputs"), [(33, 9), (256, 100)])
def test_a_row_has_the_same_bits_alone(size: int, outputs: int) -> None:
    made, x = Rowwise(nn.Linear(size, outputs, bias=False)), torch.randn(70, size)
    together = made(x)
    for count in (1, 2, 3, 5, 32, 69):
        assert torch.equal(made(x[:count]), together[:count])
    order = torch.randperm(70)
    assert torch.equal(made(x[order]), together[order])


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman", "lstm_norm", "skip(d=3)"])
@pytest.mark.parametrize("deep", [0, 1])
def test_a_model_gives_a_stream_the_same_bits_in_any_batch_and_in_any_chunks(cell: str, deep: int) -> None:
    layers = rc.Recurrent(cell, 7, 33, layers=2, residual=True)
    model = rc.models.LanguageModel(9, layers, deep_input=deep, deep_output=deep).eval()
    made, ids = by_rows(model), torch.randint(9, (19, 12))
    with torch.no_grad():
        together, final = made(ids)
        torch.testing.assert_close(together, model(ids)[0])
        alone, last = made(ids[3:4])
        assert torch.equal(alone, together[3:4])
        first, state = made(ids[3:4, :5])
        rest, end = made(ids[3:4, 5:], state)
        assert torch.equal(torch.cat([first, rest], 1), alone)
        lengths = torch.randint(1, 13, (19,))
        ragged, _ = made(ids, None, lengths)
    for layer in range(2):
        for k, value in enumerate(end[layer][0]):
            assert torch.equal(value, last[layer][0][k])
            assert torch.equal(value[0], final[layer][0][k][3])
    for k, length in enumerate(lengths.tolist()):
        assert torch.equal(ragged[k, :length], together[k, :length])
