"""The recurrent language model: which token comes next, given all that came before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from recurra.errors import OptionError, choose_from
from recurra.layers.adaptive_softmax import AdaptiveSoftmax
from recurra.layers.deep import StopLinear
from recurra.layers.dropout import check_share
from recurra.layers.recurrent import Recurrent
from recurra.models.markov_tables import MarkovTables
from recurra.models.sequence import SequenceModel
from recurra.types import Float, Int

SOFTMAXES = ("full", "adaptive")


class LanguageModel(SequenceModel):
    """Embedding, recurrent layers of any cell, and a softmax over the vocabulary.

    The joint probability of a text is the product of its conditionals: P(y₁ … y_T) = Π P(y_t | y₁ … y_{t−1}); each token is
    fed back as the next input.

    - `vocabulary_size`: V. `recurrent`: the layers; a token's vector has their `input_size`.
    - `tied`: the softmax uses the embedding's matrix (Press & Wolf 2017); needs `input_size` equal to the layers' output.
    - `input_dropout`: of tokens' vectors, one mask for all of time; `None`: that of the layers, which is also of outputs.
    - `embedding_dropout`: of whole tokens: the vectors of those that are drawn are zero at all of their places in a batch
      (Merity et al. 2018).
    - `softmax`: `full`, or `adaptive`, which spends little on rare tokens and needs them numbered by frequency.
    - `deep_input`, `deep_output`: so many extra tanh layers before and after the recurrent ones.
    - `stop`: the token that ends a sequence, where its probability is emitted apart at each step: first σ(s_t) that there is no
      further token, then a softmax over the others. `None`: the end is a token like any other.
    - `baseline`: counts that the run predicts with besides, by their `share` (`CountedLanguageModel`); the model itself is the
      network alone.

    ```python
    model = rc.models.LanguageModel(65, rc.Recurrent("lstm", 32, 128, layers=2, dropout=0.1))
    logits, state = model(torch.randint(65, (4, 100)))      # [4, 100, 65]
    logits, state = model.step(torch.randint(65, (4,)), state)
    ```
    """

    output: Any
    share: Tensor

    def __init__(
        self,
        vocabulary_size: int,
        recurrent: Recurrent,
        *,
        tied: bool = False,
        input_dropout: float | None = None,
        embedding_dropout: float = 0.0,
        softmax: str = "full",
        deep_input: int = 0,
        deep_output: int = 0,
        stop: int | None = None,
        baseline: MarkovTables | None = None,
    ):
        if choose_from("softmax", softmax, SOFTMAXES) == "adaptive" and (tied or deep_output or stop is not None):
            raise OptionError(
                "softmax=adaptive has maps of its own: it goes with neither tied, deep_output nor stop. Use softmax=full."
            )
        if tied:
            check_tied(recurrent)
        super().__init__(
            recurrent, vocabulary_size, input_dropout=input_dropout, deep_input=deep_input, deep_output=deep_output
        )
        if stop is not None:
            if not 0 <= stop < vocabulary_size:
                raise OptionError(f"stop must be one of the {vocabulary_size} tokens; got {stop}.")
            self.output = StopLinear(recurrent.output_size, vocabulary_size, deep_output, stop)
            nn.init.zeros_(self.output.bias)
        self.embedding_dropout = check_share("embedding_dropout", embedding_dropout)
        self.embedding = make_embedding(vocabulary_size, recurrent.input_size)
        if softmax == "adaptive":
            self.output = AdaptiveSoftmax(recurrent.output_size, vocabulary_size)
        if tied:
            self.output.weight = self.embedding.weight
        self.baseline = baseline
        if baseline is not None:
            self.register_buffer("share", torch.zeros(()))

    def embed(self, inputs: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        vectors = self.embedding(inputs)
        if self.training and self.embedding_dropout:
            kept = torch.empty_like(self.embedding.weight[:, :1]).bernoulli_(1 - self.embedding_dropout)
            vectors = vectors * (kept / (1 - self.embedding_dropout))[inputs]
        embedded: Tensor = self.deep_input(vectors)
        return embedded


def make_embedding(vocabulary_size: int, size: int) -> nn.Embedding:
    """Vectors of tokens, of length about 1."""
    made = nn.Embedding(vocabulary_size, size)
    nn.init.normal_(made.weight, std=size**-0.5)
    return made


def check_tied(recurrent: Recurrent) -> None:
    """Refuse layers whose output has not the size of the vectors that they read."""
    if recurrent.input_size != recurrent.output_size:
        raise OptionError(
            f"a tied softmax needs an embedding_size equal to hidden_size; got {recurrent.input_size} and "
            f"{recurrent.output_size}. Make them equal or pass tied=False."
        )
