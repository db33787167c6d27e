"""Piano rolls: which keys are down in the next frame of a piece, beside what each key's own past predicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from recurra.data.rolls import KEYS, LOWEST, Rolls, key_name, read_rolls
from recurra.data.windows import Windows
from recurra.errors import DataError, OptionError
from recurra.models.forecast import Forecaster
from recurra.tasks.forecast import ForecastModelSettings, ForecastTask, WindowSettings
from recurra.tasks.recipe import recipe
from recurra.tasks.results import SHOWN, Comparison, Evaluation, Examples, Forecast
from recurra.tasks.streaming import Answer, Streaming, marginals
from recurra.training.backtest import draw_noise
from recurra.training.evaluation import evaluate
from recurra.training.loop import Trainer, Training
from recurra.types import Float, setting


@dataclass(frozen=True)
class RollData:
    path: str | None = setting(None, "a file of piano rolls with its split: .mat (traindata, …) or .json (MIDI notes)")
    transpose: int = setting(
        0, "in training a piece is put into another key, up to so many semitones up or down", low=0, high=KEYS - 1
    )


@dataclass(frozen=True)
class RollSettings(WindowSettings):
    data: RollData = field(default_factory=RollData)
    model: ForecastModelSettings = field(default_factory=lambda: ForecastModelSettings(head="bernoulli", change=False))

    def check(self) -> None:
        super().check()
        if self.model.head not in ("bernoulli", "chain"):
            raise OptionError(f"model.head={self.model.head}: a key is down or not. Use bernoulli or chain.")


class PianoRollTask(ForecastTask):
    """Pieces of music, frame by frame. What is reported is −log P of a frame given those before it; the first is given."""

    data_kind = "rolls"
    unit = "frame"

    @cached_property
    def rolls(self) -> Rolls:
        if self.settings.data.path is None:
            raise OptionError("this recipe reads piano rolls: give it a file with data.path=FILE.")
        return read_rolls(self.settings.data.path)

    @property
    def about_data(self) -> str:
        rolls = self.rolls
        counts = f"{len(rolls.train)} pieces to learn from, {len(rolls.valid)} to validate, {len(rolls.test)} to test"
        return f"{self.settings.data.path}: {counts}, {sum(map(len, rolls.train)):,} frames"

    def make_model(self) -> Forecaster:
        return self.model_for(KEYS)

    def make_batches(self, pieces: list[Tensor], *, training: bool = False) -> Windows:
        transpose = self.settings.data.transpose if training else 0
        pieces = [piece.to(self.settings.precision) for piece in pieces]
        return Windows.of(pieces, transpose=transpose, **self.batch_options(training=training))

    def make_trainer(self, model: Forecaster) -> Trainer:
        train, valid = self.make_batches(self.rolls.train, training=True), self.make_batches(self.rolls.valid)
        return self.train_on_windows(model, train, valid)

    def evaluate(self, model: Forecaster, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        """Nats per frame, beside each key's share of frames, alone and after itself."""
        rolls = self.rolls if data is None else read_rolls(data)
        part, name = (rolls.test, "test") if rolls.test else (rolls.valid, "validation")
        made = evaluate(model, self.make_batches(part), model.loss)
        scores = {self.called: {"nats": made.mean}}
        if baselines:
            scores |= {called: {"nats": nats} for called, nats in self._counted(part).items()}
        return Evaluation(name if data is None else f"{data}, {name}", made.tokens, scores, self.units)

    def _counted(self, part: list[Tensor]) -> dict[str, float]:
        train = self.rolls.train
        names = {"each key after itself": True, "each key by its share": False}
        return {called: _counted(train, part, memory=memory) for called, memory in names.items()}

    def compare(self, model: Forecaster) -> Comparison:
        """Nats per frame."""
        valid = self.rolls.valid
        nats = evaluate(model, self.make_batches(valid), model.loss).mean
        advice = "Try more training.steps, or a smaller training.learning_rate."
        return Comparison("nats", False, nats, self._counted(valid), advice)

    def forecast(self, model: Forecaster, steps: int, data: str | None = None) -> Forecast:
        """How the first piece of the test part could go on after its first half: one draw."""
        rolls = self.rolls if data is None else read_rolls(data)
        if not rolls.test:
            raise DataError(
                f"{data or self.settings.data.path} has no piece in the part 'test', which is gone on with."
            )
        known = rolls.test[0][: -(-len(rolls.test[0]) // 2)]
        drawn = model.run_free(known[None], draw_noise(1, steps, KEYS, self.settings.seed))[0, 0]
        return Forecast(tuple(map(key_name, range(KEYS))), known, drawn.double().cpu())

    def streaming(self, model: Forecaster) -> Streaming:
        """The keys that are down in a frame in; the most probable keys of the next frame out."""
        marginals(model.head, torch.zeros(KEYS))  # refuses a head that has none
        reads = f"a list of frames, each a list of the MIDI notes that sound, {LOWEST} to {LOWEST + KEYS - 1}"

        def encode(given: Any) -> Tensor:
            if not isinstance(given, list) or not given or not all(isinstance(frame, list) for frame in given):
                raise DataError(f"inputs must be {reads}.")
            frames = torch.zeros(len(given), KEYS, dtype=self.settings.precision)
            for t, frame in enumerate(given):
                if not all(type(note) is int and LOWEST <= note < LOWEST + KEYS for note in frame):
                    raise DataError(f"inputs must be {reads}.")
                frames[t, [note - LOWEST for note in frame]] = 1
            return frames

        def answer(predicted: Float[Tensor, "N P"], top: int) -> list[Answer]:
            found = []
            for row in predicted:
                chances = marginals(model.head, row)
                best = sorted(range(KEYS), key=lambda k: -chances[k])[:top]
                found.append({"notes": [LOWEST + k for k in best], "probabilities": [chances[k] for k in best]})
            return found

        return Streaming(model, reads, encode, answer)

    def examples(self, model: Forecaster) -> Examples | None:
        """How a piece goes on: the keys of each frame."""
        if not self.rolls.test:
            return None
        frames = self.forecast(model, SHOWN).predictions
        names = [[key_name(k) for k in frame.nonzero()[:, 0].tolist()] for frame in frames]
        rows = [(str(k + 1), " ".join(keys) or "(silence)") for k, keys in enumerate(names)]
        return Examples(("frames ahead", "keys"), rows, "forecast RUN")


def _counted(train: list[Float[Tensor, "T K"]], held_out: list[Float[Tensor, "T K"]], *, memory: bool) -> float:
    """Nats per frame of each key's share of frames, or of those that follow a frame with it down, or up."""
    before, now = (torch.cat([piece[part] for piece in train]).double() for part in (slice(-1), slice(1, None)))
    if not memory:
        before = torch.zeros_like(before)
    down = (before * now).sum(0), ((1 - before) * now).sum(0)
    shares = [(hits + 0.5) / (seen.sum(0) + 1) for hits, seen in zip(down, (before, 1 - before), strict=True)]
    nats, frames = 0.0, 0
    for piece in held_out:
        last, this = piece[:-1].double() * memory, piece[1:].double()
        chance = torch.where(last > 0, shares[0], shares[1])
        nats -= float((this * chance.log() + (1 - this) * (1 - chance).log()).sum())
        frames += len(this)
    return nats / frames


@recipe(PianoRollTask)
def piano_roll() -> RollSettings:
    """music as frames of 88 keys, such as the JSB chorales: data.path=FILE.mat"""
    return RollSettings(
        model=ForecastModelSettings(
            cell="lstm",
            hidden_size=256,
            head="bernoulli",
            change=False,
            skip=True,
            dropout=0.6,
            input_dropout=0.2,
            weight_dropout=0.5,
        ),
        training=Training(
            steps=4500,
            batch_size=8,
            truncation="none",
            learning_rate=4e-2,
            l2=0.05,
            average="ema:0.999",
            validate_every=500,
            patience=4,
            save_every=1000,
        ),
    )
