"""Torch's kernels: which equations they are used for, whatever the names, and what they say to all others."""

import pytest
import torch

from recurra import CATALOGUE, EngineError, Learned, Recurrent, cell, sigmoid, tanh
from recurra.engines.vendor import Vendor, recognise
from recurra.types import Shape
from tests.helpers import B, D, H, memory, updater

CPU = torch.device("cpu")
SHAPE = Shape(B, 7, D, H)


def test_catalogue_cells_that_are_recognised():
    found = {name: recognise(cell.graph) for name, cell in CATALOGUE.items()}
    assert {name: each[0] for name, each in found.items() if each} == {
        "elman": "elman",
        "lstm": "lstm",
        "gru_after": "gru_after",
    }
    assert recognise(CATALOGUE["elman"](activation="relu").graph)[0] == "elman(relu)"
    assert recognise(CATALOGUE["elman"](activation="sigmoid").graph) is None


def test_an_lstm_under_other_names_and_in_another_order():
    kernel, names = recognise(memory.graph)
    assert kernel == "lstm"
    drives = {part: name for (kind, part), name in names.items() if kind == "drive"}
    assert drives == {"i": "write", "f": "keep", "o": "read", "c": "what"}
    products = {part: name for (kind, part), name in names.items() if kind == "product"}
    assert products == drives


def test_a_gru_under_other_names_and_in_another_order():
    kernel, names = recognise(updater.graph)
    assert kernel == "gru_after"
    assert names["drive", "z"] == "keep"
    assert names["drive", "r"] == "forget"
    assert names["product", "n"] == "new"
    assert names["parameter", "b"] == "inner"


def test_a_product_may_have_another_name_than_its_drive():
    @cell
    def crossed(x, U, h, c):
        i, f, o = sigmoid(x.a + U.b(h)), sigmoid(x.b + U.c(h)), sigmoid(x.c + U.d(h))
        c = f * c + i * tanh(x.d + U.a(h))
        return o * tanh(c), c

    _, names = recognise(crossed.graph)
    assert (names["drive", "f"], names["product", "f"]) == ("b", "c")


@cell
def lstm_without_output_gate(x, U, h, c):
    i, f = sigmoid(x.i + U.i(h)), sigmoid(x.f + U.f(h))
    c = f * c + i * tanh(x.c + U.c(h))
    return tanh(c), c


@cell
def lstm_with_one_gate_twice(x, U, h, c):
    i, o = sigmoid(x.i + U.i(h)), sigmoid(x.o + U.o(h))
    c = i * c + i * tanh(x.c + U.c(h))
    return o * tanh(c), c


@cell
def lstm_that_shows_its_memory(x, U, c, h):
    i, f, o = sigmoid(x.i + U.i(h)), sigmoid(x.f + U.f(h)), sigmoid(x.o + U.o(h))
    c = f * c + i * tanh(x.c + U.c(h))
    return c, o * tanh(c)


@cell
def lstm_that_reads_its_memory(x, U, h, c):
    i, f, o = sigmoid(x.i + U.i(c)), sigmoid(x.f + U.f(c)), sigmoid(x.o + U.o(c))
    c = f * c + i * tanh(x.c + U.c(c))
    return o * tanh(c), c


@cell
def gru_with_swapped_shares(x, U, h, *, b=Learned(0.0)):
    r, z = sigmoid(x.r + U.r(h)), sigmoid(x.z + U.z(h))
    return (1 - z) * h + z * tanh(x.n + r * (U.n(h) + b))


@cell
def gru_without_inner_bias(x, U, h):
    r, z = sigmoid(x.r + U.r(h)), sigmoid(x.z + U.z(h))
    return (1 - z) * tanh(x.n + r * U.n(h)) + z * h


@cell
def elman_with_one_matrix_too_many(x, U, h):
    return tanh(x.h + U.h(h) + U.g(h))


@cell
def elman_without_input(x, U, h):
    return tanh(U.h(h))


NEAR_MISSES = [
    CATALOGUE["gru"],
    lstm_without_output_gate,
    lstm_with_one_gate_twice,
    lstm_that_shows_its_memory,
    lstm_that_reads_its_memory,
    gru_with_swapped_shares,
    gru_without_inner_bias,
    elman_with_one_matrix_too_many,
    elman_without_input,
    CATALOGUE["delayed"](d=2),
]


@pytest.mark.parametrize("cell", NEAR_MISSES, ids=lambda c: c.name)
def test_near_misses_are_not_recognised(cell):
    assert recognise(cell.graph) is None
    answer = Vendor().supports(cell, CPU, torch.float32, SHAPE)
    assert not answer
    assert "elman" in answer.reason
    assert cell.name in answer.reason


def test_a_delay_of_one_step_is_the_state_itself():
    assert recognise(CATALOGUE["delayed"](d=1).graph)[0] == "elman"


def test_reasons_to_decline():
    vendor = Vendor()
    assert vendor.supports(CATALOGUE["lstm"], CPU, torch.float32, SHAPE)
    assert (
        "cell state of each step" in vendor.supports(CATALOGUE["lstm"], CPU, torch.float32, SHAPE, record=True).reason
    )
    assert vendor.supports(CATALOGUE["gru_after"], CPU, torch.float32, SHAPE, record=True)
    assert "bfloat16" in vendor.supports(CATALOGUE["lstm"], CPU, torch.bfloat16, SHAPE).reason


def test_a_named_engine_that_cannot_run_raises_with_the_reason():
    x = torch.randn(B, 7, D)
    with pytest.raises(EngineError, match=r"engine 'vendor' cannot run cell 'gru': .*none of these.*engine='auto'"):
        Recurrent("gru", D, H, engine="vendor")(x)
    with pytest.raises(EngineError, match="cell state of each step"):
        Recurrent("lstm", D, H, engine="vendor")(x, record=True)


@pytest.mark.gpu
def test_runs_on_a_gpu_without_a_warning():
    layer = Recurrent("lstm", D, H, engine="vendor", device="cuda", learn_initial=True)
    trace = layer(torch.randn(B, 7, D, device="cuda"))
    trace.outputs.sum().backward()
    assert trace.outputs.isfinite().all()
