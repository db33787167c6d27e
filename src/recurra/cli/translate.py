from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from recurra.cli.output import AsJson, Device, RunArgument, open_run, print_json

TOGETHER = 256
"""Lines that are translated side by side; from a terminal they are translated one by one, as they come."""


def translate(
    run: RunArgument,
    text: Annotated[
        str | None, typer.Argument(help="What to translate; otherwise standard input, a text per line.")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="The width of the beam; 1: the most probable token each time.")] = 1,
    n_best: Annotated[int, typer.Option(min=1, help="How many translations of each text.")] = 1,
    length_power: Annotated[
        float, typer.Option(help="A beam ranks by log P / n^this: 1 the mean of n tokens, 0 the probability alone.")
    ] = 1.0,
    sample: Annotated[bool, typer.Option("--sample", help="Draw translations instead.")] = False,
    temperature: Annotated[float, typer.Option(help="Of --sample: below 1 safer, above 1 wilder.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Of --sample: among the k most probable tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Of --sample: among the fewest with this probability together.")
    ] = None,
    stop_probability: Annotated[float, typer.Option(help="Of --sample: of ending before each token.")] = 0.0,
    length: Annotated[
        str | None, typer.Option(help="At most so many tokens; or predicted, or drawn, with model.predict_length=true.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of --sample: the same seed draws the same.")] = None,
    attention: Annotated[Path | None, typer.Option(help="Draw the attention to this .png, .svg or .pdf file.")] = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Translate a text, or each line of standard input."""
    from recurra.errors import OptionError
    from recurra.models.sampling import Choice

    choice = Choice(False, temperature, top_k, top_p) if sample else None
    if not sample and (temperature != 1.0 or top_k is not None or top_p is not None or stop_probability):
        raise OptionError("--temperature, --top-k, --top-p and --stop-probability are for what is drawn: add --sample.")
    if sample and beam > 1:
        raise OptionError("--beam searches and --sample draws: give one of them.")
    if attention is not None and text is None:
        raise OptionError("--attention draws one translation: give the text as an argument.")
    opened = open_run(run, device)
    how: dict[str, Any] = {"beam": beam, "n_best": n_best, "length_power": length_power, "choice": choice, "seed": seed}
    how |= {"stop_probability": stop_probability, "attention": attention is not None, **_read_length(length)}
    rows: list[dict[str, Any]] = []
    for texts in [[text]] if text is not None else _lines():
        for found in opened.translate_all(texts, **how):
            if attention is not None:
                found.plot(attention)  # first: where it is refused, nothing is printed
            rows.append(found.to_json()) if as_json else print(found, flush=True)
    if as_json:
        print_json({"run": str(run), "texts": rows})


def _lines() -> Iterator[list[str]]:
    """The lines of standard input, some at a time: its bytes, since the machine may take them for another encoding."""
    from recurra.data.utf8 import decode
    from recurra.errors import DataError

    numbered = enumerate(sys.stdin.buffer, 1)
    while some := list(islice(numbered, 1 if sys.stdin.isatty() else TOGETHER)):
        lines = [decode(data, "standard input", k).removesuffix("\n").removesuffix("\r") for k, data in some]
        for (k, _), line in zip(some, lines, strict=True):
            if not line.strip():
                raise DataError(f"standard input, line {k}: the source is empty. Leave the line out.")
        yield lines


def _read_length(length: str | None) -> dict[str, Any]:
    from recurra.errors import OptionError

    if length is None or length in ("predicted", "drawn"):
        return {"lengths": length}
    if length.isdecimal() and int(length) >= 1:
        return {"limit": int(length)}
    raise OptionError(f"--length is a number of tokens from 1 on, predicted or drawn; got {length!r}.")
