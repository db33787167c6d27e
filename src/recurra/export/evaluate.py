"""A network of `recurra.export.network` run by torch, cells by the plain loop: what every exported file is compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import conv1d, linear, max_pool1d

from recurra.export.network import Network, Value, state_slots
from recurra.layers.bidirectional import reverse
from recurra.layers.front import within
from recurra.types import Float, Int


@torch.no_grad()
def run_network(
    network: Network,
    inputs: Mapping[str, Tensor],
    states: Mapping[str, Tensor] | None = None,
    lengths: Int[Tensor, " B"] | None = None,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The outputs by name, and every state after the last step of each sequence.

    - `inputs`: by name, batch first. `states`: as `state_slots` names them, each `[B, …]`; the initial ones where left out.
    - `lengths`: of the sequences; those of a `memory` input are `inputs["memory_lengths"]`.
    """
    run = _Run(network, inputs, states or {}, lengths)
    outputs = {
        name: run.values[value] if value.is_whole else run.values[value].transpose(0, 1)
        for name, value in network.outputs.items()
    }
    return outputs, run.final


class _Run:
    """All values of one run, time first."""

    def __init__(
        self, network: Network, inputs: Mapping[str, Tensor], states: Mapping[str, Tensor], lengths: Tensor | None
    ):
        self.inputs, self.states, self.network = inputs, states, network
        of_steps = [inputs[value.name] for value in network.inputs if value.kind in ("tokens", "numbers")]
        B, self.T = of_steps[0].shape[:2]
        self.lengths: dict[Value, Tensor] = {}
        self.all = torch.full((B,), self.T) if lengths is None else lengths
        self.slots = state_slots(network)
        self.values: dict[Value, Tensor] = {}
        self.final: dict[str, Tensor] = {}
        for value in network.values:
            known = [self.lengths[each] for each in value.arguments if each in self.lengths]
            self.lengths[value] = known[0] if known else self.all
            self.values[value] = self.value(value, [self.values[each] for each in value.arguments])

    def value(self, value: Value, of: list[Tensor]) -> Tensor:
        weights = value.weights
        match value.kind:
            case "tokens" | "numbers":
                return self.inputs[value.name].transpose(0, 1)
            case "label" | "vector" | "memory":
                return self.inputs[value.name]
            case "embedding":
                return weights["table"][of[0]]
            case "linear":
                return linear(of[0], weights["weight"], weights.get("bias"))
            case "tanh" | "relu" | "sigmoid":
                made: Tensor = getattr(torch, value.kind)(of[0])
                return made
            case "add":
                return torch.stack(of).sum(0) if len(of) > 2 else of[0] + of[1]
            case "multiply":
                return of[0] * of[1]
            case "concat":
                return torch.cat(of, dim=-1)
            case "known":
                return of[0].nan_to_num(0.0, posinf=math.inf, neginf=-math.inf)
            case "missing":
                return of[0].isnan().to(of[0])
            case "one":
                return torch.cat([torch.ones_like(of[0][..., :1]), of[0]], dim=-1)
            case "spread":
                return of[0].expand(self.T, *of[0].shape)
            case "layer":
                return self.layer(value, of[0])
            case "attend":
                return self.attend(value, *of)
        return self.over_steps(value, of, within(len(of[0]), self.lengths[value]))

    def over_steps(self, value: Value, of: list[Tensor], inside: Tensor) -> Tensor:
        """What is computed from several steps."""
        lengths, x = self.lengths[value], torch.where(inside, of[0], 0)
        match value.kind:
            case "convolution":
                kernel = value.weights["weight"]
                y = conv1d(x.permute(1, 2, 0), kernel, value.weights["bias"], padding=kernel.shape[-1] // 2).relu()
                return torch.where(inside, y.permute(2, 0, 1), 0)
            case "pool":
                self.lengths[value] = (lengths + value.factor - 1) // value.factor
                y = max_pool1d(x.permute(1, 2, 0), value.factor, ceil_mode=True)
                return y.permute(2, 0, 1)
            case "last":
                return x[(lengths - 1).clamp(min=0), torch.arange(x.shape[1])]
            case "first":
                return x[0]
            case "mean":
                return x.sum(0) / lengths.clamp(min=1)[:, None]
            case "max":
                lowest = torch.finfo(x.dtype).min
                return torch.where((lengths > 0)[:, None], x.masked_fill(~inside, lowest).amax(0), 0)
            case "attention":
                scores = of[1].masked_fill(~inside, torch.finfo(x.dtype).min)
                return (scores.softmax(0) * x).sum(0)
        raise AssertionError(value.kind)

    def layer(self, value: Value, x: Float[Tensor, "T B D"]) -> Float[Tensor, "T B H"]:
        direction, lengths = value.direction, self.lengths[value]
        assert direction is not None
        slots = [slot for slot in self.slots if slot.layer is value]
        before = tuple(
            self.states.get(slot.name, slot.initial.expand(x.shape[1], *slot.shape).contiguous()) for slot in slots
        )
        x = torch.where(within(len(x), lengths), x, 0)
        x = reverse(x, lengths) if value.reverse else x
        y, final, _ = direction(x, before, lengths, "eager", False)
        self.final |= {slot.name: after for slot, after in zip(slots, final, strict=True)}
        y = torch.where(within(len(y), lengths), y, 0)
        return reverse(y, lengths) if value.reverse else y

    def attend(self, value: Value, queries: Tensor, keys: Tensor, memory: Tensor) -> Tensor:
        """Additive attention where it has weights of its own, otherwise scaled products of query and key."""
        queries, weights = queries.transpose(0, 1), value.weights
        if weights:
            asked = linear(queries, weights["query"], weights["bias"])[:, :, None]
            energies = linear(torch.tanh(asked + keys[:, None]), weights["score"])[..., 0]
        else:
            energies = queries @ keys.mT / math.sqrt(keys.shape[-1])
        outside = torch.arange(keys.shape[1]) >= self.inputs["memory_lengths"][:, None]
        shares = energies.masked_fill(outside[:, None], -math.inf).softmax(-1)
        return (shares @ memory).transpose(0, 1)
