from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json, print_table


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List the runs of a folder, newest first."""
    from recurra.errors import RunError
    from recurra.runs.folder import list_runs

    if not folder.is_dir():
        found = "a file" if folder.exists() else "not there"
        raise RunError(
            f"{folder} is {found}; a folder with runs is asked for. Name one, or train first: recurra train."
        )
    rows = []
    for run in list_runs(folder):
        metrics = run.metrics()
        valid = [row["valid"] for row in metrics if "valid" in row]
        rows.append(
            {
                "run": str(run.path),
                "recipe": run.recipe.get("name", ""),
                "step": metrics[-1]["step"] if metrics else 0,
                "best_valid": min(valid) if valid else None,
            }
        )
    if as_json:
        print_json({"runs": rows})
        return
    table = [
        [str(r["run"]), str(r["recipe"]), str(r["step"]), "" if r["best_valid"] is None else f"{r['best_valid']:.4f}"]
        for r in rows
    ]
    print_table("", ["run", "recipe", "step", "best validation"], table)


def recipes(
    name: Annotated[
        str | None, typer.Argument(help="A recipe: its settings with defaults and a line about each.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the recipes, or the settings of one."""
    from recurra.tasks.catalogue import RECIPES, find_recipe
    from recurra.tasks.settings import describe

    if name is None:
        if as_json:
            print_json({name: entry.about for name, entry in RECIPES.items()})
        else:
            print_table("", ["recipe", "what it trains on"], [[key, entry.about] for key, entry in RECIPES.items()])
        return
    rows = describe(find_recipe(name))
    if as_json:
        print_json({key: {"default": default, "about": about} for key, default, about in rows})
    else:
        print_table("", ["setting", "default", ""], [[key, str(default), about] for key, default, about in rows])
