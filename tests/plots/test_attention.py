"""The picture of an attention: the same bytes each time, symbols that can be seen, and files that are refused."""

from pathlib import Path

import pytest
import torch

from recurra.errors import OptionError

pytest.importorskip("matplotlib")

from recurra.plots.attention import plot_attention

WEIGHTS = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])


def test_one_drawing_is_like_another(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        plot_attention(WEIGHTS, ["a", " ", "$x$"], ["long word", ""], tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    plot_attention(1 - WEIGHTS, ["a", " ", "$x$"], ["long word", ""], tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() != (tmp_path / "b.svg").read_bytes()


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\.png or \.svg; got no ending"):
        plot_attention(WEIGHTS, ["a"] * 3, ["b"] * 2, tmp_path / "map")
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="cannot be written"):
        plot_attention(WEIGHTS, ["a"] * 3, ["b"] * 2, tmp_path / "file/map.svg")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
