"""Language models on text: the settings, and how they become data, model and trainer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.reading import Reading
from recurra.data.batches import Batches, Chunks, Sequences
from recurra.data.text import (
    Document,
    python_source,
    read_documents,
    shortened,
    split_by_document,
    split_by_position,
    split_lines,
)
from recurra.data.tokenizers import Tokenizer, build_tokenizer, tokenizer_from_json
from recurra.errors import DataError, OptionError, choose_from
from recurra.models.language import LanguageModel
from recurra.models.markov import Markov, best_markov
from recurra.models.sampling import Choice, sample
from recurra.tasks.task import (
    SHOWN,
    Evaluation,
    Examples,
    Probe,
    Question,
    Recipe,
    Settings,
    StepModel,
    Task,
    check_shares,
)
from recurra.training.distributed import Ranks
from recurra.training.dynamic_evaluation import evaluate_dynamically
from recurra.training.evaluation import best_share, evaluate, evaluate_window, log_probabilities, mixed
from recurra.training.loop import Trainer, Training
from recurra.training.truncation import read_truncation
from recurra.training.window_fit import fit_window_model
from recurra.types import Float, setting


@dataclass(frozen=True)
class Data:
    path: str | None = setting(
        None, "a text file, folder or glob (gzip too); none: the source of Python's standard library"
    )
    tokens: str = setting("char", "what a symbol is: byte, char, word or bpe")
    sequences: bool = setting(False, "each line is a sequence of its own; otherwise one long text in lanes")
    min_count: int = setting(1, "symbols seen less often become <unk>")
    max_symbols: int | None = setting(None, "keep this many symbols, the most frequent; pieces of bpe (none: 1000)")
    limit: int | None = setting(
        None, "train on about this many characters (whole files or lines, if there are several); none: on all"
    )
    valid: float = setting(0.05, "the share of the text that chooses the model")
    test: float = setting(0.05, "the share of the text that is kept for the last evaluation")

    def check(self) -> None:
        choose_from("data.tokens", self.tokens, ("byte", "char", "word", "bpe"))
        check_shares(self.valid, self.test)
        for name in ("min_count", "max_symbols", "limit"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise OptionError(f"data.{name} must be at least 1; got {getattr(self, name)}.")


@dataclass(frozen=True)
class LanguageSettings(Settings):
    data: Data = field(default_factory=Data)
    model: StepModel = field(default_factory=StepModel)

    def check(self) -> None:
        super().check()
        if self.data.sequences and self.training.truncation.startswith("window"):
            raise OptionError(
                "training.truncation=window:K is for lanes of long text; use none or every:K with data.sequences."
            )
        if not self.data.sequences and self.training.truncation == "none":
            raise OptionError(
                "training.truncation=none needs whole sequences (data.sequences=true); use every:K or window:K."
            )

    def unused(self) -> dict[str, str]:
        found = super().unused()
        if not self.data.sequences:
            form = self.training.truncation
            used, other, its = (
                ("length", "reset", "every") if form.startswith("window") else ("reset", "length", "window")
            )
            del found[f"training.{used}"]
            found[f"training.{other}"] = f"it is of training.truncation={its}:K, which is {form}"
        return found


@dataclass(frozen=True, eq=False)
class Corpus:
    """Training, validation and test text as symbols: one long line of each, or a list of sequences."""

    tokenizer: Tokenizer
    train: list[Tensor]
    valid: list[Tensor]
    test: list[Tensor]

    @cached_property
    def markov(self) -> Markov:
        """The best order-k Markov model, chosen on validation data: what a network has to beat."""
        return best_markov(self.train, self.valid, self.tokenizer.size)


def read_parts(data: Data, seed: int) -> list[list[Document]]:
    """The recipe's texts for training, validation and test: whole documents, parts of a single one, or lines."""
    if data.sequences:
        if data.path is None:
            raise OptionError("this recipe reads one sequence per line: give it a file with data.path=FILE.")
        lines = [line for document in read_documents(data.path) for line in document.text.splitlines() if line.strip()]
        parts = [
            [Document(str(k), line) for k, line in enumerate(part)]
            for part in split_lines(lines, data.valid, data.test, seed)
        ]
        return parts if data.limit is None else [shortened(parts[0], data.limit, seed), *parts[1:]]
    documents = python_source() if data.path is None else read_documents(data.path)
    if len(documents) == 1:
        name = documents[0].name
        first, *held_out = split_by_position(documents[0].text, data.valid, data.test)
        return [[Document(name, text)] if text else [] for text in (first[: data.limit], *held_out)]
    split = split_by_document(documents, data.valid, data.test, seed)
    learned = split.train if data.limit is None else shortened(split.train, data.limit, seed)
    return [learned, split.valid, split.test]


