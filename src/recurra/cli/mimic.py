from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json


def mimic(
    run: Annotated[Path, typer.Argument(help="A run folder of the recipe tag, signal-and-noise or events.")],
    min_leaf: Annotated[int, typer.Option(min=1, help="How many training steps must reach each leaf.")] = 25,
    prune: Annotated[
        bool, typer.Option("--prune", help="Keep only branches that validation data confirms: smaller still.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """The decision tree that says at each step what the network says: drawn and as text, DOT and JSON in RUN/explain/, with
    its fidelity and its average path length."""
    from recurra.runs.disk import replace_file, to_json
    from recurra.tasks.catalogue import open_run
    from recurra.tasks.mimic import held_out, judge_tree, score_name
    from recurra.tasks.mimic import mimic as make_tree

    folder, task, model = open_run(run)
    tree = make_tree(task, model, min_leaf=min_leaf, prune=prune)
    part, steps = held_out(task)
    found = asdict(judge_tree(steps, model, tree))
    said = f"{tree.leaves} leaves, average path length {found['path_length']:.2f}, fidelity {found['fidelity']:.4f}"
    tree.plot(folder.explain / "mimic", title=said)
    row = {"part": part, "steps": len(steps.x)} | found
    folder.explain.mkdir(exist_ok=True)
    replace_file(folder.explain / "mimic.txt", tree.to_text().encode())
    replace_file(folder.explain / "mimic.dot", tree.to_dot().encode())
    replace_file(folder.explain / "mimic.json", to_json(row | {"tree": tree.to_json()}, "mimic.json", pretty=True))
    if as_json:
        print_json({"run": str(run)} | row | {"tree": tree.to_json()})
        return
    print(tree.to_text(), end="")
    score = score_name(len(tree.classes))
    other = "" if score == "accuracy" else f"{score} of the network {found['score']:.4f}; "
    right = f"accuracy of the network {found['accuracy']:.4f}, of the tree {found['tree_accuracy']:.4f}"
    print(f"{part}: {said}; {other}{right}")
    print(f"pictures and exports: {folder.explain}")
