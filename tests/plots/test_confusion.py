"""The picture of which class was taken for which: names are written as they are, and many classes still make a picture."""

from pathlib import Path

import pytest

from recurra.metrics.confusion import Confusion

pytest.importorskip("matplotlib")


def test_names_are_no_mathematics(tmp_path: Path) -> None:
    Confusion(["$x^{", "b_1"], [[3, 1], [0, 0]]).plot(tmp_path / "explain" / "confusion")
    for suffix in ("", "-dark"):
        assert (tmp_path / f"explain/confusion{suffix}.png").stat().st_size > 5000
    assert "3 of 4 right" in (tmp_path / "explain/confusion.svg").read_text()


def test_many_classes(tmp_path: Path) -> None:
    Confusion([str(k) for k in range(60)], [[int(i == j) for j in range(60)] for i in range(60)]).plot(tmp_path / "c")
    assert (tmp_path / "c.svg").exists()
