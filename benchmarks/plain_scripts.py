"""Scripts as one writes them without a workbench: torch's layers, Adam, the best validation, in the time that a run took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.utils.rnn import pad_sequence

CHECKS = 10
"""How often a script validates."""
ROWS, STEPS = 32, 100
"""Sequences of a batch, and steps of a piece of a long text; ten times as many where it is evaluated."""

Score = Callable[[Any], tuple[float, float]]
"""From a batch to the sum of losses, and how many there are."""


def learn(model: nn.Module, batches: Iterator[Any], valid: Sequence[Any], score: Score, seconds: float) -> None:
    """Train for so long, and keep the weights with the best validation."""
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    best, kept = np.inf, {name: each.clone() for name, each in model.state_dict().items()}
    begin = time.monotonic()
    for check in range(1, CHECKS + 1):
        model.train()
        while time.monotonic() < begin + seconds * check / CHECKS:
            total, count = score(next(batches))
            optimiser.zero_grad()
            (total / count).backward()  # type: ignore[attr-defined]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
        loss = mean_of(model, valid, score)
        if loss < best:
            best, kept = loss, {name: each.clone() for name, each in model.state_dict().items()}
    model.load_state_dict(kept)


@torch.no_grad()
def mean_of(model: nn.Module, batches: Sequence[Any], score: Score) -> float:
    model.eval()
    found = [score(each) for each in batches]
    return float(sum(total for total, _ in found)) / sum(count for _, count in found)


def dealt(parts: Sequence[Any], collate: Callable[[list[Any]], Any]) -> Iterator[Any]:
    """Batches of sequences for ever."""
    while True:
        for rows in torch.randperm(len(parts)).split(ROWS):
            yield collate([parts[k] for k in rows.tolist()])


def in_order(parts: Sequence[Any], collate: Callable[[list[Any]], Any]) -> list[Any]:
    return [collate(list(parts[k : k + ROWS])) for k in range(0, len(parts), ROWS)]


class Language(nn.Module):
    """An LSTM of 256 units."""

    def __init__(self, vocabulary: int):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(vocabulary, 64), nn.LSTM(64, 256, batch_first=True)
        self.dropout, self.output = nn.Dropout(0.2), nn.Linear(256, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.output(self.dropout(self.layer(self.embedding(tokens))[0]))
        return logits


def plain_language(run: Any, seconds: float) -> dict[str, float]:
    """Nats per token of a language model, of lines, or of a long text in pieces that each begin without a state."""
    torch.manual_seed(0)
    corpus = run.task.corpus
    model = Language(run.task.tokenizer.size)

    def pieces(parts: Sequence[Tensor], length: int) -> list[Tensor]:
        if run.task.settings.data.sequences:
            return list(parts)
        return [text[k : k + length + 1] for text in parts for k in range(0, len(text) - 1, length)]

    def padded(rows: list[Tensor]) -> Tensor:
        return pad_sequence(rows, True, -1)

    def score(tokens: Tensor) -> tuple[Any, float]:
        logits, y = model(tokens[:, :-1].clamp(min=0)), tokens[:, 1:]
        return cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-1, reduction="sum"), int((y >= 0).sum())

    valid, test = (in_order(pieces(each, 10 * STEPS), padded) for each in (corpus.valid, corpus.test))
    learn(model, dealt(pieces(corpus.train, STEPS), padded), valid, score, seconds)
    return {"a plain LSTM": mean_of(model, test or valid, score)}


class Translate(nn.Module):
    """A GRU reads, a GRU writes, with attention by products (Luong et al. 2015)."""

    def __init__(self, sources: int, targets: int):
        super().__init__()
        self.read, self.wrote = nn.Embedding(sources, 128), nn.Embedding(targets, 128)
        self.encoder = nn.GRU(128, 128, batch_first=True, bidirectional=True)
        self.decoder, self.both = nn.GRU(128, 256, batch_first=True), nn.Linear(512, 256)
        self.dropout, self.output = nn.Dropout(0.2), nn.Linear(256, targets)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, last = self.encoder(self.dropout(self.read(source.clamp(min=0))))
        hidden, _ = self.decoder(self.dropout(self.wrote(target)), last.transpose(0, 1).flatten(1)[None])
        weights = (hidden @ memory.transpose(1, 2)).masked_fill((source < 0)[:, None], -1e9).softmax(-1)
        logits: Tensor = self.output(self.dropout(torch.tanh(self.both(torch.cat([hidden, weights @ memory], -1)))))
        return logits


def plain_translation(run: Any, seconds: float) -> dict[str, float]:
    """Nats per token of the target."""
    torch.manual_seed(0)
    task = run.task
    model = Translate(task.source_tokenizer.size, task.target_tokenizer.size)

    def encoded(pairs: Sequence[Any]) -> list[tuple[Tensor, Tensor]]:
        sources = [task.source_tokenizer.encode(each.source, "replace") for each in pairs]
        return list(zip(sources, task._targets(pairs), strict=True))

    def padded(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        return pad_sequence([x for x, _ in rows], True, -1), pad_sequence([y for _, y in rows], True, -1)

    def score(batch: tuple[Tensor, Tensor]) -> tuple[Any, float]:
        source, target = batch
        logits, y = model(source, target[:, :-1].clamp(min=0)), target[:, 1:]
        return cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-1, reduction="sum"), int((y >= 0).sum())

    train, valid, test = (encoded(each) for each in (task.pairs.train, task.pairs.valid, task.pairs.test))
    learn(model, dealt(train, padded), in_order(valid, padded), score, seconds)
    return {"a plain encoder and decoder": mean_of(model, in_order(test, padded), score)}


class Tag(nn.Module):
    """A bidirectional LSTM of 2 × 128 units."""

    def __init__(self, vocabulary: int, classes: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 64)
        self.layer = nn.LSTM(64, 128, batch_first=True, bidirectional=True)
        self.dropout, self.output = nn.Dropout(0.3), nn.Linear(256, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.output(self.dropout(self.layer(self.dropout(self.embedding(tokens)))[0]))
        return logits


def plain_tagger(run: Any, seconds: float) -> dict[str, float]:
    """The share of steps with the right tag."""
    torch.manual_seed(0)
    parts = run.task.parts
    words = {word: k for k, word in enumerate(sorted({w for each in parts.train.sequences for w in each}), start=1)}
    tags = {tag: k for k, tag in enumerate(sorted({tag for each in parts.train.labels for tag in each}))}
    model = Tag(len(words) + 1, len(tags))

    def encoded(part: Any) -> list[tuple[Tensor, Tensor]]:
        return [
            (torch.tensor([words.get(w, 0) for w in x]), torch.tensor([tags.get(tag, -1) for tag in y]))
            for x, y in zip(part.sequences, part.labels, strict=True)
        ]

    def padded(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        return pad_sequence([x for x, _ in rows], True, 0), pad_sequence([y for _, y in rows], True, -1)

    def score(batch: tuple[Tensor, Tensor]) -> tuple[Any, float]:
        x, y = batch
        found = model(x).flatten(0, 1)
        return cross_entropy(found, y.flatten(), ignore_index=-1, reduction="sum"), int((y >= 0).sum())

    def wrong(batch: tuple[Tensor, Tensor]) -> tuple[float, float]:
        x, y = batch
        return float((model(x).argmax(-1) != y)[y >= 0].sum()), int((y >= 0).sum())

    learn(model, dealt(encoded(parts.train), padded), in_order(encoded(parts.valid), padded), score, seconds)
    return {"a plain LSTM": 1 - mean_of(model, in_order(encoded(parts.test), padded), wrong)}


def plain_rolls(run: Any, seconds: float) -> dict[str, float]:
    """Nats per frame of an LSTM of 256 units whose keys are independent given the past."""
    torch.manual_seed(0)
    rolls = run.task.rolls
    model = nn.ModuleList([nn.LSTM(88, 256, batch_first=True), nn.Dropout(0.5), nn.Linear(256, 88)])
    layer, dropout, output = model

    def padded(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
        kept = pad_sequence([torch.ones(len(each) - 1) for each in rows], True)
        return pad_sequence([each.float() for each in rows], True), kept

    def score(batch: tuple[Tensor, Tensor]) -> tuple[Any, float]:
        x, kept = batch
        logits = output(dropout(layer(x[:, :-1])[0]))
        losses = binary_cross_entropy_with_logits(logits, x[:, 1:], reduction="none").sum(-1)
        return (losses * kept).sum(), float(kept.sum())

    learn(model, dealt(rolls.train, padded), in_order(rolls.valid, padded), score, seconds)
    return {"a plain LSTM": mean_of(model, in_order(rolls.test, padded), score)}


def bag_of_spans(run: Any, _seconds: float) -> dict[str, float]:
    """TF-IDF of the words under a node, alone and two by two, and logistic regression."""

    def spans(trees: Sequence[Any]) -> tuple[list[str], list[str]]:
        texts, labels = [], []
        for tree in trees:
            under: list[list[str]] = [[] if token is None else [token] for token in tree.tokens]
            for k in range(len(under) - 1, 0, -1):
                under[tree.parents[k]] = [*under[k], *under[tree.parents[k]]]
            for words, label in zip(under, tree.labels, strict=True):
                if label is not None:
                    texts.append(" ".join(words))
                    labels.append(label)
        return texts, labels

    train, _, test = run.task.parts
    (texts, labels), (held_out, true) = spans(train), spans(test)
    text: Any = import_module("sklearn.feature_extraction.text")
    vectors = text.TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", min_df=2)
    linear: Any = import_module("sklearn.linear_model")
    model = linear.LogisticRegression(C=10, max_iter=300).fit(vectors.fit_transform(texts), labels)
    return {"TF-IDF and regression": float((model.predict(vectors.transform(held_out)) == np.array(true)).mean())}
