"""The unrolled graph: what reads what, which weights are shared, which pairs are kept, and the size of each gradient."""

import json
import re
from itertools import combinations

import pytest
import torch

import recurra as rc
from recurra.cli.main import run
from recurra.lecture.unroll import Node
from recurra.plots.figure import to_bytes


def ids(svg: str, start: str) -> set[str]:
    return {found for found in re.findall(r'id="([^"]+)"', svg) if found.startswith(start)}


def test_an_elman_network_over_three_steps():
    graph = rc.lecture.unroll("elman", 3)
    assert {name: graph.times_used(name) for name in graph.weights} == {"W": 3, "U": 3, "V": 3}
    assert "U (U.h) 3 times" in str(graph)
    assert "V (V) once" in str(rc.lecture.unroll("elman", loss="last"))
    kinds = [node.kind for node in graph.nodes]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "input": 3,
        "state": 4,
        "output": 3,
        "target": 3,
        "loss": 3,
    }
    into = {(a.start.kind, a.start.step) for a in graph.arrows if a.end == Node("state", 2)}
    assert into == {("input", 2), ("state", 1)}


def test_weights_are_those_of_the_equations():
    graph = rc.lecture.unroll("gru", 2)
    cell = rc.find_cell("gru").graph
    assert graph.weights["W"] == tuple(f"W.{name}" for name in cell.drives)
    assert graph.weights["U"] == tuple(f"U.{name}" for name in cell.matrices)


def test_a_cell_that_looks_further_back_has_longer_arrows():
    graph = rc.lecture.unroll("skip(d=2)", 4)
    assert {(a.start.step, a.end.step) for a in graph.arrows if a.delay == 2} == {(0, 2), (1, 3), (2, 4)}


def test_layers_have_weights_of_their_own():
    graph = rc.lecture.unroll("elman", 3, layers=2)
    assert {name: graph.times_used(name) for name in graph.weights} == {"W_1": 3, "U_1": 3, "W_2": 3, "U_2": 3, "V": 3}


def test_two_directions():
    graph = rc.lecture.unroll("gru", 3, bidirectional=True)
    back = [(a.start.step, a.end.step) for a in graph.arrows if a.weights == "U′"]
    assert sorted(back) == [(2, 1), (3, 2), (4, 3)]  # 4 is where the second direction starts
    assert sum(a.end.kind == "output" for a in graph.arrows) == 6


def test_teacher_forcing_reads_targets_and_free_running_outputs():
    for feeding, kind in (("teacher", "target"), ("free", "output")):
        graph = rc.lecture.unroll("elman", 3, feeding=feeding, recurrence="output")
        fed = [(a.start.kind, a.start.step, a.end.step) for a in graph.arrows if a.kind == "fed"]
        assert fed == [(kind, 1, 2), (kind, 2, 3)]
        assert not any(a.weights == "U" for a in graph.arrows)


def test_a_decoder_starts_from_the_last_state_of_the_encoder():
    graph = rc.lecture.unroll("gru", 4, decoder=2, feeding="teacher")
    joins = [a for a in graph.arrows if (a.start.part, a.end.part) == ("encoder", "decoder")]
    assert [(a.start.step, a.end.step) for a in joins] == [(4, 1)]
    assert {node.part for node in graph.nodes if node.kind in ("output", "loss")} == {"decoder"}


def test_sizes_are_those_of_autograd():
    torch.manual_seed(0)
    layer = rc.Recurrent("elman", 2, 4).double()
    x = torch.randn(5, 2, dtype=torch.float64)
    graph = rc.lecture.unroll(layer, x=x)
    states = layer(x[None]).outputs[0].detach()

    def later(h: torch.Tensor, first: int, last: int) -> torch.Tensor:
        return layer(x[None, first:last], state=[[(h[None],)]]).outputs[0, -1]

    for t, k in ((5, 1), (5, 3), (4, 2)):
        J = torch.autograd.functional.jacobian(lambda h, t=t, k=k: later(h, t - k, t), states[t - k - 1])
        assert graph.size(t, k) == pytest.approx(float(torch.linalg.matrix_norm(J, 2)), rel=1e-6)


@pytest.mark.parametrize(("truncation", "kept"), [("none", 10), ("every:2", 6), ("window:1", 7)])
def test_what_a_truncation_keeps_is_in_the_picture(truncation, kept):
    torch.manual_seed(0)
    graph = rc.lecture.unroll(rc.Recurrent("elman", 2, 3), x=torch.randn(4, 2), truncation=truncation)
    assert kept == int(graph.kept.sum())
    assert graph.size(4, 3) == 0 or truncation == "none"
    if truncation == "every:2":
        pairs = ids(graph.svg, "pair-")
        assert len(pairs) == 10
        assert sum(pair.endswith("-kept") for pair in pairs) == kept


