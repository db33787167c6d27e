from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from recurra.cli.output import AsJson, print_json


def translate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    text: Annotated[
        str | None, typer.Argument(help="What to translate; otherwise standard input, line by line.")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="The width of the beam; 1: the most probable symbol each time.")] = 1,
    n_best: Annotated[int, typer.Option(min=1, help="How many translations of each text.")] = 1,
    length_power: Annotated[
        float, typer.Option(help="A beam ranks by log P / n^this: 1 the mean of n symbols, 0 the probability alone.")
    ] = 1.0,
    sample: Annotated[bool, typer.Option("--sample", help="Draw translations instead.")] = False,
    temperature: Annotated[float, typer.Option(help="Of --sample: below 1 safer, above 1 wilder.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Of --sample: among the k most probable symbols.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Of --sample: among the fewest symbols with this probability together.")
    ] = None,
    stop_probability: Annotated[
        float, typer.Option(help="Of --sample: end before each symbol with this probability.")
    ] = 0.0,
    length: Annotated[
        str | None,
        typer.Option(
            help="At most so many symbols; or predicted, or drawn, by a model with model.predict_length=true."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of --sample: the same seed draws the same.")] = None,
    attention: Annotated[
        Path | None, typer.Option(help="Draw what each symbol attended to, to this .png or .svg file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Translate a text, or each line of standard input as it comes."""
    import torch

    from recurra.errors import OptionError
    from recurra.models.sampling import Choice
    from recurra.tasks.catalogue import open_run
    from recurra.tasks.translate import TranslationTask

    choice = Choice(False, temperature, top_k, top_p) if sample else None
    if not sample and (temperature != 1.0 or top_k is not None or top_p is not None or stop_probability):
        raise OptionError("--temperature, --top-k, --top-p and --stop-probability are for what is drawn: add --sample.")
    if sample and beam > 1:
        raise OptionError("--beam searches and --sample draws: give one of them.")
    if attention is not None and text is None:
        raise OptionError("--attention draws one translation: give the text as an argument.")
    _, task, model = open_run(run)
    if not isinstance(task, TranslationTask):
        raise OptionError(f"{run} has learned no pairs: its recipe is {task.settings.name}. Use recurra evaluate.")
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    lengths, limit = _read_length(length)
    rows: list[dict[str, Any]] = []
    for source in [text] if text is not None else _lines():
        (found,) = task.translate(
            model,
            [source],
            beam=beam,
            n_best=n_best,
            length_power=length_power,
            choice=choice,
            lengths=lengths,
            limit=limit,
            stop_probability=stop_probability,
            generator=generator,
        )
        made = [
            {
                "text": task.text_of(model, source, one.symbols),
                "log_probability": one.log_probability,
                "score": one.score,
            }
            for one in found
        ]
        if attention is not None:
            from recurra.analysis.attention import Attention

            weights = task.attended(model, source, found[0].symbols)
            Attention(weights, *task.symbol_names(source, found[0].symbols)).plot(attention)
        if as_json:
            rows.append({"source": source, "translations": made})
            continue
        for one in made:
            print(one["text"] if n_best == 1 else f"{one['score']:.4f}\t{one['text']}", flush=True)
    if as_json:
        print_json({"run": str(run), "texts": rows})


def _lines() -> Iterator[str]:
    """The lines of standard input as they come: its bytes, since the machine may take them for another encoding."""
    from recurra.data.utf8 import decode
    from recurra.errors import DataError

    for number, data in enumerate(sys.stdin.buffer, 1):
        line = decode(data, "standard input", number).removesuffix("\n").removesuffix("\r")
        if not line.strip():
            raise DataError(f"standard input, line {number}: the source is empty. Leave the line out.")
        yield line


def _read_length(length: str | None) -> tuple[str | None, int | None]:
    """How lengths are chosen beforehand, if they are, and the most symbols, if there is such a number."""
    from recurra.errors import OptionError

    if length is None or length in ("predicted", "drawn"):
        return length, None
    if length.isdecimal() and int(length) >= 1:
        return None, int(length)
    raise OptionError(f"--length is a number of symbols from 1 on, predicted or drawn; got {length!r}.")
