"""What models that give names to sequences, or to their steps, have in common: how they read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from recurra.cells.notation import Cell
from recurra.data.transfer import send
from recurra.errors import OptionError, choose_from
from recurra.layers.bidirectional import to_front
from recurra.layers.dropout import VariationalDropout
from recurra.layers.front import Front, within
from recurra.layers.recurrent import Recurrent
from recurra.types import Float, Int


class Labeller(nn.Module, ABC):
    """Symbols become vectors, or numbers are read as they are; an optional convolution; recurrent layers of any cell.

    - `input_size`: channels of numbers, or with `symbols` how many symbols there are; `embedding_size` is the size of a
      symbol's vector, `hidden_size` if left out.
    - `classes`: how many names there are.
    - `convolution`: its width in steps (odd); none: no convolution. `pool`: the largest of so many steps, after it.
    - `noise`: normal noise of this size, added in training at each step to numbers or to symbols' vectors; `shift`: one for
      all steps of a sequence, as another day or another microphone shifts a recording.
    - `dropout`: between layers and of what the last linear map reads; `input_dropout`: of inputs. One mask for all of time.
    - `options`: as for `Recurrent`: `layers`, `weight_dropout`, `residual`, `learn_initial`, `engine`.

    Which end sequences are padded at (`padding`), and what stands there, changes nothing.
    """

    def __init__(
        self,
        input_size: int,
        classes: int,
        cell: Cell | str,
        hidden_size: int,
        *,
        symbols: bool = False,
        embedding_size: int | None = None,
        bidirectional: bool = True,
        convolution: int | None = None,
        pool: int = 1,
        noise: float = 0.0,
        shift: float = 0.0,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        **options: Any,
    ):
        super().__init__()
        if classes < 2:
            raise OptionError(f"there must be at least 2 classes to choose from; got {classes}.")
        for name, value in (("noise", noise), ("shift", shift)):
            if not value >= 0:
                raise OptionError(f"{name} must not be negative; got {value}.")
        if pool != 1 and convolution is None:
            raise OptionError(f"pool={pool} follows a convolution; give its width too, such as convolution=5.")
        self.noise, self.shift = noise, shift
        size = (embedding_size or hidden_size) if symbols else input_size
        self.embedding = nn.Embedding(input_size, size) if symbols else None
        if self.embedding is not None:
            nn.init.normal_(self.embedding.weight, std=size**-0.5)
        self.front = Front(size, hidden_size, convolution, pool) if convolution is not None else None
        self.input_dropout, self.dropout = VariationalDropout(input_dropout), VariationalDropout(dropout)
        self.recurrent = Recurrent(
            cell,
            size if self.front is None else hidden_size,
            hidden_size,
            bidirectional=bidirectional,
            dropout=dropout,
            **options,
        )
        self.output = nn.Linear(self.recurrent.output_size, classes)
        nn.init.zeros_(self.output.bias)

    @abstractmethod
    def forward(
        self, inputs: Tensor, lengths: Int[Tensor, " B"] | Sequence[int] | None = None, *, padding: str = "end"
    ) -> Tensor:
        """The score of each class: of each sequence, or of each of its steps."""

    def embed(self, inputs: Tensor) -> Float[Tensor, "B T D"]:
        """The vectors that are read."""
        if self.embedding is None:
            return inputs
        embedded: Tensor = self.embedding(inputs)
        return embedded

    def read(
        self, inputs: Tensor, lengths: Int[Tensor, " B"] | Sequence[int] | None, padding: str
    ) -> tuple[Float[Tensor, "B T H"], Int[Tensor, " B"]]:
        """The last layer's output at each step, the first step of each sequence first; and how many steps there are."""
        choose_from("padding", padding, ("end", "start"))
        B, T = inputs.shape[:2]
        known = torch.as_tensor([T] * B if lengths is None else lengths)
        here = send(known, inputs.device)
        x = self.embed(inputs).transpose(0, 1)
        x = to_front(x, here) if padding == "start" else x
        x = torch.where(within(T, here), x, 0)
        if self.training and (self.noise or self.shift):
            x = x + self.noise * torch.randn_like(x) + self.shift * torch.randn_like(x[:1])
        x = self.input_dropout(x)
        if self.front is not None:
            x, known = self.front(x, known)
        outputs = self.recurrent(x.transpose(0, 1), lengths=known).outputs
        return outputs, send(known, inputs.device)
