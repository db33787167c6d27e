"""Sequences and labels of a file as tensors. What is fitted to training data is kept with the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recurra.data.comma_separated import finite_number
from recurra.data.labelled import Labelled
from recurra.data.limits import check_limit
from recurra.data.tokenizers import Tokenizer, Words, build_tokenizer, tokenizer_from_json
from recurra.data.whitening import whiten_within_classes
from recurra.errors import DataError, OptionError, listed, quoted
from recurra.types import Float, Int


@dataclass(frozen=True)
class Tokens:
    """Texts, or lists of tokens, as ids of a vocabulary. A token that it does not have becomes `<unk>`."""

    tokenizer: Tokenizer
    kind: str  # text or tokens

    are_tokens = True

    @classmethod
    def fit(cls, data: Labelled, tokens: str, min_count: int, max_symbols: int | None) -> Tokens:
        if data.kind == "text":
            tokenizer = build_tokenizer(tokens, data.sequences, min_count=min_count, max_size=max_symbols)
            return cls(tokenizer, "text")
        counts = Counter(token for sequence in data.sequences for token in sequence)
        often = sorted((token for token in counts if counts[token] >= min_count), key=lambda t: (-counts[t], t))
        if max_symbols is None:
            check_limit("vocabulary", len(often), "the tokens", "Set data.max_symbols or data.min_count.")
        kept = often[: None if max_symbols is None else max_symbols - 1]
        return cls(Words(kept, cut=len(kept) < len(counts)), "tokens")

    @property
    def size(self) -> int:
        return self.tokenizer.size

    @property
    def about(self) -> str:
        return f"{self.size} {'tokens' if self.kind == 'tokens' else self.tokenizer.kind + ' tokens'}"

    def encode(self, data: Labelled, dtype: torch.dtype) -> tuple[Int[Tensor, " M"], Int[Tensor, " N"]]:
        """All sequences in one line, and how long each is."""
        _check_kind(self.kind, data)
        if isinstance(self.tokenizer, Words) and self.kind == "tokens":
            numbers = {token: k for k, token in enumerate(self.tokenizer.tokens)}
            parts = [torch.tensor([numbers.get(token, 0) for token in one]) for one in data.sequences]
        else:
            parts = [self.tokenizer.encode(text, unknown="replace") for text in data.sequences]
        return torch.cat(parts).long(), torch.tensor([len(part) for part in parts])

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "tokenizer": self.tokenizer.to_json()}


@dataclass(frozen=True)
class Channels:
    """Numbers with mean 0 and size 1 in each channel, by what training data has.

    A missing value becomes 0, the mean; a channel that has missing values in training data gets a second one beside it: 1 where
    the value is missing, else 0. All pixels of images have one mean and one size. `mix` is a matrix that channels are then
    multiplied by.
    """

    kind: str  # numbers or images
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    indicated: tuple[int, ...]
    mix: tuple[tuple[float, ...], ...] | None = None

    are_tokens = False

    @classmethod
    def fit(cls, data: Labelled, whiten: float = 0.0) -> Channels:
        """`whiten`: how far channels are mixed, as in `whiten_within_classes`."""
        values = np.concatenate(data.sequences)
        missing = np.isnan(values)
        empty = np.flatnonzero(missing.all(0))
        if len(empty):
            raise DataError(f"channel {empty[0] + 1} of {values.shape[1]} has no value in training data. Leave it out.")
        axis = None if data.kind == "images" else 0
        mean = np.nanmean(values, axis, dtype=np.float64)
        scale = np.nanstd(values, axis, dtype=np.float64)
        scale = np.where(scale > 1e-12 * (1 + np.abs(mean)), scale, 1.0)  # a channel that never changes stays near zero
        mean, scale = (np.broadcast_to(each, values.shape[1:]).tolist() for each in (mean, scale))
        indicated = tuple(np.flatnonzero(missing.any(0)).tolist())
        plain = cls(data.kind, tuple(mean), tuple(scale), indicated)
        if whiten == 0:
            return plain
        assert data.labels is not None
        sequences = [np.nan_to_num((each - mean) / scale) for each in data.sequences]
        found = whiten_within_classes(sequences, data.labels, whiten)
        return replace(plain, mix=tuple(map(tuple, found.tolist())))

    @property
    def size(self) -> int:
        return len(self.mean) + len(self.indicated)

    @property
    def about(self) -> str:
        channels = f"{len(self.mean)} channel{'s' * (len(self.mean) > 1)}"
        gaps = f", {len(self.indicated)} with missing values" if self.indicated else ""
        same = self.scale.count(1.0)  # what a channel without deviation is divided by
        return (
            channels
            + gaps
            + (f", {same} that never change{'s' * (same == 1)}" if same and self.kind == "numbers" else "")
        )

    def encode(self, data: Labelled, dtype: torch.dtype) -> tuple[Float[Tensor, "M D"], Int[Tensor, " N"]]:
        """All sequences in one line, and how long each is."""
        _check_kind(self.kind, data)
        found = data.sequences[0].shape[1]
        if found != len(self.mean):
            raise DataError(f"the model reads {len(self.mean)} channels; these sequences have {found}. Give the same.")
        values = torch.from_numpy(np.concatenate(data.sequences)).double()  # a small signal on a large offset
        missing = values.isnan()
        values = (values - values.new_tensor(self.mean)) / values.new_tensor(self.scale)
        values = torch.where(missing, 0, values)
        values = (values if self.mix is None else values @ values.new_tensor(self.mix)).to(dtype)
        if self.indicated:
            values = torch.cat([values, missing[:, list(self.indicated)].to(dtype)], dim=1)
        return values, torch.tensor([len(one) for one in data.sequences])

    def to_json(self) -> dict[str, Any]:
        kept: dict[str, Any] = {"mean": self.mean, "scale": self.scale, "indicated": self.indicated}
        mix = {} if self.mix is None else {"mix": [list(row) for row in self.mix]}
        return {"kind": self.kind} | {name: list(values) for name, values in kept.items()} | mix


@dataclass(frozen=True)
class Names:
    """The classes, in order, and how many sequences (or steps) of the training data had each."""

    counts: dict[str, int]

    @classmethod
    def fit(cls, data: Labelled, known: Sequence[str]) -> Names:
        """`known`: all classes; training data may lack one."""
        counts = Counter(flat_labels(data))
        check_limit("vocabulary", len(known), "the labels")
        if len(known) < 2:
            raise DataError(
                f"all labels are {quoted(next(iter(known), 'missing'))}: there is one class only. Give two or more."
            )
        return cls({name: counts[name] for name in sorted(known, key=_natural)})

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def names(self) -> list[str]:
        return list(self.counts)

    def encode(self, data: Labelled, about: str) -> Int[Tensor, " N"]:
        """The number of each label; of steps, all in one line."""
        numbers = {name: k for k, name in enumerate(self.counts)}
        found = flat_labels(data)
        unknown = sorted({name for name in found if name not in numbers}, key=_natural)
        if unknown:
            raise DataError(
                f"{about} has labels that training never saw: {listed(unknown)}. Known: {listed(self.names)}."
            )
        return torch.tensor([numbers[name] for name in found])


def flat_labels(data: Labelled) -> list[str]:
    """All labels in one line, those of steps too."""
    labels = data.labels or []
    return [name for each in labels for name in each] if labels and isinstance(labels[0], list) else list(labels)


def fit_encoder(
    data: Labelled, tokens: str, min_count: int, max_symbols: int | None, whiten: float = 0.0
) -> Tokens | Channels:
    """The encoder of sequences, fitted to training data."""
    if data.kind not in ("text", "tokens"):
        return Channels.fit(data, whiten)
    if whiten:
        raise OptionError(f"data.whiten={whiten} is for numbers in channels; this file holds {data.kind}. Omit it.")
    return Tokens.fit(data, tokens, min_count, max_symbols)


def encoder_from_json(saved: dict[str, Any]) -> Tokens | Channels:
    """What `to_json` wrote."""
    try:
        if saved["kind"] in ("text", "tokens"):
            return Tokens(tokenizer_from_json(saved.get("tokenizer") or saved["tokeniser"]), saved["kind"])
        plain = Channels(saved["kind"], *(tuple(saved[name]) for name in ("mean", "scale", "indicated")))
        mixed = replace(plain, mix=tuple(map(tuple, saved["mix"]))) if "mix" in saved else plain
        C = len(plain.mean)
        if len(plain.scale) != C or not all(0 <= k < C for k in plain.indicated) or not C > 0:
            raise DataError(
                f"vocabulary.json has {C} means and {len(plain.scale)} scales of channels: they do not fit."
            )
        if mixed.mix is not None and [len(row) for row in mixed.mix] != [C] * C:
            raise DataError(f"vocabulary.json mixes {len(mixed.mix)} channels, and {C} are expected.")
        return mixed
    except (KeyError, TypeError) as error:
        raise DataError(f"vocabulary.json has no way to read sequences ({error} is missing or wrong).") from error


def _check_kind(kind: str, data: Labelled) -> None:
    if {kind, data.kind} == {"images", "numbers"}:
        read, found = ("bytes", "others") if kind == "images" else ("numbers that are no bytes", "bytes")
        raise DataError(
            f"the model was trained on {read}, and this file holds {found}: bytes (uint8) are pixels from 0 to 255, other "
            "numbers are read as they are. Give it the type that it was trained on."
        )
    if kind != data.kind:
        raise DataError(f"the model reads {kind}; this file holds {data.kind}. Give the kind that it was trained on.")


def _natural(name: str) -> tuple[bool, float, str]:
    """Numbers by size, before words by the alphabet."""
    value = finite_number(name)
    return (True, 0.0, name) if value is None else (False, value, name)
