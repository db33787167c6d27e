"""Pictures of lecture results: axes are named, and what is drawn are the numbers of the result."""

from itertools import combinations

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.text import Text

from recurra.analysis.embeddings import look_at_embeddings
from recurra.analysis.memory_lengths import MemoryComparison, MemoryRow
from recurra.analysis.order_tables import OrderComparison, OrderRow
from recurra.lecture.activations import activations
from recurra.lecture.approximation import approximate
from recurra.lecture.automaton_network import automaton_network
from recurra.lecture.machines import find_machine
from recurra.lecture.scalar_case import scalar_case
from recurra.lecture.state_vectors import add_triggers
from recurra.plots.figure import written_power

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


def test_ticks_are_whole_steps_and_plain_numbers() -> None:
    ticks = RESULTS["scalar"]().plot().axes[0].get_xticks()
    assert all(float(tick).is_integer() for tick in ticks)
    (axis,) = RESULTS["orders"]().plot().axes
    low, high = axis.get_ylim()
    assert sum(low <= tick <= high for tick in axis.get_yticks()) >= 2  # less than a power of ten apart
    assert [written_power(value) for value in (0.001, 2.0, 1e4, 1e6, 1e-8)] == ["0.001", "2", "10000", "10⁶", "10⁻⁸"]


def test_tokens_at_one_place_are_written_beside_one_another() -> None:
    weights = torch.tensor([[1.0, 0.0], [1.0, 1e-3], [1.0, 2e-3], [-3.0, 1.0], [0.0, -4.0]])
    figure = look_at_embeddings(weights, ["mouse", "bird", " ", "cat", "dog"]).plot()
    words = [text for text in figure.axes[0].texts if text.get_text()]
    assert [word.get_text() for word in words] == ["mouse", "bird", "' '", "cat", "dog"]
    boxes = [Text.get_window_extent(word) for word in words[:3]]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_a_trigger_stands_beside_its_arrow_and_circles_edge_words_in_its_colour() -> None:
    (axis,) = add_triggers(["Power", "Program 1"]).plot().axes
    words = {text.get_text(): text for text in axis.texts}
    for name in ("1 Power", "2 Program 1"):
        right, down = words[name].get_position()
        assert np.hypot(right, down) == pytest.approx(8)
        assert down < 0  # both arrows go to the right: below them
    drawn = find_machine("parity").plot(form="circles").axes[0]
    arrows = {to_hex(arrow.get_edgecolor()) for arrow in drawn.patches if str(arrow.get_gid()).startswith("edge")}
    edged = {to_hex(text.get_bbox_patch().get_edgecolor()) for text in drawn.texts if text.get_bbox_patch()}
    assert len(edged) > 1
    assert edged == arrows
