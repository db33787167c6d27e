"""The recurrent language model: which symbol comes next, given all that came before."""

from __future__ import annotations

from torch import Tensor, nn

from recurra.cells.notation import Cell
from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.models.sequence import SequenceModel
from recurra.types import Float, Int


class LanguageModel(SequenceModel):
    """Embedding, recurrent layers of any cell, and a softmax over the vocabulary.

    The joint probability of a text is the product of its conditionals: P(y₁ … y_T) = Π P(y_t | y₁ … y_{t−1}); each symbol is
    fed back as the next input.

    - `vocabulary_size`: V. `embedding_size`: of a symbol's vector; `hidden_size` if left out.
    - `tied`: the softmax uses the embedding's matrix (Press & Wolf 2017); needs `embedding_size` equal to `hidden_size`.
    - `dropout`: between layers and of outputs; `input_dropout`: of symbols' vectors, as `dropout` if left out. One mask for
      all of time. `weight_dropout`: of recurrent weights.
    - `deep_input`, `deep_output`: so many extra tanh layers before and after the recurrent ones.

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
        input_dropout: float | None = None,
        weight_dropout: float = 0.0,
        tied: bool = False,
        residual: bool = False,
        learn_initial: bool = False,
        deep_input: int = 0,
        deep_output: int = 0,
        engine: str = "auto",
    ):
        embedding_size = embedding_size or hidden_size
        if tied and embedding_size != hidden_size:
            raise OptionError(
                f"a tied softmax needs embedding_size = hidden_size; got {embedding_size} and {hidden_size}. "
                "Make them equal or pass tied=False."
            )
        recurrent = Recurrent(
            cell,
            embedding_size,
            hidden_size,
            layers=layers,
            dropout=dropout,
            weight_dropout=weight_dropout,
            residual=residual,
            learn_initial=learn_initial,
            engine=engine,
        )
        input_dropout = dropout if input_dropout is None else input_dropout
        super().__init__(
            recurrent,
            vocabulary_size,
            dropout=dropout,
            input_dropout=input_dropout,
            deep_input=deep_input,
            deep_output=deep_output,
        )
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        nn.init.normal_(self.embedding.weight, std=embedding_size**-0.5)
        if tied:
            self.output.weight = self.embedding.weight

    def embed(self, inputs: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        embedded: Tensor = self.deep_input(self.embedding(inputs))
        return embedded
