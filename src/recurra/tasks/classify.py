"""A label for a whole sequence (`classify`): the settings, and how they become a task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from recurra.data.comma_separated import finite_number
from recurra.data.labelled import Labelled
from recurra.data.labelled_batches import LabelledSequences
from recurra.errors import DataError, OptionError, quoted
from recurra.metrics.confusion import Confusion
from recurra.metrics.roc_auc import auc
from recurra.models.bag_of_tokens import BagOfTokens
from recurra.models.classify import HEADS, Classifier
from recurra.models.combined import COMBINE, choose_share, gains, mixed
from recurra.models.kernel_ridge import MOST_SERIES, KernelRidge
from recurra.tasks.labelling import LabelledData, LabelModelSettings, LabelSettings, LabelTask, deal_folds
from recurra.tasks.recipe import Derived, recipe
from recurra.tasks.results import Comparison, Evaluation
from recurra.training.labelling import class_logs, most_frequent, nearest, score_logs
from recurra.training.loop import Training
from recurra.types import Float, Int, setting

PADDING = ("masked", "start", "end")
SURE = 1.0
"""By how many standard errors a combination must be better than the network alone."""
FEW, ENSEMBLE = 400, 5
"""Up to so many sequences no part is spared for validation: an ensemble of so many networks is cross-validated."""
MOST_OWN = 20
"""Where more labels than this are numbers with a fraction, and most sequences have one of their own, they are no classes."""
POOLED_TO = 50
"""How many steps long series are pooled to, roughly."""


@dataclass(frozen=True)
class ClassifyData(LabelledData):
    whiten: float = setting(0.0, "within-class whitening of channels; 0: not at all, below 1: so far", low=0, below=1)


@dataclass(frozen=True)
class ClassifyModelSettings(LabelModelSettings):
    padding: str = setting(
        "masked",
        "shorter sequences of a batch: masked (padding is never read), or start or end (it is read there, as zeros)",
        choices=PADDING,
        added=True,
    )
    combine: str = setting(
        "none",
        "what predicts: the network alone (none), mixed with the baseline, or so where validation prefers it (auto)",
        choices=COMBINE,
        added=True,
    )
    head: str = setting("mean", "how steps become one vector: last, mean, max or attention", choices=HEADS)
    pool: int = setting(1, "max-pooling over this many steps, after the convolution", low=1)

    def check(self) -> None:
        super().check()
        if self.pool > 1 and self.convolution is None:
            raise OptionError(f"model.pool={self.pool} follows a convolution; give its width too: model.convolution=5.")


@dataclass(frozen=True)
class ClassifySettings(LabelSettings):
    ensembles: ClassVar[bool] = True
    data: ClassifyData = field(default_factory=ClassifyData)
    model: ClassifyModelSettings = field(default_factory=ClassifyModelSettings)


class ClassificationTask(LabelTask):
    unit = "sequence"

    def _check_reading(self, found: Labelled) -> None:
        super()._check_reading(found)
        distinct = set(found.labels or ())
        if len(distinct) > max(MOST_OWN, len(found) / 2) and all(_is_measured(label) for label in distinct):
            raise DataError(
                f"{self.settings.data.path} has {len(distinct):,} labels for {len(found):,} sequences, all numbers such as "
                f"{quoted(min(distinct))}. To predict numbers, take the recipe regression; classes are few."
            )
        padding = self.settings.model.padding
        if padding != "masked" and len({len(each) for each in found.sequences}) == 1:
            raise OptionError(
                f"model.padding={padding} would change nothing here: all sequences of {self.settings.data.path} have one length. "
                "Leave it out."
            )

    def make_model(self) -> Classifier:
        model = self.settings.model
        how: dict[str, Any] = {
            "head": model.head,
            "reads_padding": None if model.padding == "masked" else model.padding,
        }
        size = self.settings.training.ensemble
        others = [Classifier(**self.label_options(model.pool), **how) for _ in range(size - 1)]
        baseline = None if model.combine == "none" else self.make_baseline()
        return Classifier(**self.label_options(model.pool), **how, others=others, baseline=baseline)

    def make_baseline(self) -> nn.Module:
        """The baseline that can be combined with the network, untrained."""
        kind = BagOfTokens if self.encoder.are_tokens else KernelRidge
        return kind(self.encoder.size, len(self.names), sum(self.names.counts.values()))

    def fit_baseline(self, baseline: Any) -> None:
        """Train it, on training data alone."""
        values, lengths = self.encoder.encode(self.parts.train, self.settings.precision)
        baseline.fit(values, lengths, self.names.encode(self.parts.train, "the training part"), self.settings.seed)

    @property
    def baseline_name(self) -> str:
        return "bag of tokens" if self.encoder.are_tokens else "kernel ridge"

    @property
    def called(self) -> str:
        size = self.settings.training.ensemble
        return super().called if size == 1 else f"{size} × {super().called}"

    @cached_property
    def folds(self) -> Int[Tensor, " N"] | None:  # type: ignore[override]
        """Of an ensemble without a validation part: every network leaves its own fold of the training sequences out."""
        size, labels = self.settings.training.ensemble, self.parts.train.labels
        if size == 1 or len(self.parts.valid):
            return None
        assert labels is not None
        return torch.tensor(deal_folds(labels, size, self.settings.seed))

    def held_out_logs(self, model: Classifier) -> tuple[Tensor, Tensor | None, Tensor] | None:
        """log P(class) by the network and by its baseline, if it has one, of sequences that they did not learn from, and
        their labels: the validation part, or of a cross-validated ensemble all training sequences. `None`: there are none."""
        if self.folds is not None:
            batches = self.make_batches(self.parts.train, "the training part", alone=True)
            batches.folds = self.folds
            network = class_logs(model, batches, lambda b: model.left_out(b.inputs, b.lengths, b.folds))
            if model.baseline is None:
                return network, None, batches.targets
            rows = model.baseline.rows.cpu()
            return network[rows], model.baseline.held_out.double().cpu(), batches.targets[rows]
        if not len(self.parts.valid):
            return None
        batches = self.make_batches(self.parts.valid, "the validation part", alone=True)
        logs = [self._logs(model, batches, model.alone)]
        logs += [self._logs(model, batches, model.ask_baseline)] if model.baseline is not None else []
        return logs[0], logs[1] if len(logs) > 1 else None, batches.targets

    @staticmethod
    def _logs(model: Classifier, batches: LabelledSequences, read: Any) -> Float[Tensor, "N C"]:
        return class_logs(model, batches, lambda batch: read(batch.inputs, batch.lengths))

    def own_validation(self, model: Any) -> Any:
        """The nats of the network with its baseline; how much of that there is, is chosen first."""
        how = self.settings.model.combine
        if model.baseline is not None:
            self.fit_baseline(model.baseline)
            model.share.fill_(0.5 if how == "baseline" else 0.0)
        if (model.baseline is None and self.folds is None) or self.held_out_logs(model) is None:
            return None

        def validate(evaluated: Classifier) -> float:
            found = self.held_out_logs(evaluated)
            assert found is not None
            network, baseline, targets = found
            if baseline is None:
                return score_logs(network, targets).nats
            gained = gains(*(logs.gather(1, targets[:, None])[:, 0] for logs in (network, baseline)))
            share = choose_share(gained.sum(1), gained.square().sum(1), len(targets), how, SURE)
            evaluated.share.fill_(share)
            return score_logs(mixed(network, baseline, share), targets).nats

        return validate

    def compare(self, model: Classifier) -> Comparison | None:
        """The network and its baselines by accuracy on what they did not learn from."""
        found = self.held_out_logs(model)
        if found is None:
            return None
        network, baseline, targets = found
        share = float(model.share) if baseline is not None else 0.0
        scored = score_logs(network, targets)
        seen = torch.tensor(list(self.names.counts.values()))
        others = {f"always {self.names.names[int(seen.argmax())]}": most_frequent(seen, scored.counts).accuracy}
        if baseline is not None:
            others[self.baseline_name] = score_logs(baseline, targets).accuracy
        if self._is_small and (model.baseline is None or len(model.baseline.rows) == len(self.parts.train)):
            train = self.make_batches(self.parts.train, "the training part", alone=True)
            same = self.folds is not None
            held = train if same else self.make_batches(self.parts.valid, "the validation part", alone=True)
            others["nearest neighbour"] = float((nearest(train, held, same=same) == targets).double().mean())
        combined = None
        if baseline is not None and share:
            combined = score_logs(mixed(network, baseline, share), targets).accuracy
        tries = ["model.combine=auto"] if self.settings.model.combine == "none" else []
        tries += ["training.ensemble=5"] if self.settings.training.ensemble == 1 else []
        advice = f"Try {', '.join([*tries, 'more training.steps'])}."
        return Comparison("accuracy", True, scored.accuracy, others, advice, combined)

    @property
    def _is_small(self) -> bool:
        """Whether there are series of numbers, and few enough for baselines that compare all with all."""
        return not self.encoder.are_tokens and sum(self.names.counts.values()) <= MOST_SERIES

    def evaluate(
        self, model: Any, data: str | None = None, *, baselines: bool = True, shuffled: bool = False
    ) -> Evaluation:
        """Accuracy, macro F1 and nats; of two classes the ROC AUC too. First what the run predicts with, then the network alone
        where that is another, then baselines: the most frequent class; of tokens a bag of them, which knows no order; of few
        series a ridge on convolution kernels, and the nearest neighbour.

        - `shuffled`: also score the model on the same sequences with their steps in random order.
        """
        part, name = self.held_out if data is None else (self._read(data), data)
        batches = self.make_batches(part, name)
        targets, combines = batches.targets, model.baseline is not None and bool(model.share)
        asked = {f"{self.called} + {self.baseline_name}": model} if combines else {}
        asked[self.called] = model.alone
        logs = {called: self._logs(model, batches, ask) for called, ask in asked.items()}
        counts = score_logs(next(iter(logs.values())), targets).counts
        if shuffled:
            mixed_up = self.make_batches(part, name)
            mixed_up.shuffle_steps(self.settings.seed)
            logs |= {f"{called}, shuffled": self._logs(model, mixed_up, ask) for called, ask in asked.items()}
        rows = {called: score_logs(each, targets).scores for called, each in logs.items()}
        if baselines:
            seen = torch.tensor(list(self.names.counts.values()))
            rows[f"always {self.names.names[int(seen.argmax())]}"] = most_frequent(seen, counts).scores
            logs |= self._baseline_logs(model, batches)
            rows |= {called: score_logs(each, targets).scores for called, each in logs.items() if called not in rows}
            if self._is_small:
                train = self.make_batches(self.parts.train, name)
                predicted = nearest(train, batches)
                given = torch.nn.functional.one_hot(predicted, len(self.names)).double().clamp(min=1e-9).log()
                rows["nearest neighbour"] = {
                    key: value for key, value in score_logs(given, targets).scores.items() if key != "nats"
                }
        if len(self.names) == 2:
            for called, row in rows.items():
                if called in logs or called.startswith("always "):  # of a constant, every pair is a tie
                    row["AUC"] = auc(logs[called][:, 1], targets) if called in logs else 0.5
        return Evaluation(name, int(counts.sum()), rows, self.units, Confusion(self.names.names, counts.tolist()))

    def _baseline_logs(self, model: Any, batches: LabelledSequences) -> dict[str, Tensor]:
        """What the baseline of the model predicts, or one that is made for the comparison."""
        if model.baseline is not None:
            return {self.baseline_name: self._logs(model, batches, model.ask_baseline)}
        if not self.encoder.are_tokens and not self._is_small:
            return {}
        baseline = self.make_baseline().to(self.settings.precision)
        self.fit_baseline(baseline)
        return {self.baseline_name: class_logs(model, batches, lambda b: baseline.cpu()(b.inputs.cpu(), b.lengths))}

    def describe(self, probabilities: Tensor) -> dict[str, Any]:
        best = int(probabilities[0].argmax())
        return {"label": self.names.names[best], "probability": float(probabilities[0, best])}


def _is_measured(label: str) -> bool:
    """Whether a label is a number with a fraction."""
    value = finite_number(label)
    return value is not None and not value.is_integer()


@recipe(ClassificationTask)
def classify() -> ClassifySettings:
    """any file of sequences with a label each, text or numbers: data.path=FILE"""
    return ClassifySettings(
        model=ClassifyModelSettings(
            cell="gru", hidden_size=64, dropout=0.5, input_dropout=0.0, noise=None, combine="auto"
        ),
        training=Training(
            steps=1000, batch_size=32, truncation="none", l2=0.1, average="ema:0.99", validate_every=50, save_every=500
        ),
    )


@classify.rule
def classify_rule(task: ClassificationTask) -> Iterator[Derived]:
    """up to 400 sequences, five networks are trained for 500 steps, each of which leaves a fifth of them out, and no part is
    spared for validation; series of 75 steps and more are convolved, and pooled to about 50"""
    data, given, parts = task.settings.data, task.given or frozenset(), task.parts
    count = len(parts.train) + (len(parts.valid) if data.valid_path is None else 0)
    if count <= FEW:
        why = f"{count} sequences"
        yield Derived("training.ensemble", ENSEMBLE, why)
        yield Derived("training.steps", 500, why)
        size = task.settings.training.ensemble if "training.ensemble" in given else ENSEMBLE
        if data.valid_path is None and size > 1:
            yield Derived("data.valid", 0.0, f"{why}: each network leaves a fold out")
    if parts.train.kind == "numbers" and not {"model.convolution", "model.pool"} & given:
        length = int(np.median([len(each) for each in parts.train.sequences]))
        pool = round(length / POOLED_TO)
        if pool > 1:
            yield Derived("model.convolution", 2 * pool + 1, f"{length} steps")
            yield Derived("model.pool", pool, f"{length} steps")


@recipe(ClassificationTask)
def pixels() -> ClassifySettings:
    """images pixel by pixel, permuted: a memory of hundreds of steps; data.path=IMAGES"""
    return ClassifySettings(
        data=ClassifyData(pixels=True, permute=True),
        model=ClassifyModelSettings(
            cell="lru",
            hidden_size=64,
            layers=3,
            dropout=0.1,
            input_dropout=0.0,
            residual=True,
            bidirectional=False,
            head="last",
        ),
        training=Training(
            steps=4000,
            batch_size=64,
            truncation="none",
            learning_rate=1e-2,
            l2=0.01,
            average="ema:0.99",
            validate_every=1000,
            save_every=1000,
        ),
    )
