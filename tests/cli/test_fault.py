"""An error that nobody foresaw: one line that says so, its traceback in a file, and an exit code of its own."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

import recurra as rc
from recurra.cli.main import OURS, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "one"
    return rc.train("tomita", steps=2, hidden_size=3, engine="eager", progress="none", out=out).path


@pytest.fixture(autouse=True)
def wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def evaluate(self: rc.Run, *args: Any, **options: Any) -> None:
        raise ZeroDivisionError("of nobody's\n\x1b[2J making")

    monkeypatch.setattr(rc.Run, "evaluate", evaluate)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_it_is_called_a_fault_of_ours_and_its_traceback_is_kept(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluate", str(folder)]) == OURS == 70
    out, err = capsys.readouterr()
    (file,) = tmp_path.glob("recurra-fault-*.txt")
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"recurra: a fault of Recurra's, while {folder} was used: ZeroDivisionError: of nobody's")
    assert line.endswith(f"Please report it; its traceback is in {file}.")
    assert line.isprintable()
    assert "in evaluate\n    raise ZeroDivisionError" in file.read_text()


def test_where_no_file_can_be_written_the_line_says_how_to_see_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert run(["evaluate", str(folder)]) == OURS
    assert "could not be written (No such file or directory), RECURRA_TRACEBACK=1 shows it." in capsys.readouterr().err


def test_it_can_be_seen_in_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECURRA_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run(["evaluate", str(folder)])
