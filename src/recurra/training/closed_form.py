"""Learning without gradients: the series is read once, and the readout is solved for. The same events as `Trainer`'s."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from recurra.models.reservoir import EchoState, ReadoutFit
from recurra.runs.checkpoint import Checkpoint, restore_weights
from recurra.training.events import Event, Finished, Save, Step, Validated
from recurra.training.soundness import are_finite, check_weights

UNSOLVED = (
    "the readout that was solved for is not finite, and is not kept. Give the series in another unit, a larger training.penalty, "
    "or a smaller model.radius, model.input_scale or model.bias_scale."
)


class ClosedForm:
    """An echo state network that learns a series, a chunk at each step.

    - `penalties`: of the readout; of several, the one that is best on validation data.
    - `evaluate`: the model to its score on validation data; less is better.

    The loss of a step is how far off the readout was in its chunk before it learned from it. It is solved for when the number
    of chunks has doubled (with the largest penalty), and at the end.
    """

    def __init__(self, fit: ReadoutFit, penalties: Sequence[float], evaluate: Callable[[EchoState], float]):
        self.model: Any = fit.model
        self.fit, self.penalties, self.evaluate = fit, penalties, evaluate
        self.best, self.skipped, self.report_every = math.inf, 0, 1
        self.done: str | None = None
        self.asked_to_stop: str | None = None
        self._ends = math.inf

    def fit_into(self, seconds: float) -> None:
        """Solve from what can be read in so many seconds."""
        self._ends = time.monotonic() + seconds

    @property
    def step(self) -> int:
        return self.fit.done

    @property
    def steps(self) -> int:
        return self.fit.chunks

    @property
    def evaluated(self) -> Any:
        return self.model

    def events(self) -> Iterator[Event]:
        """Read to the end, solve, validate and save; or stop when asked to, and save."""
        fit = self.fit
        while self.done is None:
            last = self.step + 1 == self.steps or time.monotonic() > self._ends
            try:
                error, tokens = fit.read()
                if last:
                    self._choose()
                elif self.step & (self.step - 1) == 0:
                    fit.solve(max(self.penalties))
            except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
                error = math.nan
            if not (math.isfinite(error) and are_finite(self.model.state_dict().values())):
                yield Finished(self.step, UNSOLVED, failed=True)
                return
            yield Step(self.step, error, 0.0, 0.0, tokens)
            if last:
                if not math.isfinite(self.best):
                    yield Finished(self.step, UNSOLVED, failed=True)
                    return
                yield Validated(self.step, self.best, True)
            if last or self.asked_to_stop:
                yield Save(self.step, self.checkpoint, last)
            if not last and self.asked_to_stop:
                yield Finished(self.step, self.asked_to_stop)
                return
        yield Finished(self.step, self.done)

    def _choose(self) -> None:
        """Solve for the readout of each penalty, and keep the best of them."""
        fit, tried = self.fit, {}
        for penalty in self.penalties:
            left = fit.solve(penalty)
            tried[penalty] = self.evaluate(self.model)
        best = min(tried, key=lambda penalty: tried[penalty])
        self.best = tried[best]
        if best != self.penalties[-1]:
            left = fit.solve(best)
        self.done = (
            f"solved from {fit.ridge.rows:,} steps with penalty {best:g}; "
            f"what is left in them is {left:.1e} standard deviations"
        )

    def checkpoint(self) -> Checkpoint:
        """Everything that going on needs."""
        ridge = self.fit.ridge
        tensors = {"ridge": ridge.R}
        for k, state in enumerate(self.fit.states or ()):
            for i, ((cell,),) in enumerate((layer,) for layer in state):
                tensors |= {f"state.{k}.{i}.{j}": value for j, value in enumerate(cell)}
        facts = {"rows": ridge.rows, "best": self.best, "done": self.done}
        return Checkpoint(self.step, dict(self.model.state_dict()), tensors, facts)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        check_weights(checkpoint.weights, f"the checkpoint of step {checkpoint.step}")
        restore_weights(self.model, checkpoint.weights, "the checkpoint")
        self.best, self.done = float(checkpoint.facts["best"]), checkpoint.done
        fit = self.fit
        fit.done = checkpoint.step
        fit.ridge.R, fit.ridge.rows = checkpoint.tensors["ridge"], checkpoint.facts["rows"]
        fit.states = tuple(
            tuple(
                (
                    tuple(
                        checkpoint.tensors[f"state.{k}.{i}.{j}"].to(self.model.shift)
                        for j in range(len(reservoir.cell.graph.states))
                    ),
                )
                for i in range(len(reservoir.stack))
            )
            for k, reservoir in enumerate(self.model.stacks)
        )
