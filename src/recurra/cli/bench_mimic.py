from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json


def mimic(
    recipe: Annotated[str, typer.Argument(help="signal-and-noise, tag or events.")] = "signal-and-noise",
    settings: Annotated[list[str] | None, typer.Argument(help="Settings of the recipe, KEY=VALUE each.")] = None,
    tree: Annotated[str, typer.Option(help="Strengths of training.tree, with commas.")] = "0.03,0.05,0.065",
    l2: Annotated[str, typer.Option(help="Strengths of training.l2.")] = "1,2,2.25,2.5,3",
    l1: Annotated[str, typer.Option(help="Strengths of training.l1.")] = "0.003,0.01,0.02",
    seeds: Annotated[int, typer.Option(min=1, help="How many networks for each strength.")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="How many networks are trained at a time.")] = 1,
    out: Annotated[Path, typer.Option(help="Where table and picture go.")] = Path("runs/mimic"),
    as_json: AsJson = False,
) -> None:
    """Tree regularization beside L1 and L2: the score over the path length of the tree distilled from the network."""
    from recurra.benchmarks.penalties import sweep_penalties
    from recurra.plots.figure import find_matplotlib
    from recurra.tasks.catalogue import find_recipe
    from recurra.tasks.settings import override

    find_matplotlib()  # a missing extra is reported before anything is trained
    strengths = {name: _numbers(f"--{name}", text) for name, text in (("tree", tree), ("l2", l2), ("l1", l1))}
    plan = override(find_recipe(recipe), list(settings or []))
    found = sweep_penalties(plan, strengths, range(seeds), workers, say=partial(typer.echo, err=True))
    found.save(out)
    print_json(found.to_json()) if as_json else print(f"{found}\npicture and tables: {out}")


def _numbers(option: str, text: str) -> list[float]:
    """Positive numbers with commas; none where there is nothing."""
    from recurra.errors import OptionError

    try:
        found = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = [-1.0]
    if not all(0 < number < 1e6 for number in found):
        raise OptionError(f"{option} {text}: expected positive numbers with commas between them, such as 0.02,0.1.")
    return found
