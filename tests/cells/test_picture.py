"""The picture of a cell: well-formed, the same each time, complete, and nothing drawn over anything else."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest

from recurra import CATALOGUE, Cell, cell, find_cell, tanh, where
from recurra.cells.picture import draw
from tests.helpers import CELLS

SVG = "{http://www.w3.org/2000/svg}"
Rectangle = tuple[float, float, float, float]  # left, top, right, bottom


def parse(cell: Cell) -> ET.Element:
    return ET.fromstring(draw(cell.graph))


def rectangles(root: ET.Element) -> list[Rectangle]:
    found = []
    for rect in root.iter(f"{SVG}rect"):
        if rect.get("class") != "paper":
            x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
            found.append((x, y, x + width, y + height))
    return found


def overlap(a: Rectangle, b: Rectangle, slack: float = 0.15) -> bool:
    return a[0] < b[2] - slack and b[0] < a[2] - slack and a[1] < b[3] - slack and b[1] < a[3] - slack


def points(path: str) -> list[tuple[float, float]]:
    """Points along `M x y L x y C … L x y`, many of them on the curve."""
    found: list[tuple[float, float]] = []
    for command, text in re.findall(r"([MLC])([^MLC]*)", path):
        numbers = [float(number) for number in text.split()]
        if command == "C":
            (x0, y0), (x1, y1, x2, y2, x3, y3) = found[-1], numbers
            for k in range(1, 41):
                t, s = k / 40, 1 - k / 40
                weights = (s**3, 3 * s * s * t, 3 * s * t * t, t**3)
                found.append(
                    (
                        sum(w * x for w, x in zip(weights, (x0, x1, x2, x3), strict=True)),
                        sum(w * y for w, y in zip(weights, (y0, y1, y2, y3), strict=True)),
                    )
                )
        else:
            x, y = numbers
            if found:
                x0, y0 = found[-1]
                found.extend((x0 + (x - x0) * k / 10, y0 + (y - y0) * k / 10) for k in range(1, 10))
            found.append((x, y))
    return found


def named(root: ET.Element, kind: str) -> set[str]:
    groups = [g for g in root.iter(f"{SVG}g") if g.get("class") == kind]
    return {name for g in groups for name in g.attrib["data-name"].split(", ")}


every_cell = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS.keys())


@every_cell
def test_same_graph_same_bytes(cell: Cell) -> None:
    again = cell(**cell.options)  # read anew: other nodes, the same equations
    assert draw(cell.graph) == draw(cell.graph) == draw(again.graph)


def test_other_equations_other_picture() -> None:
    assert draw(CATALOGUE["gru"].graph) != draw(CATALOGUE["gru_after"].graph)


@every_cell
def test_everything_is_named(cell: Cell) -> None:
    root, graph = parse(cell), cell.graph
    states = {state.name for state in graph.states}
    read = {node.name for node in graph.nodes if node.kind == "state"}
    assert named(root, "next") == states
    assert named(root, "state") == read
    boxes = named(root, "gate") | named(root, "operation") | named(root, "product")
    assert set(graph.gates) <= boxes
    words = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    for drive in graph.drives:
        assert f"x.{drive.replace('_', '')}" in words
    for matrix in graph.matrices:
        assert f"U.{matrix.replace('_', '')}" in words


@every_cell
def test_every_group_of_products_is_one_box(cell: Cell) -> None:
    groups = [g for g in parse(cell).iter(f"{SVG}g") if g.get("class") == "product"]
    rows = sorted(len(list(g.iter(f"{SVG}text"))) for g in groups)
    assert rows == sorted(len(group.products) for stage in cell.graph.stages for group in stage)


@every_cell
def test_no_box_lies_on_another(cell: Cell) -> None:
    root = parse(cell)
    found = rectangles(root)
    assert len(found) >= 1 + len(cell.graph.states)
    for a, b in combinations(found, 2):
        assert not overlap(a, b), (a, b)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for left, top, right, bottom in found:
        assert left >= 0
        assert top >= 0
        assert right <= width
        assert bottom <= height


@every_cell
def test_no_edge_runs_through_a_box(cell: Cell) -> None:
    root = parse(cell)
    boxes = [(left + 2, top + 2, right - 2, bottom - 2) for left, top, right, bottom in rectangles(root)]
    edges = [p.attrib["d"] for p in root.iter(f"{SVG}path") if p.get("class") == "edge"]
    assert edges
    for edge in edges:
        for x, y in points(edge):
            for left, top, right, bottom in boxes:
                # the corners of a disk are outside of it: arrows may end there
                corner = right - left < 60 and min(x - left, right - x) < 6
                assert corner or not (left < x < right and top < y < bottom), (edge, (left, top, right, bottom))


@every_cell
def test_words_fit_their_boxes(cell: Cell) -> None:
    for group in parse(cell).iter(f"{SVG}g"):
        rect = next(group.iter(f"{SVG}rect"))
        for text in group.iter(f"{SVG}text"):
            inside = float(rect.attrib["y"]) < float(text.attrib["y"])
            least = 0.45 * float(text.attrib["font-size"]) * len("".join(text.itertext())) if inside else 0.0
            assert least <= float(rect.attrib["width"]), "".join(text.itertext())


def test_text_is_escaped() -> None:
    @cell
    def compare(x, U, h):
        return where((h < 1) & (x.h < 2), tanh(x.h + U.h(h)), h)

    root = parse(compare)
    words = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert any("h < 1" in line and "&" in line for line in words)


def test_only_next_states_where_nothing_is_read() -> None:
    @cell
    def forgetful(x, U, h, c):
        return x.h, 0.0

    root = parse(forgetful)
    assert named(root, "next") == {"h", "c"}
    assert named(root, "state") == set()
    assert named(root, "drive") == {"x.h"}


def test_the_reset_gate_is_where_it_acts() -> None:
    """Before the product in one GRU, after it in the other."""
    before = [t.text for t in parse(find_cell("gru")).iter(f"{SVG}title")]
    after = [t.text for t in parse(find_cell("gru_after")).iter(f"{SVG}title")]
    assert "n = tanh(x.n + U.n(r * h))" in before
    assert "n = tanh(x.n + r * (U.n(h) + b))" in after


def test_readable_in_light_and_dark() -> None:
    assert "@media (prefers-color-scheme: dark)" in draw(CATALOGUE["lstm"].graph)
