from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from recurra.cli.output import AsJson, open_run, print_json, print_result
from recurra.results import visible


def train(
    recipe: Annotated[
        str, typer.Argument(help="A recipe (see `recurra recipes`), or a first KEY=VALUE.")
    ] = "python-source",
    settings: Annotated[list[str] | None, typer.Argument(help="Settings of the recipe, KEY=VALUE each.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/RECIPE-N otherwise.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Fit the whole schedule into this many minutes.")] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write RUN/tensorboard; needs the extra `log`.")
    ] = False,
    monitor: Annotated[
        int | None, typer.Option(min=1, help="Every so many steps, also log how gradients go back through time.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Cross-validation: so many runs, each tested on its own part.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model; Ctrl-C saves and stops, --resume goes on. `torchrun -m recurra train …` for several processes."""
    from recurra.errors import OptionError
    from recurra.tasks.capabilities import verbs_of
    from recurra.tasks.train import train as train_recipe

    assignments = list(settings or [])
    if "=" in recipe:
        assignments, recipe = [recipe, *assignments], "python-source"
    how: dict[str, Any] = {"minutes": minutes, "tensorboard": tensorboard, "monitor": monitor}
    if folds is not None and resume is None:
        found = train_recipe(recipe, out=out, settings=assignments, progress="lines", folds=folds, **how)
        print_result(found, as_json)
        return
    if resume is not None:
        if folds is not None:
            raise OptionError(
                "--resume goes on with one run. To go on with all folds, repeat the command with its --out."
            )
        if assignments or out is not None or recipe != "python-source":
            raise OptionError(
                "--resume goes on with the recipe in the run folder: give no recipe, no settings and no --out with it."
            )
        run = open_run(resume).resume(progress="lines", **how)
    else:
        run = train_recipe(recipe, out=out, settings=assignments, progress="lines", **how)
    if not run.task.ranks.is_first or run.outcome is None:
        return
    if as_json:
        print_json(run.outcome.to_json() | {"run": str(run.path)})
    else:
        verbs = (*verbs_of(run.task), "explain", "train --resume")
        typer.echo(
            "next: " + visible("   ".join(f"recurra {verb} {shlex.quote(str(run.path))}" for verb in verbs)), err=True
        )
    if run.outcome.failed:
        raise typer.Exit(1)