def test_nodes_and_arrows_are_in_the_picture():
    graph = rc.lecture.unroll("lstm", 3)
    svg = graph.svg
    nodes = {f"node-{n.kind}-{n.step}-{n.layer}-{n.direction}" for n in graph.nodes}
    assert nodes <= ids(svg, "node-")
    assert {f"arrow-U-{t}-{t + 1}" for t in range(3)} <= ids(svg, "arrow-")
    assert "<text" not in svg  # outlines: subscripts look alike everywhere


def test_every_cell_can_be_unrolled():
    for name in rc.CATALOGUE:
        assert rc.lecture.unroll(name, 3).times_used("V") == 3


def test_three_truncations_side_by_side():
    none, every, window = rc.lecture.compare_truncations(8, 3).forms
    assert (int(none.kept.sum()), int(every.kept.sum()), int(window.kept.sum())) == (36, 6 + 6 + 3, 26)


def test_every_wire_of_a_small_network():
    wiring = rc.lecture.wire(3, 5, 4)
    assert wiring.connections == 60
    svg = to_bytes(wiring.plot(), "svg").decode()
    assert len(ids(svg, "wire-")) == 60
    assert len(ids(svg, "unit-")) == 12
    layer = rc.Recurrent("elman", 2, 3)
    assert torch.equal(rc.lecture.wire(output_size=1, layer=layer).inputs, layer.stack[0][0].W)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"steps": 0}, "steps must be 1 to 24"),
        ({"bidirectional": True, "feeding": "free"}, "cannot read its own outputs"),
        ({"recurrence": "output"}, "give feeding teacher or free"),
        ({"x": torch.zeros(3, 2)}, "gradients need weights"),
    ],
)
def test_refusals(how, message):
    with pytest.raises(rc.OptionError, match=message):
        rc.lecture.unroll("elman", **how)


def test_the_command(tmp_path, capsys):
    out = tmp_path / "graph.svg"
    assert run(["unroll", "gru", "--steps", "4", "--truncation", "every:2", "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kept"] == [[True], [True, True], [True, False, False], [True, True, False, False]]
    assert len(ids(out.read_text(), "pair-")) == 10
    assert run(["unroll", "elman", "--wires", "3-5"]) == 2


@pytest.mark.parametrize(
    ("cell", "how"),
    [
        ("elman", {"feeding": "teacher", "recurrence": "output"}),
        ("skip(d=2)", {"steps": 4}),
        ("gru", {"bidirectional": True}),
        ("gru", {"decoder": 3, "feeding": "teacher"}),
    ],
)
def test_names_of_arrows_stand_apart(cell, how):
    figure = rc.lecture.unroll(cell, **how).plot()
    figure.canvas.draw()
    for axis in figure.axes:
        boxes = [text.get_window_extent() for text in axis.texts if text.get_bbox_patch() is not None]
        assert boxes
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_a_target_that_is_read_at_the_next_step_passes_no_output():
    figure = rc.lecture.unroll("elman", feeding="teacher", recurrence="output").plot()
    figure.canvas.draw()
    patches = {patch.get_gid(): patch for patch in figure.axes[-1].patches}
    output = patches["node-output-1-0-0"]
    way = patches["arrow-R-1-2"].get_path().interpolated(50).vertices
    places = patches["arrow-R-1-2"].get_transform().transform(way)
    middle = figure.axes[-1].transData.transform(output.center)
    radius = figure.axes[-1].transData.transform((output.center[0] + output.radius, 0))[0] - middle[0]
    assert min(((places - middle) ** 2).sum(1)) > radius**2


def test_the_rolled_graph_has_the_encoder_and_the_decoder():
    rolled = rc.lecture.unroll("gru", 4, layers=2, decoder=2, feeding="teacher").plot().axes[0]
    states = [patch.get_gid() for patch in rolled.patches if (patch.get_gid() or "").startswith("node-state-")]
    assert sorted(states) == [
        *(f"node-state-{t}-{layer}-0-{part}" for t, layer, part in ((2, 0, "decoder"), (2, 1, "decoder"))),
        *(f"node-state-4-{layer}-0-encoder" for layer in (0, 1)),
    ]
    assert sum(text.get_text() == "at the end" for text in rolled.texts) == 2
