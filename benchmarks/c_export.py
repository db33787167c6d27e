"""One LSTM as C beside our `Stepper` and ONNX Runtime: microseconds of a step, bytes of code and weights; a run in 8 bits."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recurra.benchmarks.timing import Say, Spread, quiet, repeat, time_in_turn
from recurra.errors import OptionError
from recurra.export.c_check import compare
from recurra.export.c_library import CLibrary, Sizes, compile_c, find_c_compiler, measure
from recurra.export.c_source import Source
from recurra.export.network import Network, describe
from recurra.export.onnx import open_session, write_onnx
from recurra.layers.recurrent import Recurrent
from recurra.layers.stepper import Stepper
from recurra.models.events import EventModel, Following
from recurra.models.forecast import Forecaster
from recurra.results import Result, Table

FAST = ("-O3", "-march=native")
CORTEX = ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
FORMS = {"float32": {}, "own math": {"own_math": True}, "int8": {"int8": True}}
CALLS = 200
"""Steps in one measurement of a runner that is called from Python for each of them."""
LOOP = """#include "{name}.h"
void {name}_loop({name}_state *state, const float *x, float *y, int steps);
void {name}_loop({name}_state *state, const float *x, float *y, int steps)
{{
    for (int t = 0; t < steps; ++t) {name}_step(state, x + t, y);
}}
"""
"""A caller in a file of its own, as a program has it: nothing of the step is compiled into it."""


@dataclass(frozen=True)
class CBenchmark(Result):
    """Microseconds of a step by runner, the distance of each form to the model, and its sizes by processor."""

    hidden_size: int
    microseconds: dict[str, Spread]
    errors: dict[str, float]
    sizes: dict[str, Sizes]

    def table(self) -> Table:
        rows = [[name, f"{each}"] for name, each in self.microseconds.items()]
        return Table(["", "µs a step"], rows, f"lstm, 1 input, {self.hidden_size} units, one thread")

    def size_table(self) -> Table:
        rows = [
            [name, *(f"{n:,}" for n in (s.code, s.weights, s.code + s.weights, s.state, s.stack))]
            for name, s in self.sizes.items()
        ]
        return Table(["-Os", "code", "weights", "both", "state", "stack"], rows, "bytes")

    def __str__(self) -> str:
        off = ", ".join(f"{name} {error:.0e}" for name, error in self.errors.items())
        return f"{self.table()}\n\n{self.size_table()}\n\ndistance to the model over 1,000 steps: {off}"


def bench_c(*, hidden_size: int = 32, steps: int = 4800, repeats: int = 15, say: Say = quiet) -> CBenchmark:
    """Agreement first, then times in turn; ONNX Runtime runs the standard LSTM operator on one thread."""
    if find_c_compiler() is None:
        raise OptionError("bench c: no C compiler was found. Install gcc or clang, or name yours in CC.")
    torch.manual_seed(0)
    layer = Recurrent("lstm", 1, hidden_size).eval()
    network = describe(layer)["model"]
    x = torch.randn(steps, 1)
    calls: dict[str, Callable[[], Any]] = {}
    errors: dict[str, float] = {}
    sizes: dict[str, Sizes] = {}
    with tempfile.TemporaryDirectory() as place, torch.no_grad():
        folder = Path(place)
        for form, options in FORMS.items():
            say(f"compiling {form}")
            source, library, loop = _compile(network, folder, form, options)
            found = compare(library, network, steps=1000, int8=bool(options.get("int8")))
            if not found.holds:
                raise OptionError(f"bench c: {form} is off by {found.error:.0e}: not timed. Please report it.")
            errors[form] = found.error
            calls[f"C, {form}"] = _loop_call(source, loop, x)
            sizes |= _sizes(form, source, folder)
        stepper, first = Stepper(layer), x[0].clone()
        calls["Stepper.chunk"] = lambda: stepper.chunk(x)
        calls["Stepper.step, from Python"] = lambda: repeat(lambda: stepper.step(first), CALLS)
        calls |= _onnx_calls(layer, folder, x)
        times = time_in_turn(calls, repeats, say=say)
    per = {name: CALLS if "from Python" in name else steps for name in calls}
    return CBenchmark(hidden_size, {name: each * (1e6 / per[name]) for name, each in times.items()}, errors, sizes)


def _compile(
    network: Network, folder: Path, form: str, options: dict[str, bool]
) -> tuple[Source, CLibrary, ctypes.CDLL]:
    name = f"lstm_{form.replace(' ', '_')}"
    source = Source(network, name, int8=options.get("int8", False), own_math=options.get("own_math", False), facts={})
    (folder / f"{name}.h").write_text(source.header())
    (folder / f"{name}.c").write_text(source.source)
    (folder / f"{name}_loop.c").write_text(LOOP.format(name=name))
    files = [folder / f"{name}.c", folder / f"{name}_loop.c"]
    loaded = ctypes.CDLL(str(compile_c(files, folder / f"{name}.so", "-shared", "-fPIC", *FAST)))
    return source, CLibrary(source, loaded), loaded


def _loop_call(source: Source, loaded: ctypes.CDLL, x: Tensor) -> Callable[[], Any]:
    state = (ctypes.c_char * source.state_bytes)()
    getattr(loaded, f"{source.name}_reset")(ctypes.byref(state))
    y = torch.zeros(source.outputs[0].size)
    function = getattr(loaded, f"{source.name}_loop")
    arguments = (ctypes.byref(state), ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), len(x))
    return lambda: (function(*arguments), y)  # y stays alive with the call


def _sizes(form: str, source: Source, folder: Path) -> dict[str, Sizes]:
    file = folder / f"{source.name}.c"
    found = {f"{form}, this machine": measure(source, file)}
    if shutil.which("arm-none-eabi-gcc"):
        options = {"compiler": "arm-none-eabi-gcc", "size": "arm-none-eabi-size"}
        found[f"{form}, Cortex-M4"] = measure(source, file, *CORTEX, **options)
    return {name: each for name, each in found.items() if each is not None}


def _onnx_calls(layer: Recurrent, folder: Path, x: Tensor) -> dict[str, Callable[[], Any]]:
    """ONNX Runtime on all steps at once, and step by step; nothing where it is not installed."""
    try:
        write_onnx(describe(layer), folder, {})
    except OptionError:
        return {}
    whole, step = open_session(folder / "sequence.onnx"), open_session(folder / "step.onnx")
    states = {f"{name}_0_in": np.zeros((1, layer.hidden_size), np.float32) for name in ("h", "c")}
    fed = {"x": x[None].numpy(), "lengths": np.array([len(x)]), **states}
    one = {"x": x[:1].numpy(), **states}
    asked = {entry.name for entry in whole.get_inputs()}
    return {
        "ONNX Runtime, all steps in one call": lambda: whole.run(None, {n: v for n, v in fed.items() if n in asked}),
        "ONNX Runtime, a step, from Python": lambda: repeat(lambda: step.run(None, one), CALLS),
    }


@dataclass(frozen=True)
class CQuality(Result):
    """The scores of a run's own evaluation by the model, by C in float32 and by C in 8 bits."""

    scores: dict[str, dict[str, float]]

    def table(self) -> Table:
        columns = list(next(iter(self.scores.values())))
        first = self.scores["model"]
        rows = []
        for name, row in self.scores.items():
            rows.append([name, *(f"{row[c]:.4f} ({100 * (row[c] / first[c] - 1):+.2f} %)" for c in columns)])
        return Table(["", *columns], rows, "the same evaluation")


