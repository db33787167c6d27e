"""Regions counted by cutting, beside regions found by linear programs over signs and by sampling; bounds; polygonal lines."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from recurra.errors import OptionError, ShapeError
from recurra.lecture.regions import (
    Rectifier,
    folding_network,
    lower_bound,
    most_regions,
    polygonal_network,
    rectifier_of,
    regions_on_line,
    regions_on_plane,
    upper_bound,
)
from recurra.models.feedforward import basis_expansion, convolutional, linear_classifier, multilayer

widths = st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda each: sum(each) <= 7)


def random_network(inputs: int, sizes: list[int], seed: int, residual: bool = False, outputs: int = 1) -> Rectifier:
    random = np.random.default_rng(seed)
    wide = [inputs, *sizes]
    hidden = tuple(
        (random.normal(size=(wide[k + 1], wide[k])), random.normal(size=wide[k + 1])) for k in range(len(sizes))
    )
    return Rectifier(hidden, (random.normal(size=(outputs, wide[-1])), random.normal(size=outputs)), residual)


def signs(network: Rectifier, x: np.ndarray) -> np.ndarray:
    """Which units are on at each point, computed forward."""
    h, found = x, []
    for k, (W, b) in enumerate(network.hidden):
        net = h @ W.T + b
        found.append(net > 0)
        h = np.maximum(net, 0) + (h if network.residual and k else 0)
    return np.concatenate(found, axis=1)


def count_by_programs(network: Rectifier) -> int:
    """Sign vectors with room inside, one unit after the other: is there a ball with these signs? A linear program each."""
    n = network.inputs

    def has_room(rows: list[np.ndarray]) -> bool:
        A = np.array(rows)
        size = np.linalg.norm(A[:, :n], axis=1)
        kept = size > 0
        if (A[~kept, n] <= 0).any():  # a constant of the other sign
            return False
        if not kept.any():
            return True
        # maximise r where a·x + c ≥ r |a|, r ≤ 1
        solved = linprog(
            [*np.zeros(n), -1],
            A_ub=np.column_stack([-A[kept, :n], size[kept]]),
            b_ub=A[kept, n],
            bounds=[(None, None)] * n + [(None, 1)],
        )
        return bool(solved.status == 0 and solved.x[-1] > 1e-7)

    def count(layer: int, unit: int, units: np.ndarray, below: np.ndarray, on: list[bool], rows: list) -> int:
        if unit == len(units):
            above = units * np.array(on)[:, None] + (below if network.residual and layer else 0)
            return start(layer + 1, above, rows)
        total = 0
        for sign in (1, -1):
            more = [*rows, sign * units[unit]]
            if has_room(more):
                total += count(layer, unit + 1, units, below, [*on, sign > 0], more)
        return total

    def start(layer: int, below: np.ndarray, rows: list) -> int:
        if layer == len(network.hidden):
            return 1
        W, b = network.hidden[layer]
        units = W @ below
        units[:, -1] += b
        return count(layer, 0, units, below, [], rows)

    return start(0, np.eye(n, n + 1), [])


class TestCounting:
    @given(sizes=widths, seed=st.integers(0, 10**6))
    def test_on_a_plane_as_many_as_linear_programs_find(self, sizes: list[int], seed: int) -> None:
        network = random_network(2, sizes, seed)
        counted = len(regions_on_plane(network))
        assert counted == count_by_programs(network)
        assert counted <= upper_bound(2, sizes)

    @given(sizes=widths, seed=st.integers(0, 10**6))
    def test_on_a_line_as_many_as_linear_programs_find(self, sizes: list[int], seed: int) -> None:
        network = random_network(1, sizes, seed)
        counted = len(regions_on_line(network))
        assert counted == count_by_programs(network)
        assert counted <= upper_bound(1, sizes)

    @pytest.mark.parametrize("seed", range(3))
    def test_residual_connections_count_from_the_third_layer_on(self, seed: int) -> None:
        """With two layers they change the output alone; with three, where the last one cuts."""
        for inputs, counter in ((1, regions_on_line), (2, regions_on_plane)):
            network = random_network(inputs, [3, 3, 3], seed, residual=True)
            counted = len(counter(network))
            assert counted == count_by_programs(network) <= upper_bound(inputs, [3, 3, 3])
            without = Rectifier(network.hidden, network.output)
            assert len(counter(without)) == count_by_programs(without)

    @given(
        sizes=st.lists(st.integers(1, 12), min_size=1, max_size=3) | st.just([6, 6, 6, 6]), seed=st.integers(0, 10**6)
    )
    def test_no_sampled_pattern_is_missing_and_every_region_has_its_own(self, sizes: list[int], seed: int) -> None:
        network = random_network(2, sizes, seed, residual=len(set(sizes)) == 1)
        whole = regions_on_plane(network)
        assert len(whole) <= upper_bound(2, sizes)
        known = {row.tobytes() for row in whole.patterns}
        assert len(known) == len(whole)
        random = np.random.default_rng(seed)
        points = random.normal(size=(20_000, 2)) * random.lognormal(1, 2, size=(20_000, 1))
        assert {row.tobytes() for row in signs(network, points)} <= known
        window = regions_on_plane(network, (-2, -2), (2, 2))
        assert {row.tobytes() for row in window.patterns} <= known
        grid = np.stack(np.meshgrid(*[np.linspace(-1.999, 1.999, 300)] * 2), axis=-1).reshape(-1, 2)
        assert {row.tobytes() for row in signs(network, grid)} <= {row.tobytes() for row in window.patterns}
        # the middle of each polygon has the pattern that it is said to have, and the polygons fill the window
        middles = np.array([polygon.mean(0) for polygon in window.polygons])
        assert np.array_equal(signs(network, middles), window.patterns)
        assert sum(area(polygon) for polygon in window.polygons) == pytest.approx(16, rel=1e-9)

    @given(sizes=st.lists(st.integers(1, 20), min_size=1, max_size=4), seed=st.integers(0, 10**6))
    def test_between_breaks_the_network_is_the_affine_function_that_is_said(self, sizes: list[int], seed: int) -> None:
        network = random_network(1, sizes, seed, outputs=2)
        line = regions_on_line(network)
        assert len(line) == len(line.breaks) + 1 <= upper_bound(1, sizes)
        assert (np.diff(line.breaks) > 0).all()
        x = np.sort(np.random.default_rng(seed).normal(size=500) * 5)
        where = np.searchsorted(line.breaks, x)
        expected = line.slopes[where] * x[:, None] + line.heights[where]
        y = network(x[:, None])
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-10 * (1 + np.abs(y).max()))
        patterns = signs(network, x[:, None])
        changed = (patterns[1:] != patterns[:-1]).any(1)
        assert np.array_equal(changed, where[1:] != where[:-1])

    @given(seed=st.integers(0, 10**6))
    def test_a_line_through_a_plane_crosses_the_regions_that_it_lies_in(self, seed: int) -> None:
        network = random_network(2, [6, 5], seed)
        start, direction = np.random.default_rng(seed).normal(size=(2, 2))
        line = regions_on_line(network.along(start, direction))
        inner = np.array([-1e9, *line.breaks, 1e9])
        middles = (inner[:-1] + inner[1:])[:, None] / 2 * direction + start
        known = {row.tobytes() for row in regions_on_plane(network).patterns}
        on_line = [row.tobytes() for row in signs(network, middles)]
        assert len(set(on_line)) == len(line)
        assert set(on_line) <= known

    def test_lines_that_are_parallel_or_meet_in_one_point(self) -> None:
        output = (np.ones((1, 5)), np.zeros(1))
        parallel = Rectifier(((np.tile([[1.0, 2.0]], (5, 1)), np.arange(5.0)),), output)
        assert len(regions_on_plane(parallel)) == 6
        angles = np.arange(5) * 0.6
        star = Rectifier(((np.stack([np.cos(angles), np.sin(angles)], axis=1), np.zeros(5)),), output)
        assert len(regions_on_plane(star)) == 10
        assert len(regions_on_plane(star, (-1, -1), (1, 1))) == 10
        assert len(regions_on_plane(star, (2, 0.1), (3, 0.2))) == 1
        same = Rectifier(((np.tile([[1.0, 2.0]], (5, 1)), np.ones(5)),), output)
        assert len(regions_on_plane(same)) == 2
        assert len(regions_on_line(same.along([0, 0], [1, 0]))) == 2
        assert len(regions_on_line(same.along([0, 0], [2, -1]))) == 1  # along the line itself

    @given(m=st.integers(1, 12), seed=st.integers(0, 10**6))
    def test_in_general_position_one_layer_has_as_many_as_can_be(self, m: int, seed: int) -> None:
        assert len(regions_on_plane(random_network(2, [m], seed))) == most_regions(m, 2)
        assert len(regions_on_line(random_network(1, [m], seed))) == most_regions(m, 1) == m + 1

    def test_no_layer_is_one_region(self) -> None:
        network = Rectifier((), (np.ones((1, 2)), np.zeros(1)))
        assert len(regions_on_plane(network)) == 1
        assert len(regions_on_plane(network, (0, 0), (1, 1))) == 1
        assert len(regions_on_line(network.along([0, 0], [1, 1]))) == 1

    def test_pieces_with_the_same_function_count_once(self) -> None:
        """|x| − |x| is one piece, though its units cut the line in two."""
        W, b = np.array([[1.0], [-1], [1], [-1]]), np.zeros(4)
        line = regions_on_line(Rectifier(((W, b),), (np.array([[1.0, 1, -1, -1]]), np.zeros(1))))
        assert (len(line), line.pieces) == (2, 1)

    def test_a_part_of_the_line(self) -> None:
        network = polygonal_network([(0, 0), (1, 1), (2, 0), (3, 1)])
        assert len(regions_on_line(network)) == 3
        assert len(regions_on_line(network, 0, 1.5)) == 2
        assert len(regions_on_line(network, 1.2, 1.8)) == 1

    @pytest.mark.parametrize("size", [1e-15, 1e-9, 1e-3, 1e9, 1e15])
    @pytest.mark.parametrize("point", [0.0, 3.0, 1e4])
    def test_the_size_of_coordinates_and_where_they_begin_do_not_matter(self, size: float, point: float) -> None:
        def moved(network: Rectifier, sizes: list[float]) -> Rectifier:
            """The network on coordinates that are so much larger, with its origin at `point` of them."""
            (W, b), *above = network.hidden
            return Rectifier(((W / sizes, b - W.sum(1) * point), *above), network.output)

        line, plane = random_network(1, [8, 8], 0), random_network(2, [6, 6], 0)
        expected, found = regions_on_line(line), regions_on_line(moved(line, [size]))
        assert (len(found), found.pieces) == (len(expected), expected.pieces)
        np.testing.assert_allclose(found.breaks / size, expected.breaks + point, rtol=1e-7)
        np.testing.assert_allclose(found.slopes * size, expected.slopes, rtol=1e-7)
        part = regions_on_line(moved(line, [size]), (point - 1) * size, (point + 1) * size)
        assert len(part) == len(regions_on_line(line, -1, 1))
        for sizes in ([size, size], [size, 1.0], [size, 1 / size]):
            assert len(regions_on_plane(moved(plane, sizes))) == len(regions_on_plane(plane))
        low, high = [(point - 2) * size] * 2, [(point + 2) * size] * 2
        window = regions_on_plane(moved(plane, [size, size]), low, high)
        assert len(window) == len(regions_on_plane(plane, (-2, -2), (2, 2)))
        assert sum(area(each / size) for each in window.polygons) == pytest.approx(16, rel=1e-6)

    def test_lines_that_meet_far_away(self) -> None:
        W, b = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([-1e9, -2e9, -3e9])
        network = Rectifier(((W, b),), (np.ones((1, 3)), np.zeros(1)))
        assert len(regions_on_plane(network)) == 6
        other = Rectifier(((W, b - [0, 0, 1.0]),), network.output)
        assert len(regions_on_plane(other)) == 7

    def test_directions_of_very_different_length(self) -> None:
        along = random_network(2, [6, 6], 0).along((0, 0), (1e12, 0), (0, 1e-12))
        assert len(regions_on_plane(along)) == len(regions_on_plane(random_network(2, [6, 6], 0)))

    def test_what_cannot_be_counted(self) -> None:
        with pytest.raises(ShapeError, match="the network reads 3"):
            regions_on_plane(random_network(3, [2], 0))
        with pytest.raises(ShapeError, match="the network reads 2"):
            regions_on_line(random_network(2, [2], 0))
        with pytest.raises(OptionError, match="must be different"):
            random_network(2, [2], 0).along([0, 0], [0, 0])
        with pytest.raises(OptionError, match="lower left"):
            regions_on_plane(random_network(2, [2], 0), (1, 0), (0, 1))
        with pytest.raises(OptionError, match="from low to high"):
            regions_on_line(random_network(1, [2], 0), 1, 1)


def area(polygon: np.ndarray) -> float:
    x, y = polygon.T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


class TestBounds:
    def test_hyperplanes(self) -> None:
        assert [most_regions(m, 2) for m in range(5)] == [1, 2, 4, 7, 11]
        assert most_regions(3, 5) == 8
        assert most_regions(10, 1) == 11

    def test_deep_ones(self) -> None:
        assert upper_bound(2, [5]) == most_regions(5, 2) == 16
        assert upper_bound(2, [1, 4]) == 2 * 5  # behind one unit there is one dimension
        assert upper_bound(2, []) == lower_bound(2, []) == 1
        assert lower_bound(2, [6, 6, 5]) == 3**2 * 3**2 * 16
        assert lower_bound(3, [2, 4]) is None

    @pytest.mark.parametrize(
        ("inputs", "sizes"), [(1, [5]), (1, [4, 3, 5]), (1, [2, 2, 2, 2]), (2, [4, 4]), (2, [5, 6, 4])]
    )
    def test_folding_reaches_the_lower_bound(self, inputs: int, sizes: list[int]) -> None:
        network = folding_network(inputs, sizes)
        assert network.widths == tuple(sizes)
        if inputs == 1:
            inside, whole = len(regions_on_line(network, 0, 1)), len(regions_on_line(network))
        else:
            inside, whole = len(regions_on_plane(network, (0, 0), (1, 1))), len(regions_on_plane(network))
        bound = lower_bound(inputs, sizes)
        assert bound is not None
        assert inside == bound
        assert bound <= whole <= upper_bound(inputs, sizes)

    def test_what_cannot_be_folded(self) -> None:
        with pytest.raises(OptionError, match="1 or 2 inputs; got 3"):
            folding_network(3, [4])
        with pytest.raises(OptionError, match="at least as wide as the 2 inputs"):
            folding_network(2, [4, 1])


gaps = st.lists(st.floats(0.05, 1), min_size=1, max_size=12)


class TestPolygonalLines:
    @given(gaps=gaps, data=st.data())
    @example(gaps=[1.0], data=None)
    def test_the_network_is_the_line_and_goes_on_beyond_it(self, gaps: list[float], data: st.DataObject | None) -> None:
        x = np.cumsum([-1, *gaps])
        y = (
            np.linspace(0, 1, len(x))
            if data is None
            else np.array(data.draw(st.lists(st.floats(-1, 1), min_size=len(x), max_size=len(x))))
        )
        network = polygonal_network(list(zip(x.tolist(), y.tolist(), strict=True)))
        at = np.random.default_rng(0).uniform(x[0], x[-1], 400)
        np.testing.assert_allclose(network(at[:, None])[:, 0], np.interp(at, x, y), rtol=0, atol=1e-12)
        np.testing.assert_allclose(network(x[:, None])[:, 0], y, rtol=0, atol=1e-12)
        slopes = np.diff(y) / np.diff(x)
        left, right = x[0] - np.array([0.1, 1, 2]), x[-1] + np.array([0.1, 1, 2])
        expected = np.concatenate([y[0] + slopes[0] * (left - x[0]), y[-1] + slopes[-1] * (right - x[-1])])
        beyond = network(np.concatenate([left, right])[:, None])[:, 0]
        np.testing.assert_allclose(beyond, expected, rtol=1e-12, atol=1e-12)
        assert network.widths == (max(2, len(gaps)),)

    def test_its_pieces_are_counted(self) -> None:
        random = np.random.default_rng(1)
        points = list(zip(np.arange(30.0).tolist(), random.normal(size=30).tolist(), strict=True))
        line = regions_on_line(polygonal_network(points))
        assert len(line) == line.pieces == 29
        np.testing.assert_allclose(line.breaks, np.arange(1.0, 29.0))

    @pytest.mark.parametrize(
        ("points", "message"),
        [
            ([(0, 0)], "at least two points"),
            ([(0, 0), (1, 1), (1, 2)], "x = 1 comes after x = 1"),
            ([(0, 0), (2, 1), (1, 2)], "x = 1 comes after x = 2"),
            ([(0, 0), (1, math.inf)], "finite"),
            ([(0, 0), (1e-320, 1)], "not finite"),
        ],
    )
    def test_points_that_are_no_line(self, points: list[tuple[float, float]], message: str) -> None:
        with pytest.raises(OptionError, match=message), np.errstate(all="ignore"):
            polygonal_network(points)


class TestTrainedModels:
    @pytest.mark.parametrize("residual", [False, True])
    def test_the_rectifier_is_the_model(self, residual: bool) -> None:
        model = multilayer((2,), 3, hidden_size=6, layers=3, residual=residual).double()
        x = torch.randn(40, 2, dtype=torch.float64) * torch.tensor([3.0, 0.1]) + 5
        model.prepare(x)
        network = rectifier_of(model)
        np.testing.assert_allclose(network(x.numpy()), model(x).detach().numpy(), rtol=0, atol=1e-12)

    def test_a_linear_classifier_has_one_region(self) -> None:
        assert len(regions_on_plane(rectifier_of(linear_classifier((2,), 2)))) == 1

    def test_what_has_no_linear_regions(self) -> None:
        with pytest.raises(OptionError, match="activation is tanh"):
            rectifier_of(multilayer((2,), 2, hidden_size=3, activation="tanh"))
        with pytest.raises(OptionError, match="basis functions or convolutions"):
            rectifier_of(basis_expansion((2,), 2))
        with pytest.raises(OptionError, match="basis functions or convolutions"):
            rectifier_of(convolutional((1, 8, 8), 2, channels=(2,)))
        with pytest.raises(OptionError, match="reads images"):
            rectifier_of(linear_classifier((1, 8, 8), 2))
        broken = multilayer((2,), 2, hidden_size=3)
        torch.nn.init.constant_(broken.output.bias, math.nan)
        with pytest.raises(OptionError, match="not finite"):
            rectifier_of(broken)

    def test_the_picture(self, tmp_path: Path) -> None:
        network = random_network(2, [5, 4], 0, outputs=3)
        window = regions_on_plane(network, (-1, -1), (1, 1))
        x, labels = torch.randn(20, 2), torch.arange(20) % 3
        options = {"points": x, "labels": labels, "classes": ("a", "b", "c")}
        window.plot(tmp_path / "cells", network=network, **options)
        assert {each.name for each in tmp_path.iterdir()} == {
            "cells.svg",
            "cells.png",
            "cells-dark.svg",
            "cells-dark.png",
        }
