"""`recurra`: the verbs, and how every one of them fails: one line on standard error and exit code 2."""

from __future__ import annotations

import logging
import sys
from typing import cast

import typer

from recurra.cli.automaton import automaton
from recurra.cli.bench import bench
from recurra.cli.bench_c import c as bench_c
from recurra.cli.bench_cells import cells as bench_cells
from recurra.cli.bench_depth import depth
from recurra.cli.bench_language import language
from recurra.cli.bench_mimic import mimic as bench_mimic
from recurra.cli.bench_training import training
from recurra.cli.cells import cells
from recurra.cli.check import check
from recurra.cli.evaluate import evaluate
from recurra.cli.explain import explain
from recurra.cli.export import export
from recurra.cli.flag import flag
from recurra.cli.forecast import forecast
from recurra.cli.lab import lab
from recurra.cli.log import log
from recurra.cli.mimic import mimic
from recurra.cli.predict import predict
from recurra.cli.recipes import recipes
from recurra.cli.regions import regions
from recurra.cli.runs import runs
from recurra.cli.sample import sample
from recurra.cli.score import score
from recurra.cli.train import train
from recurra.cli.translate import translate
from recurra.cli.units import units
from recurra.cli.unroll import unroll
from recurra.errors import RecurraError

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
    automaton,
    regions,
    unroll,
    log,
    export,
    lab,
    runs,
    recipes,
)
for verb in VERBS:
    app.command()(verb)
bench.command()(bench_cells)
bench.command()(training)
bench.command()(language)
bench.command()(depth)
bench.command()(bench_mimic)
bench.command()(bench_c)
app.add_typer(bench, name="bench")


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


def run(arguments: list[str]) -> int:
    """Run one command; the exit code."""
    try:
        return app(arguments, standalone_mode=False) or 0
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


def _fail(message: str, code: int = 2) -> int:
    print(f"recurra: {' '.join(message.split())}", file=sys.stderr)
    return code


def main() -> None:
    engines = logging.getLogger("recurra.engines")  # tells of kernels that are compiled, which takes seconds
    engines.setLevel(logging.INFO)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("recurra: %(message)s"))
    engines.addHandler(handler)
    sys.exit(run(sys.argv[1:]))
