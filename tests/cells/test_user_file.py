"""What is found in a user's own Python file, for cells and for labels alike, and what is said where it is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recurra.analysis.user_labels import read_labeller
from recurra.cells.catalogue import find_cell
from recurra.cells.user_file import find_in_file
from recurra.errors import OptionError

KINDS = {"cell": find_cell, "function": read_labeller}


def test_a_value_that_fits(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("a = 1\nb = 'one'\n")
    assert find_in_file(tmp_path / "own.py", "b", "text", lambda value: isinstance(value, str)) == "one"
    with pytest.raises(OptionError, match="has no text 'a'"):
        find_in_file(tmp_path / "own.py", "a", "text", lambda value: isinstance(value, str))


def test_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "own.py").write_text("def f(text): return [1 for _ in text]\n")
    assert read_labeller("~/own.py:f")("ab") == {"f": [1, 1]}


@pytest.mark.parametrize("kind", KINDS)
class TestRefused:
    def said(self, read: Callable[[str], Any], named: str) -> str:
        with pytest.raises(OptionError) as caught:
            read(named)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_a_file_that_is_not_there(self, kind: str, tmp_path: Path) -> None:
        said = self.said(KINDS[kind], f"{tmp_path / 'gone.py'}:f")
        assert f"gone.py' to read the {kind} 'f' from" in said

    def test_a_file_that_fails_by_its_line(self, kind: str, tmp_path: Path) -> None:
        (tmp_path / "own.py").write_text("a = 1\n\nb = a / 0\n")
        assert "own.py:3: the file cannot be run: ZeroDivisionError" in self.said(
            KINDS[kind], f"{tmp_path / 'own.py'}:f"
        )

    def test_a_name_that_is_not_there(self, kind: str, tmp_path: Path) -> None:
        (tmp_path / "own.py").write_text("a = 1\n")
        assert f"has no {kind} 'f'" in self.said(KINDS[kind], f"{tmp_path / 'own.py'}:f")
