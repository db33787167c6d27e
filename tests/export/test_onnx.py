"""ONNX Runtime computes what the plain loop computes: every cell, every model, other lengths and batch sizes."""

import json
import tarfile

import numpy as np
import onnx
import pytest
import torch

import recurra as rc
from recurra.export import onnx as onnx_files
from recurra.export.agreement import SIZES, trials
from recurra.export.evaluate import run_network
from recurra.export.network import describe
from recurra.export.onnx import open_session, write_onnx
from recurra.export.standard import find_standard
from tests.export.models import MODELS, make
from tests.helpers import CELLS
from tests.tasks.test_legacy import ARCHIVE

FORMS = {"one": {}, "stack": {"layers": 2, "bidirectional": True, "learn_initial": True}}


def worst(files):
    """The largest difference of the files that are run; there is at least one."""
    return max(file.difference for file in files if file.name.endswith(".onnx"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cell", CELLS)
def test_cell_agrees_with_the_plain_loop(cell, form, tmp_path):
    torch.manual_seed(0)
    layer = rc.Recurrent(CELLS[cell], 3, 8, **FORMS[form]).eval()
    files = write_onnx(describe(layer), tmp_path, {})
    graphs = ["sequence.onnx"] if form == "stack" else ["step.onnx", "sequence.onnx"]
    assert [file.name for file in files] == [*graphs, "model.json"]
    assert worst(files) <= 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_model_agrees_with_the_plain_loop(name, tmp_path):
    found = rc.export(make(name).model, "onnx", tmp_path)
    assert worst(found.files) <= 1e-5


def test_sizes_differ():
    """The trials that an export must pass have several lengths and batch sizes, and sequences that end early."""
    assert len({B for B, _ in SIZES}) == 3
    assert len({T for _, T in SIZES}) == 3
    last = list(trials(describe(rc.Recurrent("gru", 3, 8))["model"], steps=True))[-1]
    assert int(last.lengths.min()) < int(last.lengths.max()) == last.inputs["x"].shape[1]


@pytest.mark.parametrize(
    ("cell", "operator"),
    [("lstm", "LSTM"), ("gru", "GRU"), ("gru_after", "GRU"), ("elman", "RNN"), ("elman(activation=relu)", "RNN")],
)
def test_standard_operators_are_used(cell, operator, tmp_path):
    rc.export(rc.Recurrent(cell, 3, 8, bidirectional=True), "onnx", tmp_path)
    graph = onnx.load(tmp_path / "sequence.onnx").graph
    assert {node.op_type for node in graph.node} & {"LSTM", "GRU", "RNN", "Scan"} == {operator}


def test_a_cell_with_other_names_is_recognised():
    @rc.cell
    def renamed(x, U, s):
        keep = rc.sigmoid(x.a + U.a(s))
        reset = rc.sigmoid(U.b(s) + x.b)
        return (1 - keep) * s + keep * rc.tanh(x.c + U.c(reset * s))

    found = find_standard(renamed.graph)
    assert found is not None
    assert found.operator == "GRU"
    assert find_standard(rc.find_cell("lstm_peephole").graph) is None


def test_a_stream_in_steps_equals_the_sequence(tmp_path):
    layer = rc.Recurrent("delayed", 3, 8, layers=2).eval()
    rc.export(layer, "onnx", tmp_path)
    x = torch.randn(2, 12, 3)
    with torch.no_grad():
        expected = layer(x).outputs.numpy()
    session = open_session(tmp_path / "step.onnx")
    names = [entry.name for entry in session.get_outputs()]
    state = {e.name: np.zeros([2, *e.shape[1:]], np.float32) for e in session.get_inputs() if e.name != "x"}
    for t in range(12):
        found = dict(zip(names, session.run(names, {"x": x[:, t].numpy()} | state), strict=True))
        state = {name.replace("_out", "_in"): value for name, value in found.items() if name.endswith("_out")}
        np.testing.assert_allclose(found["y"], expected[:, t], atol=1e-5)


def test_metadata_says_what_a_reader_needs(tmp_path):
    layer = rc.Recurrent("gru", 3, 8, learn_initial=True)
    with torch.no_grad():
        layer.stack[0][0].initial[0].fill_(0.25)
    rc.export(layer, "onnx", tmp_path, facts={"vocabulary": ["a", "b"]})
    model = onnx.load(tmp_path / "step.onnx")
    told = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert told["vocabulary"] == ["a", "b"]
    assert told["graphs"]["step"]["states"] == [
        {"in": "h_0_in", "out": "h_0_out", "shape": [8], "initial": [0.25] * 8},
    ]
    assert (model.opset_import[0].version, model.producer_name) == (17, "recurra")


def test_a_disagreement_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    right = onnx_files._serialised

    def wrong(network, *arguments, **options):
        torch.manual_seed(1)
        return right(describe(rc.Recurrent("gru", 3, 8))["model"], *arguments, **options)

    monkeypatch.setattr(onnx_files, "_serialised", wrong)
    with pytest.raises(rc.EngineError, match=r"step\.onnx computes something else than the network"):
        rc.export(rc.Recurrent("gru", 3, 8), "onnx", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cell", ["lstm", "gru", "leaky"])
def test_eight_bits_are_smaller_and_say_what_they_cost(cell, tmp_path):
    torch.manual_seed(0)
    model = rc.models.LanguageModel(60, rc.Recurrent(cell, 64, 64))
    found = {file.name: file for file in rc.export(model, "onnx", tmp_path, int8=True).files}
    for name in ("step", "sequence"):
        whole, small = found[f"{name}.onnx"], found[f"{name}.int8.onnx"]
        assert small.bytes < 0.5 * whole.bytes
        assert 1e-5 < small.difference < 0.05
        assert "the largest output is the same in" in small.notes[0]


def _legacy() -> list[str]:
    with tarfile.open(ARCHIVE) as archive:
        return sorted({name.split("/")[1] for name in archive.getnames() if name.startswith("runs/")})


@pytest.mark.parametrize("name", _legacy())
def test_a_run_of_each_task_leaves(name, tmp_path, monkeypatch):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    model = rc.open(tmp_path / "runs" / name).model  # the reservoir's has not been solved for: it is exported as it is
    found = rc.export(model, "onnx", tmp_path / "out")
    assert worst(found.files) <= 1e-5


IN_FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32"}  # OpenVINO takes bfloat16 by itself where the processor has it


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["lstm", "gru", "leaky", "delayed", "lru"])
def test_another_runtime_computes_the_same(cell, tmp_path):
    openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed: pip install openvino")
    torch.manual_seed(0)
    layer = rc.Recurrent(cell, 3, 8, layers=2).eval()
    rc.export(layer, "onnx", tmp_path)
    network = describe(layer)["model"]
    for name in ("step", "sequence"):
        compiled = openvino.Core().compile_model(str(tmp_path / f"{name}.onnx"), "CPU", IN_FLOAT32)
        for trial in trials(network, steps=name == "sequence"):
            x, lengths = trial.inputs["x"], trial.lengths
            if find_standard(
                layer.cell.graph
            ):  # OpenVINO's LSTM and GRU give the states of the last step, padding or not
                lengths = torch.full_like(lengths, x.shape[1])
            outputs, after = run_network(network, trial.inputs, trial.before, lengths)
            fed = {"x": x, "lengths": lengths} if name == "sequence" else {"x": x[:, 0]}
            fed |= {f"{state}_in": value for state, value in trial.before.items()}
            found = compiled({key: value.numpy() for key, value in fed.items()})
            y = outputs["y"] if name == "sequence" else outputs["y"][:, 0]
            for key, expected in {"y": y, **{f"{state}_out": value for state, value in after.items()}}.items():
                torch.testing.assert_close(torch.from_numpy(found[key].copy()), expected, rtol=1e-5, atol=1e-5)


FEEDFORWARD = {
    "linear": lambda: rc.models.linear_classifier([2, 3], 3),
    "polynomial": lambda: rc.models.basis_expansion([2], 3, degree=3),
    "radial": lambda: rc.models.basis_expansion([2], 3, basis="radial", centres=7),
    **{
        f"layers-{name}": lambda name=name: rc.models.multilayer(
            [4], 3, hidden_size=8, layers=3, activation=name, residual=True
        )
        for name in ("tanh", "sigmoid", "relu", "softplus", "linear")
    },
    **{
        f"convolution-{pooling}": lambda pooling=pooling: rc.models.convolutional(
            [2, 8, 8], 3, channels=[4, 4], pooling=pooling, residual=True
        )
        for pooling in ("max", "average", "none")
    },
}
TREES = ["fold", "sum", "plain", "child-sum", "n-ary"]


@pytest.mark.parametrize("kind", FEEDFORWARD)
def test_feedforward_networks_agree(kind, tmp_path):
    torch.manual_seed(0)
    model = FEEDFORWARD[kind]()
    model.prepare(torch.randn(50, *model.shape))
    assert worst(rc.export(model, "onnx", tmp_path).files) <= 1e-5


@pytest.mark.parametrize("composition", TREES)
def test_trees_agree(composition, tmp_path):
    torch.manual_seed(0)
    model = rc.models.TreeClassifier(9, 5, 8, embedding_size=6, composition=composition)
    assert worst(rc.export(model, "onnx", tmp_path).files) <= 1e-5


def test_unbalanced_trees_agree(tmp_path):
    torch.manual_seed(0)
    model = rc.models.TreeClassifier(9, 5, 8, composition="fold", cell="gru").eval()
    rc.export(model, "onnx", tmp_path)
    forest = rc.data.make_forest([[-1, 0, 0, 2, 2, 0], [-1, 0, 1, 2]], [[7, 1, 8, 2, 3, 4], [1, 2, 3, 4]])
    session = open_session(tmp_path / "predict.onnx")
    (found,) = session.run(["logits"], {"tokens": forest.tokens.numpy(), "parents": forest.parents.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(found, model(forest).numpy(), atol=1e-5)
