from __future__ import annotations

from typing import Annotated, Any

import typer

from recurra.cli.output import AsJson, Device, RunArgument, open_run, print_json


def explain(
    run: RunArgument,
    gradients: Annotated[
        bool, typer.Option("--gradients", help="Only: how far gradients reach back, and the eigenvalues behind it.")
    ] = False,
    fixed_points: Annotated[
        bool, typer.Option("--fixed-points", help="Only: where the network stands still under a frozen input.")
    ] = False,
    field: Annotated[bool, typer.Option("--field", help="Only: the vector field and the basins in a plane.")] = False,
    triggers: Annotated[
        bool, typer.Option("--triggers", help="Only: the field under every trigger, and the parts of one.")
    ] = False,
    formation: Annotated[
        bool, typer.Option("--formation", help="Only: field and attractors at the snapshots of the training.")
    ] = False,
    walk: Annotated[
        str | None, typer.Option(help="Only: the state as it moves under triggers: 'Power,Program 1,Start'.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Only: the cell at work on this text, step by step.")] = None,
    frozen: Annotated[
        str | None,
        typer.Option(
            "--input", help="The frozen input: a token or a trigger by name, or zero. Else a trigger of rest, or zero."
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=4, help="How many steps back gradients are followed; 100.")] = None,
    starts: Annotated[int | None, typer.Option(min=1, help="Starts of the search for fixed points; 1024.")] = None,
    period: Annotated[int, typer.Option(min=1, help="Also search for cycles up to this period.")] = 1,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """What a run is and what its network does: one page, RUN/report.html, for every recipe. Or only a part of it, thoroughly:
    pictures and numbers go to RUN/explain/."""
    from recurra.errors import OptionError
    from recurra.report.contents import write_report
    from recurra.report.parts import keep_field, keep_fixed_points, keep_gradients, keep_table, keep_views

    opened = open_run(run, device)
    views = triggers or formation or walk is not None
    if not (gradients or fixed_points or field or views or table is not None):
        if frozen is not None or period != 1:
            raise OptionError("--input and --period are for --fixed-points and --field: add one of them.")
        report = write_report(opened, steps, starts)
        if as_json:
            print_json({"run": str(run)} | report.to_json())
        else:
            print(report)
        return
    found: dict[str, Any] = {}
    if gradients:
        found["gradients"] = keep_gradients(opened, steps)
    if field:
        found |= keep_field(opened, frozen, starts, period)
    elif fixed_points:
        found["fixed_points"] = keep_fixed_points(opened, frozen, starts, period)
    if views:
        names = [] if walk is None else [name.strip() for name in walk.split(",") if name.strip()]
        if walk is not None and not names:
            raise OptionError("--walk needs at least one input, as in --walk 'Power,Program 1,Start'.")
        found |= keep_views(opened, frozen, triggers, formation, names)
    if table is not None:
        found["table"] = keep_table(opened, table)
    if as_json:
        print_json({"run": str(run)} | {name: each.to_json() for name, each in found.items()})
        return
    for each in found.values():
        print(each)
    print(f"pictures and data: {opened.folder.explain}")
