"""What a model predicts at its best, or by chance: greedy, drawn, or by beam search, for many sequences side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.models.draws import draw_numbers
from recurra.models.sampling import Choice
from recurra.models.sequence import SequenceModel
from recurra.types import Float, Int, State


class Stepwise(Protocol):
    """Anything that predicts token after token. Rows are sequences; tensors of the state have a row for each."""

    def start(self) -> tuple[Float[Tensor, "N V"], State]:
        """Logits of the first token of N sequences, and the state after what was read before it."""
        ...

    def step(self, tokens: Int[Tensor, " M"], state: State) -> tuple[Float[Tensor, "M V"], State]:
        """Logits of what follows. M is a multiple of N: rows of one sequence stand next to each other."""
        ...


class Continuation:
    """A language model that goes on from a beginning.

    ```python
    model = rc.models.LanguageModel(5, rc.Recurrent("gru", 8, 8))
    rc.models.beam_search(rc.models.Continuation(model, torch.tensor([[1, 2, 3]])), rc.models.Ending(limit=20), width=8)
    ```
    """

    def __init__(self, model: SequenceModel, prime: Int[Tensor, "N T"]):
        self.model, self.prime = model, prime

    def start(self) -> tuple[Float[Tensor, "N V"], State]:
        logits, state = self.model(self.prime)
        return logits[:, -1], state

    def step(self, tokens: Int[Tensor, " M"], state: State) -> tuple[Float[Tensor, "M V"], State]:
        return self.model.step(tokens, state)


@dataclass(frozen=True)
class Ending:
    """When a sequence is over.

    - `limit`: the most tokens, without the end token.
    - `end`: the token that ends a sequence; it is not given back.
    - `lengths`: the length of each sequence, known beforehand; the end token is not predicted then. P(Y) = P(τ) P(Y | τ).
    - `stop_probability`: a stop is drawn before each token. For what is drawn, not for a beam.
    - `never`: tokens that are not predicted, such as the one that every sequence starts with.

    ```python
    rc.models.Ending(limit=50, end=0)
    ```
    """

    limit: int
    end: int | None = None
    lengths: Int[Tensor, " N"] | None = None
    stop_probability: float = 0.0
    never: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.stop_probability <= 1:
            raise OptionError(f"stop_probability must lie between 0 and 1; got {self.stop_probability}.")
        if self.limit < 0:
            raise OptionError(f"the most tokens must not be negative; got {self.limit}.")

    def log_probabilities(self, logits: Float[Tensor, "M V"]) -> Float[Tensor, "M V"]:
        """Those of tokens that may be predicted, among themselves."""
        return self._allowed(logits).log_softmax(-1)

    def probabilities(self, logits: Float[Tensor, "M V"], choice: Choice) -> Float[Tensor, "M V"]:
        return choice.probabilities(self._allowed(logits))

    def _allowed(self, logits: Tensor) -> Tensor:
        barred = [*self.never, *([self.end] if self.lengths is not None and self.end is not None else [])]
        return logits.float().index_fill(-1, torch.tensor(barred, dtype=torch.int64, device=logits.device), -math.inf)

    def limits(self, count: int, device: torch.device) -> Int[Tensor, " N"]:
        """The most tokens of each of `count` sequences."""
        if self.lengths is None:
            return torch.full((count,), self.limit, device=device)
        return self.lengths.to(device).clamp(max=self.limit)


@dataclass(frozen=True)
class Found:
    """A sequence, its log-probability with that of its end token, and what it was ranked by."""

    tokens: list[int]
    log_probability: float
    score: float


@torch.no_grad()
def draw(
    model: Stepwise, ending: Ending, choice: Choice | None = None, generator: torch.Generator | None = None
) -> list[Found]:
    """One sequence each, token by token, as `choice` takes them: the most probable (`Choice(greedy=True)`), or drawn."""
    choice = choice or Choice()
    logits, state = model.start()
    N = len(logits)
    limits = ending.limits(N, logits.device)
    over = limits <= 0
    total = torch.zeros(N, dtype=torch.float64, device=logits.device)
    predicted: list[Tensor] = []
    while True:
        if ending.stop_probability:
            over = over | (torch.rand(N, generator=generator) < ending.stop_probability).to(over.device)
        if bool(over.all()):
            break
        distribution = ending.probabilities(logits, choice).cpu()
        tokens = draw_numbers(distribution, generator).to(logits.device)
        gained = ending.log_probabilities(logits).gather(1, tokens[:, None])[:, 0]
        total = torch.where(over, total, total + gained)
        if ending.end is not None:
            over = over | (tokens == ending.end)
        predicted.append(torch.where(over, -1, tokens))
        over = over | (len(predicted) >= limits)
        if not bool(over.all()):
            logits, state = model.step(tokens, state)
    rows = torch.stack(predicted, dim=1).tolist() if predicted else [[]] * N
    return [
        Found([token for token in row if token >= 0], value, value)
        for row, value in zip(rows, total.tolist(), strict=True)
    ]


def greedy(model: Stepwise, ending: Ending) -> list[Found]:
    """The most probable token each time."""
    return draw(model, ending, Choice(greedy=True))


@dataclass(frozen=True)
class BeamStep:
    """One step of a beam, `[N, width]` each: which slot every slot goes on from, with which token, its log-probability so far,
    what it is ranked by, and whether it is over."""

    origin: Int[Tensor, "N width"]
    tokens: Int[Tensor, "N width"]
    total: Float[Tensor, "N width"]
    score: Float[Tensor, "N width"]
    over: Tensor


@torch.no_grad()
def beam_search(
    model: Stepwise,
    ending: Ending,
    width: int,
    *,
    n_best: int = 1,
    length_power: float = 1.0,
    watch: Callable[[BeamStep], None] | None = None,
) -> list[list[Found]]:
    """For each sequence the `n_best` best ones that a beam of `width` finds, best first.

    The beam holds the `width` best beginnings, those that are over among them; at each step, all that can follow compete.
    They are ranked by log P / n^`length_power`, with n tokens, the end token counted: 1 ranks by the mean per token, 0 by
    the probability alone, which favours short ones. Width 1 is the greedy search; a beam that holds everything finds the
    best there is. `watch` is told of every step.

    ```python
    model = rc.models.LanguageModel(5, rc.Recurrent("gru", 8, 8))
    start = rc.models.Continuation(model, torch.tensor([[1, 2, 3]]))
    rc.models.beam_search(start, rc.models.Ending(limit=10, end=0), width=4, n_best=2)
    ```
    """
    if width < 1:
        raise OptionError(f"a beam has a width of at least 1; got {width}.")
    if not 1 <= n_best <= width:
        raise OptionError(
            f"a beam of width {width} finds 1 to {width} sequences; got n_best={n_best}. Use a wider beam."
        )
    if ending.stop_probability:
        raise OptionError(
            "a stop is drawn, but a beam draws nothing: use the end token or a length, or draw the sequence."
        )
    logits, state = model.start()
    N, V = logits.shape
    device = logits.device
    # N sequences with `width` slots each; at first one slot holds the empty beginning, and the others nothing
    total = torch.full((N, width), -math.inf, dtype=torch.float64, device=device)
    total[:, 0] = 0
    counts = torch.zeros(N, width, dtype=torch.int64, device=device)
    limits = ending.limits(N, device)[:, None]
    over = (limits <= 0).expand(N, width)
    predicted = torch.empty(N, width, 0, dtype=torch.int64, device=device)
    state = _rows(state, torch.arange(N, device=device).repeat_interleave(width))
    following = ending.log_probabilities(logits).double().repeat_interleave(width, dim=0).view(N, width, V)
    nothing = torch.full((V,), -math.inf, dtype=torch.float64, device=device)
    nothing[0] = 0  # what is over stays as it is, in one place of its V
    while not bool((over | total.isinf()).all()):
        totals = total[..., None] + torch.where(over[..., None], nothing, following)
        ranked = totals / _lengths(counts + ~over, length_power)[..., None]
        best = ranked.flatten(1).topk(width).indices
        origin, tokens = best // V, best % V
        total = totals.flatten(1).gather(1, best)
        was_over, counts = over.gather(1, origin), (counts + ~over).gather(1, origin)
        predicted = predicted.gather(1, origin[..., None].expand(-1, -1, predicted.shape[-1]))
        over = was_over | (tokens == ending.end) if ending.end is not None else was_over
        predicted = torch.cat([predicted, torch.where(over, -1, tokens)[..., None]], dim=-1)
        over = over | (predicted.shape[-1] >= limits)
        if watch is not None:
            watch(BeamStep(origin, tokens, total, total / _lengths(counts, length_power), over))
        if not bool((over | total.isinf()).all()):
            rows = (origin + width * torch.arange(N, device=device)[:, None]).flatten()
            logits, state = model.step(tokens.flatten(), _rows(state, rows))
            following = ending.log_probabilities(logits).double().view(N, width, V)
    scores = total / _lengths(counts, length_power)
    order = scores.argsort(dim=1, descending=True, stable=True).tolist()
    lists, totals_, scores_ = predicted.tolist(), total.tolist(), scores.tolist()
    return [
        [
            Found([token for token in lists[n][k] if token >= 0], totals_[n][k], scores_[n][k])
            for k in order[n][:n_best]
            if totals_[n][k] > -math.inf
        ]
        for n in range(N)
    ]


def _lengths(counts: Tensor, power: float) -> Tensor:
    return counts.clamp(min=1).double() ** power


def _rows(state: Any, rows: Int[Tensor, " M"]) -> Any:
    """The state of some rows, of tuples however deep."""
    if isinstance(state, Tensor):
        return state.index_select(0, rows)
    return tuple(_rows(each, rows) for each in state)
