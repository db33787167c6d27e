"""The fixed-window language model: the next token from the last n, through one hidden layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from recurra.errors import OptionError
from recurra.types import Float, Int


class WindowLanguageModel(nn.Module):
    """Embeddings of the last `window` tokens, concatenated, through tanh to a softmax.

    Bengio et al. 2003, A Neural Probabilistic Language Model. The baseline that a recurrent model must beat: it sees nothing
    beyond its window, and gives each place in it weights of its own.

    ```python
    model = rc.models.WindowLanguageModel(5, window=3, embedding_size=8, hidden_size=16)
    ```
    """

    def __init__(self, vocabulary_size: int, window: int, embedding_size: int, hidden_size: int):
        super().__init__()
        if window < 1:
            raise OptionError(f"window must be at least 1; got {window}.")
        self.window = window
        self.embedding = nn.Embedding(vocabulary_size + 1, embedding_size)  # the last one stands for "before the text"
        self.hidden = nn.Linear(window * embedding_size, hidden_size)
        self.output = nn.Linear(hidden_size, vocabulary_size)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        past: Int[Tensor, "B W"] | None = None,
        lengths: Int[Tensor, " B"] | None = None,
    ) -> tuple[Float[Tensor, "B T V"], Int[Tensor, "B W"]]:
        """The logits of the token that follows each one, and the last tokens, to pass to the next call as `past`.

        - `lengths`: of no use here, since what lies past the end of a sequence is seen by nothing before it.
        """
        blank = self.embedding.num_embeddings - 1
        seen = pad(tokens, (self.window - 1, 0), value=blank) if past is None else torch.cat([past, tokens], dim=1)
        return self.predict(seen.unfold(1, self.window, 1)), seen[:, seen.shape[1] - self.window + 1 :]

    def step(
        self, tokens: Int[Tensor, " B"], past: Int[Tensor, "B W"] | None = None
    ) -> tuple[Float[Tensor, "B V"], Int[Tensor, "B W"]]:
        """The same for one token of each row."""
        logits, after = self(tokens[:, None], past)
        return logits[:, 0], after

    def predict(self, windows: Int[Tensor, "*N W"]) -> Float[Tensor, "*N V"]:
        """The logits of the token that follows each window."""
        logits: Tensor = self.output(torch.tanh(self.hidden(self.embedding(windows).flatten(-2))))
        return logits
