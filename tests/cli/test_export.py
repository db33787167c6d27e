"""`recurra export`: one command from a run to files, and one line where it cannot be."""

import json

import pytest

import recurra as rc
from recurra.cli.main import run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "run"
    rc.train("tomita", steps=5, hidden_size=8, out=folder, progress="none")
    return folder


@pytest.mark.parametrize(
    ("to", "files"),
    [
        ("onnx", ["step.onnx", "sequence.onnx", "model.json"]),
        ("c", ["model.h", "model.c", "model.json"]),
        ("weights", ["network.json", "weights.safetensors"]),
    ],
)
def test_each_format_is_written_where_it_is_asked_for(trained, to, files, tmp_path, capsys):
    assert run(["export", str(trained), "--to", to, "--out", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [file["name"] for file in told["files"]][: len(files)] == files
    for file in told["files"]:
        assert (tmp_path / "out" / file["name"]).stat().st_size == file["bytes"]


def test_without_a_place_the_run_keeps_it(trained, capsys):
    assert run(["export", str(trained), "--to", "c", "--name", "tomita", "--int8"]) == 0
    assert "int8 changes the outputs by" in capsys.readouterr().out
    assert (trained / "export" / "c" / "tomita.h").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--to", "jpg"], "format 'jpg' does not exist"),
        (["--to", "weights", "--int8"], "int8 is for onnx and c"),
        (["--to", "onnx", "--own-math"], "name and own_math are for c"),
        (["--out", "/proc/none"], "cannot be written"),
    ],
)
def test_refusals_are_one_line(trained, options, told, capsys):
    assert run(["export", str(trained), *options]) == 2
    errors = capsys.readouterr().err
    assert told in errors
    assert errors.count("\n") == 1


def test_a_run_carries_its_vocabulary(tmp_path):
    trained = rc.train(
        "text", data=["abab abba " * 80], steps=2, batch_size=2, hidden_size=4, out=tmp_path / "run", progress="none"
    )
    trained.export("onnx", tmp_path / "out")
    told = json.loads((tmp_path / "out" / "model.json").read_text())
    assert told["vocabulary"]["symbols"] == [" ", "a", "b"]
    assert told["recipe"]["name"] == "text"
