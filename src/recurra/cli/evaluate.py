from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json, print_table


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[
        str | None,
        typer.Option(
            help="Another text, or another file with two columns; otherwise the run's own test part (or validation)."
        ),
    ] = None,
    baselines: Annotated[
        bool, typer.Option(help="Also the best order-k Markov model of the training part, or what guessing gives.")
    ] = True,
    window: Annotated[
        int | None, typer.Option(min=1, help="Also train the fixed-window model with this many symbols, and score it.")
    ] = None,
    dynamic: Annotated[
        float | None,
        typer.Option(
            help="Also score the model while it goes on learning from what it has read, at this rate (0.002)."
        ),
    ] = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="Of labels: also draw which class was taken for which, in RUN/explain/.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """How good a run is, beside baselines: nats and perplexity of text, exact match of translations, accuracy of labels."""
    from recurra.errors import OptionError
    from recurra.recipes.base import Question
    from recurra.recipes.catalogue import open_run

    folder, experiment, model = open_run(run)
    question = Question(data, baselines, window, dynamic)
    answer = experiment.judge(model, question)
    if question == Question():
        from recurra.report.scores import keep_answer

        keep_answer(folder, answer)
    if plot:
        from recurra.analysis.confusion import plot_confusion

        if answer.confusion is None:
            raise OptionError(f"--plot draws classes; {run} has none: its recipe is {experiment.recipe.name}.")
        plot_confusion(*answer.confusion, folder.explain / "confusion")
    if as_json:
        row = {"run": str(run), "data": answer.data, "tokens": answer.steps, "scores": answer.scores}
        if answer.confusion is not None:
            row["confusion"] = dict(zip(("labels", "counts"), answer.confusion, strict=True))
        print_json(row)
        return
    columns = list(dict.fromkeys(column for row in answer.scores.values() for column in row))
    rows = [
        [name, *(f"{row[column]:.4f}" if column in row else "" for column in columns)]
        for name, row in answer.scores.items()
    ]
    print_table(f"{answer.data}: {answer.steps:,} {experiment.unit}s", ["model", *columns], rows)
