"""ONNX files: one takes a step, with every state in and out, one takes whole sequences. Both are run before they are kept."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recurra.errors import EngineError, OptionError
from recurra.export.agreement import ALLOWED, Trial, named_states, trials
from recurra.export.exported import ExportedFile
from recurra.export.network import Network, state_slots
from recurra.runs.disk import replace_file, to_json

IR_VERSION = 8
"""Of the file format, as ONNX 1.12 wrote it: older runtimes read it too."""


def write_onnx(
    networks: Mapping[str, Network], folder: Path, facts: Mapping[str, Any], *, int8: bool = False
) -> list[ExportedFile]:
    """Every graph of a model, checked against the plain loop at several lengths and batch sizes.

    - `facts`: what a reader needs beside the numbers, such as the vocabulary; kept in each file as JSON metadata.
    - `int8`: also a file with weights in 8 bits (dynamic quantisation), and what that costs.
    """
    _import()
    files = []
    for name, steps, network in _graphs(networks):
        content = _serialised(network, name, steps, facts)
        tried = list(trials(network, steps=steps))
        difference, agrees = _compare(content, network, tried, steps)
        _refuse_unless(agrees, name, difference)
        replace_file(folder / f"{name}.onnx", content)
        about = "whole sequences with lengths" if steps else "one step"
        files.append(ExportedFile(f"{name}.onnx", len(content), f"{about}, states in and out", difference))
        if int8:
            # LSTM is the one operator of its kind that has a form with weights in 8 bits
            written_out = _serialised(network, name, steps, facts, operators=("LSTM",))
            files.append(_quantised(written_out, folder, name, network, tried, steps))
    return [*files, write_facts(folder, facts)]


def write_whole_onnx(model: nn.Module, folder: Path, facts: Mapping[str, Any]) -> list[ExportedFile]:
    """`predict.onnx`, of a model that reads examples or trees and not sequences."""
    _import()
    from recurra.export.onnx_whole import whole_trials, write_whole

    with torch.no_grad():
        content = _to_bytes(write_whole(model), facts)
        session, difference = open_session(content), 0.0
        for inputs, expected in whole_trials(model):
            (found,) = session.run(["logits"], {name: value.numpy() for name, value in inputs.items()})
            off = float((torch.from_numpy(found) - expected).abs().max())
            difference = max(difference, off / max(1.0, float(expected.abs().max())))
    _refuse_unless(difference <= ALLOWED, "predict", difference)
    replace_file(folder / "predict.onnx", content)
    return [ExportedFile("predict.onnx", len(content), "scores of classes", difference), write_facts(folder, facts)]


def write_facts(folder: Path, facts: Mapping[str, Any]) -> ExportedFile:
    """The metadata once more, for runtimes that do not show what a file carries."""
    content = to_json(dict(facts), "facts", pretty=True)
    replace_file(folder / "model.json", content)
    return ExportedFile("model.json", len(content), "inputs, states and vocabulary, as in each file's metadata")


def _refuse_unless(agrees: bool, name: str, difference: float) -> None:
    if not agrees:
        raise EngineError(
            f"export: {name}.onnx computes something else than the network (off by {difference:.1e}). Nothing was "
            "written; please report it."
        )


def _graphs(networks: Mapping[str, Network]) -> list[tuple[str, bool, Network]]:
    """The files of a model: their names, whether they take whole sequences, and what of."""
    if "encoder" in networks:
        return [("encoder", True, networks["encoder"]), ("decoder", False, networks["decoder"])]
    network = networks["model"]
    streams = [] if network.cannot_stream else [("step", False, network)]
    return [*streams, ("sequence", True, network)]


def describe_graphs(networks: Mapping[str, Network]) -> dict[str, Any]:
    """Inputs, outputs and states of each file by name, with the first values of states that do not start at zero."""
    found = {}
    for name, steps, network in _graphs(networks):
        found[name] = {
            "steps": steps,
            "inputs": {value.name: {"kind": value.kind, "size": value.size} for value in network.inputs},
            "outputs": {called: value.size for called, value in network.outputs.items()},
            "states": [
                {
                    "in": f"{slot.name}_in",
                    "out": f"{slot.name}_out",
                    "shape": list(slot.shape),
                    "initial": slot.initial.tolist() if bool(slot.initial.any()) else "zeros",
                }
                for slot in state_slots(network)
            ],
        }
    return found


def _import() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise OptionError(
            "ONNX files need onnx and onnxruntime. Install them with pip install 'recurra[onnx]'."
        ) from None
    return onnx, onnxruntime


def _serialised(network: Network, name: str, steps: bool, facts: Mapping[str, Any], **options: Any) -> bytes:
    from recurra.export.onnx_network import write_network

    return _to_bytes(write_network(network, name, steps=steps, **options), facts)


def _to_bytes(graph: Any, facts: Mapping[str, Any]) -> bytes:
    onnx, _ = _import()
    from recurra import __version__
    from recurra.export.onnx_nodes import OPSET

    opset = onnx.helper.make_opsetid("", OPSET)
    model = onnx.helper.make_model(
        graph, producer_name="recurra", producer_version=__version__, ir_version=IR_VERSION, opset_imports=[opset]
    )
    for key, value in facts.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value if isinstance(value, str) else json.dumps(value)
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def open_session(content: bytes | Path) -> Any:
    """A file in ONNX Runtime, on one thread."""
    _, runtime = _import()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    source = str(content) if isinstance(content, Path) else content
    return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _run(session: Any, network: Network, trial: Trial, steps: bool) -> dict[str, Tensor]:
    """What a file gives for a trial, under the names of outputs and states."""
    of_steps = {value.name for value in network.inputs if value.kind in ("tokens", "numbers")}
    fed = {name: (x if steps or name not in of_steps else x[:, 0]) for name, x in trial.inputs.items()}
    if steps:
        fed["lengths"] = trial.lengths
    fed |= {f"{name}_in": state for name, state in trial.before.items()}
    names = [*network.outputs, *named_states(network, "out")]
    asked = {entry.name for entry in session.get_inputs()}  # an input that nothing depends on is not there
    found = session.run(names, {name: value.contiguous().numpy() for name, value in fed.items() if name in asked})
    given = dict(zip(names, map(torch.from_numpy, found), strict=True))
    for name, value in network.outputs.items():
        if not steps and not value.is_whole:
            given[name] = given[name][:, None]
    return {name.removesuffix("_out") if name not in network.outputs else name: each for name, each in given.items()}


def _compare(content: bytes, network: Network, tried: list[Trial], steps: bool) -> tuple[float, bool]:
    """The largest difference of all trials, and whether each is within what is allowed."""
    session = open_session(content)
    found = [_run(session, network, trial, steps) for trial in tried]
    pairs = list(zip(tried, found, strict=True))
    return max(trial.difference(each) for trial, each in pairs), all(trial.agrees(each) for trial, each in pairs)


def _quantised(
    content: bytes, folder: Path, name: str, network: Network, tried: list[Trial], steps: bool
) -> ExportedFile:
    """The same with matrices in 8 bits: its size, and how far its outputs are off."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as place:
        whole, small = Path(place) / "whole.onnx", Path(place) / "small.onnx"
        whole.write_bytes(content)
        options = {"EnableSubgraph": True, "MatMulConstBOnly": True}
        logging.disable(logging.WARNING)  # it advises, on the root logger, what was done already
        try:
            quantize_dynamic(whole, small, weight_type=QuantType.QInt8, per_channel=True, extra_options=options)
        finally:
            logging.disable(logging.NOTSET)
        made = small.read_bytes()
    replace_file(folder / f"{name}.int8.onnx", made)
    session = open_session(made)
    worst, same, rows = 0.0, 0, 0
    for trial in tried:
        found = _run(session, network, trial, steps)
        worst = max(worst, trial.difference(found))
        output = next(iter(network.outputs))
        same += int((found[output].argmax(-1) == trial.expected[output].argmax(-1)).sum())
        rows += found[output][..., 0].numel()
    note = f"the largest output is the same in {same / rows:.1%} of {rows} drawn steps"
    about = f"as {name}.onnx, weights in 8 bits"
    return ExportedFile(f"{name}.int8.onnx", len(made), about, worst, (note,))
