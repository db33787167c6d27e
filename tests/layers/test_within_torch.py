"""A layer within what torch does around it: checkpoints, modes, default devices, layers that were made on the device "meta"."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

from recurra import Recurrent, Stepper
from recurra.layers.dropout import Dropout


def near(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("cell", ["lstm", "mingru"])
@pytest.mark.parametrize("lengths", [None, [9, 4]])
def test_checkpointed(cell, lengths):
    layer, x = Recurrent(cell, 3, 8), torch.randn(2, 9, 3, requires_grad=True)

    def outputs(x):
        return layer(x, lengths=lengths).outputs

    inputs = [x, *layer.parameters()]
    expected = torch.autograd.grad(outputs(x).square().sum(), inputs)
    near(torch.autograd.grad(checkpoint(outputs, x, use_reentrant=False).square().sum(), inputs), expected)


@pytest.mark.parametrize("cell", ["lstm", "mingru"])
def test_a_trace_by_make_fx_has_the_run_in_it(cell):
    layer = Recurrent(cell, 3, 8)
    traced = make_fx(lambda x: layer(x).outputs)(torch.randn(2, 5, 3))
    x = torch.randn(2, 5, 3)
    near(traced(x), layer(x).outputs)


def test_fake_tensors_have_shapes():
    with FakeTensorMode():
        assert Recurrent("lstm", 3, 8)(torch.randn(4, 5, 3)).outputs.shape == (4, 5, 8)


@pytest.mark.parametrize("lengths", [None, [5, 2]])
def test_another_default_device_changes_nothing(lengths):
    layer, x = Recurrent("lstm", 3, 8), torch.randn(2, 5, 3)
    expected, stepped = layer(x, lengths=lengths).outputs, layer(x[:1]).outputs[0]
    with torch.device("meta"):
        near(layer(x, lengths=lengths).outputs, expected)
        near(Stepper(layer).chunk(x[0]), stepped)
        assert Dropout(0.5)(x).device == x.device


@pytest.mark.parametrize(("cell", "options"), [("lstm", {"bias": False}), ("lru", {}), ("clockwork", {})])
@pytest.mark.parametrize("way", ["assign", "empty"])
def test_made_on_meta_and_loaded(cell, options, way):
    """Constants that no state dict has are filled when the weights are loaded."""
    layer, x = Recurrent(cell, 3, 8, **options), torch.randn(2, 5, 3)
    with torch.device("meta"):
        made = Recurrent(cell, 3, 8, **options)
    if way == "empty":
        made = made.to_empty(device="cpu")
        for each in made.buffers():
            each.fill_(7.0)
    made.load_state_dict(layer.state_dict(), assign=way == "assign")
    near(made(x).outputs, layer(x).outputs)


@pytest.mark.parametrize("engine", ["auto", "fused", "newton"])
@pytest.mark.parametrize("lengths", [None, [5, 2]])
def test_gradients_of_several_outputs_at_once(engine, lengths):
    layer, x = Recurrent("lstm", 3, 4, engine=engine), torch.randn(2, 5, 3, requires_grad=True)
    outputs = layer(x, lengths=lengths).outputs
    each = torch.randn(6, *outputs.shape)
    (found,) = torch.autograd.grad(outputs, x, each, is_grads_batched=True, retain_graph=True)
    near(found, torch.stack([torch.autograd.grad(outputs, x, one, retain_graph=True)[0] for one in each]))


@pytest.mark.parametrize("name", ["W", "b", "U"])
def test_negated_views_of_weights(name):
    layer, x = Recurrent("lstm", 3, 4), torch.randn(2, 5, 3)
    weights = dict(layer.named_parameters())
    weights = {key: value.detach() for key, value in weights.items()}
    key = next(key for key in weights if key.endswith(name))
    expected = torch.func.functional_call(layer, weights, (x,)).outputs
    weights[key] = torch._neg_view(-weights[key])
    near(torch.func.functional_call(layer, weights, (x,)).outputs, expected)


def test_a_stepper_takes_no_gradients_from_a_state():
    layer = Recurrent("lstm", 3, 4)
    stepper = Stepper(layer)
    stepper.state = layer(torch.randn(1, 5, 3)).final
    assert not any(value.requires_grad for (directions,) in stepper.state for value in directions)


def test_a_stepper_has_the_weights_that_hooks_make():
    layer, x = Recurrent("lstm", 3, 4), torch.randn(1, 5, 3)
    prune.random_unstructured(layer.stack[0][0], "U", amount=0.3)
    layer(x)
    with torch.no_grad():
        layer.stack[0][0].U_orig.mul_(2.0)
    near(Stepper(layer).chunk(x[0]), layer(x).outputs[0])
