"""Dynamic evaluation: a model that goes on learning from what it has just been scored on. Krause et al. 2018."""

from __future__ import annotations

import copy
from itertools import islice

import torch

from recurra.data.batches import Batches
from recurra.errors import OptionError
from recurra.layers.states import detach
from recurra.models.sequence import SequenceModel
from recurra.training.distributed import Ranks
from recurra.training.evaluation import Score, Tally
from recurra.training.objectives import batch_weights, weighted_nll
from recurra.training.truncation import backward, none

SEEN = 100
"""How many batches of training data the size of a usual gradient is measured on."""

MOST_USUAL = 10.0
"""How many usual gradients a step may be. Of a rare word they are almost zero, and where it occurs a step would be immense."""


def evaluate_dynamically(
    model: SequenceModel, train: Batches, batches: Batches, *, rate: float = 0.002, decay: float = 0.002
) -> Score:
    """One pass over `batches`; each batch is scored first and learned from afterwards. The model itself stays as it is.

        θ ← θ − rate · g / √v + decay · r (θ₀ − θ)

    where v is the mean square of each parameter's gradient over training data, g / √v is cut to ±`MOST_USUAL`, and r is √v over
    its mean, at most 1/decay: parameters that move easily are pulled back more strongly to the trained θ₀.
    """
    if not (rate > 0 and 0 <= decay < 1):
        raise OptionError(
            f"dynamic evaluation needs a positive rate and a decay in [0, 1); got rate={rate}, decay={decay}."
        )
    moving = copy.deepcopy(model).eval()
    parameters = list(moving.parameters())
    first = [parameter.detach().clone() for parameter in parameters]
    roots = _usual_gradients(moving, train)
    mean = torch.cat([root.flatten() for root in roots]).mean()
    pulls = [(decay * root / mean).clamp(max=1) for root in roots]
    device = moving.output.weight.device
    tally, state = Tally(weighted_nll), None
    for batch in batches.one_pass():
        state = None if batch.fresh else state
        lengths = None if batch.lengths is None else batch.lengths.to(device)
        logits, final = moving(batch.inputs.to(device), detach(state), lengths)
        tally.add(logits.detach(), batch)
        weights = batch_weights(batch, "mean", device, logits.dtype)
        moving.zero_grad(set_to_none=False)  # a learned first state has no gradient where the state is carried
        (weighted_nll(logits, batch.targets.to(device), weights) / max(1, batch.tokens)).backward()
        state = detach(final)
        with torch.no_grad():
            for parameter, start, root, pull in zip(parameters, first, roots, pulls, strict=True):
                assert parameter.grad is not None
                parameter.sub_(rate * (parameter.grad / (root + 1e-3 * mean)).clamp(-MOST_USUAL, MOST_USUAL))
                parameter.add_(pull * (start - parameter))
    return tally.score(Ranks(), device)


def _usual_gradients(model: SequenceModel, train: Batches) -> list[torch.Tensor]:
    """The root mean square of each parameter's gradient over some batches of training data."""
    device = model.output.weight.device
    squares = [torch.zeros_like(parameter) for parameter in model.parameters()]
    seen = 0
    for batch in islice(train.one_pass(), SEEN):
        lengths = None if batch.lengths is None else batch.lengths.to(device)
        weights = batch_weights(batch, "mean", device, model.output.weight.dtype)
        model.zero_grad()
        backward(
            model,
            batch.inputs.to(device),
            batch.targets.to(device),
            weights / max(1, batch.tokens),
            none(),
            weighted_nll,
            lengths=lengths,
        )
        for square, parameter in zip(squares, model.parameters(), strict=True):
            assert parameter.grad is not None
            square += parameter.grad.square()
        seen += 1
    return [(square / max(1, seen)).sqrt() for square in squares]
