"""Cells drawn at random, as source in the notation: the fused engine agrees with the plain loop on each of them."""

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import recurra
from tests.engines.fused_helpers import check_against_eager

SQUASHES = ("tanh", "sigmoid", "sin", "cos", "erf")
STATES = ("h", "c", "m")


@st.composite
def sources(draw) -> str:
    """A cell of 1 to 3 states and 1 to 5 named values; each is squashed, so no state leaves [-2, 2]."""
    states = STATES[: draw(st.integers(1, 3))]
    parameters = ("p", "q")[: draw(st.integers(0, 2))]
    values: list[str] = []

    def pick(*choices):
        return draw(st.sampled_from(choices))

    def atom() -> str:
        state = pick(*states)
        options = [f"x.{pick('a', 'b', 'd')}", state, f"ago({state}, {draw(st.integers(1, 4))})"]
        options += [pick(*values)] * 2 if values else []
        options += [pick(*parameters)] if parameters else []
        return pick(*options)

    def term(depth: int) -> str:
        if depth == 0:
            return atom()
        match pick("atom", "product", "product", "times", "plus", "squash", "choice", "number", "norm"):
            case "product":
                return f"U.{pick('u', 'v', 'w')}({vector(depth - 1)})"
            case "times":
                return f"{term(depth - 1)} * ({term(depth - 1)})"
            case "plus":
                return f"{term(depth - 1)} {pick('+', '-')} ({term(depth - 1)})"
            case "squash":
                return f"{pick(*SQUASHES)}({term(depth - 1)})"
            case "choice":
                return pick("minimum", "maximum") + f"({term(depth - 1)}, {term(depth - 1)})"
            case "number":
                return f"{draw(st.sampled_from((-0.5, 0.25, 0.75)))} * ({term(depth - 1)})"
            case "norm":
                return f"norm({vector(depth - 1)})"
        return atom()

    def vector(depth: int) -> str:
        """What a product or a norm may take: not a number; a parameter alone would do but says little."""
        return f"({pick(*states)} + {term(depth)})"

    lines = []
    for k in range(draw(st.integers(1, 4))):
        lines.append(f"    v{k} = {pick(*SQUASHES)}({term(2)} + {term(1)})")
        values.append(f"v{k}")
    updates = [
        pick(
            f"{pick(*SQUASHES)}({term(1)})",
            f"0.5 * {state} + 0.5 * {values[-1]}",
            f"where({values[0]} < 0.3, {values[-1]}, 0.5 * {state})",
            f"{values[-1]} * {pick(*values)}",
            pick(*states),
        )
        for state in states
    ]
    updates[0] = f"tanh({' + '.join([updates[0], *values])})"  # so that every value is used
    declared = "".join(f", {name}=Learned({0.3 if name == 'p' else -0.2})" for name in parameters)
    head = f"def made_up(x, U, {', '.join(states)}{', *' if parameters else ''}{declared}):"
    return "\n".join([head, *lines, f"    return {', '.join(updates)}"]) + "\n"


def read(source: str) -> recurra.Cell:
    scope = {name: getattr(recurra, name) for name in recurra.__all__}
    exec(source, scope)
    return recurra.cell(scope["made_up"])


def check(source: str, B: int, T: int, H: int, with_lengths: bool, record: bool) -> None:
    note(source)
    check_against_eager(
        read(source), B, T, H, torch.float64, with_lengths=with_lengths, record=record, may_be_chaotic=True
    )


SIZES = {
    "B": st.sampled_from((1, 3, 5)),
    "T": st.sampled_from((1, 2, 9, 33)),
    "H": st.sampled_from((1, 3, 17)),
    "with_lengths": st.booleans(),
    "record": st.booleans(),
}
COMPILED = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    "phases": [Phase.explicit, Phase.generate],  # each example is compiled: no search for a smaller one
}


@settings(max_examples=8, **COMPILED)
@given(source=sources(), **SIZES)
def test_cells_drawn_at_random(source, B, T, H, with_lengths, record):
    check(source, B, T, H, with_lengths, record)


@pytest.mark.slow
@settings(max_examples=150, **COMPILED, derandomize=False)
@given(source=sources(), **SIZES)
def test_many_cells_drawn_at_random(source, B, T, H, with_lengths, record):
    check(source, B, T, H, with_lengths, record)
