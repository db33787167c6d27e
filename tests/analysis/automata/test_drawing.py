"""Machines on paper: every state and every way is there, and no two labels lie on each other."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from recurra.analysis.automata.drawing import (
    LETTER,
    LINE,
    WRITERS,
    state_names,
    to_dot,
    to_mermaid,
    to_svg,
    ways,
    write_machine,
)
from recurra.analysis.automata.finite import Moore
from recurra.errors import OptionError
from recurra.recipes.memory import MACHINES

ODD = Moore(("0", "1"), ((0, 1), (1, 0)), ("even", "odd"))
WASHING = MACHINES["washing-machine"]()[2]


def test_states_that_say_the_same_are_numbered() -> None:
    assert state_names(ODD) == ["even", "odd"]
    names = state_names(WASHING)
    assert len(set(names)) == 13
    assert {"Off", "Soak 1", "Soak 3", "Dry"} <= set(names)


def test_symbols_that_lead_alike_are_one_way() -> None:
    assert [(way.start, way.to, way.label) for way in ways(ODD)] == [
        (0, 0, "0"),
        (0, 1, "1"),
        (1, 1, "0"),
        (1, 0, "1"),
    ]
    idle = [way.label for way in ways(WASHING) if way.start == 1]
    assert idle == ["any other", "Power", "Program 1, Program 2", "Program 3, Program 4", "Program 5, Program 6"]


def test_dot_and_mermaid() -> None:
    assert '0 -> 1 [label="1"];' in to_dot(ODD)
    assert to_dot(WASHING).count("->") == 1 + len(ways(WASHING))
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


@pytest.mark.parametrize("machine", [ODD, WASHING], ids=["odd", "washing machine"])
def test_no_label_lies_on_another_or_under_a_line(machine: Moore) -> None:
    svg = to_svg(machine)
    labels = boxes(svg)
    assert len(labels) == machine.size + len(ways(machine))
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
