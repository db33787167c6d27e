"""The recurrent language model: which symbol comes next, given all that came before."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recurra.cells.notation import Cell
from recurra.errors import OptionError
from recurra.layers.dropout import VariationalDropout
from recurra.layers.recurrent import Recurrent
from recurra.types import Float, Int, State


class LanguageModel(nn.Module):
    """Embedding, recurrent layers of any cell, and a softmax over the vocabulary.

    The joint probability of a text is the product of its conditionals: P(y₁ … y_T) = Π P(y_t | y₁ … y_{t−1}); each symbol is
    fed back as the next input.

    - `vocabulary_size`: V. `embedding_size`: of a symbol's vector; `hidden_size` if left out.
    - `tied`: the softmax uses the embedding's matrix (Press & Wolf 2017); needs `embedding_size` equal to `hidden_size`.
    - `dropout`: of inputs, between layers and of outputs, one mask for all of time.

    ```python
    model = LanguageModel(vocabulary_size=65, cell="lstm", hidden_size=128)
    logits, state = model(torch.randint(65, (4, 100)))      # [4, 100, 65]
    logits, state = model.step(torch.randint(65, (4,)), state)
    ```
    """

    def __init__(
        self,
        vocabulary_size: int,
        cell: Cell | str,
        hidden_size: int,
        *,
        embedding_size: int | None = None,
        layers: int = 1,
        dropout: float = 0.0,
        tied: bool = False,
        residual: bool = False,
        learn_initial: bool = False,
        engine: str = "auto",
    ):
        super().__init__()
        embedding_size = embedding_size or hidden_size
        if tied and embedding_size != hidden_size:
            raise OptionError(
                f"a tied softmax needs embedding_size = hidden_size; got {embedding_size} and {hidden_size}. "
                "Make them equal or pass tied=False."
            )
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        nn.init.normal_(self.embedding.weight, std=embedding_size**-0.5)
        self.recurrent = Recurrent(
            cell,
            embedding_size,
            hidden_size,
            layers=layers,
            dropout=dropout,
            residual=residual,
            learn_initial=learn_initial,
            engine=engine,
        )
        self.dropout = VariationalDropout(dropout)
        self.output = nn.Linear(hidden_size, vocabulary_size)
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = self.embedding.weight

    def forward(
        self, tokens: Int[Tensor, "B T"], state: State | None = None, lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B T V"], State]:
        """The logits of the symbol that follows each one, and the state after the last."""
        hidden, final = self.hidden(tokens, state, lengths)
        return self.output(hidden), final

    def hidden(
        self, tokens: Int[Tensor, "B T"], state: State | None = None, lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B T H"], State]:
        """What the softmax reads, and the state after the last symbol."""
        embedded = self.dropout(self.embedding(tokens).transpose(0, 1)).transpose(0, 1)
        trace = self.recurrent(embedded, state, lengths)
        return self.dropout(trace.outputs.transpose(0, 1)).transpose(0, 1), trace.final

    def step(self, tokens: Int[Tensor, " B"], state: State | None = None) -> tuple[Float[Tensor, "B V"], State]:
        """One symbol of each lane."""
        logits, final = self(tokens[:, None], state)
        return logits[:, 0], final


def detached(state: State | None) -> State | None:
    """The state as numbers: it goes on, gradients end."""
    if state is None:
        return None
    return tuple(tuple(tuple(each.detach() for each in cell) for cell in layer) for layer in state)


def gathered(state: State, lanes: Int[Tensor, " N"]) -> State:
    """The states of some lanes, in that order."""
    return tuple(tuple(tuple(each[lanes] for each in cell) for cell in layer) for layer in state)


def joined(states: list[State]) -> State:
    """States of several batches as one batch."""
    return tuple(
        tuple(tuple(torch.cat(parts) for parts in zip(*cells, strict=True)) for cells in zip(*layers, strict=True))
        for layers in zip(*states, strict=True)
    )
