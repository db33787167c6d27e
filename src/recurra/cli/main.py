"""`recurra`: the verbs, and how each of them fails: a line on standard error and exit code 2, or 70 where the fault is ours."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import traceback
from functools import cache
from typing import Any, cast

import typer

from recurra.cli.automaton import automaton
from recurra.cli.bench import bench
from recurra.cli.bench_c import c as bench_c
from recurra.cli.bench_cells import cells as bench_cells
from recurra.cli.bench_defaults import defaults
from recurra.cli.bench_depth import depth
from recurra.cli.bench_language import language
from recurra.cli.bench_memory import memory
from recurra.cli.bench_mimic import mimic as bench_mimic
from recurra.cli.bench_parallel import parallel
from recurra.cli.bench_serve import serve as bench_serve
from recurra.cli.bench_short import short
from recurra.cli.bench_training import training
from recurra.cli.cells import cells
from recurra.cli.check import check
from recurra.cli.embeddings import embeddings
from recurra.cli.evaluate import evaluate
from recurra.cli.explain import explain
from recurra.cli.export import export
from recurra.cli.flag import flag
from recurra.cli.forecast import forecast
from recurra.cli.lab import lab
from recurra.cli.lecture import lecture
from recurra.cli.lecture_activations import activations
from recurra.cli.lecture_approximate import approximate
from recurra.cli.lecture_automaton import automaton as lecture_automaton
from recurra.cli.lecture_convolution import convolution
from recurra.cli.lecture_depth import depth as lecture_depth
from recurra.cli.lecture_scalar import scalar
from recurra.cli.lecture_tree import tree
from recurra.cli.log import log
from recurra.cli.mimic import mimic
from recurra.cli.orders import orders
from recurra.cli.output import opening, opens_runs, tell
from recurra.cli.predict import predict
from recurra.cli.recipes import recipes
from recurra.cli.regions import regions
from recurra.cli.robot import robot
from recurra.cli.runs import runs
from recurra.cli.sample import sample
from recurra.cli.score import score
from recurra.cli.serve import serve
from recurra.cli.terminal import shown
from recurra.cli.train import train
from recurra.cli.translate import translate
from recurra.cli.units import units
from recurra.cli.unroll import unroll
from recurra.errors import RecurraError

TRACEBACK = "RECURRA_TRACEBACK"
"""Set, an error that nobody foresaw is shown in full."""
OURS = 70
"""The exit code of an error that nobody foresaw (`EX_SOFTWARE` of sysexits.h); 2 is for what a user can put right."""

# typer is built on click or carries its own copy of it, depending on its version: take the class from what it offers
_UsageError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])
assert _UsageError.__name__ == "UsageError"

app = typer.Typer(
    name="recurra",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
VERBS = (
    cells,
    check,
    train,
    evaluate,
    predict,
    sample,
    score,
    translate,
    forecast,
    flag,
    explain,
    mimic,
    units,
    embeddings,
    orders,
    automaton,
    regions,
    unroll,
    log,
    robot,
    serve,
    export,
    lab,
    runs,
    recipes,
)
for verb in VERBS:
    app.command()(opens_runs(verb))
bench.command()(bench_cells)
bench.command()(parallel)
bench.command()(short)
bench.command()(training)
bench.command()(language)
bench.command()(depth)
bench.command()(defaults)
bench.command()(bench_mimic)
bench.command()(bench_serve)
bench.command()(memory)
bench.command()(bench_c)
app.add_typer(bench, name="bench")
for page in (scalar, activations, approximate, lecture_automaton, lecture_depth, convolution, tree):
    lecture.command()(page)
app.add_typer(lecture, name="lecture")


def _version(asked: bool) -> None:
    if asked:
        from recurra import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True, callback=_version),
) -> None:
    """Recurrent networks from their equations."""


@cache
def _command() -> Any:
    """All verbs, parsed from their signatures once: that takes longer than many of them."""
    return typer.main.get_command(app)


def run(arguments: list[str]) -> int:
    """Run one command; the exit code."""
    opening.reset()
    try:
        with shown():
            return _command()(arguments, standalone_mode=False) or 0
    except RecurraError as error:
        return _fail(str(error))
    except _UsageError as error:
        message = error.format_message()
        if error.__class__.__name__ == "NoArgsIsHelpError":
            print(message)
            return 2
        return _fail(message)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("stopped", 130)
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        sys.stderr.close()
        return 0
    except MemoryError:
        return _fail("there is not enough memory for this. Take less data, or a smaller model.")
    except Exception as error:
        if opening.path is None or TRACEBACK in os.environ:
            raise
        return _fail(_unforeseen(error), OURS)


def _unforeseen(error: Exception) -> str:
    """Whatever a run folder holds, it does not end in a traceback; but the line says that the fault is ours, and where the
    traceback is: hours of training may lie before it."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="recurra-fault-", suffix=".txt", delete=False) as file:
            file.writelines(traceback.format_exception(error))
        where = f"its traceback is in {file.name}"
    except OSError as full:
        where = f"its traceback could not be written ({full.strerror}), {TRACEBACK}=1 shows it"
    said = f"{type(error).__name__}: {str(error)[:200]}"
    return f"a fault of Recurra's, while {opening.path} was used: {said}. Please report it; {where}."


def _fail(message: str, code: int = 2) -> int:
    tell(message)
    return code


def main() -> None:
    engines = logging.getLogger("recurra.engines")  # tells of kernels that are compiled, which takes seconds
    engines.setLevel(logging.INFO)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("recurra: %(message)s"))
    engines.addHandler(handler)
    sys.exit(run(sys.argv[1:]))
