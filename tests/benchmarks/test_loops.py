"""The loops by hand compute what their cells compute: outputs and every gradient."""

import pytest
import torch

from recurra import CATALOGUE, Recurrent
from recurra.benchmarks.loops import STEPS, has_loop
from recurra.benchmarks.rivals import engine_runner, loop_runner
from recurra.cells.catalogue import find_cell


@pytest.mark.parametrize("name", STEPS)
def test_a_loop_agrees_with_the_eager_engine(name: str) -> None:
    layer = Recurrent(name, 3, 5, dtype=torch.float64)
    for parameter in layer.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    x, weight = torch.randn(2, 7, 3, dtype=torch.float64), torch.randn(2, 7, 5, dtype=torch.float64)
    eager, by_hand = engine_runner(layer, "eager", x, weight), loop_runner(layer, x, weight)
    assert by_hand.name == "loop by hand"
    torch.testing.assert_close(by_hand.read(by_hand.train()), eager.read(eager.train()), rtol=0, atol=1e-12)
    torch.testing.assert_close(by_hand.forward(), eager.forward(), rtol=0, atol=1e-12)


def test_other_equations_have_no_loop_by_hand() -> None:
    assert not has_loop(find_cell("elman(activation=relu)"))
    assert not has_loop(CATALOGUE["leaky"])
