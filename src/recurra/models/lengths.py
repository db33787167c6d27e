"""The length first: P(τ) P(y₁ … y_τ | τ), a language model that draws how long a sequence will be and knows what is left."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn

from recurra.errors import OptionError
from recurra.models.language import LanguageModel, make_embedding
from recurra.models.sequence import SequenceModel
from recurra.types import Float, Int, State


class LengthLanguageModel(nn.Module):
    """P(y₁ … y_τ) = P(τ) Π P(y_t | y₁ … y_{t−1}, τ − t + 1 tokens are left).

    - `language`: what predicts the tokens. `longest`: of lengths 0 to `longest`, P(τ) is a softmax, learned with the rest.
    - `never`: tokens that no sequence has inside, such as its start and its end: they get no probability.

    How much is left has a vector of its own, which is added to that of the token read. `given(τ)` is the language model
    that was told: it can be run, streamed and sampled like any other, and what is left is part of its state.

    ```python
    language = rc.models.LanguageModel(30, rc.Recurrent("gru", 16, 64))
    model = rc.models.LengthLanguageModel(language, longest=12, never=(28, 29))
    tau = model.draw_lengths(2)
    logits, state = model.given(tau)(torch.full((2, 1), 28))      # the start, told how many tokens follow it
    ```
    """

    def __init__(self, language: LanguageModel, longest: int, never: Collection[int] = ()):
        super().__init__()
        if longest < 0:
            raise OptionError(f"longest must not be negative; got {longest}.")
        self.language, self.longest, self.never = language, longest, tuple(never)
        self.left = make_embedding(longest + 1, language.embedding.embedding_dim)
        self.length = nn.Parameter(torch.zeros(longest + 1))

    @property
    def output(self) -> nn.Linear:
        output: nn.Linear = self.language.output
        return output

    @property
    def recurrent(self) -> nn.Module:
        return self.language.recurrent

    def embed(self, inputs: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """The vectors of tokens, without that of what is left."""
        return self.language.embed(inputs)

    def length_probabilities(self) -> Float[Tensor, " N"]:
        """P(τ) of the lengths 0 to `longest`."""
        return self.length.softmax(0)

    def length_logs(self, lengths: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
        """log P(τ) of some lengths; −∞ of those longer than any that was learned."""
        logs = self.length.log_softmax(0)[lengths.clamp(0, self.longest)]
        return torch.where((lengths >= 0) & (lengths <= self.longest), logs, -torch.inf)

    def draw_lengths(
        self, count: int, low: int = 0, high: int | None = None, generator: torch.Generator | None = None
    ) -> Int[Tensor, " B"]:
        """Lengths drawn from P(τ), given that they are `low` to `high`."""
        high = self.longest if high is None else min(high, self.longest)
        if not 0 <= low <= high:
            raise OptionError(f"lengths of {low} to {high} tokens were asked for; this model has 0 to {self.longest}.")
        chances = self.length.detach()[low : high + 1].double().softmax(0).cpu()
        return low + torch.multinomial(chances, count, replacement=True, generator=generator)

    def given(self, lengths: Int[Tensor, " B"]) -> Told:
        """The language model that knows how many tokens each row will have."""
        return Told(self, lengths.to(self.output.weight.device))

    def forward(self, inputs: Int[Tensor, "B T"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B T V"]:
        """The logits of the token that follows each one; `inputs` are a start and τ tokens, `lengths` is τ + 1."""
        logits: Tensor = self.given(lengths - 1)(inputs, None, lengths)[0]
        return logits


class Told(SequenceModel):
    """A language model that knows how much is left. It shares all weights; the last part of its state is what is left."""

    def __init__(self, model: LengthLanguageModel, lengths: Int[Tensor, " B"]):
        nn.Module.__init__(self)
        language = model.language
        self.model, self.lengths = model, lengths
        self.recurrent, self.output = language.recurrent, language.output
        self.input_dropout, self.dropout = language.input_dropout, language.dropout
        self.training = model.training

    def embed(self, inputs: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """The vectors that are read by sequences from their start."""
        return self._vectors(inputs, self.lengths)

    def _vectors(self, inputs: Tensor, left: Tensor) -> Tensor:
        steps = torch.arange(inputs.shape[1], device=left.device)
        counts = (left[:, None] - steps).clamp(0, self.model.longest)
        vectors: Tensor = self.model.language.embed(inputs) + self.model.left(counts)
        return vectors

    def hidden(
        self, inputs: Tensor, state: State | None = None, lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B T H"], State]:
        left = self.lengths if state is None else state[-1][0][0]
        read = self.input_dropout(self._vectors(inputs, left).transpose(0, 1)).transpose(0, 1)
        trace = self.recurrent(read, None if state is None else state[:-1], lengths)
        after = left - (inputs.shape[1] if lengths is None else lengths.to(left.device))
        return self.dropout(trace.outputs.transpose(0, 1)).transpose(0, 1), (*trace.final, ((after,),))

    def forward(
        self, inputs: Tensor, state: State | None = None, lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B T V"], State]:
        logits, final = super().forward(inputs, state, lengths)
        never = torch.tensor(self.model.never, dtype=torch.int64, device=logits.device)
        return logits.index_fill(-1, never, -torch.inf), final


def sequence_logs(
    model: LengthLanguageModel, inputs: Int[Tensor, "B T"], targets: Int[Tensor, "B T"], lengths: Int[Tensor, " B"]
) -> Float[Tensor, "B T"]:
    """log P of each target: of each token given those before it and what is left; and log P(τ) where the end is. 0 past it."""
    lengths = lengths.to(inputs.device)
    places = torch.arange(inputs.shape[1], device=inputs.device)
    logs = model(inputs, lengths).log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    tokens = torch.where(places < lengths[:, None] - 1, logs, 0)
    return torch.where(places == lengths[:, None] - 1, model.length_logs(lengths - 1)[:, None], tokens)
