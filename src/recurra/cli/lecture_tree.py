from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.lecture import Plot, show
from recurra.cli.output import AsJson


def tree(
    words: Annotated[str, typer.Argument(help="Words, or a tree in brackets: '(3 (2 so) (3 good))'.")],
    shape: Annotated[str | None, typer.Option(help="balanced, chain, or given (brackets alone).")] = None,
    gradients: Annotated[
        int | None, typer.Option(min=1, help="Of a random network of so many units and random inputs.")
    ] = None,
    composition: Annotated[str, typer.Option(help="Of that network: plain, fold, sum, child-sum or n-ary.")] = "plain",
    seed: Annotated[int, typer.Option(help="Of that network.")] = 0,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """A recursive network over a tree: shared weights, and the gradient that reaches each word."""
    import torch

    from recurra.layers.tree import BY_POSITION, Tree
    from recurra.lecture.tree_graph import unroll_tree

    network = None
    if gradients is not None:
        torch.manual_seed(seed)
        widest = max(map(int, (name[2:] for name in unroll_tree(words, shape=shape).weights[1:])), default=1)
        arity = max(widest, 2) if composition in BY_POSITION else None
        network = Tree(3, gradients, composition=composition, arity=arity)
    show(unroll_tree(words, shape=shape, network=network), plot, as_json)
