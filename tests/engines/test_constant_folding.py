"""Functions of parameters alone become parameters: computed once a run, with gradients back to where they came from."""

import torch

from recurra import CATALOGUE, Learned, cell, cos, exp, find_cell, norm, sin, sqrt, tanh, where
from recurra.engines.fused.constant_folding import fold_constants
from recurra.engines.fused.kernels import source_of
from tests.helpers import B, D, compare_engines, make_layer, random_state


@cell
def folded(x, U, h, c, *, a=Learned(-1.0), b=Learned(0.3), cos_b=Learned(0.5)):
    """Nested functions, one used twice, one under a name that is taken, a condition, and a next state that is one itself."""
    fade = exp(-exp(a))
    near = where(a > 0, b, sqrt(1 - fade * fade))
    inner = norm(U.h(h) + cos_b * x.h + cos(b) * h, "g")
    return tanh(inner + fade * x.h) + near * sin(b), exp(a * b)


def test_outputs_and_gradients_are_those_of_the_plain_loop():
    layer = make_layer(folded, learn_initial=True)
    x, lengths = torch.randn(B, 7, D, dtype=torch.float64), torch.tensor([7, 0, 4])
    compare_engines(layer, "fused", x, random_state(layer), lengths)


def test_what_is_folded_is_not_computed_at_every_step():
    found = fold_constants(CATALOGUE["rotation"].graph)
    assert found.graph.equations() == [
        "h' = cos_turn * h - sin_turn * s + x.h",
        "s' = sin_turn * h + cos_turn * s + x.s",
    ]
    assert "cos(" not in source_of(CATALOGUE["rotation"].graph).split("struct")[-1]
    assert list(found.made) == ["cos_turn", "sin_turn"]


def test_names_that_are_taken_stay_apart():
    found = fold_constants(folded.graph)
    assert {"cos_b", "cos_b_"} <= set(found.graph.parameters)
    assert found.made["cos_b_"].kind == "cos"


def test_sums_and_products_stay_in_the_step():
    for name in ("lstm", "leaky", "lstm_norm", "clockwork"):
        graph = find_cell(name).graph
        assert fold_constants(graph).graph is graph


def test_bfloat16_parameters_are_folded_in_float32():
    found = fold_constants(folded.graph)
    units = {name: torch.full((4,), -6.0, dtype=torch.bfloat16) for name in folded.graph.parameters}
    values = found.units(units)
    assert values["exp_a"].dtype == torch.float32
    assert 0.0024 < 1 - float(values["exp_a"][0]) < 0.0026
