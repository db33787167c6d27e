"""The picture of an attention: the same bytes each time, tokens that can be seen, and files that are refused."""

from pathlib import Path

import pytest
import torch

from recurra.analysis.attention import Attention
from recurra.errors import OptionError

pytest.importorskip("matplotlib")

WEIGHTS = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])


def test_one_drawing_is_like_another(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        Attention(WEIGHTS, ["a", " ", "$x$"], ["long word", ""]).plot(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    Attention(1 - WEIGHTS, ["a", " ", "$x$"], ["long word", ""]).plot(tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() != (tmp_path / "b.svg").read_bytes()


def test_refused(tmp_path: Path) -> None:
    attention = Attention(WEIGHTS, ["a"] * 3, ["b"] * 2)
    with pytest.raises(OptionError, match=r"\.svg, \.png or \.pdf; got \.gif"):
        attention.plot(tmp_path / "map.gif")
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="cannot be written"):
        attention.plot(tmp_path / "file/map.svg")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
