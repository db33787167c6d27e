"""Pictures of lecture results: axes are named, and what is drawn are the numbers of the result."""

import numpy as np
import pytest
import torch

from recurra.analysis.embeddings import look_at_embeddings
from recurra.analysis.memory_lengths import MemoryComparison, MemoryRow
from recurra.analysis.order_tables import OrderComparison, OrderRow
from recurra.lecture.activations import activations
from recurra.lecture.approximation import approximate
from recurra.lecture.automaton_network import automaton_network
from recurra.lecture.machines import find_machine
from recurra.lecture.scalar_case import scalar_case

ROWS = (OrderRow("table of order 0", 0, 4, 1, 1.5), OrderRow("gru-8", None, 300, None, 0.5))
RESULTS = {
    "scalar": lambda: scalar_case([1.0, 0.0, 0.5]),
    "activations": activations,
    "line": lambda: approximate("sine", (1, 4, 8)),
    "plane": lambda: approximate("bump", (1, 4)),
    "network": lambda: automaton_network(find_machine("parity")),
    "embeddings": lambda: look_at_embeddings(torch.randn(6, 3), [*"abcdef"]),
    "orders": lambda: OrderComparison(5, 100, ROWS),
    "memory": lambda: MemoryComparison("parity", 10, (MemoryRow("gru", 5, (1.0,)), MemoryRow("gru", 10, (0.2,)))),
}


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_it_is_drawn_and_axes_are_named(name: str) -> None:
    figure = RESULTS[name]().plot()
    named = [axis for axis in figure.axes if axis.get_xlabel() or axis.get_title()]
    assert named
    labels = [tick.get_text() for axis in figure.axes for tick in (*axis.get_xticklabels(), *axis.get_yticklabels())]
    assert not any("mathdefault" in each for each in labels)


def test_the_curve_of_the_scalar_case_is_its_gradient() -> None:
    found = scalar_case([1.0, 0.0, 0.5], v=0.7)
    lines = {line.get_label(): line.get_ydata() for line in found.plot().axes[0].get_lines()}
    np.testing.assert_allclose(lines["∂h(t)/∂h(t−k)"], np.log10(found.products.numpy()))
    assert np.isnan(lines["∂e/∂w(t−k)"][1])  # an input of 0 adds nothing
