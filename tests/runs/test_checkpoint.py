"""Any tensor comes back as it was, every changed byte is seen, and weights go only where they belong."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from recurra.errors import RunError
from recurra.runs.checkpoint import Checkpoint, read_checkpoint, restore_weights

from .helpers import FILES


def round_trip(tmp_path, **parts) -> Checkpoint:
    files = Checkpoint(step=7, **{"weights": {}, **parts}).to_files()
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return read_checkpoint(tmp_path)


BASE = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
ODD = {
    "zero-dim": torch.tensor(3.5),
    "empty": torch.empty(0),
    "empty inside": torch.empty(3, 0, 2),
    "transposed": BASE.T,
    "strided": BASE[:, ::2],
    "expanded": torch.ones(1, 3).expand(5, 3),
    "whole": BASE,
    "the same": BASE,
    "part": BASE[1:],
    "gradient": nn.Parameter(torch.ones(2)),
    "not a number": torch.tensor([float("nan"), float("inf"), -0.0]),
    "conjugate": torch.tensor([1 + 2j, 3 - 1j]).conj(),
    "negated": torch.tensor([1 + 2j]).conj().imag,
    "complex128": torch.tensor([[1 + 2j], [3j]], dtype=torch.complex128),
    "complex128 zero-dim": torch.tensor(1 + 2j, dtype=torch.complex128).conj(),
    "one complex128 of many": torch.arange(4.0).to(torch.complex128)[::2][1:],
    "empty complex128": torch.empty(2, 0, dtype=torch.complex128),
    "float8_e8m0fnu": torch.tensor([1.0, 2.0]).to(torch.float8_e8m0fnu),
    "random state": torch.get_rng_state(),
}
TYPES = """
    float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 complex64 bool
    int64 int32 int16 int8 uint64 uint32 uint16 uint8
