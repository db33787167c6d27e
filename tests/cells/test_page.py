"""The pages of the cells: up to date, right about the number of parameters, and written without harm."""

import re
from pathlib import Path

import pytest

from recurra import CATALOGUE, Cell, Recurrent, zoneout
from recurra.cells import page as module
from recurra.cells.page import COMMAND, count, main, page, pages, write_pages
from tests.helpers import CELLS

FOLDER = Path(__file__).parents[2] / "docs" / "cells"

every_cell = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS.keys())


def test_pages_are_up_to_date() -> None:
    for name, text in pages().items():
        file = FOLDER / name
        assert file.is_file(), f"docs/cells/{name} is missing; run: {COMMAND}"
        assert file.read_text(encoding="utf-8") == text, f"docs/cells/{name} is stale; run: {COMMAND}"


def counted(text: str, H: int, D: int) -> int:
    """The formula that the page gives, in numbers."""
    (formula,) = re.findall(r"^Learned numbers in one layer.*\*\*(.*)\*\*\.$", text, flags=re.MULTILINE)
    total = 0
    for term in formula.split(" + "):
        factor, size = re.fullmatch(r"(\d*)(HD|H²|H)", term).groups()
        total += int(factor or 1) * {"HD": H * D, "H²": H * H, "H": H}[size]
    return total


@every_cell
def test_parameters_are_counted(cell: Cell) -> None:
    layer = Recurrent(cell, input_size=2, hidden_size=3)
    real = sum(parameter.numel() for parameter in layer.parameters())
    assert counted(page(cell), H=3, D=2) == real
    assert count(cell.graph, 3, 2) == real


@every_cell
def test_every_parameter_has_a_row(cell: Cell) -> None:
    table = page(cell).partition("## Parameters")[2].partition("##")[0]
    rows = re.findall(r"^\| `(\S+)` \|.*\| (learned|fixed)", table, flags=re.MULTILINE)
    graph = cell.graph
    blocks = [
        f"{kind}.{name}"
        for kind, names in (("W", graph.drives), ("b", graph.drives), ("U", graph.matrices))
        for name in names
    ]
    assert [name for name, _ in rows] == [*blocks, *graph.parameters]
    real = dict(Recurrent(cell, 2, 3).stack[0][0].named_parameters())
    for name, learned in rows[len(blocks) :]:
        assert (learned == "learned") == (f"units.{name}" in real)


@every_cell
def test_equations_are_on_the_page(cell: Cell) -> None:
    text = page(cell)
    for line in [*cell.graph.equations(), *cell.graph.latex()]:
        assert line in text


def test_first_values_and_bounds() -> None:
    assert "| `b.f` | H | 1 | learned |" in page(CATALOGUE["lstm"])
    assert "| `alpha` | H | 0.9 | learned, between 0 and 1 |" in page(CATALOGUE["leaky"])
    assert "| `period` | H | 1, 2, 4, 8 (equal groups of units) | fixed |" in page(CATALOGUE["clockwork"])
    assert "| `U.h` | H × H | random, kept orthogonal | learned |" in page(CATALOGUE["orthogonal"])


def test_states_options_and_stages() -> None:
    skip = page(CATALOGUE["skip"](d=7))
    assert "| `h` | [B, 7, H], oldest first | 1, 7 | output |" in skip
    assert "| `d` | `7` |" in skip
    assert '| `activation` | `"tanh"` |' in page(CATALOGUE["elman"])
    assert "| 2 | `U.n` | `r * h` |" in page(CATALOGUE["gru"])


def test_what_the_equations_tell() -> None:
    scan = "| all of time can be computed at once, by a scan | {} |"
    assert scan.format("yes") in page(CATALOGUE["mingru"])
    assert scan.format("no") in page(CATALOGUE["gru"])
    assert "random mask, drawn for each step: 1 with probability 0.2, else 0" in page(zoneout(CATALOGUE["lstm"], 0.2))


def test_only_cells_of_the_catalogue_have_an_example_by_name() -> None:
    assert 'Recurrent("skip"' in page(CATALOGUE["skip"])
    assert 'Recurrent("skip"' not in page(CATALOGUE["skip"](d=7))


def test_index_lists_every_cell() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\)", pages()["README.md"], flags=re.MULTILINE)
    assert rows == [(name, name) for name in CATALOGUE]


def test_other_files_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "cells"
    folder.mkdir(parents=True)
    (folder / "notes.md").write_text("mine")
    (folder / "gru.md").write_text("old")
    assert main([str(folder)]) == 0
    assert (folder / "notes.md").read_text() == "mine"
    assert (folder / "gru.md").read_text() == page(CATALOGUE["gru"])
    assert {file.name for file in folder.iterdir()} == {*pages(), "notes.md"}
    assert f"{len(pages())} files" in capsys.readouterr().out


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text("old")
    monkeypatch.setattr(module, "pages", lambda: {"README.md": "half \ud800"})  # cannot be encoded
    with pytest.raises(UnicodeEncodeError):
        write_pages(tmp_path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("README.md", "old")]


def test_a_file_in_the_way_is_an_error_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "cells"
    taken.write_text("a file")
    assert main([str(taken)]) == 2
    assert main([]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert "is a file. Pass the folder" in errors[0]
    assert errors[1] == f"usage: {COMMAND}"
    assert taken.read_text() == "a file"
