"""`recurra cells` and `recurra check`, on the catalogue and on a cell in a file of the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from recurra import CATALOGUE, Recurrent
from recurra.cli.main import run
from recurra.engines.choose import ENGINES
from recurra.engines.eager import Eager
from recurra.types import Shape

OWN = '''
import random
from recurra import Learned, ago, cell, sigmoid, tanh


@cell
def own(x, U, h, m, *, k=Learned(0.5, low=0, high=1)):
    """A cell of one's own."""
    g = sigmoid(x.g + U.g(ago(h, 2)))
    m = k * m + (1 - k) * tanh(x.m + U.m(g * h))
    return g * m, m


@cell
def moody(x, U, h):
    return tanh(x.h + U.h(h)) * random.random()
'''

BROKEN = (
    OWN
    + """

@cell
def branching(x, U, h):
    n = tanh(x.h + U.h(h))
    return n if n > 0 else h
"""
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cells_of_mine.py"
    path.write_text(OWN)
    return path


def test_a_cell_in_a_file_runs_on_every_engine_that_supports_it(file: Path) -> None:
    x = torch.randn(3, 6, 4, dtype=torch.float64)
    layer = Recurrent(f"{file}:own", 4, 5, layers=2, dtype=torch.float64)
    ran = []
    for name, engine in ENGINES.items():
        if not engine.supports(layer.cell, torch.device("cpu"), torch.float64, Shape(3, 6, 4, 5)):
            continue
        layer.engine = name
        outputs = layer(x).outputs
        state, steps = None, []
        for t in range(6):
            y, state = layer.step(x[:, t], state)
            steps.append(y)
        torch.testing.assert_close(torch.stack(steps, dim=1), outputs, rtol=0, atol=1e-12)
        ran.append((name, outputs))
    assert [name for name, _ in ran] == ["fused", "newton", "eager"]
    for _, outputs in ran[:-1]:
        torch.testing.assert_close(outputs, ran[-1][1], rtol=0, atol=1e-10)


def test_check_of_a_cell_that_is_right(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", f"{file}:own"]) == 0
    out = capsys.readouterr().out
    assert "all agree" in out
    assert "finite differences: gradient of units.k" in out
    assert "fused against eager: gradients (with lengths)" in out
    assert "vendor does not run it: torch has kernels for" in out


def test_check_as_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", f"{file}:own", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["agrees"]
    assert all(row["error"] <= row["limit"] for row in report["rows"])
    assert {row["limit"] for row in report["rows"]} == {1e-10, 1e-6}
    assert "vendor" in report["not_run"]


def test_equations_that_are_not_a_function_are_found(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", f"{file}:moody"]) == 1
    assert "DISAGREES" in capsys.readouterr().out


def test_an_engine_that_is_wrong_is_found(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slightly(Eager):
        name = "slightly"

        def run(self, cell, weights, x, *rest, **options):  # type: ignore[no-untyped-def]
            return super().run(cell, weights, x * (1 + 1e-7), *rest, **options)

    monkeypatch.setitem(ENGINES, "slightly", Slightly())
    assert run(["check", f"{file}:own", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    wrong = {row["check"] for row in report["rows"] if not row["agrees"]}
    assert wrong
    assert all(check.startswith("slightly against eager") for check in wrong)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "nowhere.py:own"], "there is no file 'nowhere.py'"),
        (["check", "{file}:owm"], "Did you mean 'own'?"),
        (["cells", "grru"], "Did you mean 'gru'?"),
        (["cells", "skip(dd=3)"], "has no option 'dd'. Did you mean 'd'?"),
        (["cells", "gru", "--source", "cp"], "Did you mean 'cpp'?"),
        (["chekc"], "No such command 'chekc'"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run([each.format(file=file) for each in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_a_cell_that_cannot_be_read_names_its_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(BROKEN)
    assert run(["check", f"{file}:own"]) == 2  # the file as a whole is read
    line = next(k for k, text in enumerate(BROKEN.splitlines(), 1) if "if n > 0" in text)
    assert f"{file.name}:{line}: " in capsys.readouterr().err


def test_the_list_names_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cells"]) == 0
    out = capsys.readouterr().out
    assert all(any(line.startswith(f"{name} ") for line in out.splitlines()) for name in CATALOGUE)
    assert run(["cells", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(CATALOGUE)


def test_one_cell(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "gru.svg"
    assert run(["cells", "gru", "--picture", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "n = tanh(x.n + U.n(r * h))" in out
    assert "U.[z, r](h)" in out
    assert "torch has kernels for" in out
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert run(["cells", "skip(d=8)", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["states"] == {"h": 8}
    assert found["engines"]["eager"] == ""
    assert found["engines"]["vendor"]


def test_the_source_is_that_of_the_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cells", "leaky", "--source", "cpp"]) == 0
    out = capsys.readouterr().out
    assert "//     h' = alpha * h + (1 - alpha) * tanh(x.h + U.h(h))" in out
    assert "void backward_passes" in out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == "0.1.0\n"


def test_check_of_a_cell_without_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "clock.py"
    text = "from recurra import cell, tanh\n\n\n@cell\ndef clock(x, U, h, age):\n    return tanh(U.h(h) + 0.1 * age), age + 1\n"
    file.write_text(text)
    assert run(["check", f"{file}:clock"]) == 0
    assert "clock" in capsys.readouterr().out
