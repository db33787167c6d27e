from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json
from recurra.data.tokenizers import Tokenizer


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
    from recurra.tasks.catalogue import open_run
    from recurra.tasks.conditioned import ConditionedTask
    from recurra.tasks.language import LanguageTask

    choice = Choice(greedy, temperature, top_k, top_p)
    _, task, model = open_run(run)
    if not isinstance(task, LanguageTask | ConditionedTask):
        raise OptionError(f"{run} is no language model: its recipe is {task.settings.name}. Use recurra evaluate.")
    tokenizer = task.tokenizer
    ids = tokenizer.encode(prime, unknown="error").tolist()
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    if draw_length:
        length = task.draw_length(generator) - len(ids)
    drawn = task.draw(
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
        print_json({"prime": prime, "text": tokenizer.decode(drawn)})
        return
    sys.stdout.write(prime)
    for piece in _readable(tokenizer, drawn):
        sys.stdout.write(piece)
        sys.stdout.flush()
    print()


def _readable(tokenizer: Tokenizer, drawn: Iterator[int]) -> Iterator[str]:
    """The text of symbols as they come: a few at a time where one alone does not make a character or a space."""
    if tokenizer.kind == "char":
        for token in drawn:
            yield tokenizer.decode([token])
        return
    context: list[int] = []  # what comes before decides about spaces, and holds the first bytes of a character
    shown = ""
    for token in drawn:
        context.append(token)
        text = tokenizer.decode(context)
        if text.endswith("\N{REPLACEMENT CHARACTER}"):
            continue
        yield text[len(shown) :]
        context = context[-32:]
        shown = tokenizer.decode(context)
