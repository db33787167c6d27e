"""Machines on paper: every state and every edge is there, and no two labels lie on each other."""

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from recurra.analysis.automata.finite import Moore, shown
from recurra.analysis.automata.weighted import Weighted
from recurra.errors import OptionError
from recurra.plots.automaton import (
    LETTER,
    LINE,
    NOWHERE,
    WRITERS,
    edges,
    to_dot,
    to_mermaid,
    to_svg,
    write_machine,
)
from recurra.tasks.memory import MACHINES

ODD = Moore(("0", "1"), ((0, 1), (1, 0)), ("even", "odd"))
WASHING = MACHINES["washing-machine"]()[2]


def test_states_with_the_same_output_are_numbered() -> None:
    assert ODD.state_names() == ["even", "odd"]
    names = WASHING.state_names()
    assert len(set(names)) == 13
    assert {"Off", "Soak 1", "Soak 3", "Dry"} <= set(names)


def test_symbols_that_lead_alike_are_one_edge() -> None:
    assert [(edge.start, edge.to, edge.label) for edge in edges(ODD)] == [
        (0, 0, "0"),
        (0, 1, "1"),
        (1, 1, "0"),
        (1, 0, "1"),
    ]
    idle = [edge.label for edge in edges(WASHING) if edge.start == 1]
    assert idle == ["any other", "Power", "Program 1, Program 2", "Program 3, Program 4", "Program 5, Program 6"]


def test_symbols_that_cannot_be_seen_are_quoted() -> None:
    assert [shown(name) for name in ("a", " ", "\n", ",", "", "Take in charge")] == [
        "a",
        "' '",
        "'\\n'",
        "','",
        "''",
        "Take in charge",
    ]


def test_edges_that_are_not_known_are_not_any_other() -> None:
    some = Moore(("a", "b", "c", "d", "e", "f", "g"), ((0, 0, 0, 0, -1, -1, -1),), ("x",))
    assert [(edge.to, edge.label) for edge in edges(some)] == [(0, "any other known"), (-1, "e, f, g")]


WEIGHTED = Weighted(
    tuple("abcdefgh"),
    (*"abcdefgh", "end"),
    torch.tensor([[1] * 8, [1, 0, 0, 0, 0, 0, 0, 0]]),
    torch.tensor([[0.4, 0.3, 0.1, 0.05, 0.04, 0.03, 0.03, 0.03, 0.02], [0.25, 0.25, 0, 0, 0, 0, 0, 0, 0.5]]),
    torch.tensor([[0.0] * 8, [0.5, 0.25, 0.125, 0.0625, 0.0625, 0.0, 0.0, 0.0]]),
)


def test_of_a_weighted_automaton_the_likely_edges_are_drawn() -> None:
    assert WEIGHTED.state_names() == ["0: start", "1: after a, b, c (100%)"]
    assert [(edge.start, edge.to, edge.label) for edge in edges(WEIGHTED)] == [
        (0, 1, "a 0.40, b 0.30, c 0.10, d 0.05, e 0.04, f 0.03"),
        (0, NOWHERE, "3 others 0.08"),
        (1, NOWHERE, "end 0.50"),
        (1, 1, "a 0.25"),
        (1, 0, "b 0.25"),
    ]
    assert '0 [label="0: start\\n3 others 0.08"];' in to_dot(WEIGHTED)
    assert to_dot(WEIGHTED).count("->") == 4
    assert 'state "0#58; start#59; 3 others 0#46;08" as s0' in to_mermaid(WEIGHTED)


def test_dot_and_mermaid() -> None:
    assert '0 -> 1 [label="1"];' in to_dot(ODD)
    assert to_dot(WASHING).count("->") == 1 + len(edges(WASHING))
    assert 's0 --> s1: 1' in to_mermaid(ODD)  # fmt: skip
    quoted = Moore(('"', "\\"), ((0, 0),), ("a:b",))
    assert '[label="\\", \\\\"]' in to_dot(quoted)
    assert "#34;, #92;" in to_mermaid(quoted)


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    found = []
    for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        width, x, y = LETTER * len(text.text or ""), float(text.attrib["x"]), float(text.attrib["y"])
        left = x - width / 2 if text.get("text-anchor") == "middle" else x
        found.append((left, left + width, y - LINE / 2, y + 2))
    return found


@pytest.mark.parametrize("machine", [ODD, WASHING, WEIGHTED], ids=["odd", "washing machine", "weighted"])
def test_no_label_lies_on_another_or_under_a_line(machine: Moore | Weighted) -> None:
    svg = to_svg(machine)
    labels = boxes(svg)
    assert len(labels) == machine.size + len(edges(machine))
    for k, (a, b, c, d) in enumerate(labels):
        assert all(b <= e or f <= a or d <= g or h <= c for e, f, g, h in labels[k + 1 :])
    for begin, at, x, end, back in re.findall(r"M(\S+) (\S+)H(\S+)V(\S+)H(\S+?)\"", svg):
        for a, b, c, d in labels:
            assert not (float(begin) < b and c < float(at) < d and float(x) > a)
            assert not (float(back) < b and c < float(end) < d and float(x) > a)
            assert not a < float(x) < b


def test_it_is_written_whole_or_refused(tmp_path: Path) -> None:
    write_machine(ODD, tmp_path / "new/odd.svg", WRITERS["svg"])
    assert (tmp_path / "new/odd.svg").read_text() == to_svg(ODD)
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="cannot be written"):
        write_machine(ODD, tmp_path / "file/odd.svg", WRITERS["svg"])


def test_circles_hold_their_names_and_symbols_stand_apart() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.patches import Circle
    from matplotlib.text import Text

    figure = WASHING.plot(form="circles")
    figure.canvas.draw()
    (axis,) = figure.axes
    disks = {patch.get_gid(): patch for patch in axis.patches if isinstance(patch, Circle) and patch.get_gid()}
    texts = {text: Text.get_window_extent(text) for text in axis.texts}  # without the line to its arrow
    names = {name.replace(" ", "\n") if len(name) > 9 else name: k for k, name in enumerate(WASHING.state_names())}
    circles = []
    for text, box in texts.items():
        if text.get_text() in names:
            disk = disks[f"state-{names[text.get_text()]}"]
            middle = axis.transData.transform(disk.center)
            radius = axis.transData.transform((disk.center[0] + disk.radius, disk.center[1]))[0] - middle[0]
            circles.append((middle, radius))
            assert max(box.x1 - middle[0], middle[0] - box.x0) < radius
    assert len(circles) == 13
    words = [box for text, box in texts.items() if text.get_text() not in names]
    assert len(words) == len(edges(WASHING))
    assert not any(one.overlaps(other) for one, other in combinations(words, 2))
    assert not any(box.contains(*middle) for box in words for middle, _ in circles)
