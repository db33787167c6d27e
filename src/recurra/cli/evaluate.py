from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.output import AsJson, Device, RunArgument, open_run, print_result


def evaluate(
    run: RunArgument,
    data: Annotated[
        str | None,
        typer.Option(help="Another file of the same kind; otherwise the run's own test part (or validation)."),
    ] = None,
    baselines: Annotated[
        bool, typer.Option(help="Also the best order-k Markov model of the training part, or what guessing gives.")
    ] = True,
    window: Annotated[
        int | None, typer.Option(min=1, help="Also train the fixed-window model with this many tokens, and score it.")
    ] = None,
    dynamic: Annotated[
        float | None,
        typer.Option(
            help="Also score the model while it goes on learning from what it has read, at this rate (0.002)."
        ),
    ] = None,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache",
            help="Also score the model with a neural cache of what it has read lately, chosen on validation data.",
        ),
    ] = False,
    shuffled: Annotated[
        bool,
        typer.Option(
            "--shuffled", help="Of classes: also score the model on the same sequences, their steps in random order."
        ),
    ] = False,
    plot: Annotated[
        bool,
        typer.Option(
            "--plot", help="Also draw the confusion of classes, or a forecast and what came true, in RUN/explain/."
        ),
    ] = False,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """How good a run is, beside baselines: nats and perplexity of text, exact match of translations, accuracy of labels, errors
    of forecasts."""
    opened = open_run(run, device)
    options = {"window": window, "dynamic": dynamic, "cache": cache or None, "shuffled": shuffled or None}
    found = opened.evaluate(data, baselines=baselines, **options)
    if plot:
        found.plot(opened.folder.explain / ("confusion" if found.forecast is None else "backtest.svg"))
    print_result(found, as_json, run=str(run))
