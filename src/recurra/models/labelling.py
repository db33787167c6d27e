"""What models that label sequences, or their steps, have in common: how they read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from recurra.data.transfer import send
from recurra.errors import OptionError, choose_from
from recurra.layers.bidirectional import to_back, to_front
from recurra.layers.front import Front, within
from recurra.layers.recurrent import Recurrent
from recurra.models.language import make_embedding
from recurra.models.sequence import make_dropouts
from recurra.types import Float, Int


class Labeller(nn.Module, ABC):
    """Tokens become vectors, or numbers are read as they are; an optional convolution; recurrent layers of any cell.

    - `recurrent`: the layers. `classes`: how many labels there are.
    - `vocabulary_size`: of tokens; `None`: numbers are read. `front`: a convolution and pooling before the layers.
    - `noise`: normal noise of this size, added in training at each step to numbers or to tokens' vectors; `shift`: one for
      all steps of a sequence, as another day or another microphone shifts a recording.
    - `input_dropout`: of inputs, one mask for all of time; `None`: that of the layers, which is also of outputs.

    - `reads_padding`: `start` or `end`: the zeros that shorter sequences are padded with at that end are read as if they were
      steps, as by networks that know of no lengths. `None`: they are not.

    Otherwise which end sequences are padded at (`padding`), and what stands there, changes nothing.
    """

    def __init__(
        self,
        recurrent: Recurrent,
        classes: int,
        *,
        vocabulary_size: int | None = None,
        front: Front | None = None,
        noise: float = 0.0,
        shift: float = 0.0,
        input_dropout: float | None = None,
        reads_padding: str | None = None,
    ):
        super().__init__()
        if reads_padding is not None:
            choose_from("reads_padding", reads_padding, ("end", "start"))
        self.reads_padding = reads_padding
        if classes < 2:
            raise OptionError(f"there must be at least 2 classes to choose from; got {classes}.")
        for name, value in (("noise", noise), ("shift", shift)):
            if not value >= 0:
                raise OptionError(f"{name} must not be negative; got {value}.")
        if front is not None and front.output_size != recurrent.input_size:
            raise OptionError(
                f"the convolution gives {front.output_size} channels, but the recurrent layers read {recurrent.input_size}."
            )
        self.noise, self.shift, self.front = noise, shift, front
        size = recurrent.input_size if front is None else front.input_size
        self.embedding = None if vocabulary_size is None else make_embedding(vocabulary_size, size)
        self.input_dropout, self.dropout = make_dropouts(recurrent, input_dropout)
        self.recurrent = recurrent
        self.output = nn.Linear(recurrent.output_size, classes)
        nn.init.zeros_(self.output.bias)

    @abstractmethod
    def forward(
        self, inputs: Tensor, lengths: Int[Tensor, " B"] | Sequence[int] | None = None, *, padding: str = "end"
    ) -> Tensor:
        """The score of each class: of each sequence, or of each of its steps."""

    @property
    def members(self) -> list[Callable[..., Tensor]]:
        """What is trained, each by its own loss: the model, or of an ensemble every network."""
        return [self]

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
        if self.reads_padding is not None:
            x = to_back(x, here) if self.reads_padding == "start" else x
            known = torch.full((B,), T)
        if self.training and (self.noise or self.shift):
            x = x + self.noise * torch.randn_like(x) + self.shift * torch.randn_like(x[:1])
        x = self.input_dropout(x)
        if self.front is not None:
            x, known = self.front(x, known)
        outputs = self.recurrent(x.transpose(0, 1), lengths=known).outputs
        return outputs, send(known, inputs.device)
