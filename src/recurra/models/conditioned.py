"""A language model that is told what to speak of: the next symbol, given those before it and a class or a vector."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from recurra.cells.notation import Cell
from recurra.errors import OptionError
from recurra.models.language import LanguageModel
from recurra.models.sequence import SequenceModel
from recurra.types import Float, Int


class ConditionedLanguageModel(nn.Module):
    """P(y₁ … y_T | c) = Π P(y_t | c, y₁ … y_{t−1}): one to many.

    The condition becomes a vector that is added to that of every symbol read. Exactly one of these says what it is:

    - `classes`: it is one of so many. `condition_size`: it is a vector of so many numbers.

    Other options are those of `LanguageModel`. `given` is that language model with the condition filled in: it can be run,
    streamed and sampled like any other.

    ```python
    model = ConditionedLanguageModel(vocabulary_size=30, cell="gru", hidden_size=64, classes=8)
    logits, state = model.given(torch.tensor([3, 5]))(torch.randint(30, (2, 12)))
    ```
    """

    def __init__(
        self,
        vocabulary_size: int,
        cell: Cell | str,
        hidden_size: int,
        *,
        classes: int | None = None,
        condition_size: int | None = None,
        **options: Any,
    ):
        super().__init__()
        if (classes is None) == (condition_size is None):
            raise OptionError("a condition is a class or a vector: give classes=N or condition_size=N, one of the two.")
        self.language = LanguageModel(vocabulary_size, cell, hidden_size, **options)
        size = self.language.embedding.embedding_dim
        self.condition: nn.Module
        if classes is not None:
            self.condition = nn.Embedding(classes, size)
            nn.init.normal_(self.condition.weight, std=size**-0.5)
        else:
            assert condition_size is not None
            self.condition = nn.Linear(condition_size, size)

    @property
    def output(self) -> nn.Linear:
        return self.language.output

    @property
    def recurrent(self) -> nn.Module:
        return self.language.recurrent

    def given(self, condition: Int[Tensor, " B"] | Float[Tensor, "B C"]) -> Given:
        """The language model under a condition for each row."""
        return Given(self.language, self.condition(condition.to(self.output.weight.device)))

    def forward(
        self,
        inputs: Int[Tensor, "B T"],
        condition: Int[Tensor, " B"] | Float[Tensor, "B C"],
        lengths: Int[Tensor, " B"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """The logits of the symbol that follows each one."""
        logits: Tensor = self.given(condition)(inputs, None, lengths)[0]
        return logits


class Given(SequenceModel):
    """A language model whose every input is moved by a vector for each row; it shares all weights."""

    def __init__(self, language: LanguageModel, moved: Float[Tensor, "B D"]):
        nn.Module.__init__(self)
        self.language, self.moved = language, moved
        self.recurrent, self.output = language.recurrent, language.output
        self.input_dropout, self.dropout = language.input_dropout, language.dropout
        self.training = language.training

    def embed(self, inputs: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        return self.language.embed(inputs) + self.moved[:, None]


@torch.no_grad()
def log_likelihoods(
    model: ConditionedLanguageModel, inputs: Tensor, targets: Tensor, lengths: Tensor, classes: int
) -> Float[Tensor, "B C"]:
    """log P(text | class) of each row under every class: with Bayes' rule, a classifier."""
    inside = torch.arange(inputs.shape[1]) < lengths[:, None]
    found = []
    for each in range(classes):
        logs = model(inputs, torch.full((len(inputs),), each), lengths).log_softmax(-1)
        found.append((logs.gather(-1, targets[..., None])[..., 0] * inside).sum(1))
    return torch.stack(found, dim=1)
