from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json, print_table
from recurra.results import Table


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
        abouts = {key: recipe.about for key, recipe in RECIPES.items()}
        if as_json:
            print_json(abouts)
        else:
            print_table(Table(["recipe", "what it trains on"], [list(row) for row in abouts.items()]))
        return
    recipe = find_recipe(name)
    rows = describe(recipe.settings)
    if as_json:
        print_json({key: {"default": default, "about": about} for key, default, about in rows})
        return
    print_table(Table(["setting", "default", ""], [[key, str(default), about] for key, default, about in rows]))
    if recipe.derive is not None:
        typer.echo(f"Where they are not given: {' '.join((recipe.derive.__doc__ or '').split())}.")
