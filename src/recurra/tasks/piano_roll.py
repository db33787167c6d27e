"""Piano rolls: which keys are down in the next frame of a piece, beside what each key says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from recurra.data.rolls import KEYS, Rolls, key_name, read_rolls
from recurra.data.windows import Windows
from recurra.errors import DataError, OptionError
from recurra.metrics.forecast import Forecast
from recurra.models.forecast import Forecaster
from recurra.tasks.forecast import ForecastModel, ForecastTask, check_pieces, unused_components
from recurra.tasks.task import SHOWN, Evaluation, Examples, Probe, Question, Recipe, Settings
from recurra.training.backtest import draw_noise
from recurra.training.distributed import Ranks
from recurra.training.evaluation import evaluate
from recurra.training.loop import Trainer, Training
from recurra.types import Float, setting


@dataclass(frozen=True)
class RollData:
    path: str | None = setting(None, "a file of piano rolls with its split: .mat (traindata, …) or .json (MIDI notes)")
    transpose: int = setting(0, "in training a piece is put into another key, up to so many semitones up or down")

    def check(self) -> None:
        if not 0 <= self.transpose < KEYS:
            raise OptionError(f"data.transpose must lie between 0 and {KEYS - 1}; got {self.transpose}.")


@dataclass(frozen=True)
class RollSettings(Settings):
    data: RollData = field(default_factory=RollData)
    model: ForecastModel = field(default_factory=lambda: ForecastModel(head="bernoulli", change=False))

    def check(self) -> None:
        super().check()
        check_pieces(self.training)
        if self.model.head not in ("bernoulli", "chain"):
            raise OptionError(f"model.head={self.model.head}: a key is down or not. Use bernoulli or chain.")

    def unused(self) -> dict[str, str]:
        return super().unused() | unused_components(self.model)


class PianoRollTask(ForecastTask):
    """Windows of music, frame by frame. What is reported is −log P of a frame given those before it; the first is given."""

    unit = "frame"
    keeps_vocabulary = False

    def __init__(self, recipe: RollSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(recipe, ranks)

    @property
    def vocabulary(self) -> None:
        return None

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
        return self.untrained(KEYS)

    def make_batches(self, pieces: list[Tensor], *, training: bool = False) -> Windows:
        transpose = self.settings.data.transpose if training else 0
        pieces = [piece.to(self.settings.precision) for piece in pieces]
        return Windows.of(pieces, transpose=transpose, **self.how(training=training))

    def make_trainer(self, model: Forecaster) -> Trainer:
        return self.teach(
            model, self.make_batches(self.rolls.train, training=True), self.make_batches(self.rolls.valid)
        )

    def evaluate(self, model: Forecaster, question: Question) -> Evaluation:
        if question.window is not None or question.dynamic is not None:
            raise OptionError("--window and --dynamic are for language models.")
        rolls = self.rolls if question.data is None else read_rolls(question.data)
        part, name = (rolls.test, "test") if rolls.test else (rolls.valid, "validation")
        made = evaluate(model, self.make_batches(part), model.loss)
        scores = {self.called: {"nats": made.mean}}
        if question.baselines:
            scores["each key after itself"] = {"nats": _counted(self.rolls.train, part, memory=True)}
            scores["each key by its share"] = {"nats": _counted(self.rolls.train, part, memory=False)}
        return Evaluation(name if question.data is None else f"{question.data}, {name}", made.tokens, scores)

    def forecast(self, model: Forecaster, steps: int, path: str | None = None) -> Forecast:
        """How the first piece of the test part could go on after its first half: one draw."""
        rolls = self.rolls if path is None else read_rolls(path)
        if not rolls.test:
            raise DataError(
                f"{path or self.settings.data.path} has no piece in the part 'test', which is gone on with."
            )
        known = rolls.test[0][: -(-len(rolls.test[0]) // 2)]
        noise = draw_noise(1, steps, KEYS, self.settings.seed)
        said = model.run_free(known[None], noise)[0, 0]
        return Forecast(tuple(map(key_name, range(KEYS))), known, said.double().cpu())

    def examples(self, model: Forecaster) -> Examples | None:
        """How a piece goes on: the keys of each frame."""
        if not self.rolls.test:
            return None
        said = self.forecast(model, SHOWN).predictions
        names = [[key_name(k) for k in frame.nonzero()[:, 0].tolist()] for frame in said]
        rows = [(str(k + 1), " ".join(keys) or "(silence)") for k, keys in enumerate(names)]
        return Examples(("frames ahead", "keys"), rows, "forecast RUN")

    def probe(self, model: Forecaster, steps: int) -> Probe:
        """Windows of the training part, end to end."""
        frames = torch.cat(self.rolls.train)
        x = torch.cat([frames] * -(-steps // len(frames)))[:steps][None].to(model.output.weight)
        with torch.no_grad():
            return Probe(model.recurrent, model.embed(x))


def _counted(train: list[Float[Tensor, "T K"]], judged: list[Float[Tensor, "T K"]], *, memory: bool) -> float:
    """Nats per frame of each key's share of frames, or of those that follow a frame with it down, or up."""
    before, now = (torch.cat([piece[part] for piece in train]).double() for part in (slice(-1), slice(1, None)))
    if not memory:
        before = torch.zeros_like(before)
    down = (before * now).sum(0), ((1 - before) * now).sum(0)
    shares = [(hits + 0.5) / (seen.sum(0) + 1) for hits, seen in zip(down, (before, 1 - before), strict=True)]
    nats, frames = 0.0, 0
    for piece in judged:
        last, this = piece[:-1].double() * memory, piece[1:].double()
        chance = torch.where(last > 0, shares[0], shares[1])
        nats -= float((this * chance.log() + (1 - this) * (1 - chance).log()).sum())
        frames += len(this)
    return nats / frames


RECIPES: dict[str, Recipe] = {
    "piano-roll": Recipe(
        RollSettings(
            name="piano-roll",
            model=ForecastModel(
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
        ),
        "music as frames of 88 keys, such as the JSB chorales: data.path=FILE.mat",
    ),
}
