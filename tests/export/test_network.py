"""A model and the network that describes it compute the same."""

import pytest
import torch
from torch import nn

import recurra as rc
from recurra.export.evaluate import run_network
from recurra.export.network import describe, state_slots
from tests.export.models import LENGTHS, MODELS, make


@pytest.mark.parametrize("name", MODELS)
def test_network_computes_what_its_model_computes(name):
    example = make(name)
    network = describe(example.model)["model"]
    lengths = None if name.startswith(("jordan", "echo")) else LENGTHS
    found, _ = run_network(network, example.inputs, None, lengths)
    with torch.no_grad():
        expected = example.expected()
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("merge", ["concat", "sum", "mean", "mul"])
def test_layers_and_their_states(merge):
    torch.manual_seed(0)
    layer = rc.Recurrent("lstm", 3, 8, layers=2, bidirectional=True, merge=merge, learn_initial=True).eval()
    with torch.no_grad():
        for each in layer.parameters():
            each += 0.1 * torch.randn_like(each)
        x = torch.randn(3, 9, 3)
        trace = layer(x, lengths=LENGTHS)
    network = describe(layer)["model"]
    found, states = run_network(network, {"x": x}, None, LENGTHS)
    torch.testing.assert_close(found["y"], trace.outputs)
    for slot in state_slots(network):
        layer_number, _, reverse = slot.layer.name.partition("_")
        expected = trace.final[int(layer_number)][int(bool(reverse))][slot.place]
        torch.testing.assert_close(states[slot.name], expected)
    assert [slot.name for slot in state_slots(network)][:4] == ["h_0", "c_0", "h_0_reverse", "c_0_reverse"]


@pytest.mark.parametrize("context", ["input", "state", "both", "attention"])
@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_translators_encoder_and_decoder(context, attention):
    torch.manual_seed(0)
    reads = 6 + (16 if context in ("input", "both") else 0)
    layers = rc.Recurrent("gru", 6, 8, bidirectional=True), rc.Recurrent("lstm", reads, 10, layers=2)
    model = rc.models.Translator(*layers, 11, 7, context=context, attention=attention, longest=12).eval()
    source, target = torch.randint(11, (3, 9)), torch.randint(7, (3, 5))
    networks = describe(model)
    with torch.no_grad():
        reading = model.read(source, LENGTHS)
        decoded = model.decode(reading, target)
        lengths = model.length_logits(reading)
    told, _ = run_network(networks["encoder"], {"tokens": source}, None, LENGTHS)
    torch.testing.assert_close(told["context"], reading.context)
    torch.testing.assert_close(told["length_logits"], lengths)
    inputs = {"tokens": target, "memory_lengths": LENGTHS} | {
        k: told[k] for k in ("context", "keys", "outputs") if k in told
    }
    states = {name: value for name, value in told.items() if name.startswith(("h_", "c_"))}
    found, after = run_network(networks["decoder"], inputs, states)
    torch.testing.assert_close(found["logits"], decoded.logits)
    torch.testing.assert_close(after["c_1"], decoded.state[1][0][1])


def test_what_cannot_stream_says_why():
    assert describe(rc.Recurrent("gru", 3, 8))["model"].cannot_stream is None
    two = describe(rc.Recurrent("gru", 3, 8, bidirectional=True))["model"]
    assert two.cannot_stream == "it reads sequences from their end as well"
    assert describe(make("classifier-one-way").model)["model"].cannot_stream == "it takes the convolution of all steps"


def test_other_modules_are_refused():
    with pytest.raises(rc.OptionError, match=r"export: Linear is neither a Recurrent nor a model"):
        rc.export(nn.Linear(3, 4))
