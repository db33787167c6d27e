from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from recurra.cli.output import AsJson, print_json


def train(
    recipe: Annotated[
        str, typer.Argument(help="A recipe (see `recurra recipes`), or a first KEY=VALUE.")
    ] = "python-source",
    settings: Annotated[list[str] | None, typer.Argument(help="Settings of the recipe, KEY=VALUE each.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/RECIPE-N otherwise.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Save and stop after this many minutes.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a language model; Ctrl-C saves and stops, --resume goes on."""
    from recurra.data.tokenisers import tokeniser_from_json
    from recurra.errors import OptionError
    from recurra.recipes.base import Recipe
    from recurra.recipes.language import find_recipe, make_trainer, read_corpus
    from recurra.recipes.reader import from_dict, override, to_dict
    from recurra.runs.folder import RunFolder

    assignments = list(settings or [])
    if "=" in recipe:
        assignments, recipe = [recipe, *assignments], "python-source"
    if resume is not None:
        if assignments or out is not None:
            raise OptionError(
                "--resume goes on with the recipe in the run folder: give no settings and no --out with it."
            )
        folder = RunFolder.open(resume)
        plan = from_dict(Recipe, folder.recipe)
        assert folder.vocabulary is not None
        corpus = read_corpus(plan.data, plan.seed, tokeniser_from_json(folder.vocabulary))
        trainer = make_trainer(plan, corpus)
    else:
        plan = override(find_recipe(recipe), assignments)
        corpus = read_corpus(plan.data, plan.seed)
        trainer = make_trainer(plan, corpus)
        path = out if out is not None else _free_folder(plan.name)
        folder = RunFolder.create(path, to_dict(plan), corpus.tokeniser.to_json())

    def say(line: str) -> None:
        print(line, file=sys.stderr)

    with folder.lock():
        if resume is not None and folder.has():
            checkpoint = folder.load(notice=say)
            trainer.restore(checkpoint)
            folder.rewind(checkpoint.step)
        elif resume is not None:  # it was stopped before its first checkpoint, and starts again
            folder.rewind(0)
        say(_headline(plan, trainer, corpus, folder))
        result = _run(trainer, folder, minutes, say)
    result |= {"run": str(folder.path)}
    if as_json:
        print_json(result)
    else:
        say(f"{result['why']}; best validation {result['valid']} nats per symbol. Run folder: {folder.path}")
        say(
            f"next: recurra evaluate {folder.path}   recurra sample {folder.path}   recurra train --resume {folder.path}"
        )
    if result["failed"]:
        raise typer.Exit(1)


def _free_folder(name: str) -> Path:
    k = 1
    while (path := Path("runs") / f"{name}-{k}").exists():
        k += 1
    return path


def _headline(plan: Any, trainer: Any, corpus: Any, folder: Any) -> str:
    symbols = sum(len(part) for part in corpus.train)
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    engine = trainer.model.recurrent.explain(plan.training.batch_size).engine.name
    return (
        f"{plan.name}: {symbols:,} {plan.data.tokens} symbols to train on, vocabulary {corpus.tokeniser.size}; {plan.model.cell} "
        f"with {parameters:,} parameters, {plan.training.truncation}, engine {engine} → {folder.path}"
    )


class _Stop:
    """Ctrl-C and SIGTERM ask the loop to end after the step that is running."""

    def __init__(self) -> None:
        self.asked: str | None = None
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}

    def _ask(self, number: int, frame: Any) -> None:
        self.asked = signal.Signals(number).name

    def close(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _run(trainer: Any, folder: Any, minutes: float | None, say: Any) -> dict[str, Any]:
    """Train; keep checkpoints and metrics; show progress in plain lines."""
    from recurra.training.loop import Finished, Save, Step, Validated

    stop, began, shown, tokens = _Stop(), time.monotonic(), 0.0, 0
    result: dict[str, Any] = {"failed": False, "valid": None, "why": ""}
    try:
        for event in trainer.events():
            match event:
                case Step():
                    tokens += event.tokens
                    row = {"step": event.step, "loss": event.loss, "gradient_norm": event.gradient_norm}
                    folder.append(
                        [row | {"learning_rate": event.learning_rate} | ({"skipped": True} if event.skipped else {})]
                    )
                    now = time.monotonic()
                    if now - shown > 2 or event.skipped:
                        shown = now
                        left = (trainer.settings.steps - event.step) * (now - began) / max(1, event.step)
                        speed = tokens / (now - began)
                        say(
                            f"step {event.step}/{trainer.settings.steps}  loss {event.loss:.4f}  "
                            f"gradient {event.gradient_norm:.3f}  {speed:,.0f} symbols/s  {left:.0f} s left"
                            + ("  SKIPPED" if event.skipped else "")
                        )
                case Validated():
                    folder.append([{"step": event.step, "valid": event.valid}])
                    say(f"step {event.step}  validation {event.valid:.4f}{' (best)' if event.is_best else ''}")
                case Save():
                    folder.save(event.make(), best=event.is_best)
                case Finished():
                    result |= {"why": event.why, "failed": event.failed}
            if stop.asked:
                trainer.asked_to_stop = f"stopped by {stop.asked}, saved"
            elif minutes is not None and time.monotonic() - began > 60 * minutes:
                trainer.asked_to_stop = f"{minutes:g} minutes are over"
    finally:
        stop.close()
    result |= {
        "step": trainer.step,
        "valid": trainer.best if trainer.best < float("inf") else None,
        "skipped": trainer.skipped,
    }
    result["seconds"] = round(time.monotonic() - began, 3)
    return result
