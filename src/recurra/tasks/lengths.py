"""Sequences whose length is decided first: P(τ) P(y₁ … y_τ | τ), both learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from recurra.data.batches import Batch, Batches, Sequences
from recurra.data.transfer import send
from recurra.errors import DataError, OptionError
from recurra.models.language import LanguageModel
from recurra.models.lengths import LengthLanguageModel, sequence_logs
from recurra.tasks import word_vectors
from recurra.tasks.language import LanguageSettings, LanguageTask
from recurra.tasks.recipe import recipe
from recurra.tasks.results import Evaluation, TextScore
from recurra.tasks.task import StepModelSettings
from recurra.tasks.texts import names
from recurra.training.evaluation import evaluating
from recurra.training.loop import Trainer
from recurra.types import Float, Int


@dataclass(frozen=True)
class LengthSettings(LanguageSettings):
    whole: ClassVar[str | None] = "lines"
    model: StepModelSettings = field(default_factory=StepModelSettings)  # type: ignore[assignment]

    def check(self) -> None:
        super().check()
        if not self.data.sequences:
            raise OptionError("this recipe learns the lengths of lines: leave data.sequences as it is.")


class LengthTask(LanguageTask):
    """A language model on lines that decides on the length first."""

    factorisation = (
        "The length first: P(y1 … yτ) = P(τ) Π P(yt | y1 … yt−1, how much is left). "
        "Each output is fed back as the next input, so outputs depend on one another."
    )
    # what a step predicts depends on how much is left: the tokens alone are no finite machine
    reading: Any = None
    held_out: Any = None

    def word_tables(self) -> word_vectors.Tables:
        return word_vectors.words_of(self.tokenizer, "language.embedding")

    def make_model(self) -> Any:
        longest = max(map(int, (self.vocabulary or {})["lengths"]))
        layers, tied = self.make_recurrent(), self.settings.model.tied
        language = LanguageModel(self.tokenizer.size, layers, tied=tied, **self.step_options())
        never = [token for token in (self.tokenizer.start, self.tokenizer.end) if token is not None]
        return LengthLanguageModel(language, longest, never)

    def make_trainer(self, model: Any) -> Trainer:
        train, valid = (
            self.make_batches(part, training=training)
            for part, training in ((self.corpus.train, True), (self.corpus.valid, False))
        )

        def validate(model: LengthLanguageModel) -> float:
            total, count = self.ranks.sum(_total(model, valid)).tolist()
            return float(-total / max(1.0, count))

        return self.train_on(model, train, validate, whole=lambda model, batch: -_logs_of(model, batch).sum())

    def evaluate(  # type: ignore[override]  # it does not go on learning
        self, model: Any, data: str | None = None, *, baselines: bool = True, window: int | None = None
    ) -> Evaluation:
        """Nats per token as of other language models; the length counts where they predict the end."""
        return super().evaluate(model, data, baselines=baselines, window=window)

    def _logs(self, model: Any, part: list[Tensor]) -> Float[Tensor, " N"]:
        order = sorted(range(len(part)), key=lambda k: len(part[k]))  # so that little is padded
        found: list[Tensor] = [torch.zeros(0)] * len(part)
        with evaluating(model):
            for at in range(0, len(order), self.evaluated_together):
                rows = order[at : at + self.evaluated_together]
                (batch,) = Sequences([part[k] for k in rows], len(rows), shuffle=False).one_pass()
                assert batch.lengths is not None
                for k, logs, length in zip(rows, _logs_of(model, batch).cpu(), batch.lengths.tolist(), strict=True):
                    found[k] = logs[:length].double()
        return torch.cat(found)

    def score(self, model: Any, text: str, *, baselines: bool = True) -> TextScore:
        """log P of each token of a text, and of its length."""
        line = torch.tensor(self.tokens_of(text))
        if len(line) - 2 > model.longest:
            raise DataError(
                f"the text has {len(line) - 2} tokens, and the longest sequence that was learned had {model.longest}: its "
                "probability is 0. Give a shorter one."
            )
        logs = {self.called: self._logs(model, [line])}
        if baselines:
            logs[f"markov order {self.corpus.markov.order}"] = self.corpus.markov.log_probabilities([line])
        names = [*(self.token_names[k] for k in line[1:-1].tolist()), f"τ = {len(line) - 2}"]
        return TextScore(self.factorisation, names, logs)

    def generate(
        self, model: Any, prime: list[int], length: int | None, *, given: str | None = None, **how: Any
    ) -> Iterator[int]:
        """Tokens that follow the prime: their number is drawn first, at most `length`."""
        return super().generate(model, prime, model.longest if length is None else length, given=given, **how)

    def draw(
        self,
        model: Any,
        ids: list[int],
        length: int,
        *,
        exactly: bool = False,
        generator: torch.Generator | None = None,
        **how: Any,
    ) -> Iterator[int]:
        """A length of those possible, then tokens that fill it."""
        if len(ids) > model.longest and not exactly:
            raise OptionError(
                f"the prime has {len(ids)} tokens, and the longest sequence that was learned had {model.longest}. Shorten it."
            )
        most = len(ids) + length
        tau = torch.tensor([most]) if exactly else model.draw_lengths(1, len(ids), most, generator)
        return super().draw(model.given(tau), ids, int(tau) - len(ids), exactly=True, generator=generator, **how)

    def vectors(self, model: Any, texts: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Of texts whose length was told."""
        read: Tensor = model.given(torch.full((len(texts),), texts.shape[1] - 1)).embed(texts)
        return read


def _logs_of(model: LengthLanguageModel, batch: Batch) -> Float[Tensor, "B T"]:
    device = model.output.weight.device
    assert batch.lengths is not None
    return sequence_logs(model, send(batch.inputs, device), send(batch.targets, device), batch.lengths)


def _total(model: LengthLanguageModel, batches: Batches) -> Float[Tensor, " 2"]:
    """Σ log P and how many targets there are."""
    total = torch.zeros(2, dtype=torch.float64, device=model.output.weight.device)
    with evaluating(model):
        for batch in batches.one_pass():
            if len(batch.inputs):
                total[0] += _logs_of(model, batch).double().sum().clamp(min=-1e30)  # a length never seen has none
                total[1] += batch.tokens
    return total


@recipe(LengthTask)
def lengths() -> LengthSettings:
    """any file with one short sequence per line: data.path=FILE; the length is decided first, P(τ) P(x given τ)"""
    like = names.settings
    model = StepModelSettings(**{each.name: getattr(like.model, each.name) for each in fields(StepModelSettings)})
    return LengthSettings(data=like.data, model=model, training=like.training)
