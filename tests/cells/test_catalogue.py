"""Every cell of the catalogue against its formula, written out a second time with matrices."""

import pytest
import torch
from torch import sigmoid, tanh

from recurra import CATALOGUE
from tests.helpers import B, D, H, make_layer, random_state


def layer_norm(v, gain):
    centred = v - v.mean(-1, keepdim=True)
    return gain * centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def lstm(x, U, h, c, p):
    new = sigmoid(x["f"] + U["f"](h)) * c + sigmoid(x["i"] + U["i"](h)) * tanh(x["c"] + U["c"](h))
    return sigmoid(x["o"] + U["o"](h)) * tanh(new), new


def lstm_peephole(x, U, h, c, p):
    i, f = sigmoid(x["i"] + U["i"](h) + p["p_i"] * c), sigmoid(x["f"] + U["f"](h) + p["p_f"] * c)
    new = f * c + i * tanh(x["c"] + U["c"](h))
    return sigmoid(x["o"] + U["o"](h) + p["p_o"] * new) * tanh(new), new


def lstm_coupled(x, U, h, c, p):
    f = sigmoid(x["f"] + U["f"](h))
    new = f * c + (1 - f) * tanh(x["c"] + U["c"](h))
    return sigmoid(x["o"] + U["o"](h)) * tanh(new), new


def lstm_norm(x, U, h, c, p):
    gate = {g: layer_norm(x[g] + U[g](h), p[f"gain_{g}"]) + p[f"b_{g}"] for g in "ifoc"}
    new = sigmoid(gate["f"]) * c + sigmoid(gate["i"]) * tanh(gate["c"])
    return sigmoid(gate["o"]) * tanh(layer_norm(new, p["gain_out"])), new


def gru(x, U, h, p):
    z, r = sigmoid(x["z"] + U["z"](h)), sigmoid(x["r"] + U["r"](h))
    return h - z * h + z * tanh(x["n"] + U["n"](r * h))


def gru_after(x, U, h, p):
    z, r = sigmoid(x["z"] + U["z"](h)), sigmoid(x["r"] + U["r"](h))
    return z * h + (1 - z) * tanh(x["n"] + r * U["n"](h) + r * p["b"])


def clockwork(x, U, h, clock, p):
    new = torch.where(clock < 0.5, tanh(x["h"] + U["h"](h)), h)
    return new, torch.remainder(clock + 1, p["period"])


def minlstm(x, U, h, p):
    f, i = sigmoid(x["f"]), sigmoid(x["i"])
    return f / (f + i) * h + i / (f + i) * x["h"]


def orthogonal(x, U, h, p):
    v = x["h"] + U["h"](h)
    return v.sign() * (v.abs() + p["b"]).clamp(min=0)


def lru(x, U, h, a, b, p):
    wave = torch.exp(torch.complex(-p["fade"].exp(), p["turn"])) * torch.complex(a, b)
    wave = wave + (1 - torch.exp(-2 * p["fade"].exp())).sqrt() * torch.complex(x["a"], x["b"])
    o = sigmoid(x["o"])
    return o * wave.real + (1 - o) * wave.imag, wave.real, wave.imag


def rotation(x, U, h, s, p):
    turned = torch.polar(torch.ones_like(p["turn"]), p["turn"]) * torch.complex(h, s)
    return turned.real + x["h"], turned.imag + x["s"]


FORMULAS = {
    "deep_transition_skip": lambda x, U, h, p: tanh(U["deep"](tanh(x["h"] + U["h"](h))) + U["skip"](h) + p["b"]),
    "elman": lambda x, U, h, p: tanh(x["h"] + U["h"](h)),
    "jordan": lambda x, U, y, p: U["y"](tanh(x["h"] + U["h"](y))) + p["b"],
    "lstm": lstm,
    "lstm_peephole": lstm_peephole,
    "lstm_coupled": lstm_coupled,
    "lstm_norm": lstm_norm,
    "gru": gru,
    "gru_after": gru_after,
    "leaky": lambda x, U, h, p: p["alpha"] * h + (1 - p["alpha"]) * tanh(x["h"] + U["h"](h)),
    "skip": lambda x, U, h, p: tanh(x["h"] + U["h"](h[:, 3]) + U["far"](h[:, 0])),
    "delayed": lambda x, U, h, p: tanh(x["h"] + U["h"](h[:, 0])),
    "clockwork": clockwork,
    "deep_transition": lambda x, U, h, p: tanh(U["deep"](tanh(x["h"] + U["h"](h))) + p["b"]),
    "indrnn": lambda x, U, h, p: (x["h"] + p["u"] * h).clamp(min=0),
    "mingru": lambda x, U, h, p: h + sigmoid(x["z"]) * (x["h"] - h),
    "minlstm": minlstm,
    "lru": lru,
    "rotation": rotation,
    "carousel": lambda x, U, h, p: h + sigmoid(4 * x["open"]) * x["h"],
    "antisymmetric": lambda x, U, h, p: h + 0.1 * tanh(x["h"] + U["h"](h) - 0.01 * h),
    "orthogonal": orthogonal,
}


def test_every_cell_has_a_formula_here():
    assert set(FORMULAS) == set(CATALOGUE)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_step_is_the_formula(name):
    layer = make_layer(name, engine="eager")
    one, graph = layer.stack[0][0], layer.cell.graph
    inputs, state = torch.randn(B, 1, D, dtype=torch.float64), random_state(layer)[0][0]
    drives = (inputs[:, 0] @ one.W.T + one.b).split(H, dim=-1)
    x = dict(zip(graph.drives, drives, strict=True))
    U = {each: lambda v, matrix=one.matrix(each): v @ matrix.T for each in graph.matrices}
    expected = FORMULAS[name](x, U, *state, one.unit_values())
    expected = expected if isinstance(expected, tuple) else (expected,)
    final = layer(inputs, ((state,),)).final[0][0]
    for old, found, value in zip(state, final, expected, strict=True):
        if found.ndim == 3:
            torch.testing.assert_close(found[:, :-1], old[:, 1:])
            found = found[:, -1]
        torch.testing.assert_close(found, value, rtol=1e-12, atol=1e-12)
