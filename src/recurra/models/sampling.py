"""Text from a language model, token by token, in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.layers.stepper import Stepper
from recurra.models.counted import CountedLanguageModel
from recurra.models.draws import draw_numbers
from recurra.models.language import LanguageModel
from recurra.models.sequence import SequenceModel
from recurra.models.window import WindowLanguageModel
from recurra.types import Float

Predictor = SequenceModel | CountedLanguageModel | WindowLanguageModel
"""What predicts token after token."""


@dataclass(frozen=True)
class Choice:
    """How the next token is taken from its distribution.

    - `greedy`: the most probable one.
    - otherwise it is drawn, with logits divided by `temperature`, among the `top_k` most probable ones and among the fewest
      that have probability `top_p` together.

    ```python
    model = rc.models.LanguageModel(5, rc.Recurrent("gru", 8, 8))
    list(rc.models.sample(model, [1, 2], 10, choice=rc.models.Choice(temperature=0.7, top_k=3)))
    ```
    """

    greedy: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not 1e-6 <= self.temperature <= 1e6:
            raise OptionError(
                f"temperature must lie between 1e-6 and 1e6; got {self.temperature}. Use greedy for the most probable token."
            )
        if self.top_k is not None and self.top_k < 1:
            raise OptionError(f"top_k must be at least 1; got {self.top_k}.")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise OptionError(f"top_p must lie in (0, 1]; got {self.top_p}.")

    def probabilities(self, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
        """The distribution that is drawn from."""
        if self.greedy:
            return torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)
        if self.temperature != 1:
            logits = logits / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k).values[..., -1:]
            logits = torch.where(logits < least, -torch.inf, logits)
        probabilities = logits.softmax(-1)
        if self.top_p is not None:
            ordered, places = probabilities.sort(descending=True)
            beyond = ordered.cumsum(-1) - ordered >= self.top_p
            probabilities = torch.zeros_like(ordered).scatter_(-1, places, ordered.masked_fill(beyond, 0.0))
            probabilities = probabilities / probabilities.sum(-1, keepdim=True)
        return probabilities


def sample(
    model: Predictor,
    prime: list[int],
    length: int,
    *,
    choice: Choice | None = None,
    end: int | None = None,
    exactly: bool = False,
    never: Collection[int] = (),
    stop_probability: float = 0.0,
    generator: torch.Generator | None = None,
) -> Iterator[int]:
    """At most `length` tokens that follow `prime`.

    The end comes by the token `end` (not given back), by a stop drawn with `stop_probability` before each token, or by length.
    With `exactly`, the token `end` is never drawn: then a length τ that was drawn beforehand decides alone,
    P(y₁ … y_τ) = P(τ) P(y₁ … y_τ | τ). Nor are the tokens `never` drawn, such as the one that every sequence starts with.

    ```python
    model = rc.models.LanguageModel(5, rc.Recurrent("gru", 8, 8))
    list(rc.models.sample(model, [1, 2], 10, generator=torch.Generator().manual_seed(0)))
    ```
    """
    if not prime:
        raise OptionError("sampling needs at least one token to start from.")
    if not 0 <= stop_probability <= 1:
        raise OptionError(f"stop_probability must lie between 0 and 1; got {stop_probability}.")
    choice = choice or Choice()
    training = model.training
    model.eval()
    device = model.output.weight.device
    never = [*never, *([end] if exactly and end is not None else [])]
    barred = torch.tensor(never, dtype=torch.int64, device=device) if never else None
    follow: Callable[[int], Tensor] | None = None
    try:
        with torch.no_grad():
            predicted, state = model(torch.tensor([prime], device=device))
        logits = predicted[0, -1]
        for _ in range(length):
            if stop_probability and float(torch.rand((), generator=generator)) < stop_probability:
                return
            with torch.no_grad():
                logits = logits.float() if barred is None else logits.float().index_fill(0, barred, -torch.inf)
                token = int(draw_numbers(choice.probabilities(logits).cpu(), generator))
            if token == end:
                return
            yield token
            with torch.no_grad():
                follow = follow or _follow(model, state)
                logits = follow(token)
    finally:
        model.train(training)


def _follow(model: Predictor, state: Any) -> Callable[[int], Float[Tensor, " V"]]:
    """A token to the logits after it, from a state on. Where the layers run on fused kernels anyway, a `Stepper` runs the same
    kernels to the same bits, in a tenth of the time: calling the layers takes longer than what they compute."""
    if isinstance(model, CountedLanguageModel):
        return _follow_counted(model, state)
    if type(model) is LanguageModel and not model.deep_input and model.output.weight.device.type == "cpu":
        layers = model.recurrent
        if not layers.bidirectional and layers.explain(1, 1).engine.name == "fused":
            stepper, vectors, output = Stepper(layers), model.embedding.weight.detach(), model.output
            stepper.state = state
            return lambda token: output(stepper.step(vectors[token])[None, None])[0, 0]

    def follow(token: int) -> Tensor:
        nonlocal state
        logits, state = model.step(torch.tensor([token], device=model.output.weight.device), state)
        return logits[0]

    return follow


def _follow_counted(model: CountedLanguageModel, state: Any) -> Callable[[int], Float[Tensor, " V"]]:
    layers, past = model.split(state)
    network, walk = _follow(model.network, layers), model.counts.to_markov().walk()
    walk.read(*past[0].tolist())

    def follow(token: int) -> Tensor:
        logits = network(token)
        walk.read(token)
        return model.mix(logits, walk.probabilities().log().to(logits.device))

    return follow
