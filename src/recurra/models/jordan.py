"""The output-recurrent network: its only way back goes from what it predicted to its hidden units."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from recurra.errors import OptionError
from recurra.models.draws import draw_numbers
from recurra.types import Float, Int


class Jordan(nn.Module):
    """h_t = tanh(W x_t + R y_{t−1} + b),  o_t = V h_t + c,  P(y_t) = softmax(o_t). Jordan 1986.

    Given the true y_{t−1} (teacher forcing) no step waits for another: all of time is computed at once. Run free, each step
    reads what the one before predicted. What is not in the output is forgotten: the network is weaker than one whose hidden units
    feed back.

    - `inputs`: how many tokens x_t is one of; `outputs`: how many y_t is one of.

    ```python
    bits, parities = rc.data.parity(8, 20)
    model = rc.models.Jordan(inputs=2, outputs=2, hidden_size=16)
    logits = model(bits, parities)                     # all steps at once, each with the true parity before it
    predicted, logits = model.run(bits)                # step by step, each with its own
    ```
    """

    def __init__(self, inputs: int, outputs: int, hidden_size: int, *, dropout: float = 0.0):
        super().__init__()
        if min(inputs, outputs, hidden_size) < 1:
            raise OptionError(
                f"Jordan: inputs, outputs and hidden_size must be at least 1; got {inputs}, {outputs}, {hidden_size}."
            )
        # a product with a one-hot vector is a row of the matrix; the last row of R stands for "nothing predicted yet"
        self.input = nn.Embedding(inputs, hidden_size)
        self.back = nn.Embedding(outputs + 1, hidden_size)
        self.bias = nn.Parameter(torch.zeros(hidden_size))
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden_size, outputs)

    def forward(self, inputs: Int[Tensor, "B T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """The logits of each step, given the target of the step before."""
        nothing = self.back.num_embeddings - 1
        return self.predict(inputs, pad(targets[:, :-1], (1, 0), value=nothing))

    def predict(self, inputs: Int[Tensor, "*N"], before: Int[Tensor, "*N"]) -> Float[Tensor, "*N V"]:
        """The logits of any steps, given what was predicted before each."""
        hidden = torch.tanh(self.input(inputs) + self.back(before) + self.bias)
        logits: Tensor = self.output(self.dropout(hidden))
        return logits

    @torch.no_grad()
    def run(
        self, inputs: Int[Tensor, "B T"], generator: torch.Generator | None = None
    ) -> tuple[Int[Tensor, "B T"], Float[Tensor, "B T V"]]:
        """Free: each step reads the token that the one before found most probable (or drew, given a generator)."""
        before = torch.full_like(inputs[:, 0], self.back.num_embeddings - 1)
        predicted, logits = torch.empty_like(inputs), []
        for t in range(inputs.shape[1]):
            logits.append(self.predict(inputs[:, t], before))
            before = logits[-1].argmax(-1) if generator is None else _draw(logits[-1], generator)
            predicted[:, t] = before
        return predicted, torch.stack(logits, dim=1)

    @torch.no_grad()
    def own_outputs(self, inputs: Int[Tensor, "B T"], targets: Int[Tensor, "B T"], share: float) -> Int[Tensor, "B T"]:
        """The targets, some replaced by what the network draws where it reads the true ones: scheduled sampling with no loop.

        Mihaylova & Martins 2019: a first pass over all steps draws, the second is trained on what it reads.
        """
        drawn = _draw(self(inputs, targets))
        own = torch.rand(targets.shape, device=targets.device) < share
        return torch.where(own, drawn, targets)


def _draw(logits: Float[Tensor, "*N V"], generator: torch.Generator | None = None) -> Int[Tensor, "*N"]:
    flat = logits.flatten(0, -2).float().softmax(-1)
    return draw_numbers(flat, generator).view(logits.shape[:-1])