def evaluate_in_c(task: Any, model: Any) -> CQuality:
    """Evaluate a trained forecaster or model of events three times: by itself, and by the C that it is exported as."""
    if not isinstance(model, Forecaster | EventModel):
        raise OptionError(f"bench c: {type(model).__name__} is not evaluated in C. Name a run of piano-roll or events.")
    if find_c_compiler() is None:
        raise OptionError("bench c: no C compiler was found. Install gcc or clang, or name yours in CC.")
    model.eval()
    network = describe(model)["model"]
    scores = {"model": _own_row(task, model)}
    with tempfile.TemporaryDirectory() as place:
        for form in ("float32", "int8"):
            source = Source(network, f"net_{form}", int8=form == "int8", own_math=False, facts={})
            for end, text in (("h", source.header()), ("c", source.source)):
                (Path(place) / f"{source.name}.{end}").write_text(text)
            library = CLibrary.load(source, [Path(place) / f"{source.name}.c"], Path(place))
            model.__dict__["forward"] = _forward(model, library)
            try:
                scores[f"C, {form}"] = _own_row(task, model)
            finally:
                del model.__dict__["forward"]
    return CQuality(scores)


def _own_row(task: Any, model: Any) -> dict[str, float]:
    found: dict[str, float] = next(iter(task.evaluate(model, baselines=False).scores.values()))
    return found


def _forward(model: Any, library: CLibrary) -> Callable[..., Any]:
    """What the model's `forward` gives, row by row by C; each sequence starts anew."""

    def rows(T: int, **inputs: Tensor) -> dict[str, Tensor]:
        found = []
        for b in range(len(next(iter(inputs.values())))):
            library.reset()
            found.append(library.chunk({name: value[b].numpy() for name, value in inputs.items()}, T))
        return {name: torch.from_numpy(np.stack([each[name] for each in found])) for name in found[0]}

    def forecast(inputs: Tensor, state: Any = None, lengths: Any = None) -> Any:
        if state is not None:
            raise OptionError("bench c: this evaluation carries a state from chunk to chunk. Name a run of piano-roll.")
        return rows(inputs.shape[1], x=inputs)["predicted"], None

    def events(what: Tensor, times: Tensor, attributes: Tensor, lengths: Tensor) -> Following:
        further = {f"attribute_{k}": attributes[..., k] for k in range(attributes.shape[-1])}
        timed = {"times": times} if times.shape[-1] else {}
        found = rows(what.shape[1], activities=what, **further, **timed)
        predicted = tuple(found[f"attribute_{k}_logits"] for k in range(len(model.predicted)))
        return Following(found["logits"], found["gap"][..., 0], predicted)

    return forecast if isinstance(model, Forecaster) else events
