"""Every type of result is drawn on both grounds, without a warning and without a trace in pyplot; others are refused."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from recurra.analysis.attention import Attention
from recurra.analysis.automata.attractors import find_attractors
from recurra.analysis.automata.extraction import Extraction, Point
from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.weighted import Weighted, WeightedExtraction, WeightedPoint
from recurra.analysis.beam import BeamTree, Node
from recurra.analysis.echo import echo_state
from recurra.analysis.embeddings import look_at_embeddings
from recurra.analysis.field_views import Formation, field_panel, split_field, walk_states
from recurra.analysis.fields import Plane, basins, trajectory, vector_field
from recurra.analysis.fixed_points import FixedPoints, SlowPoint, find_fixed_points
from recurra.analysis.gradient_map import gradient_map
from recurra.analysis.gradients import gradient_flow, recurrent_spectra, spectrum
from recurra.analysis.jacobians import StepMap
from recurra.analysis.memory_lengths import MemoryComparison, MemoryRow
from recurra.analysis.neurons import Activity, Finding, Found, Hit, SparseProbe, Unit
from recurra.analysis.order_tables import OrderComparison, OrderRow
from recurra.analysis.penalties import PenaltyPoint, PenaltySweep
from recurra.analysis.through_time import watch
from recurra.analysis.trace_table import TraceTable
from recurra.analysis.unit_study import Reading, UnitStudy
from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.lecture.activations import activations
from recurra.lecture.approximation import approximate
from recurra.lecture.automaton_network import automaton_network
from recurra.lecture.convolution import convolve
from recurra.lecture.pairs import compare_truncations, kept_pairs
from recurra.lecture.regions import polygonal_network, regions_on_line, regions_on_plane
from recurra.lecture.residuals import gradients_over_depth
from recurra.lecture.scalar_case import scalar_case
from recurra.lecture.state_vectors import add_triggers, state_vectors
from recurra.lecture.tree_graph import unroll_tree
from recurra.lecture.unroll import unroll, wire
from recurra.metrics.confusion import Confusion
from recurra.metrics.forecast import Forecast
from recurra.plots import draw
from recurra.plots.figure import GROUNDS, PAINTERS
from recurra.results import Result
from recurra.runs.log import Curve
from tests.lecture.test_regions import random_network
from tests.models.test_decision_tree import full_tree

pytest.importorskip("matplotlib")

ODD = Moore(("0", "$"), ((0, 1), (1, 0)), ("even", "odd"))
CHANCES = Weighted(
    ("a", "b"),
    ("a", "b", "end"),
    torch.tensor([[1, 0], [1, 0]]),
    torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]),
    torch.tensor([[0.0, 0.5], [0.5, 0.0]]),
)


def memory() -> StepMap:
    """Two units with two attractors each."""
    layer = Recurrent("elman", 2, 2, engine="eager")
    with torch.no_grad():
        for name, value in layer.named_parameters():
            value.copy_(2 * torch.eye(2) if value.ndim == 2 else torch.zeros(2))
            assert name
    return StepMap(layer)


def points() -> FixedPoints:
    visited = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = find_fixed_points(memory(), torch.zeros(2), visited, starts=64)
    return replace(found, input="zero", names=[f"$ {k}" for k in range(len(found.points))])


def plane() -> tuple[Plane, torch.Tensor, torch.Tensor]:
    axes = torch.eye(2, dtype=torch.float64)
    low = torch.full((2,), -1.5, dtype=torch.float64)
    return Plane(torch.zeros(2, dtype=torch.float64), axes[0], axes[1], ("unit 0", "unit 1")), low, -low


def field() -> Result:
    return vector_field(memory(), torch.zeros(2), *plane(), size=10)


def ends() -> Result:
    attractors = torch.stack([point.state for point in points().attractors])
    return basins(memory(), torch.zeros(2), attractors, *plane(), size=12)


def automaton() -> Result:
    triggers = 5 * torch.cat([torch.zeros(1, 2), torch.eye(2), -torch.eye(2)])
    found = find_attractors(memory(), triggers, triggers[0], torch.full((2,), 0.1, dtype=torch.float64))
    return found.named([f"state {k}" for k in range(len(found.states))], ["none", "Up 1", "Up 2", "Down 1", "Down 2"])


def study() -> Result:
    unit = Unit(0, False, "c", 1)
    found = Found([Hit(unit, 0.9, 1, 0.95)], SparseProbe((unit,), 0.95), 0.2, 0.3)
    finding = Finding("inside-$tring", found, replace(found, hits=[Hit(unit, 0.3, 1, 0.6)]))
    ids = torch.zeros(1, 3, dtype=torch.int64)
    reading = Reading(["abc"], [torch.arange(1, 4)], ids, ids, torch.tensor([3]), {})
    return UnitStudy([finding], {}, {"line-end": "it is 0"}, reading, Activity([unit], torch.zeros(3, 1)), 3)


RESULTS: dict[str, Callable[[], Result]] = {
    "GradientFlow": lambda: gradient_flow(Recurrent("lstm", 2, 3, layers=2), torch.randn(40, 2), steps=10),
    "Spectrum": lambda: spectrum(torch.randn(4, 4)),
    "Spectra": lambda: recurrent_spectra(Recurrent("gru", 2, 3)),
    "FixedPoints": points,
    "VectorField": field,
    "Basins": ends,
    "Trajectory": lambda: trajectory(memory(), torch.ones(2, dtype=torch.float64), torch.zeros(5, 2)),
    "Automaton": automaton,
    "Moore": lambda: ODD,
    "Mealy": lambda: ODD.answers(),
    "Weighted": lambda: CHANCES,
    "Extraction": lambda: Extraction(
        "quotient", (point := Point(ODD, 0.9, 0.01, 0.9, None),), point, "it is the only one", None, ((0, 1),), None
    ),
    "WeightedExtraction": lambda: WeightedExtraction(
        (point := WeightedPoint(CHANCES, 0.1, 0.01, 0.1, 0.9, 1.0),), point, "as you asked", 0.9, True, None
    ),
    "Echo": lambda: echo_state(Recurrent("leaky", 2, 5), torch.randn(30, 2)),
    "UnitStudy": study,
    "DecisionTree": full_tree,
    "LineRegions": lambda: regions_on_line(polygonal_network([(0, 0), (1, 2), (3, 1)])),
    "PlaneRegions": lambda: regions_on_plane(random_network(2, [4, 3], 0), (-1, -1), (1, 1)),
    "Confusion": lambda: Confusion(["a", "$b"], [[3, 1], [0, 2]]),
    "Attention": lambda: Attention(torch.tensor([[0.9, 0.1], [0.5, 0.5]]), ["a", " "], ["$", ""]),
    "Forecast": lambda: Forecast(
        ("$ a", "b"), torch.randn(60, 2), torch.randn(5, 2), -torch.ones(5, 2), torch.ones(5, 2), 0.9, torch.randn(5, 2)
    ),
    "GradientMap": lambda: gradient_map(Recurrent("elman", 2, 3), torch.randn(5, 2)),
    "ThroughTime": lambda: watch(Recurrent("elman", 2, 3), torch.randn(1, 5, 2)),
    "Curve": lambda: Curve("$ loss", *(np.array([3.0, 2.0, 1.0]) for _ in range(4))),
    "BeamTree": lambda: BeamTree(
        "a", [Node(-1, 0, "", 0.0, 0.0, False, True), Node(0, 1, "$", -0.5, -0.5, True, True)]
    ),
    "UnrolledGraph": lambda: unroll(Recurrent("elman", 2, 3), x=torch.randn(2, 2)),
    "Pairs": lambda: kept_pairs("every:2", 3),
    "Truncations": lambda: compare_truncations(3, 2),
    "Wiring": lambda: wire(1, 2, 1),
    "SplitField": lambda: split_field(memory(), torch.ones(2), *plane(), size=4),
    "FieldPanel": lambda: field_panel(memory(), {"$ rest": torch.zeros(2)}, size=6),
    "Formation": lambda: Formation("zero", (0,), (field(),), (points(),)),
    "Walk": lambda: walk_states(
        memory(),
        [("$ up", torch.ones(2))],
        lambda h: ["a"] * len(h),
        torch.eye(2).double(),
        torch.zeros(0, 2).double(),
        size=6,
    ),
    "StateVectors": state_vectors,
    "VectorSum": lambda: add_triggers(["Power"]),
    "DepthGradients": lambda: gradients_over_depth(3, 4),
    "Convolution": convolve,
    "TreeGraph": lambda: unroll_tree("a $ c"),
    "Activations": lambda: activations(("tanh", "relu")),
    "Approximation": lambda: approximate("sine", widths=(1, 4)),
    "AutomatonNetwork": lambda: automaton_network(ODD),
    "ScalarCase": lambda: scalar_case(torch.tensor([1.0, 0.5, -1.0])),
    "Embeddings": lambda: look_at_embeddings(torch.randn(5, 3), ["a", "$", "c", "d", "e"]),
    "OrderComparison": lambda: OrderComparison(
        3, 9, (OrderRow("order 1", 1, 6, 3, 1.0), OrderRow("$ gru", None, 40, None, 0.5))
    ),
    "MemoryComparison": lambda: MemoryComparison("$ adding", 5, (MemoryRow("gru", 8, (0.5, 1.0)),)),
    "PenaltySweep": lambda: PenaltySweep([PenaltyPoint("tree", 0.1, 1.0, 0.2, 0.89, 0.01, True)], ceiling=0.9),
}


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_every_type_with_a_picture_is_here() -> None:
    assert {kind.__name__ for kind in PAINTERS} == set(RESULTS)


@pytest.mark.parametrize("name", RESULTS)
def test_it_is_drawn_on_both_grounds_as_reproducible_files(name: str, tmp_path: Path) -> None:
    result = RESULTS[name]()
    figure = result.plot(tmp_path / "one")
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(files) == {"one.svg", "one.png", "one-dark.svg", "one-dark.png"}
    draw(result, tmp_path / "two", endings=("svg",))
    assert {file.name for file in tmp_path.iterdir()} - set(files) == {"two.svg", "two-dark.svg"}
    for ground, (paper, ink, _) in GROUNDS.items():
        drawn = files[f"one{ground}.svg"]
        assert drawn == (tmp_path / f"two{ground}.svg").read_bytes()
        assert (paper if ground else "#ffffff").encode() in drawn
        assert name == "Automaton" or ink.encode() in drawn
    assert figure.axes
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", RESULTS)
def test_its_numbers_are_printed_and_passed_on(name: str) -> None:
    import json

    result = RESULTS[name]()
    assert str(result)
    assert "<table>" in result._repr_html_() or "<pre>" in result._repr_html_()
    json.dumps(result.to_json(), allow_nan=False)
    assert all(isinstance(each, torch.Tensor) for each in result.arrays().values())


def test_without_a_file_nothing_is_written_and_pyplot_knows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    figure = RESULTS["Confusion"]().plot()
    assert figure.axes[0].get_xlabel() == "predicted"
    assert pyplot.get_fignums() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("b.PNG", b"\x89PNG"), ("c.pdf", b"%PDF")])
def test_an_ending_is_one_light_file(name: str, start: bytes, tmp_path: Path) -> None:
    result = RESULTS["Confusion"]()
    result.plot(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    first = (tmp_path / name).read_bytes()
    assert first.startswith(start)
    result.plot(str(tmp_path / name))
    assert (tmp_path / name).read_bytes() == first


def test_what_is_refused(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Weather(Result):
        rain: float

    with pytest.raises(OptionError, match=r"^Weather has no picture\. [^\n]*$"):
        Weather(1.0).plot()
    with pytest.raises(OptionError, match="TraceTable has no picture"):
        TraceTable([]).plot()
    with pytest.raises(OptionError, match=r"got \.gif"):
        RESULTS["Confusion"]().plot(tmp_path / "a.gif")
    with pytest.raises(OptionError, match="unbounded"):
        regions_on_plane(random_network(2, [3], 0)).plot()
    with pytest.raises(TypeError, match="titel"):
        RESULTS["DecisionTree"]().plot(titel="a tree")
    assert list(tmp_path.iterdir()) == []


def test_points_and_fields_together(tmp_path: Path) -> None:
    found, arrows = points(), field()
    run = trajectory(memory(), torch.ones(2, dtype=torch.float64), torch.zeros(5, 2)).states
    figure = arrows.plot(points=found, paths=[run], title="both")
    assert figure.axes[0].get_title() == "both"
    names = {text.get_text() for text in figure.axes[0].texts}
    assert names == {name for name, point in zip(found.names, found.points, strict=True) if point.kind == "attractor"}
    assert ends().plot(field=arrows, points=found).axes
    assert ends().plot(points=found).axes


@pytest.mark.parametrize("count", [1, 2])
def test_few_points_and_small_states(count: int) -> None:
    few = replace(points(), points=points().points[:count])
    one = replace(few, points=[replace(each, state=each.state[:1]) for each in few.points])
    for found in (few, one, replace(few, points=[])):
        assert found.plot().axes


def test_a_forecast_of_many_columns_is_one_picture() -> None:
    names = tuple(map(str, range(88)))
    assert len(Forecast(names, torch.rand(60, 88), torch.rand(5, 88)).plot(title="rolls").axes) == 1
    assert len(Forecast(names[:3], torch.rand(60, 3), torch.rand(5, 3)).plot().axes) == 3


def test_a_line_of_regions_passes_through_its_points() -> None:
    (line,) = regions_on_line(polygonal_network([(0, 0), (1, 2), (3, 1)])).plot().axes[0].lines
    x, y = line.get_data()
    np.testing.assert_allclose(y, np.interp(x, [-1, 1, 5], [-2, 2, 0]), atol=1e-12)


def test_the_room_is_entered_without_matplotlib() -> None:
    code = "import sys, recurra.plots; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_slow_points_alone_have_a_picture() -> None:
    slow = [SlowPoint(torch.randn(8, dtype=torch.float64), 1e-7, torch.ones(8)) for _ in range(4)]
    found = FixedPoints([], slow, 0, 16, 10, 1e-9, True)
    (axis,) = draw(found).axes
    assert len(axis.collections) == 4


def test_a_cell_without_products_has_a_circle_and_no_legend() -> None:
    """Warnings are errors here: an empty legend would be one."""
    (axis,) = draw(recurrent_spectra(Recurrent("mingru", 2, 4))).axes
    assert axis.get_legend() is None
