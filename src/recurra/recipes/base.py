"""The settings that every language-model recipe has, with one line about each."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from recurra.errors import OptionError, choose_from
from recurra.training.loop import Training
from recurra.types import setting


@dataclass(frozen=True)
class Data:
    path: str | None = setting(
        None, "a text file, folder or glob (gzip too); none: the source of Python's standard library"
    )
    tokens: str = setting("char", "what a symbol is: byte, char, word or bpe")
    sequences: bool = setting(False, "each line is a sequence of its own; otherwise one long text in lanes")
    min_count: int = setting(1, "symbols seen less often become <unk>")
    valid: float = setting(0.05, "the share of the text that chooses the model")
    test: float = setting(0.05, "the share of the text that is kept for the last evaluation")

    def check(self) -> None:
        choose_from("data.tokens", self.tokens, ("byte", "char", "word", "bpe"))
        if not (0 < self.valid < 1 and 0 <= self.test < 1 and self.valid + self.test < 1):
            raise OptionError(f"data.valid={self.valid} and data.test={self.test} must leave something to train on.")


@dataclass(frozen=True)
class Model:
    cell: str = setting("lstm", "a name, NAME(option=value), or FILE.py:NAME")
    hidden_size: int = setting(256, "units of each layer")
    layers: int = setting(1, "how many are stacked")
    embedding_size: int | None = setting(None, "size of a symbol's vector; none: hidden_size")
    dropout: float = setting(0.0, "variational, of inputs, between layers and of outputs")
    tied: bool = setting(False, "the softmax uses the embedding's matrix")
    residual: bool = setting(False, "from the second layer on, a layer's input is added to its output")
    learn_initial: bool = setting(False, "the state before the first step is a parameter")

    def check(self) -> None:
        for name in ("hidden_size", "layers", "embedding_size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise OptionError(f"model.{name} must be at least 1; got {getattr(self, name)}.")


@dataclass(frozen=True)
class Recipe:
    """Everything that a run depends on."""

    name: str = setting("python-source", "which recipe this is")
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    training: Training = field(default_factory=Training)
    seed: int = setting(0, "where every random number starts from")
    engine: str = setting("auto", "auto, or the name of an engine")
    device: str = setting("cpu", "cpu or cuda")
    dtype: str = setting("float32", "float32, float64, or bfloat16 (autocast)")

    def check(self) -> None:
        choose_from("dtype", self.dtype, ("float32", "float64", "bfloat16"))
        choose_from("device", self.device, ("cpu", "cuda"))
        if self.device == "cuda" and not torch.cuda.is_available():
            raise OptionError("device=cuda was asked for, but torch finds no CUDA device here. Use device=cpu.")
        if self.data.sequences and self.training.truncation.startswith("window"):
            raise OptionError(
                "training.truncation=window:K is for lanes of long text; use none or every:K with data.sequences."
            )
        if not self.data.sequences and self.training.truncation == "none":
            raise OptionError(
                "training.truncation=none needs whole sequences (data.sequences=true); use every:K or window:K."
            )
