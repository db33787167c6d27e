from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.output import AsJson, Device, RunArgument, open_run, print_json


def mimic(
    run: RunArgument,
    min_leaf: Annotated[int, typer.Option(min=1, help="How many training steps must reach each leaf.")] = 25,
    prune: Annotated[
        bool, typer.Option("--prune", help="Keep only branches that validation data confirms: smaller still.")
    ] = False,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Decision-tree distillation: the tree that predicts at each step what the network does, drawn and as text, DOT and JSON in
    RUN/explain/, with its fidelity and its average path length."""
    opened = open_run(run, device)
    found = opened.mimic(min_leaf=min_leaf, prune=prune)
    opened.save(found, "mimic")
    opened.write("mimic.txt", found.tree.to_text())
    opened.write("mimic.dot", found.tree.to_dot())
    if as_json:
        print_json({"run": str(run)} | found.to_json())
        return
    print(found)
    print(f"pictures and exports: {opened.folder.explain}")
