"""Language models on text: the settings, and how they become data, model and trainer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from recurra.analysis.automata.reading import Reading
from recurra.analysis.embeddings import Embeddings, look_at_embeddings
from recurra.analysis.order_tables import OrderComparison, OrderRow
from recurra.data.batches import Batches, Chunks, Sequences
from recurra.data.text import (
    Document,
)
from recurra.data.tokenizers import Tokenizer, tokenizer_from_json
from recurra.errors import DataError, OptionError
from recurra.layers.adaptive_softmax import AdaptiveSoftmax
from recurra.models.combined import COMBINE, best_share, mixed
from recurra.models.counted import predictor
from recurra.models.language import SOFTMAXES, LanguageModel
from recurra.models.markov import Markov
from recurra.models.markov_tables import MarkovTables, check_sizes
from recurra.models.sampling import Choice, sample
from recurra.tasks import word_vectors
from recurra.tasks.capabilities import Probe
from recurra.tasks.corpus import Corpus, TextData, read_corpus, read_parts
from recurra.tasks.kept import TOKENIZER
from recurra.tasks.results import SHOWN, Comparison, Evaluation, Examples, TextScore
from recurra.tasks.settings import idle_settings
from recurra.tasks.streaming import Streaming, most_probable, tokens
from recurra.tasks.task import M, Settings, StepModelSettings, StepTask, count_parameters
from recurra.training.dynamic_evaluation import evaluate_dynamically
from recurra.training.evaluation import (
    evaluate,
    evaluate_window,
    evaluating,
    fit_share,
    log_probabilities,
    target_logs,
)
from recurra.training.loop import Trainer
from recurra.training.neural_cache import choose_cache, with_cache
from recurra.training.objectives import weighted_nll
from recurra.training.soft_targets import SoftSequences, soft_nll
from recurra.training.truncation import read_truncation
from recurra.training.window_fit import fit_window_model
from recurra.types import DEEPEST, MOST, Float, Int, setting

ENDINGS = ("symbol", "stop")
MOST_COUNTED = 5_000_000
"""Tokens of a text up to which a run ends with the Markov model beside it; more take minutes to count."""
MOST_KEPT = 4_000_000
"""Runs of tokens that are kept with a model by model.combine=auto: 50 MB in each copy of the weights."""


def _has_maps_of_its_own(settings: Any) -> str | None:
    return "an adaptive softmax has maps of its own" if settings.model.softmax == "adaptive" else None


def _has_no_counts(settings: Any) -> str | None:
    if type(settings) is not LanguageSettings:
        return "it is for language models that read tokens alone"
    return _has_maps_of_its_own(settings)


def _has_sizes(settings: Any) -> str | None:
    return "model.hidden_sizes has one number for each layer" if settings.model.hidden_sizes else None


@dataclass(frozen=True)
class LanguageModelSettings(StepModelSettings):
    hidden_size: int = setting(256, "units of each layer", low=1, most=MOST, idle=_has_sizes)
    layers: int = setting(1, "how many are stacked", low=1, most=DEEPEST, idle=_has_sizes)
    hidden_sizes: tuple[int, ...] = setting(
        (),
        "units of each layer, the first one first: 1152,1152,400; none: as many in all",
        low=1,
        most=MOST,
        added=True,
    )
    tied: bool = setting(False, "the softmax uses the embedding's matrix", idle=_has_maps_of_its_own)
    deep_output: int = setting(
        0,
        "extra tanh layers from the recurrent layers to the prediction",
        low=0,
        most=DEEPEST,
        idle=_has_maps_of_its_own,
    )
    embedding_dropout: float = setting(
        0.0, "of whole tokens: all places of a token in a batch are read as zeros", added=True
    )
    softmax: str = setting(
        "full",
        "full, or adaptive, which spends little on rare words",
        choices=SOFTMAXES,
        added=True,
        idle=lambda s: (
            None
            if s.data.tokens == "word"
            else f"only words are numbered by frequency, and data.tokens={s.data.tokens}"
        ),
    )
    ending: str = setting(
        "symbol",
        "how a sequence ends: symbol (a token like the others), stop (a stop probability emitted at each step)",
        choices=ENDINGS,
        added=True,
        idle=lambda s: (
            _has_maps_of_its_own(s) if s.data.sequences else "one long text has no end (data.sequences=false)"
        ),
    )
    combine: str = setting(
        "none",
        "what predicts the next token: none (the network alone), baseline (mixed with counts), auto (where that is better)",
        choices=COMBINE,
        added=True,
        idle=_has_no_counts,
    )


@dataclass(frozen=True)
class LanguageSettings(Settings):
    data: TextData = field(default_factory=TextData)
    model: LanguageModelSettings = field(default_factory=LanguageModelSettings)
    soft_targets: float = setting(
        0.0,
        "share of each training target that is the prediction of a Markov model counted on other sequences",
        low=0,
        below=1,
        added=True,
        idle=lambda s: (
            (
                None
                if type(s) is LanguageSettings and s.data.sequences
                else "it is for language models of many sequences (data.sequences=true)"
            )
            or _has_maps_of_its_own(s)
        ),
    )

    @property
    def streams(self) -> bool:
        return not self.data.sequences

    def check(self) -> None:
        form = self.training.truncation
        if not self.data.sequences and form == "none":
            raise OptionError(
                "training.truncation=none needs whole sequences (data.sequences=true); use every:K or window:K."
            )


class TextTask(StepTask[M]):
    """What language models share: a tokenizer, and text that they write."""

    tokenizer: Tokenizer

    @cached_property
    def token_names(self) -> list[str]:
        """What each token is called; by its number where it is only a part of a character."""
        tokenizer = self.tokenizer
        read = [tokenizer.decode([k]) for k in range(tokenizer.plain)]
        plain = [f"<{tokenizer.kind} {k}>" if name == "\ufffd" else name for k, name in enumerate(read)]
        return [*plain, "Start", "End"] if tokenizer.sequences else plain

    def word_tables(self) -> word_vectors.Tables:
        return word_vectors.words_of(self.tokenizer)

    def tokens_of(self, text: str) -> list[int]:
        """A text as the model reads it, with its start and end."""
        ids = self.tokenizer.encode(text, unknown="error").tolist()
        if self.tokenizer.start is None or self.tokenizer.end is None:
            return [*ids]
        return [self.tokenizer.start, *ids, self.tokenizer.end]

    def opening(self, ids: list[int]) -> list[int]:
        """What is read before the first token is drawn: the start of a sequence where there is one, then what is given."""
        start = [self.tokenizer.start] if self.tokenizer.start is not None else []
        return [*start, *ids] or self.tokenizer.encode("\n", unknown="replace").tolist()

    def draw(self, model: Any, ids: list[int], length: int, **how: Any) -> Iterator[int]:
        """Tokens that follow `ids`; `how` as for `sample`."""
        never = [self.tokenizer.start] if self.tokenizer.start is not None else []
        return sample(model, self.opening(ids), length, end=self.tokenizer.end, never=never, **how)

    def sample_text(self, model: Any, length: int, seed: int, **how: Any) -> str:
        """A text at temperature 0.8."""
        random = torch.Generator().manual_seed(seed)
        return self.tokenizer.decode(
            self.draw(model, [], length, choice=Choice(temperature=0.8), generator=random, **how)
        )

    def probe(self, model: Any, steps: int) -> Probe:
        """Texts that the model draws itself."""
        texts = []
        for seed in range(4):
            random = torch.Generator().manual_seed(seed)
            texts.append([*self.opening([]), *self.draw(model, [], steps, exactly=True, generator=random)])
        with torch.no_grad():
            return Probe(model.recurrent, self.vectors(model, torch.tensor(texts, device=model.output.weight.device)))

    def vectors(self, model: Any, texts: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """What the recurrent layers read of texts from their start."""
        read: Tensor = model.embed(texts)
        return read

    def embeddings(self, model: Any) -> Embeddings:
        """The vectors of tokens, looked at."""
        language = getattr(model, "language", model)
        names = self.token_names
        return look_at_embeddings(language.embedding.weight[: len(names)], names)

    def frozen_input(self, model: Any, name: str) -> Tensor:
        """`zero`, or the vector of a token; a text stands for its first token."""
        if name != "zero" and name not in self.token_names:
            name = self.token_names[self.tokenizer.encode(name, unknown="error").tolist()[0]]
        return super().frozen_input(model, name)

    def input_names(self) -> list[str]:
        return self.token_names

    def output_names(self) -> list[str]:
        return [repr(name) for name in self.token_names]


class LanguageTask(TextTask[LanguageModel]):
    """A language model on a text. With the vocabulary of a run folder, the text is needed only for training and evaluation."""

    data_kind = "text"
    keeps: ClassVar[Any] = {**TOKENIZER, "lengths?": {str: int}, "markov?": [[int]]}
    factorisation = (
        "A product of conditionals: P(y1 … yT) = Π P(yt | y1 … yt−1). Each output is fed back as the next input, "
        "so outputs depend on one another."
    )

    @classmethod
    def data_options(cls, settings: Any) -> dict[str, bool]:
        return {"lines": settings.data.sequences}

    @cached_property
    def corpus(self) -> Corpus:
        known = tokenizer_from_json(self.kept) if self.kept is not None else None
        return read_corpus(self.settings.data, self.settings.seed, known)

    @cached_property
    def held_out(self) -> list[Document]:
        """The documents, or lines, that the model never saw: those of the test; where there are none, of validation."""
        _, valid, test = read_parts(self.settings.data, self.settings.seed)
        return test or valid

    @cached_property
    def tokenizer(self) -> Tokenizer:  # type: ignore[override]
        return self.corpus.tokenizer if self.kept is None else tokenizer_from_json(self.kept)

    def make_vocabulary(self) -> dict[str, Any]:
        """The tokenizer; for sequences how many had each length: P(τ); and how many runs of tokens were counted, where the model
        is combined with them."""
        kept = self.tokenizer.to_json()
        if self._keeps_counts:
            kept["markov"] = check_sizes(self.corpus.markov.sizes)
        if self.settings.data.sequences:
            counted = Counter(len(sequence) - 2 for sequence in self.corpus.train)
            kept["lengths"] = {str(length): counted[length] for length in sorted(counted)}
        return kept

    @property
    def _keeps_counts(self) -> bool:
        """Whether the model has counts beside the network, which it predicts with where validation prefers that."""
        if _has_no_counts(self.settings) or self.settings.model.combine == "none":
            return False
        if not any(len(part) > 1 for part in self.corpus.valid):
            return False  # training refuses this
        if self.settings.model.combine == "baseline":
            return True
        few = sum(map(len, self.corpus.train)) <= MOST_COUNTED
        return few and sum(runs for runs, _ in self.corpus.markov.sizes) <= MOST_KEPT

    @property
    def about_data(self) -> str:
        tokens = sum(len(part) for part in self.corpus.train)
        return f"{tokens:,} {self.settings.data.tokens} tokens, vocabulary {self.tokenizer.size}"

    def make_batches(self, part: list[Tensor], *, training: bool) -> Batches:
        """The order in which a part of the corpus is read."""
        settings, how = self.settings.training, self.batch_options(training=training)
        if self.settings.data.sequences:
            return Sequences(part, **how)
        text = part[0] if len(part) == 1 else torch.cat(part)  # one long text is held once, not twice
        truncation = read_truncation(settings.truncation)
        length = truncation.k if truncation.form == "every" and truncation.k else settings.length
        if training:
            return Chunks(text, length=length, **how)
        # the state of each stream starts from zero, so that a short text has few of them; and ranks can share their number
        streams = min(32, max(8, 2 ** int(math.log2(max(1, len(text) / 16384)))))
        return Chunks(text, length=512, **how | {"batch_size": math.lcm(streams, self.ranks.world)})

    def make_model(self) -> LanguageModel:
        return self.model_for(self.tokenizer.size)

    def model_for(self, vocabulary_size: int) -> LanguageModel:
        """The untrained model for any vocabulary."""
        model = self.settings.model
        made: dict[str, Any] = self.step_options() | {"embedding_dropout": model.embedding_dropout}
        if model.softmax == "adaptive" and self.settings.data.tokens == "word":
            return LanguageModel(
                vocabulary_size, self.make_recurrent(), softmax="adaptive", **made | {"deep_output": 0}
            )
        sizes = (self.vocabulary or {}).get("markov")
        if sizes is not None:
            made["baseline"] = MarkovTables(check_sizes(sizes), vocabulary_size)
        stop = self.tokenizer.end if model.ending == "stop" else None
        return LanguageModel(vocabulary_size, self.make_recurrent(), tied=model.tied, stop=stop, **made)

    def make_trainer(self, model: LanguageModel) -> Trainer:
        corpus = self.corpus
        train = self.make_batches(corpus.train, training=True)
        train.steps_per_epoch  # noqa: B018  a text that is too short is refused here, before anything is made
        if not any(len(part) > 1 for part in corpus.valid):
            raise DataError(
                f"the validation part needs at least 2 tokens, but data.valid={self.settings.data.valid} leaves fewer. "
                "Give more text or a larger share."
            )
        if self.ranks.is_first and sum(map(len, corpus.train)) <= MOST_COUNTED:
            corpus.markov  # noqa: B018  what the network is compared with is counted within the time that is given
        valid = self.make_batches(corpus.valid, training=False)
        loss = model.output.weighted_nll if isinstance(model.output, AdaptiveSoftmax) else weighted_nll
        if self.settings.soft_targets and "soft_targets" not in idle_settings(self.settings):
            how = {"share": self.settings.soft_targets, "order": corpus.markov.order}
            train = SoftSequences(corpus.train, self.tokenizer.size, **how, **self.batch_options(training=True))
            loss = soft_nll
        if not self._keeps_counts:
            return self.train_on(model, train, lambda model: evaluate(model, valid, ranks=self.ranks).nats, loss=loss)
        assert model.baseline is not None
        model.baseline.fill(corpus.markov)
        model.share.fill_(1)  # until a validation is sure of the network
        counted, (_, places) = self._counted(corpus.markov, corpus.valid), self._in_order(corpus.valid)

        def compared(evaluated: LanguageModel) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
            for logs, numbers, weights in target_logs(evaluated, valid, places):
                yield logs, counted[(numbers - 1).clamp(min=0)], weights

        def validate(evaluated: LanguageModel) -> float:
            with evaluating(evaluated):
                share, nats = fit_share(compared(evaluated), self.settings.model.combine, self.ranks)
            for each in (evaluated, model):  # that in training is what a stop before the next validation leaves
                each.share.fill_(share)
            return nats

        return self.train_on(model, train, validate, loss=loss)

    def evaluate(
        self,
        model: LanguageModel,
        data: str | None = None,
        *,
        baselines: bool = True,
        window: int | None = None,
        dynamic: float | None = None,
        cache: bool = False,
    ) -> Evaluation:
        """Nats, perplexity and bits per token, beside the best order-k Markov model and the mixture of both. What the run
        predicts with stands first.

        - `window`: also train the fixed-window model with this many tokens. `dynamic`: also score the model while it goes on
          learning from what it has read, at this rate. `cache`: also score it with a neural cache, which is chosen on
          validation data.
        """
        if cache and self.settings.data.sequences:
            raise OptionError(
                "a cache remembers one long text, and here each line is a sequence of its own: leave it out."
            )
        corpus, settings = self.corpus, self.settings
        has_test = any(len(each) > 1 for each in corpus.test)
        part, name = (corpus.test, "test") if has_test else (corpus.valid, "validation")
        if data is not None:
            other = replace(settings.data, path=data, limit=None, valid_path=None, test_path=None)
            read = read_corpus(other, settings.seed, self.tokenizer)
            part, name = [*read.train, *read.valid, *read.test], data
        logs = self._logs(model, part)
        called, share, both = self.called, _share(model), {}
        if share or baselines:
            counts = self._counts(model)
            counter, counted = f"markov order {counts.order}", self._counted(counts, part)
            if not share:
                share = best_share(self._logs(model, corpus.valid), self._counted(counts, corpus.valid))
            both[self._mixture(share, counts.order)] = -float(mixed(logs, counted, share).mean())
        nats = (both if _share(model) else {}) | {called: -float(logs.mean())}
        if dynamic is not None:
            seen, now = (self._small_batches(each) for each in (corpus.train, part))
            nats[f"{called}, dynamic"] = evaluate_dynamically(model, seen, now, rate=dynamic).nats
        if cache:
            chosen = choose_cache(model, *self._in_order(corpus.valid), self._logs(model, corpus.valid))
            nats[f"{called}, {chosen}"] = -float(with_cache(model, *self._in_order(part), logs, chosen).mean())
        if window is not None:
            fixed = fit_window_model(corpus.train, self.tokenizer.size, window, seed=settings.seed)
            nats[f"window of {window}"] = evaluate_window(fixed, self.make_batches(part, training=False)).nats
        if baselines:
            nats[counter] = -float(counted.mean())
            nats |= both
        scores = {k: {"nats": v, "perplexity": math.exp(min(v, 700)), "bits": v / math.log(2)} for k, v in nats.items()}
        return Evaluation(name, len(logs), scores, self.units)

    def compare(self, model: Any) -> Comparison | None:
        """Nats per token beside the best Markov model, and both mixed; none of a text that takes long to count."""
        corpus = self.corpus
        if sum(map(len, corpus.train)) > MOST_COUNTED:
            return None
        counts = self._counts(model)
        logs, counted = self._logs(model, corpus.valid), self._counted(counts, corpus.valid)
        share = _share(model) or best_share(logs, counted)
        both = -float(mixed(logs, counted, share).mean())
        counter = {f"markov order {counts.order}": -float(counted.mean())}
        advice = "Try more training.steps, a larger model.hidden_size, or less model.dropout."
        if _share(model):
            note = f"The run predicts with {self._mixture(share, counts.order)}; model.combine=none leaves counts out"
            return Comparison("nats", False, -float(logs.mean()), counter, advice, both, note=note)
        note = f"Mixed with {share:.0%} of it: {both:.4f}; recurra evaluate prints both." if share else ""
        if share and not self._keeps_counts and not _has_no_counts(self.settings):
            advice = f"Try model.combine=auto. {advice}"
        return Comparison("nats", False, -float(logs.mean()), counter, advice, note=note)

    def compare_orders(self, model: Any, most: int) -> OrderComparison:
        """Tables of order 0 to `most` beside the model, on the test part (or validation)."""
        corpus = self.corpus
        part = corpus.test if any(len(each) > 1 for each in corpus.test) else corpus.valid
        logs, V = self._logs(model, part), self.tokenizer.size
        data = part if self.settings.data.sequences else torch.cat(part)
        rows = []
        for order in range(most + 1):
            counted = Markov.fit(corpus.train, order, V)
            name = f"table of order {order}"
            rows.append(OrderRow(name, order, V**order * (V - 1), counted.contexts, counted.score(data)))
        rows.append(OrderRow(self.called, None, count_parameters(model), None, -float(logs.mean())))
        return OrderComparison(V, len(logs), tuple(rows))

    def score(self, model: LanguageModel, text: str, *, baselines: bool = True) -> TextScore:
        """log P of each token of a text, given those before it; what the model starts from is given, not scored."""
        ids = self.tokens_of(text)
        line = torch.tensor(ids if self.tokenizer.start is not None else [*self.opening([]), *ids])
        if len(line) < 2:
            raise DataError("an empty text has no token to score. Give one.")
        asked: dict[str, Any] = {}
        if _share(model):
            asked[self._mixture(_share(model), self._counts(model).order)] = predictor(model)
        logs = {}
        for called, predicts in (asked | {self.called: model}).items():
            with evaluating(model):
                predicted = (
                    predicts(line[None, :-1].to(model.output.weight.device))[0][0].double().log_softmax(-1).cpu()
                )
            logs[called] = predicted.gather(1, line[1:, None])[:, 0]
        if baselines:
            counts = self._counts(model)
            logs[f"markov order {counts.order}"] = counts.log_probabilities([line])
        return TextScore(self.factorisation, [self.token_names[k] for k in line[1:].tolist()], logs)

    def _mixture(self, share: float, order: int) -> str:
        """What the network and so much of a Markov model are called."""
        counter = f"markov order {order}"
        return f"{self.called} and {share:.0%} {counter}" if share < 1 else f"{counter} alone"

    def _logs(self, model: LanguageModel, part: list[Tensor]) -> Float[Tensor, " N"]:
        """log P of every token of a part but the first of each sequence, in order."""
        return log_probabilities(model, *self._in_order(part))

    def _in_order(self, part: list[Tensor]) -> tuple[Batches, Batches]:
        """The batches of a part, and of the numbers of its tokens."""
        if not self.settings.data.sequences:
            part = [torch.cat(part)]
        firsts = torch.tensor([0, *(len(each) - 1 for each in part)]).cumsum(0).tolist()
        numbers = [first + torch.arange(len(each)) for first, each in zip(firsts, part, strict=False)]
        return self.make_batches(part, training=False), self.make_batches(numbers, training=False)

    def _counts(self, model: Any) -> Markov:
        """The best Markov model: that which the run keeps, or else counted anew."""
        kept = getattr(model, "baseline", None)
        return self.corpus.markov if kept is None else kept.to_markov()

    def _counted(self, counts: Markov, part: list[Tensor]) -> Float[Tensor, " N"]:
        """The same of a Markov model."""
        return counts.log_probabilities(part if self.settings.data.sequences else torch.cat(part))

    def _small_batches(self, part: list[Tensor]) -> Batches:
        """Short chunks, for a model that learns from each before it reads the next."""
        if self.settings.data.sequences:
            return Sequences(part, 16, shuffle=False)
        return Chunks(torch.cat(part), 8, 32, shuffle=False)

    def draw(self, model: LanguageModel, ids: list[int], length: int, **how: Any) -> Iterator[int]:
        return super().draw(predictor(model), ids, length, **how)

    def generate(
        self,
        model: LanguageModel,
        prime: list[int],
        length: int | None,
        *,
        given: str | None = None,
        **how: Any,
    ) -> Iterator[int]:
        if given is not None:
            raise OptionError(
                f"{self.settings.name} is not class-conditional: leave --given out. The recipe `conditioned` is."
            )
        if length is not None:
            return self.draw(model, prime, length, **how)
        counted = (self.vocabulary or {}).get("lengths")
        if not counted:
            raise OptionError(
                "this model read one long text, which has no lengths to draw from. Give a length instead."
            )
        weights = torch.tensor(list(counted.values()), dtype=torch.float64)
        drawn = int(list(counted)[int(torch.multinomial(weights, 1, generator=how.get("generator")))])
        return self.draw(model, prime, drawn - len(prime), exactly=True, **how)

    def streaming(self, model: LanguageModel) -> Streaming:
        """Text in; the most probable next tokens out."""
        names, reads = self.token_names, f"a text, or a list of tokens from 0 to {self.tokenizer.size - 1}"
        return Streaming(
            predictor(model),
            reads,
            lambda given: tokens(given, len(names), lambda text: self.tokenizer.encode(text, unknown="error"), reads),
            lambda logits, top: most_probable(logits, names, top, "tokens"),
            torch.tensor(self.opening([])),
        )

    def glimpse(self, model: LanguageModel) -> str:
        return self.sample_text(model, 120, self.settings.seed)

    def examples(self, model: LanguageModel) -> Examples:
        """Texts that the model writes: one, or several short sequences."""
        length, count = (100, SHOWN) if self.settings.data.sequences else (500, 1)
        rows = [(self.sample_text(model, length, seed),) for seed in range(1, count + 1)]
        return Examples(("what it writes",), rows, f"sample RUN --temperature 0.8 --seed 1 --length {length}")

    def reading(self, model: LanguageModel) -> Reading:
        """Tokens in, the next one as the class; strings are the model's own."""
        names = self.token_names
        return Reading(
            model.recurrent,
            model.embed(torch.arange(len(names))[None])[0],
            model.output,
            names[: self.tokenizer.plain],
            names,
            opening=self.opening([]),
            end=self.tokenizer.end,
        )


def _share(model: Any) -> float:
    """Of counts, in what the run predicts with; models that have no place for counts predict alone."""
    return float(getattr(model, "share", 0.0))
