from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json
from recurra.data.tokenisers import Tokeniser


def sample(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    prime: Annotated[str, typer.Option(help="Text to go on from.")] = "",
    length: Annotated[int, typer.Option(min=1, help="At most this many symbols.")] = 500,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the most probable symbol.")] = False,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw among the k most probable symbols.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw among the fewest symbols with this probability together.")
    ] = None,
    stop_probability: Annotated[float, typer.Option(help="End before each symbol with this probability.")] = 0.0,
    draw_length: Annotated[
        bool, typer.Option("--draw-length", help="Draw the length first, as often as training sequences had it.")
    ] = False,
    given: Annotated[str | None, typer.Option(help="The class, for a model that is told one.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    as_json: AsJson = False,
) -> None:
    """Text from a trained model, as it is produced."""
    import torch

    from recurra.errors import OptionError
    from recurra.models.sampling import Choice
    from recurra.recipes.catalogue import open_run
    from recurra.recipes.conditioned import Conditioned
    from recurra.recipes.language import Language

    choice = Choice(greedy, temperature, top_k, top_p)
    _, experiment, model = open_run(run)
    if not isinstance(experiment, Language | Conditioned):
        raise OptionError(f"{run} is no language model: its recipe is {experiment.recipe.name}. Use recurra evaluate.")
    tokeniser = experiment.tokeniser
    ids = tokeniser.encode(prime, unknown="error").tolist()
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    if draw_length:
        length = experiment.draw_length(generator) - len(ids)
    drawn = experiment.draw(
        model,
        ids,
        length,
        given=given,
        choice=choice,
        exactly=draw_length,
        stop_probability=stop_probability,
        generator=generator,
    )
    if as_json:
        print_json({"prime": prime, "text": tokeniser.decode(drawn)})
        return
    sys.stdout.write(prime)
    for piece in _readable(tokeniser, drawn):
        sys.stdout.write(piece)
        sys.stdout.flush()
    print()


def _readable(tokeniser: Tokeniser, drawn: Iterator[int]) -> Iterator[str]:
    """The text of symbols as they come: a few at a time where one alone does not make a character or a space."""
    if tokeniser.kind == "char":
        for token in drawn:
            yield tokeniser.decode([token])
        return
    context: list[int] = []  # what comes before decides about spaces, and holds the first bytes of a character
    shown = ""
    for token in drawn:
        context.append(token)
        text = tokeniser.decode(context)
        if text.endswith("\N{REPLACEMENT CHARACTER}"):
            continue
        yield text[len(shown) :]
        context = context[-32:]
        shown = tokeniser.decode(context)
