"""Text as language models read it: where it comes from, its three parts, and their tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from recurra.data.text import (
    Document,
    python_source,
    read_documents,
    read_split,
    shortened,
    split_by_document,
    split_by_position,
    split_lines,
)
from recurra.data.tokenizers import Tokenizer, build_tokenizer
from recurra.errors import OptionError
from recurra.models.markov import Markov, best_markov
from recurra.tasks import word_vectors
from recurra.tasks.task import check_shares, given_test, given_valid, of_files
from recurra.types import setting

TOKENS = ("byte", "char", "word", "bpe")


@dataclass(frozen=True)
class TextData:
    path: str | None = setting(
        None, "a text file, folder or glob (gzip too); none: the source of Python's standard library"
    )
    valid_path: str | None = setting(
        None, "a text to validate on, where the split is given; none: a share of data.path", added=True, idle=of_files
    )
    test_path: str | None = setting(
        None, "a text to test on, where the split is given; none: a share of data.path", added=True, idle=of_files
    )
    tokens: str = setting("char", "what a token is: byte, char, word or bpe", choices=TOKENS)
    sequences: bool = setting(False, "each line is a sequence of its own; otherwise one long text in streams")
    min_count: int = setting(1, "tokens seen less often become <unk>", low=1)
    max_symbols: int | None = setting(
        None, "the size of the vocabulary: keep the most frequent tokens; of bpe (none: 1000)", low=1
    )
    embeddings: str | None = word_vectors.from_file()
    freeze_embeddings: bool = word_vectors.frozen()
    limit: int | None = setting(
        None, "train on about this many characters (whole files or lines, if there are several); none: on all", low=1
    )
    valid: float = setting(
        0.05,
        "the share of the text that chooses the model",
        idle=given_valid,
    )
    test: float = setting(
        0.05,
        "the share of the text that is kept for the last evaluation",
        idle=given_test,
    )

    def check(self) -> None:
        check_shares(self.valid, self.test)


@dataclass(frozen=True, eq=False)
class Corpus:
    """Training, validation and test text as tokens: one long line of each, or a list of sequences."""

    tokenizer: Tokenizer
    train: list[Tensor]
    valid: list[Tensor]
    test: list[Tensor]

    @cached_property
    def markov(self) -> Markov:
        """The best order-k Markov model, chosen on validation data: what a network has to beat."""
        return best_markov(self.train, self.valid, self.tokenizer.size)


def read_parts(data: TextData, seed: int) -> list[list[Document]]:
    """The texts for training, validation and test: whole documents, parts of a single one, or lines; or a file for each."""
    if data.path is None and not data.sequences:
        train, valid, test = _split(data, python_source(), data.valid, data.test, seed)
    elif data.path is None:
        raise OptionError("this recipe reads one sequence per line: give it a file with data.path=FILE.")
    else:
        train, valid, test = read_split(
            _read_lines if data.sequences else read_documents,
            lambda documents, valid, test: _split(data, documents, valid, test, seed),
            data.path,
            data.valid_path,
            data.test_path,
            valid=data.valid,
            test=data.test,
        )
    if data.limit is not None:
        whole = len(train) == 1 and not data.sequences
        train = [replace(train[0], text=train[0].text[: data.limit])] if whole else shortened(train, data.limit, seed)
    return [train, valid, test]


def _read_lines(path: str | Path) -> list[Document]:
    lines = (line for document in read_documents(path) for line in document.text.splitlines() if line.strip())
    return [Document(str(k), line) for k, line in enumerate(lines)]


def _split(
    data: TextData, documents: list[Document], valid: float, test: float, seed: int
) -> tuple[list[Document], list[Document], list[Document]]:
    """Documents in three parts; a share of zero leaves its part empty."""
    if data.sequences:
        parts = split_lines([document.text for document in documents], valid, test, seed)
        first, second, third = ([Document(str(k), line) for k, line in enumerate(part)] for part in parts)
        return first, second, third
    if len(documents) == 1:
        name, texts = documents[0].name, split_by_position(documents[0].text, valid, test)
        first, second, third = ([Document(name, text)] if text else [] for text in texts)
        return first, second, third
    split = split_by_document(documents, valid, test, seed)
    return split.train, split.valid, split.test


def read_corpus(data: TextData, seed: int, tokenizer: Tokenizer | None = None) -> Corpus:
    """The text, split and encoded. A tokenizer that is given is used; otherwise one is made of the training part."""
    texts = [[document.text for document in part] for part in read_parts(data, seed)]
    joined = not data.sequences and any(len(part) > 1 for part in texts)
    parts = [["\n".join(part)] for part in texts] if joined else texts
    if tokenizer is None:
        tokenizer = build_tokenizer(
            data.tokens, parts[0], min_count=data.min_count, max_size=data.max_symbols, sequences=data.sequences
        )
    train, valid, test = ([encode_text(tokenizer, text) for text in part] for part in parts)
    return Corpus(tokenizer, train, valid, test)


def encode_text(tokenizer: Tokenizer, text: str) -> Tensor:
    """A text as tokens, with its start and end where the tokenizer has them."""
    ids = tokenizer.encode(text, unknown="replace")
    if tokenizer.start is None or tokenizer.end is None:
        return ids
    return torch.cat([torch.tensor([tokenizer.start]), ids, torch.tensor([tokenizer.end])])
