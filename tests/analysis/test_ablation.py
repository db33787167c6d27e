"""A unit that is held: exactly as if the equations said so, and only in the runs that it is held in."""

import pytest
import torch

from recurra.analysis.ablation import losses
from recurra.analysis.neurons import Unit
from recurra.models.language import LanguageModel
from tests.helpers import make_language_model


def plain(model: LanguageModel, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    logits, _ = model.eval()(inputs)
    return -logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0].detach()


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor]:
    symbols = torch.randint(7, (3, 13))
    return symbols[:, :-1], symbols[:, 1:]


@pytest.mark.parametrize("cell", ["lstm", "gru", "skip(d=2)"])
def test_nothing_held_is_the_model_itself(cell: str, data: tuple[torch.Tensor, torch.Tensor]) -> None:
    model = make_language_model(7, cell, 5, layers=2, residual=True)
    assert torch.allclose(losses(model, *data)[0], plain(model, *data), atol=1e-5)


def test_an_output_at_zero_is_a_unit_that_nobody_reads(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    model = make_language_model(7, "elman", 5)
    intact, without = losses(model, *data, [(Unit(0, False, "h", 2), 0.0)])
    assert torch.allclose(intact, plain(model, *data), atol=1e-5)
    with torch.no_grad():
        model.recurrent.stack[0][0].U[:, 2] = 0  # type: ignore[index]
        model.output.weight[:, 2] = 0
    assert torch.allclose(without, plain(model, *data), atol=1e-5)
    assert not torch.allclose(intact, without, atol=1e-3)


def test_a_gate_at_one_is_a_gate_that_is_always_open(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    model = make_language_model(7, "lstm", 4)
    *_, without = losses(model, *data, [(Unit(0, False, "c", 0), 0.3), (Unit(0, False, "f", 1), 1.0)])
    direction = model.recurrent.stack[0][0]
    with torch.no_grad():
        row = list(model.recurrent.cell.graph.drives).index("f") * 4 + 1
        direction.W[row], direction.b[row] = 0, 50.0
        row = list(model.recurrent.cell.graph.matrices).index("f") * 4 + 1
        direction.U[row] = 0  # type: ignore[index]
    assert torch.allclose(without, plain(model, *data), atol=1e-5)
