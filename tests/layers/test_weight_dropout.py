"""Dropout of recurrent weights: one mask for all of time and all lanes, in training only."""

import pytest
import torch
from torch import Tensor, nn

from recurra.engines import eager
from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from tests.helpers import make_language_model

B, T, D, H = 3, 6, 4, 40


def make_layer(cell: str = "gru", share: float = 0.4, **options: object) -> Recurrent:
    torch.manual_seed(1)
    return Recurrent(cell, D, H, weight_dropout=share, engine="eager", dtype=torch.float64, **options)


def dropped(layer: Recurrent, seed: int = 0) -> Tensor:
    """The recurrent weights that a run with this seed would use."""
    torch.manual_seed(seed)
    return layer.stack[0][0].weights(T, B).U.detach()


def test_in_evaluation_nothing_changes() -> None:
    layer, plain = make_layer().eval(), make_layer(share=0.0).eval()
    x = torch.randn(B, T, D).double()
    assert torch.equal(dropped(layer), layer.stack[0][0].U)
    assert torch.equal(layer(x).outputs, plain(x).outputs)


@pytest.mark.parametrize("share", [0.1, 0.4, 0.9])
def test_in_training_a_share_is_zeroed_and_the_rest_scaled(share: float) -> None:
    layer = make_layer(share=share)
    U, found = layer.stack[0][0].U.detach(), dropped(layer)
    gone = found == 0
    assert float(gone.double().mean()) == pytest.approx(share, abs=0.035)  # five standard deviations of 4800 weights
    torch.testing.assert_close(found[~gone], U[~gone] / (1 - share), rtol=0, atol=1e-12)


def test_each_run_drops_others() -> None:
    layer = make_layer()
    assert not torch.equal(dropped(layer, 0) == 0, dropped(layer, 1) == 0)


def test_layers_and_directions_drop_their_own() -> None:
    layer = make_layer(layers=2, bidirectional=True)
    masks = [each.weights(T, B).U == 0 for directions in layer.stack for each in directions]
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 4


def test_input_weights_and_biases_are_kept() -> None:
    direction = make_layer().stack[0][0]
    weights = direction.weights(T, B)
    assert torch.equal(weights.W, direction.W)
    assert torch.equal(weights.b, direction.b)


@pytest.mark.parametrize("cell", ["elman", "lstm", "gru", "orthogonal"])
def test_a_run_is_that_of_a_layer_with_the_masked_weights(cell: str) -> None:
    """One mask for all steps and lanes: the plain loop with the weights as they were masked gives the same."""
    layer = make_layer(cell)
    x = torch.randn(B, T, D).double()
    masked = dropped(layer, seed=7)
    torch.manual_seed(7)
    found = layer(x).outputs
    direction = layer.stack[0][0]
    weights = direction.weights(T, B)
    weights = type(weights)(weights.W, weights.b, masked, weights.units, weights.noise)
    run = eager.Eager().run(direction.cell, weights, x.transpose(0, 1), direction.first_state(B), None)
    torch.testing.assert_close(found, run.outputs.transpose(0, 1), rtol=0, atol=1e-12)


def test_gradients_flow_to_kept_weights_only() -> None:
    layer = make_layer()
    x = torch.randn(B, T, D).double()
    gone = dropped(layer, seed=7) == 0
    torch.manual_seed(7)
    layer(x).outputs.square().sum().backward()
    gradient = layer.stack[0][0].U.grad
    assert gradient is not None
    assert bool((gradient[gone] == 0).all())
    assert bool((gradient[~gone] != 0).all())


def test_the_weights_themselves_stay() -> None:
    layer = make_layer()
    before = layer.stack[0][0].U.detach().clone()
    layer(torch.randn(B, T, D).double())
    assert torch.equal(layer.stack[0][0].U, before)
    assert isinstance(layer.stack[0][0].U, nn.Parameter)


def test_a_cell_without_recurrent_weights_has_nothing_to_drop() -> None:
    layer = make_layer("indrnn").train()
    x = torch.randn(B, T, D).double()
    assert torch.equal(layer(x).outputs, layer.eval()(x).outputs)


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5, float("nan")])
def test_what_makes_no_sense_is_refused(share: float) -> None:
    with pytest.raises(OptionError, match=rf"weight_dropout must lie in \[0, 1\); got {share}"):
        make_layer(share=share)
    with pytest.raises(OptionError, match="weight_dropout"):
        make_language_model(5, "gru", 6, weight_dropout=share)
