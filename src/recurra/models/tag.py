"""Many to many: a class for each step of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from recurra.errors import OptionError
from recurra.layers.bidirectional import to_back
from recurra.layers.recurrent import Recurrent
from recurra.models.labelling import Labeller
from recurra.types import Float, Int


class Tagger(Labeller):
    """A softmax over classes at each step, from what both directions have read.

    Steps past a sequence's end have scores too, which mean nothing.

    ```python
    model = rc.models.Tagger(rc.Recurrent("lstm", 64, 64, bidirectional=True), classes=17, vocabulary_size=1000)
    scores = model(torch.randint(1000, (4, 30)), lengths=[30, 7, 12, 20])      # [4, 30, 17]
    ```
    """

    def __init__(self, recurrent: Recurrent, classes: int, **options: Any):
        super().__init__(recurrent, classes, **options)
        if self.front is not None and self.front.pool > 1:
            raise OptionError(f"pool={self.front.pool} leaves fewer steps than there are tags. Use pool=1 in a tagger.")

    def forward(
        self, inputs: Tensor, lengths: Int[Tensor, " B"] | Sequence[int] | None = None, *, padding: str = "end"
    ) -> Float[Tensor, "B T C"]:
        hidden, known = self.read(inputs, lengths, padding)
        steps = self.dropout(hidden.transpose(0, 1))
        steps = to_back(steps, known) if padding == "start" else steps
        scores: Tensor = self.output(steps.transpose(0, 1))
        return scores