def read_corpus(data: Data, seed: int, tokenizer: Tokenizer | None = None) -> Corpus:
    """The recipe's text, split and encoded. A tokenizer that is given is used; otherwise one is made of the training part."""
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
    """A text as symbols, with its start and end where the tokenizer has them."""
    ids = tokenizer.encode(text, unknown="replace")
    if tokenizer.start is None or tokenizer.end is None:
        return ids
    return torch.cat([torch.tensor([tokenizer.start]), ids, torch.tensor([tokenizer.end])])


@dataclass(frozen=True, eq=False)
class Scored:
    """A text, symbol by symbol, and the log-probability that each model gives to each."""

    symbols: list[str]
    logs: dict[str, Float[Tensor, " N"]]


class LanguageTask(Task[LanguageModel]):
    """A language model on a text. With the vocabulary of a run folder, the text is not needed until it is trained or judged."""

    factorisation = (
        "A product of conditionals: P(y1 … yT) = Π P(yt | y1 … yt−1). Each output is fed back as the next input, "
        "so outputs depend on one another."
    )
    verbs = ("evaluate", "sample", "score", "units")

    def __init__(self, recipe: LanguageSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(recipe, ranks)
        self._vocabulary = vocabulary

    @cached_property
    def corpus(self) -> Corpus:
        known = tokenizer_from_json(self._vocabulary) if self._vocabulary is not None else None
        return read_corpus(self.settings.data, self.settings.seed, known)

    @cached_property
    def held_out(self) -> list[Document]:
        """The documents, or lines, that the model never saw: those of the test; where there are none, of validation."""
        _, valid, test = read_parts(self.settings.data, self.settings.seed)
        return test or valid

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return self.corpus.tokenizer if self._vocabulary is None else tokenizer_from_json(self._vocabulary)

    @property
    def vocabulary(self) -> dict[str, Any]:
        """The tokenizer, and for sequences how many had each length: P(τ)."""
        if self._vocabulary is not None:
            return self._vocabulary
        kept = self.tokenizer.to_json()
        if self.settings.data.sequences:
            counted = Counter(len(sequence) - 2 for sequence in self.corpus.train)
            kept["lengths"] = {str(length): counted[length] for length in sorted(counted)}
        return kept

    def draw_length(self, generator: torch.Generator) -> int:
        """τ, as often as the training sequences had it."""
        counted = self.vocabulary.get("lengths")
        if not counted:
            raise OptionError("this model read one long text, which has no lengths to draw from. Say --length instead.")
        weights = torch.tensor(list(counted.values()), dtype=torch.float64)
        return int(list(counted)[int(torch.multinomial(weights, 1, generator=generator))])

    @property
    def about_data(self) -> str:
        symbols = sum(len(part) for part in self.corpus.train)
        return f"{symbols:,} {self.settings.data.tokens} symbols, vocabulary {self.tokenizer.size}"

    def make_batches(self, part: list[Tensor], *, training: bool) -> Batches:
        """The order in which a part of the corpus is read."""
        settings, seed = self.settings.training, self.settings.seed
        share: dict[str, Any] = {"rank": self.ranks.rank, "world": self.ranks.world}
        if self.settings.data.sequences:
            return Sequences(part, settings.batch_size if training else 256, seed=seed, shuffle=training, **share)
        text = part[0] if len(part) == 1 else torch.cat(part)  # one long text is held once, not twice
        truncation = read_truncation(settings.truncation)
        length = truncation.k if truncation.form == "every" and truncation.k else settings.length
        if training:
            return Chunks(text, settings.batch_size, length, seed=seed, **share)
        # each lane starts from nothing, so that a short text has few of them; and their number is one that ranks can share
        lanes = min(32, max(8, 2 ** int(math.log2(max(1, len(text) / 16384)))))
        return Chunks(text, math.lcm(lanes, self.ranks.world), 512, shuffle=False, **share)

    def make_model(self) -> LanguageModel:
        return self.untrained(self.tokenizer.size)

    def untrained(self, vocabulary_size: int) -> LanguageModel:
        """The recipe's model for any vocabulary."""
        model = self.settings.model
        return LanguageModel(
            vocabulary_size,
            model.cell,
            model.hidden_size,
            embedding_size=model.embedding_size,
            tied=model.tied,
            **self.model_options(),
        )

    def make_trainer(self, model: LanguageModel) -> Trainer:
        recipe, corpus = self.settings, self.corpus
        train = self.make_batches(corpus.train, training=True)
        train.steps_per_epoch  # noqa: B018  a text that is too short is refused here, before anything is made
        if not any(len(part) > 1 for part in corpus.valid):
            raise DataError(
                f"the validation part needs at least 2 symbols, but data.valid={recipe.data.valid} leaves fewer. "
                "Give more text or a larger share."
            )
        valid = self.make_batches(corpus.valid, training=False)
        return Trainer(
            model,
            train,
            recipe.training,
            lambda judged: evaluate(judged, valid, ranks=self.ranks).nats,
            bfloat16=recipe.dtype == "bfloat16",
            ranks=self.ranks,
        )

    def evaluate(self, model: LanguageModel, question: Question) -> Evaluation:
        corpus, recipe = self.corpus, self.settings
        has_test = any(len(each) > 1 for each in corpus.test)
        part, name = (corpus.test, "test") if has_test else (corpus.valid, "validation")
        if question.data is not None:
            other = read_corpus(replace(recipe.data, path=question.data, limit=None), recipe.seed, self.tokenizer)
            part, name = [*other.train, *other.valid, *other.test], question.data
        logs = self._logs(model, part)
        called = self.called
        nats = {called: -float(logs.mean())}
        if question.dynamic is not None:
            seen, read = (self._pieces(each) for each in (corpus.train, part))
            nats[f"{called}, dynamic"] = evaluate_dynamically(model, seen, read, rate=question.dynamic).nats
        if question.window is not None:
            fixed = fit_window_model(corpus.train, self.tokenizer.size, question.window, seed=recipe.seed)
            nats[f"window of {question.window}"] = evaluate_window(fixed, self.make_batches(part, training=False)).nats
        if question.baselines:
            counter, counted = f"markov order {corpus.markov.order}", self._counted(part)
            share = best_share(self._logs(model, corpus.valid), self._counted(corpus.valid))
            nats[counter] = -float(counted.mean())
            nats[f"{called} and {share:.0%} {counter}"] = -float(mixed(logs, counted, share).mean())
        scores = {k: {"nats": v, "perplexity": math.exp(min(v, 700)), "bits": v / math.log(2)} for k, v in nats.items()}
        return Evaluation(name, len(logs), scores)

    def score(self, model: LanguageModel, text: str, *, baselines: bool = True) -> Scored:
        """log P of each symbol of a text, given those before it; what the model starts from is given, not scored."""
        ids = self.symbols_of(text)
        line = torch.tensor(ids if self.tokenizer.start is not None else [*self.opening([]), *ids])
        if len(line) < 2:
            raise DataError("an empty text has no symbol to score. Give one.")
        with torch.no_grad():
            said = model(line[None, :-1].to(model.output.weight.device))[0][0].double().log_softmax(-1).cpu()
        logs = {self.called: said.gather(1, line[1:, None])[:, 0]}
        if baselines:
            logs[f"markov order {self.corpus.markov.order}"] = self.corpus.markov.log_probabilities([line])
        return Scored([self.symbol_names[k] for k in line[1:].tolist()], logs)

    def _logs(self, model: LanguageModel, part: list[Tensor]) -> Float[Tensor, " N"]:
        """log P of every symbol of a part but the first of each sequence, in order."""
        if not self.settings.data.sequences:
            part = [torch.cat(part)]
        firsts = torch.tensor([0, *(len(each) - 1 for each in part)]).cumsum(0).tolist()
        numbers = [first + torch.arange(len(each)) for first, each in zip(firsts, part, strict=False)]
        return log_probabilities(model, *(self.make_batches(each, training=False) for each in (part, numbers)))

    def _counted(self, part: list[Tensor]) -> Float[Tensor, " N"]:
        """The same of the best Markov model."""
        return self.corpus.markov.log_probabilities(part if self.settings.data.sequences else torch.cat(part))

    def _pieces(self, part: list[Tensor]) -> Batches:
        """Small pieces, for a model that learns from each before it reads the next."""
        if self.settings.data.sequences:
            return Sequences(part, 16, shuffle=False)
        return Chunks(torch.cat(part), 8, 32, shuffle=False)

    def opening(self, ids: list[int]) -> list[int]:
        """What is read before the first symbol is drawn: the start of a sequence where there is one, then what is given."""
        start = [self.tokenizer.start] if self.tokenizer.start is not None else []
        return [*start, *ids] or self.tokenizer.encode("\n", unknown="replace").tolist()

    def draw(
        self, model: LanguageModel, ids: list[int], length: int, *, given: str | None = None, **how: Any
    ) -> Iterator[int]:
        """Symbols that follow `ids`; `how` as for `sample`."""
        if given is not None:
            raise OptionError(f"{self.settings.name} is told no class: leave --given out. The recipe `conditioned` is.")
        never = [self.tokenizer.start] if self.tokenizer.start is not None else []
        return sample(model, self.opening(ids), length, end=self.tokenizer.end, never=never, **how)

    def glimpse(self, model: LanguageModel) -> str:
        random = torch.Generator().manual_seed(self.settings.seed)
        return self.tokenizer.decode(self.draw(model, [], 120, choice=Choice(temperature=0.8), generator=random))

    def examples(self, model: LanguageModel) -> Examples:
        """Texts that the model writes: one, or several short sequences."""
        length, count = (100, SHOWN) if self.settings.data.sequences else (500, 1)
        rows = []
        for seed in range(1, count + 1):
            random = torch.Generator().manual_seed(seed)
            drawn = self.draw(model, [], length, choice=Choice(temperature=0.8), generator=random)
            rows.append((self.tokenizer.decode(drawn),))
        return Examples(("what it writes",), rows, f"sample RUN --temperature 0.8 --seed 1 --length {length}")

    def probe(self, model: LanguageModel, steps: int) -> Probe:
        """Texts that the model draws itself."""
        texts = []
        for seed in range(4):
            random = torch.Generator().manual_seed(seed)
            texts.append([*self.opening([]), *self.draw(model, [], steps, exactly=True, generator=random)])
        with torch.no_grad():
            return Probe(model.recurrent, model.embed(torch.tensor(texts, device=model.output.weight.device)))

    def frozen_input(self, model: LanguageModel, name: str) -> Tensor:
        """`zero`, or the vector of a symbol."""
        if name == "zero":
            return super().frozen_input(model, name)
        names = self.symbol_names
        number = names.index(name) if name in names else self.tokenizer.encode(name, unknown="error").tolist()[0]
        with torch.no_grad():
            return model.embed(torch.tensor([[number]]))[0, 0]

    def reading(self, model: LanguageModel) -> Reading:
        """Symbols in, the next one as the class; strings are the model's own."""
        names = self.symbol_names
        return Reading(
            model.recurrent,
            model.embed(torch.arange(len(names))[None])[0],
            model.output,
            names[: self.tokenizer.plain],
            names,
            opening=self.opening([]),
            end=self.tokenizer.end,
        )

    @torch.no_grad()
    def says(self, model: LanguageModel, hidden: Tensor) -> list[str]:
        most = model.output(hidden.to(model.output.weight.dtype)).argmax(-1).tolist()
        return [repr(self.symbol_names[k]) for k in most]

    @cached_property
    def symbol_names(self) -> list[str]:
        """What each symbol is called; by its number where it is only a part of a character."""
        read = [self.tokenizer.decode([k]) for k in range(self.tokenizer.plain)]
        plain = [f"<{self.tokenizer.kind} {k}>" if name == "\ufffd" else name for k, name in enumerate(read)]
        return [*plain, "Start", "End"] if self.tokenizer.sequences else plain

    def symbols_of(self, text: str) -> list[int]:
        """A text as the model reads it, with its start and end."""
        ids = self.tokenizer.encode(text, unknown="error").tolist()
        if self.tokenizer.start is None or self.tokenizer.end is None:
            return [*ids]
        return [self.tokenizer.start, *ids, self.tokenizer.end]


RECIPES: dict[str, Recipe] = {
    "python-source": Recipe(
        LanguageSettings(
            name="python-source",
            data=Data(tokens="char", min_count=100, limit=700_000),
            model=StepModel(cell="lstm_coupled", hidden_size=256, embedding_size=64, dropout=0.15),
            training=Training(
                steps=3000,
                batch_size=16,
                truncation="every:64",
                learning_rate=0.006,
                l2=0.1,
                average="ema:0.99",
                validate_every=1500,
                save_every=500,
            ),
        ),
        "the source of Python's standard library on this machine; about a minute, needs no download",
    ),
    "text": Recipe(
        LanguageSettings(
            name="text",
            data=Data(tokens="char", valid=0.1, test=0.0),
            model=StepModel(cell="lstm", hidden_size=320, embedding_size=64, dropout=0.15),
            training=Training(
                steps=4600,
                batch_size=16,
                truncation="every:128",
                learning_rate=6e-3,
                average="ema:0.995",
                validate_every=920,
                save_every=250,
            ),
        ),
        "any text file: data.path=FILE",
    ),
    "names": Recipe(
        LanguageSettings(
            name="names",
            data=Data(tokens="char", sequences=True, valid=0.1, test=0.1),
            model=StepModel(cell="lstm", hidden_size=320, embedding_size=32, dropout=0.4, input_dropout=0.1),
            training=Training(
                steps=8000,
                batch_size=64,
                truncation="none",
                learning_rate=2e-3,
                average="ema:0.999",
                validate_every=1000,
                save_every=500,
            ),
        ),
        "any file with one short sequence per line: data.path=FILE",
    ),
}
