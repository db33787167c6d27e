"""Convolution place by place: the map by its definition, pooling, the film, what is refused."""

import pytest
import torch

import recurra as rc
from recurra.cli.main import run


def test_the_map_is_the_double_sum() -> None:
    torch.manual_seed(0)
    x, K = torch.randn(3, 6, 7).double(), torch.randn(3, 2, 2).double()
    found = rc.lecture.convolve(x, K, bias=0.5, stride=2, pool="none")
    for i in range(3):
        for j in range(3):
            window = x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
            assert float(found.map[i, j]) == pytest.approx(0.5 + float((window * K).sum()))
            assert found.parts[:, i, j].tolist() == pytest.approx((window * K).sum((1, 2)).tolist())
    assert found.map.shape == (3, 3)
    assert found.frames == 9


@pytest.mark.parametrize(("pool", "first"), [("max", 6.0), ("average", 2.5)])
def test_pooling(pool: str, first: float) -> None:
    found = rc.lecture.convolve([[0, 1, 2, 3], [3, 6, 5, 4], [0, 0, 0, 0], [0, 0, 0, 1]], [[1]], pool=pool)
    assert found.pooled.shape == (2, 2)
    assert float(found.pooled[0, 0]) == first
    assert float(found.pooled[1, 1]) == (1 if pool == "max" else 0.25)


def test_a_convolutional_network_computes_the_same() -> None:
    found = rc.lecture.convolve()
    layer = torch.nn.Conv2d(2, 1, 3).double()
    with torch.no_grad():
        layer.weight.copy_(found.filters[None])
        layer.bias.zero_()
    pooled = torch.nn.functional.max_pool2d(layer(found.image[None]), 2)
    assert torch.allclose(pooled[0, 0], found.pooled)


def test_a_frame_shows_only_what_was_reached() -> None:
    found = rc.lecture.convolve()
    assert found.frames == 16 + 4

    def shown(name: str, frame: int) -> int:
        patches = [patch for axis in found.plot(frame=frame).axes for patch in axis.patches]
        return sum(str(patch.get_gid()).startswith(f"{name}-") for patch in patches)

    assert [shown("map", frame) for frame in (0, 5, 15, 19)] == [1, 6, 16, 16]
    assert [shown("pooled", frame) for frame in (15, 16, 19)] == [0, 1, 4]


def test_the_film_has_a_frame_for_each_place(tmp_path) -> None:
    image = pytest.importorskip("PIL.Image")
    found = rc.lecture.convolve([[0, 1, 2]] * 3, [[1, 0], [0, 2]], pool_size=2)
    with image.open(found.animate(tmp_path / "film.gif")) as film:
        assert film.n_frames == found.frames == 5


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"image": [[1, 2], [3]]}, "image must be rows of numbers"),
        ({"image": [[float("nan")]]}, "finite"),
        ({"filters": [[1, 2]]}, "one for each of the image's 2 channels"),
        ({"filters": torch.ones(2, 7, 7)}, "must fit"),
        ({"stride": 0}, "stride"),
        ({"pool": "least"}, "pool"),
        ({"pool_size": 5}, "larger than the map"),
    ],
)
def test_refused(how: dict, match: str) -> None:
    with pytest.raises(rc.RecurraError, match=match):
        rc.lecture.convolve(**how)


def test_the_command(tmp_path, capsys) -> None:
    assert run(["lecture", "convolution", "--pool", "average", "--plot", str(tmp_path / "c.svg")]) == 0
    assert "average of 2 × 2" in capsys.readouterr().out
    assert (tmp_path / "c.svg").read_text().count('id="map-') == 16
