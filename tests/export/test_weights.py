"""Weights with their graph are enough: a reader in NumPy computes what the model computes; torch.nn and Keras take their own."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import recurra as rc
from tests.export.models import make
from tests.helpers import CELLS

EXAMPLE = Path(__file__).parents[2] / "examples" / "read_network.py"
READER = runpy.run_path(str(EXAMPLE))
WITHOUT_ERF = [name for name in CELLS if name != "toolbox"]  # NumPy has no erf
STREAMS = ["language", "tied", "forecaster-gaussian", "events", "jordan", "echo-1-True", "tagger", "conditioned-vector"]


def read(folder: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    told = json.loads((folder / "network.json").read_text())
    weights = {name: value.numpy() for name, value in load_file(folder / "weights.safetensors").items()}
    return READER["run"](told, weights, inputs)


@pytest.mark.parametrize("cell", WITHOUT_ERF)
def test_a_reader_in_numpy_computes_each_cell(cell, tmp_path):
    torch.manual_seed(0)
    layer = rc.Recurrent(CELLS[cell], 3, 8, layers=2, bidirectional=True, learn_initial=True).eval()
    with torch.no_grad():
        for each in layer.stack:
            for direction in each:
                for first in direction.initial:
                    first.uniform_(-0.5, 0.5)
        x = torch.randn(1, 9, 3)
        expected = layer(x).outputs[0].numpy()
    rc.export(layer, "weights", tmp_path)
    np.testing.assert_allclose(read(tmp_path, {"x": x[0].numpy()})["y"], expected, atol=2e-5)


@pytest.mark.parametrize("name", STREAMS)
def test_a_reader_in_numpy_computes_each_model(name, tmp_path):
    example = make(name)
    rc.export(example.model, "weights", tmp_path)
    with torch.no_grad():
        expected = example.expected()
    found = read(tmp_path, {key: value[0].numpy() for key, value in example.inputs.items()})
    for key, value in expected.items():  # the first sequence has no padding
        np.testing.assert_allclose(found[key], value[0].numpy(), atol=2e-5)


def test_the_example_runs(tmp_path):
    rc.export(make("language").model, "weights", tmp_path)
    made = subprocess.run([sys.executable, str(EXAMPLE), str(tmp_path)], capture_output=True, text=True, check=True)
    assert made.stdout.startswith("logits (5, 11)")


def test_a_translators_two_networks_have_names_of_their_own(tmp_path):
    layers = rc.Recurrent("gru", 6, 8), rc.Recurrent("gru", 6, 8)
    rc.export(rc.models.Translator(*layers, 11, 7), "weights", tmp_path)
    told = json.loads((tmp_path / "network.json").read_text())
    assert list(told["networks"]) == ["encoder", "decoder"]
    names = load_file(tmp_path / "weights.safetensors")
    assert {"encoder.0.U.z", "decoder.0.U.z"} <= names.keys()
    assert len(told["cells"]) == 1


@pytest.mark.parametrize(("cell", "module"), [("lstm", nn.LSTM), ("gru_after", nn.GRU), ("elman", nn.RNN)])
def test_torch_takes_its_own(cell, module, tmp_path):
    torch.manual_seed(0)
    layer = rc.Recurrent(cell, 3, 8, layers=2, bidirectional=True).eval()
    rc.export(layer, "weights", tmp_path)
    theirs = module(3, 8, num_layers=2, bidirectional=True, batch_first=True)
    theirs.load_state_dict(load_file(tmp_path / "torch.safetensors"))
    x = torch.randn(2, 9, 3)
    with torch.no_grad():
        torch.testing.assert_close(theirs(x)[0], layer(x).outputs)


KERAS = {
    "elman": ("SimpleRNN", {}),
    "lstm": ("LSTM", {}),
    "gru_after": ("GRU", {"reset_after": True}),
    "gru": ("GRU", {"reset_after": False}),
}


@pytest.mark.slow
@pytest.mark.parametrize("cell", KERAS)
def test_keras_takes_its_own(cell, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras", reason="Keras is not installed: pip install keras")
    torch.manual_seed(0)
    layer = rc.Recurrent(cell, 3, 8).eval()
    with torch.no_grad():
        layer.stack[0][0].b.uniform_(-1, 1)
    rc.export(layer, "weights", tmp_path)
    kind, options = KERAS[cell]
    theirs = getattr(keras.layers, kind)(8, return_sequences=True, **options)
    x = torch.randn(2, 9, 3)
    theirs.build(x.shape)
    found = load_file(tmp_path / "keras.safetensors")
    theirs.set_weights([found[f"0.{name}"].numpy() for name in ("kernel", "recurrent_kernel", "bias")])
    with torch.no_grad():
        expected = layer(x).outputs
        torch.testing.assert_close(theirs(x).cpu(), expected, rtol=1e-5, atol=1e-5)


def test_cells_that_others_lack_have_no_file_of_theirs(tmp_path):
    names = {file.name for file in rc.export(rc.Recurrent("leaky", 3, 8), "weights", tmp_path).files}
    assert names == {"network.json", "weights.safetensors"}


def test_eight_bits_are_refused(tmp_path):
    with pytest.raises(rc.OptionError, match="int8 is for onnx and c"):
        rc.export(rc.Recurrent("gru", 3, 8), "weights", tmp_path, int8=True)
