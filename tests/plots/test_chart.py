"""Lines over steps: every value within the picture, odd values left out, long lines averaged."""

import math
import re

import pytest

from recurra.plots.chart import HEIGHT, POINTS, WIDTH, line_chart


def points(svg: str) -> list[list[tuple[float, float]]]:
    lines = re.findall(r'points="([^"]*)"', svg)
    return [[(float(x), float(y)) for x, y in (pair.split(",") for pair in line.split())] for line in lines]


def test_within_the_picture_and_the_right_way_up() -> None:
    made = line_chart({"a & b": ([1, 2, 3], [5.0, 1.0, 3.0]), "c": ([1, 3], [2.0, 2.0])}, "step", "loss", "what it is")
    first, second = points(made)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in first + second)
    assert first[0][1] < first[2][1] < first[1][1]  # large values stand high
    assert [x for x, _ in second] == [first[0][0], first[2][0]]
    assert "a &amp; b" in made
    assert 'aria-label="what it is"' in made


def test_values_that_are_no_numbers() -> None:
    assert points(line_chart({"a": ([1, 2, 3], [1.0, math.nan, 2.0])}, "", "", "")) != []
    assert line_chart({"a": ([1, 2], [math.nan, math.inf])}, "", "", "") == ""
    assert line_chart({}, "", "", "") == ""


@pytest.mark.parametrize("value", [0.0, 1e-12, -3.5, 1e12])
def test_a_line_that_is_flat_or_a_single_point(value: float) -> None:
    assert "<polyline" in line_chart({"a": ([0, 1], [value, value])}, "", "", "")
    assert "<circle" in line_chart({"a": ([0], [value])}, "", "", "")


def test_long_lines_are_averaged() -> None:
    made = points(line_chart({"a": (range(10_000), [float(k % 2) for k in range(10_000)])}, "", "", ""))[0]
    assert len(made) <= POINTS
    assert len({y for _, y in made[:-1]}) <= 3  # a mean of zeros and ones
