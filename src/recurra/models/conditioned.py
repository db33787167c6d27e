"""Class-conditional language models: the next token, given those before it and a class or a vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recurra.errors import OptionError, choose_from
from recurra.models.first_state import FirstState
from recurra.models.language import LanguageModel, make_embedding
from recurra.models.sequence import SequenceModel
from recurra.types import Float, Int, State

CONDITIONS = ("input", "state", "both")


class ConditionedLanguageModel(nn.Module):
    """P(y₁ … y_T | c) = Π P(y_t | c, y₁ … y_{t−1}): one to many.

    Exactly one of these says what the condition is:

    - `classes`: it is one of so many. `condition_size`: it is a vector of so many numbers.

    The condition becomes a vector c as long as a token's; `told` says how the network hears of it:

    - `input`: c is added to the vector of every token read: U x_t + U c.
    - `state`: the network starts from h₀ = tanh(A c). `both`.

    `given` is the language model with the condition filled in: it can be run, streamed and sampled like any other.

    ```python
    language = rc.models.LanguageModel(30, rc.Recurrent("gru", 16, 64))
    model = rc.models.ConditionedLanguageModel(language, classes=8)
    logits, state = model.given(torch.tensor([3, 5]))(torch.randint(30, (2, 12)))
    ```
    """

    def __init__(
        self,
        language: LanguageModel,
        *,
        classes: int | None = None,
        condition_size: int | None = None,
        told: str = "input",
    ):
        super().__init__()
        choose_from("told", told, CONDITIONS)
        if (classes is None) == (condition_size is None):
            raise OptionError("a condition is a class or a vector: give classes=N or condition_size=N, one of the two.")
        self.language = language
        size = language.embedding.embedding_dim
        self.condition: nn.Module
        if classes is not None:
            self.condition = make_embedding(classes, size)
        else:
            assert condition_size is not None
            self.condition = nn.Linear(condition_size, size)
        self.as_input = told != "state"
        self.first = FirstState(size, language.recurrent) if told != "input" else None

    @property
    def output(self) -> nn.Linear:
        output: nn.Linear = self.language.output
        return output

    @property
    def recurrent(self) -> nn.Module:
        return self.language.recurrent

    def given(self, condition: Int[Tensor, " B"] | Float[Tensor, "B C"]) -> Given:
        """The language model under a condition for each row."""
        vector = self.condition(condition.to(self.output.weight.device))
        first = None if self.first is None else self.first.state(vector, self.language.recurrent)
        return Given(self.language, vector if self.as_input else None, first)

    def forward(
        self,
        inputs: Int[Tensor, "B T"],
        condition: Int[Tensor, " B"] | Float[Tensor, "B C"],
        lengths: Int[Tensor, " B"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """The logits of the token that follows each one."""
        logits: Tensor = self.given(condition)(inputs, None, lengths)[0]
        return logits


class Given(SequenceModel):
    """A language model under a condition; it shares all weights.

    - `moved`: a vector for each row, added to every input. `first`: the state that each row starts from.
    """

    def __init__(self, language: LanguageModel, moved: Float[Tensor, "B D"] | None, first: State | None = None):
        nn.Module.__init__(self)
        self.language, self.moved, self.first = language, moved, first
        self.recurrent, self.output = language.recurrent, language.output
        self.input_dropout, self.dropout = language.input_dropout, language.dropout
        self.training = language.training

    def embed(self, inputs: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        embedded = self.language.embed(inputs)
        return embedded if self.moved is None else embedded + self.moved[:, None]

    def hidden(
        self, inputs: Tensor, state: State | None = None, lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B T H"], State]:
        return super().hidden(inputs, self.first if state is None else state, lengths)


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
