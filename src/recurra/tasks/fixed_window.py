"""The fixed-window language model as a task of its own: trained, evaluated and sampled like a recurrent one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from recurra.data.batches import Batch
from recurra.data.transfer import send
from recurra.models.window import WindowLanguageModel
from recurra.tasks.corpus import TextData
from recurra.tasks.language import LanguageSettings, LanguageTask
from recurra.tasks.recipe import recipe
from recurra.tasks.results import Evaluation
from recurra.tasks.task import count_parameters
from recurra.training.evaluation import evaluate_whole
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import batch_weights, weighted_nll
from recurra.types import setting


@dataclass(frozen=True)
class WindowModelSettings:
    window: int = setting(8, "how many tokens the model sees", low=1)
    hidden_size: int = setting(256, "hidden units", low=1)
    embedding_size: int = setting(32, "size of a token's vector", low=1)


@dataclass(frozen=True)
class WindowSettings(LanguageSettings):
    whole: ClassVar[str | None] = "windows of tokens"
    model: WindowModelSettings = field(default_factory=WindowModelSettings)  # type: ignore[assignment]

    def check(self) -> None:
        """Any text will do: there is nothing to truncate."""

    def idle(self) -> dict[str, str]:
        return {"engine": "engines run recurrent cells, and there is none here"}


class WindowTask(LanguageTask):
    """A language model that sees the last tokens and no more. Bengio et al. 2003."""

    factorisation = (
        "A product of conditionals that reach k tokens back: P(y1 … yT) = Π P(yt | yt−k … yt−1). What lies further back changes "
        "nothing."
    )
    reading: Any = None  # without a state there is no machine to find, and no unit that could follow anything
    held_out: Any = None
    probe: Any = None

    @property
    def called(self) -> str:
        model = self.settings.model
        return f"window of {model.window}, {model.hidden_size} units"

    def about_model(self, model: Any) -> str:
        return f"{self.called} with {count_parameters(model):,} parameters, no loop over time"

    def make_model(self) -> Any:
        model = self.settings.model
        return WindowLanguageModel(self.tokenizer.size, model.window, model.embedding_size, model.hidden_size)

    def make_trainer(self, model: Any) -> Trainer:
        def loss(model: WindowLanguageModel, batch: Batch) -> Tensor:
            device = model.output.weight.device
            weights = batch_weights(batch, "mean", device, model.output.weight.dtype)
            return weighted_nll(model(send(batch.inputs, device))[0], send(batch.targets, device), weights)

        train, valid = (
            self.make_batches(part, training=training)
            for part, training in ((self.corpus.train, True), (self.corpus.valid, False))
        )
        train.steps_per_epoch  # noqa: B018  a text that is too short is refused here, before anything is made

        def validate(model: WindowLanguageModel) -> float:
            device = model.output.weight.device
            return evaluate_whole(model, valid, lambda batch: model(send(batch.inputs, device))[0], self.ranks).mean

        return self.train_on(model, train, validate, whole=loss)

    def evaluate(  # type: ignore[override]  # it does not go on learning
        self, model: Any, data: str | None = None, *, baselines: bool = True
    ) -> Evaluation:
        """Nats, perplexity and bits per token, beside the best order-k Markov model and the mixture of both."""
        return super().evaluate(model, data, baselines=baselines)


@recipe(WindowTask)
def fixed_window() -> WindowSettings:
    """any text file: data.path=FILE; the next token from the last model.window, without recurrence"""
    return WindowSettings(
        data=TextData(tokens="char", valid=0.1, test=0.0),
        training=Training(
            steps=2000,
            batch_size=16,
            truncation="none",
            learning_rate=4e-3,
            validate_every=500,
            save_every=500,
        ),
    )
