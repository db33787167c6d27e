"""Encoder and decoder: one network reads a sequence, another writes one of any other length."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from recurra.data.transfer import send
from recurra.errors import OptionError, choose_from
from recurra.layers.attention import Attention
from recurra.layers.dropout import VariationalDropout
from recurra.layers.recurrent import Recurrent
from recurra.models.first_state import FirstState
from recurra.models.language import make_embedding
from recurra.models.sequence import make_dropouts
from recurra.types import Float, Int, State

CONTEXTS = ("input", "state", "both", "attention", "final")


class Reading(NamedTuple):
    """What was read: the encoder's output at every step, each sequence's length, the context, all of it in one vector, and the
    encoder's state after the last token."""

    outputs: Float[Tensor, "B S C"]
    lengths: Int[Tensor, " B"]
    context: Float[Tensor, "B C"]
    keys: Float[Tensor, "B S H"] | None
    final: State


class Decoded(NamedTuple):
    """Predictions of each step, the decoder's state after the last, and what each step attended to (`None` without attention)."""

    logits: Float[Tensor, "B T V"]
    state: State
    weights: Float[Tensor, "B T S"] | None


class Translator(nn.Module):
    """log P(Y | X) = Σ_t log P(y_t | y₁ … y_{t−1}, X), both networks trained together, teacher forcing at each step.

    - `encoder`, `decoder`: the layers of each; their cells may differ. Tokens' vectors have the encoder's `input_size`; the
      decoder reads them too, and beside them the context where that is an input.
    - `source_size`, `target_size`: of the two vocabularies.
    - `context`: how the decoder hears of the source. The context c is the encoder's output at the end of the sequence (and at
      its beginning, of the direction that ends there).
        - `input`: c is a further input of each step.
        - `state`: the decoder starts from tanh(A c).
        - `both`: Cho et al. 2014.
        - `final`: the decoder starts from the encoder's final state itself, layer by layer; both have the same cell and sizes,
          and the encoder reads in one direction. Sutskever et al. 2014.
        - `attention`: as `state`; and each step's output asks all outputs of the encoder and predicts from what it finds:
          tanh(B [h_t, Σ_s w_ts e_s]). The queries are known after the recurrence, so that any engine runs it. Luong et al. 2015.
    - `attention`: `additive` or `dot`.
    - `longest`: also predict the length τ of the target, 0 to `longest`, by a linear map of c: P(τ | X).
    - `tied`: the softmax uses the matrix of the target's embedding; needs vectors of the decoder's output size.
    - `input_dropout`: of tokens' vectors; `None`: that of the encoder, which is also of outputs.

    ```python
    encoder = rc.Recurrent("gru", 32, 64, bidirectional=True)
    model = rc.models.Translator(encoder, rc.Recurrent("gru", 32, 64), source_size=30, target_size=12)
    reading = model.read(torch.randint(30, (4, 20)), lengths=torch.tensor([20, 7, 13, 1]))
    decoded = model.decode(reading, torch.randint(12, (4, 9)))
    decoded.logits.shape, decoded.weights.shape      # [4, 9, 12], [4, 9, 20]
    ```
    """

    def __init__(
        self,
        encoder: Recurrent,
        decoder: Recurrent,
        source_size: int,
        target_size: int,
        *,
        context: str = "attention",
        attention: str = "additive",
        longest: int | None = None,
        tied: bool = False,
        input_dropout: float | None = None,
    ):
        super().__init__()
        choose_from("context", context, CONTEXTS)
        self.as_input, self.as_state = context in ("input", "both"), context in ("state", "both", "attention")
        self.hands_over = context == "final"
        if self.hands_over:
            _check_alike(encoder, decoder)
        size, embedding_size, hidden_size = encoder.output_size, encoder.input_size, decoder.output_size
        reads = embedding_size + size if self.as_input else embedding_size
        if decoder.input_size != reads:
            raise OptionError(
                f"with context={context} the decoder reads {reads} numbers at each step (a token's vector"
                f"{' and the context' if self.as_input else ''}); it was built for {decoder.input_size}."
            )
        if tied and embedding_size != hidden_size:
            raise OptionError(
                f"a tied softmax needs an embedding_size equal to hidden_size; got {embedding_size} and {hidden_size}. "
                "Make them equal or pass tied=False."
            )
        self.source_embedding = make_embedding(source_size, embedding_size)
        self.target_embedding = make_embedding(target_size, embedding_size)
        self.input_dropout, self.dropout = make_dropouts(encoder, input_dropout)
        self.encoder, self.decoder = encoder, decoder
        if self.as_state:
            self.first = FirstState(size, decoder)
        self.attention = Attention(attention, hidden_size, size) if context == "attention" else None
        if self.attention is not None:
            self.join = nn.Linear(hidden_size + size, hidden_size)
        self.length = nn.Linear(size, longest + 1) if longest is not None else None
        self.output = nn.Linear(hidden_size, target_size)
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = self.target_embedding.weight

    def read(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]) -> Reading:
        """Run the encoder. Every sequence has at least one token."""
        trace = self.encoder(self._embed(self.source_embedding, source), None, lengths)
        outputs, H = trace.outputs, self.encoder.hidden_sizes[-1]
        lengths = send(lengths, outputs.device)
        last = outputs[torch.arange(len(lengths), device=outputs.device), lengths - 1, :H]
        context = torch.cat([last, outputs[:, 0, H:]], dim=-1)  # the second part is empty in one direction
        keys = self.attention.keys(outputs) if self.attention is not None else None
        return Reading(outputs, lengths, context, keys, trace.final)

    def decode(
        self,
        reading: Reading,
        inputs: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"] | None = None,
        state: State | None = None,
    ) -> Decoded:
        """Run the decoder over tokens that are known; without a state it starts from what was read.

        There may be several rows for each source, as many of each, those of one next to each other.
        """
        rows, sources = len(inputs), len(reading.lengths)
        read = self._embed(self.target_embedding, inputs)
        if self.as_input:
            context = reading.context.repeat_interleave(rows // sources, dim=0)
            read = torch.cat([read, context[:, None].expand(-1, read.shape[1], -1)], dim=-1)
        trace = self.decoder(read, self.first_state(reading) if state is None else state, lengths)
        hidden, weights = trace.outputs, None
        if self.attention is not None:
            assert reading.keys is not None
            # rows of one source ask together, one after another, so that nothing that was read is copied
            queries = hidden.reshape(sources, -1, hidden.shape[-1])
            found = self.attention(queries, reading.keys, reading.outputs, reading.lengths)
            joined = torch.cat([queries, found.values], dim=-1)
            hidden = torch.tanh(self.join(joined)).view_as(hidden)
            weights = found.weights.view(rows, -1, found.weights.shape[-1])
        return Decoded(self.output(_over_time(self.dropout, hidden)), trace.final, weights)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_lengths: Int[Tensor, " B"],
        inputs: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """The prediction of each step of the target."""
        return self.decode(self.read(source, source_lengths), inputs, lengths).logits

    def first_state(self, reading: Reading) -> State | None:
        """The decoder's state before its first step; `None` where it does not depend on what was read."""
        if self.hands_over:
            return reading.final
        return self.first.state(reading.context, self.decoder) if self.as_state else None

    def length_logits(self, reading: Reading) -> Float[Tensor, "B N"]:
        """P(τ | X), as logits of the lengths 0 to `longest`."""
        if self.length is None:
            raise OptionError("this model does not predict lengths. Train one with model.predict_length=true.")
        return cast(Tensor, self.length(reading.context))

    def _embed(self, embedding: nn.Embedding, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        return _over_time(self.input_dropout, embedding(tokens))


class Translation:
    """A translator that has read its sources, as a search asks it: token by token, several rows for each source."""

    def __init__(self, model: Translator, reading: Reading, start: int):
        self.model, self.reading, self._start = model, reading, start

    def start(self) -> tuple[Float[Tensor, "N V"], State]:
        """What each source's first token may be."""
        first = torch.full_like(self.reading.lengths, self._start)
        return self._step(first, None)

    def step(self, tokens: Int[Tensor, " M"], state: State) -> tuple[Float[Tensor, "M V"], State]:
        """What may follow these tokens."""
        return self._step(tokens, state)

    def _step(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        decoded = self.model.decode(self.reading, tokens[:, None], None, state)
        return decoded.logits[:, 0], decoded.state


def _check_alike(encoder: Recurrent, decoder: Recurrent) -> None:
    """Refuse a decoder that cannot start from the encoder's state."""

    def shape(layers: Recurrent) -> tuple[object, ...]:
        return [cell.graph.states for cell in layers.cells], layers.hidden_sizes

    if encoder.bidirectional:
        raise OptionError(
            "context=final hands over the state of one direction, and the encoder reads in two. Build it with "
            "bidirectional=False (model.bidirectional=false), or use context=state."
        )
    if shape(encoder) != shape(decoder):
        raise OptionError(
            f"context=final makes the encoder's state the decoder's: they need the same states, size and number of layers; got "
            f"{_sizes(encoder)} and {_sizes(decoder)}. Make them alike, or use context=state."
        )


def _sizes(layers: Recurrent) -> str:
    kinds = [f"{cell.name} with {size} units" for cell, size in zip(layers.cells, layers.hidden_sizes, strict=True)]
    return f"{len(kinds)} layer(s) of {', '.join(dict.fromkeys(kinds))}"


def _over_time(dropout: VariationalDropout, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
    return cast(Tensor, dropout(x.transpose(0, 1)).transpose(0, 1))