"""
ODD |= {name: torch.tensor([[0, 1], [1, 0]]).to(getattr(torch, name)) for name in TYPES.split()}


def memory(tensor: torch.Tensor) -> bytes:
    plain = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()


def test_every_tensor_comes_back_bit_for_bit(tmp_path):
    found = round_trip(tmp_path, weights=ODD, tensors=ODD)
    for kind in (found.weights, found.tensors):
        assert set(kind) == set(ODD)
        for name, tensor in ODD.items():
            got = kind[name]
            assert (name, got.dtype, got.shape) == (name, tensor.dtype, tensor.shape)
            assert memory(got) == memory(tensor), name


def test_what_comes_back_shares_no_memory(tmp_path):
    found = round_trip(tmp_path, tensors={"one": BASE, "two": BASE}).tensors
    found["one"].zero_()
    assert torch.equal(found["two"], BASE)


def test_nothing_that_was_saved_is_changed():
    before = BASE.clone()
    Checkpoint(1, {"a": BASE, "b": BASE}).to_files()
    assert torch.equal(BASE, before)


def test_weights_are_plain_safetensors(tmp_path):
    round_trip(tmp_path, weights={"W": BASE.T})
    assert torch.equal(load_file(tmp_path / "weights.safetensors")["W"], BASE.T)


def test_facts_come_back(tmp_path):
    facts = {
        "best": float("inf"),
        "worst": [-float("inf"), 0.1 + 0.2, 1e-320],
        "seed": 2**80,
        "betas": (0.9, 0.999),
        "name": "naïve \udc80",
        "none": None,
        "on": True,
        "deep": {"schedule": {"warm": 3}},
    }
    found = round_trip(tmp_path, facts=facts).facts
    assert found == {**facts, "betas": [0.9, 0.999]}
    assert np.isnan(round_trip(tmp_path, facts={"loss": float("nan")}).facts["loss"])
    for name in FILES[2:]:
        json.loads((tmp_path / name).read_bytes(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"a": {"loss": torch.tensor(1.0)}}, r"\['a'\]\['loss'\] is a Tensor"),
        ({"a": [1, np.float32(1)]}, r"\['a'\]\[1\] is a float32"),
        ({"state": {0: 1.0}}, r"\['state'\] has the key 0"),
    ],
)
def test_facts_that_would_not_come_back_are_refused(facts, named):
    with pytest.raises(TypeError, match=named):
        Checkpoint(1, {}, {}, facts).to_files()


@pytest.mark.parametrize("tensor", [torch.eye(2).to_sparse(), torch.empty(2, device="meta")])
def test_tensors_without_dense_values_are_refused_by_name(tensor):
    with pytest.raises(TypeError, match=r"tensors\['h'\] cannot be saved"):
        Checkpoint(1, {}, {"h": tensor}).to_files()


@pytest.mark.parametrize("name", FILES)
def test_every_changed_byte_is_seen(tmp_path, name):
    round_trip(tmp_path, weights={"W": torch.ones(2)}, tensors={"m": torch.ones(1)}, facts={"position": 12})
    data = (tmp_path / name).read_bytes()
    for k in range(len(data)):
        changed = bytearray(data)
        changed[k] ^= 1
        (tmp_path / name).write_bytes(changed)
        with pytest.raises(RunError, match=name if name != "manifest.json" else "manifest.json|format|damaged"):
            read_checkpoint(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_every_cut_is_seen(tmp_path, name):
    round_trip(tmp_path, weights={"W": torch.ones(2)})
    data = (tmp_path / name).read_bytes()
    for size in {0, 1, len(data) // 2, len(data) - 1}:
        (tmp_path / name).write_bytes(data[:size])
        with pytest.raises(RunError, match=f"{name} is damaged"):
            read_checkpoint(tmp_path)
    (tmp_path / name).write_bytes(data + b"\0")
    with pytest.raises(RunError, match=f"{name} is damaged"):
        read_checkpoint(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(RunError, match=f"{name}: No such file"):
        read_checkpoint(tmp_path)


def test_a_later_format_is_not_called_damage(tmp_path):
    round_trip(tmp_path)
    file = tmp_path / "manifest.json"
    file.write_bytes(file.read_bytes().replace(b'"format":2', b'"format":3'))
    with pytest.raises(RunError, match="format '3'"):
        read_checkpoint(tmp_path)


def test_a_checkpoint_that_was_put_together_by_hand_is_refused_in_words(tmp_path):
    """The manifest agrees with every file, but a file is not what it should be."""
    from recurra.runs.checkpoint import _manifest

    round_trip(tmp_path)
    files = {name: (tmp_path / name).read_bytes() for name in FILES[:3]}
    for name, data in {"weights.safetensors": b"not tensors", "resume.json": b"[]", "resume.safetensors": b""}.items():
        changed = files | {name: data}
        for key, content in {**changed, "manifest.json": _manifest(changed, 7, {})}.items():
            (tmp_path / key).write_bytes(content)
        with pytest.raises(RunError, match="cannot be read"):
            read_checkpoint(tmp_path)


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def test_weights_are_restored():
    source, target = model(), model()
    restore_weights(target, source.state_dict(), "runs/a")
    for name, tensor in source.state_dict().items():
        assert torch.equal(target.state_dict()[name], tensor)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"0.weight": torch.zeros(2, 4)},
            "runs/a is of another model: the model expects 0.weight of shape [2, 3] (float32); found [2, 4] (float32).",
        ),
        (
            {"1.weight": torch.zeros(2, dtype=torch.float64)},
            "runs/a is of another model: the model expects 1.weight of shape [2] (float32); found [2] (float64).",
        ),
        (
            {"0.bias": None},
            "runs/a is of another model: the model expects 0.bias of shape [2] (float32); it has no such weight.",
        ),
        ({"2.U": torch.zeros(5)}, "runs/a is of another model: it has 2.U of shape [5], which the model lacks."),
    ],
)
def test_weights_of_another_model_are_refused_and_change_nothing(change, message):
    target = model()
    before = {name: tensor.clone() for name, tensor in target.state_dict().items()}
    weights = {**model().state_dict(), **change}
    weights = {name: tensor for name, tensor in weights.items() if tensor is not None}
    with pytest.raises(RunError) as caught:
        restore_weights(target, weights, "runs/a")
    assert str(caught.value) == message
    for name, tensor in target.state_dict().items():
        assert torch.equal(tensor, before[name])
