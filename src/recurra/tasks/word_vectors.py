"""Vectors of words from a file (`data.embeddings`): one way for every task whose model embeds words."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import nn

from recurra.data.tokenizers import Tokenizer, Words
from recurra.data.trees import NODE, UNKNOWN
from recurra.data.word_vectors import WordVectors, read_vectors
from recurra.errors import OptionError
from recurra.types import setting

Tables = dict[str, list[str]]
"""Tables of vectors in a model, by the name of their module, and what word each row is of."""


def from_file() -> str | None:
    """The setting `data.embeddings`."""
    return setting(
        None,
        "vectors of words to start from: a text file of word2vec or GloVe (gzip too); none: at random",
        added=True,
    )


def frozen() -> bool:
    """The setting `data.freeze_embeddings`."""
    return setting(
        False,
        "vectors of words are not trained",
        added=True,
        idle=lambda s: None if s.data.embeddings is not None else "it is of data.embeddings, which is not given",
    )


def words_of(tokenizer: Tokenizer, table: str = "embedding") -> Tables:
    """The table of a model that reads the tokens of a tokenizer, where those are words."""
    return {table: tokenizer.tokens} if isinstance(tokenizer, Words) else {}


class Start(NamedTuple):
    """The vectors of a file, and how many words of a task's vocabulary have one."""

    vectors: WordVectors
    found: int
    words: int

    def __str__(self) -> str:
        return f"the file has vectors of {self.found:,} of {self.words:,} words"


def read_start(settings: Any, tables: Tables) -> Start | None:
    """What the setting asks for, for these tables; `None` where it is not given."""
    path = getattr(settings.data, "embeddings", None)
    if path is None:
        return None
    if not tables:
        raise OptionError(
            f"data.embeddings={path:.60} would change nothing here: it has vectors of words, and none are read. "
            "Set data.tokens=word, or leave it out."
        )
    words = [word for table in tables.values() for word in table if not word.isspace() and word not in (UNKNOWN, NODE)]
    vectors = read_vectors(path, set(words))
    found = sum(vectors.find(word) is not None for word in words)
    if not found:
        raise OptionError(f"data.embeddings={path:.60} has a vector of none of the {len(words):,} words of the data.")
    return Start(vectors, found, len(words))


@torch.no_grad()
def give_vectors(model: nn.Module, tables: Tables, start: Start) -> None:
    """Replace the vectors of words that the file has. All are multiplied by one number, so that their mean square length is that
    of those that were drawn."""
    for name, words in tables.items():
        weight = attrgetter(name)(model).weight
        known = {row: vector for row, word in enumerate(words) if (vector := start.vectors.find(word)) is not None}
        if not known:
            continue
        values = torch.stack([torch.from_numpy(vector) for vector in known.values()]).to(weight)
        least = torch.finfo(weight.dtype).tiny
        drawn, given = (each.square().sum(1).mean().clamp(min=least).sqrt() for each in (weight, values))
        weight[torch.tensor(list(known), device=weight.device)] = values * (drawn / given)


def freeze(model: nn.Module, tables: Tables) -> None:
    """Leave the tables of words out of training."""
    for name in tables:
        attrgetter(name)(model).weight.requires_grad_(False)
