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
        bool,
        typer.Option(
            "--plot",
            help="Also draw which class was taken for which, or a forecast and what came true, in RUN/explain/.",
        ),
    ] = False,
    device: Annotated[str, typer.Option(help="Where the model runs: cpu or cuda.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """How good a run is, beside baselines: nats and perplexity of text, exact match of translations, accuracy of labels, errors
    of forecasts."""
    from recurra.errors import OptionError
    from recurra.tasks.catalogue import open_run
    from recurra.tasks.task import Question, check_device

    check_device(device)
    folder, task, model = open_run(run)
    if device != "cpu":
        model.to(device)
    question = Question(data, baselines, window, dynamic)
    answer = task.evaluate(model, question)
    if question == Question():
        from recurra.report.scores import keep_answer

        keep_answer(folder, answer)
    if plot:
        from recurra.metrics.confusion import Confusion

        if answer.confusion is not None:
            Confusion(*answer.confusion).plot(folder.explain / "confusion")
        elif answer.outlook is not None:
            answer.outlook.plot(folder.explain / "backtest.svg", title=f"one forecast of the {answer.data}")
        else:
            raise OptionError(
                f"--plot draws classes and forecasts; {run} has neither: its recipe is {task.settings.name}."
            )
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
    print_table(f"{answer.data}: {answer.steps:,} {task.units}", ["model", *columns], rows)
