"""Classification of trees: the settings, and how they become data, model and trainer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from recurra.data.forest import Forest
from recurra.data.text import read_split, split_lines
from recurra.data.tree_batches import TreeBatch, Trees
from recurra.data.tree_tasks import BY_DEPTH, TASKS, synthetic
from recurra.data.trees import (
    BLANK,
    LABELS,
    NODE,
    SHAPES,
    UNKNOWN,
    Tree,
    TreeVocabulary,
    build_vocabulary,
    is_binary_parse,
    read_trees,
    reshaped,
)
from recurra.errors import DataError, OptionError
from recurra.layers.tree import BY_POSITION, COMPOSITIONS, OF_CELLS
from recurra.models.tree import BagOfTokens, MostFrequent, TreeClassifier
from recurra.tasks import word_vectors
from recurra.tasks.recipe import Derived, recipe
from recurra.tasks.results import SHOWN, Comparison, Evaluation, Examples
from recurra.tasks.task import (
    Settings,
    Task,
    check_shares,
    count_parameters,
    given_test,
    given_valid,
    of_files,
    of_synthetic,
)
from recurra.training.distributed import Ranks
from recurra.training.evaluation import Score, Tally, evaluating
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import weighted_nll
from recurra.types import MOST, setting

DEEPER = 2
"""By how many levels the trees that a task is tested on go beyond those that were learned."""

VALID, TEST = 1000, 500
"""How many synthetic trees choose the model, and how many of each depth test it."""

LAST_LEVEL = 6
"""From this height on, nodes are scored together."""


@dataclass(frozen=True)
class TreeData:
    path: str | None = setting(
        None, "trees: a file of bracketed expressions, .json, .jsonl, or a folder of .py; none: synthetic ones"
    )
    valid_path: str | None = setting(
        None, "trees to validate on; none: a share of data.path", added=True, idle=of_files
    )
    test_path: str | None = setting(None, "trees to test on; none: a share of data.path", added=True, idle=of_files)
    labels: str = setting(
        "every",
        "the first word of a bracket: every (a label to learn), root (only the outermost is), outer (the rest is read)",
        choices=LABELS,
    )
    task: str = setting("listops", "synthetic trees: listops, logic or reviews", choices=TASKS, idle=of_synthetic)
    depth: int = setting(
        4,
        "of the deepest synthetic trees to learn from; they are tested two levels deeper too",
        low=1,
        most=20,
        idle=lambda s: of_synthetic(s) or (None if s.data.task in BY_DEPTH else "a review is as deep as its parse"),
    )
    count: int = setting(50_000, "how many synthetic trees to learn from", low=1, most=MOST, idle=of_synthetic)
    shape: str = setting(
        "given",
        "the tree over the same tokens: given, balanced or chain; of the last two only roots have labels",
        choices=SHAPES,
        added=True,
    )
    min_count: int = setting(1, "tokens seen less often become <unk>", low=1)
    embeddings: str | None = word_vectors.from_file()
    freeze_embeddings: bool = word_vectors.frozen()
    valid: float = setting(
        0.1, "the share of a file's trees that chooses the model", idle=lambda s: of_files(s) or given_valid(s)
    )
    test: float = setting(
        0.1,
        "the share of a file's trees that is kept for the last evaluation",
        idle=lambda s: of_files(s) or given_test(s),
    )

    def check(self) -> None:
        check_shares(self.valid, self.test)


@dataclass(frozen=True)
class TreeModelSettings:
    composition: str = setting(
        "fold", "how children become a node: fold, sum, plain, child-sum or n-ary", choices=COMPOSITIONS
    )
    cell: str | None = setting(
        None, "of fold and sum: a name, NAME(option=value), FILE.py:NAME, or FILE.json; none: lstm"
    )
    arity: int | None = setting(None, "of plain and n-ary: the most children of a node; none: that of the data", low=1)
    hidden_size: int = setting(128, "units of a node", low=1, most=MOST)
    embedding_size: int | None = setting(None, "size of a token's vector; none: hidden_size", low=1, most=MOST)
    dropout: float = setting(0.0, "of tokens' vectors and of outputs")


@dataclass(frozen=True)
class TreeSettings(Settings):
    whole: ClassVar[str | None] = "trees"
    model: TreeModelSettings = field(default_factory=TreeModelSettings)
    data: TreeData = field(default_factory=TreeData)
    dtype: str = setting("float32", "float32 or float64", choices=("float32", "float64"))

    def idle(self) -> dict[str, str]:
        return {"engine": "engines run sequences; trees are computed level by level"}


@dataclass(frozen=True)
class Woods:
    """Trees to learn from, to choose by, and to test with."""

    vocabulary: TreeVocabulary
    train: Forest
    valid: Forest
    test: Forest


def read_parts(data: TreeData, seed: int) -> tuple[list[Tree], ...]:
    """The recipe's trees, to learn from, to choose by and to test with."""
    parts: tuple[list[Tree], ...]
    if data.path is None:
        learned, tested = range(1, data.depth + 1), range(1, data.depth + DEEPER + 1)
        # three seeds that are never the same, whatever the recipe's own is
        asked = (
            (data.count, learned, 3 * seed),
            (VALID, learned, 3 * seed + 1),
            (TEST * len(tested), tested, 3 * seed + 2),
        )
        parts = tuple(_only_root(synthetic(data.task, *each), data.labels) for each in asked)
    else:
        parts = read_split(
            lambda path: read_trees(path, data.labels),
            lambda trees, valid, test: split_lines(trees, valid, test, seed),
            data.path,
            data.valid_path,
            data.test_path,
            valid=data.valid,
            test=data.test,
        )
        if not parts[0] or not parts[1]:
            found = sum(len(part) for part in parts)
            raise DataError(f"{data.path} has {found} trees: too few to learn from and to choose by. Give more.")
    return tuple([reshaped(tree, data.shape) for tree in part] for part in parts)


def plant_woods(parts: tuple[list[Tree], ...], data: TreeData, vocabulary: TreeVocabulary | None = None) -> Woods:
    """Trees as numbers. A vocabulary that is given is used; otherwise one is made of them."""
    if vocabulary is None:
        vocabulary = build_vocabulary(parts[0], [*parts[1], *parts[2]], data.min_count)
        if not vocabulary.classes:
            raise DataError(f"no tree of {data.path} has a label. Give labels to learn.")
    train, valid, test = (vocabulary.plant(part or parts[1]) for part in parts)
    return Woods(vocabulary, train, valid, test)


def _only_root(trees: list[Tree], labels: str) -> list[Tree]:
    if labels == "every":
        return trees
    return [replace(tree, labels=[tree.labels[0], *[None] * (len(tree.labels) - 1)]) for tree in trees]


class TreeTask(Task[TreeClassifier]):
    """A classifier of trees. With the vocabulary of a run folder, trees are needed only for training and evaluation."""

    data_kind = "trees"
    keeps: ClassVar[Any] = {"symbols": [str], "classes": [str], "widest": int}
    factorisation = "Labels of nodes are independent given the tree: P(labels | tree) = Π P(label | subtree)."

    def __init__(self, settings: TreeSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(settings, ranks, vocabulary)
        self.unit = "labelled node" if settings.data.labels == "every" else "tree"

    @cached_property
    def parts(self) -> tuple[list[Tree], ...]:
        return read_parts(self.settings.data, self.settings.seed)

    @cached_property
    def woods(self) -> Woods:
        return plant_woods(self.parts, self.settings.data, None if self.kept is None else self._kept_names)

    @property
    def names(self) -> TreeVocabulary:
        return self.woods.vocabulary if self.kept is None else self._kept_names

    @cached_property
    def _kept_names(self) -> TreeVocabulary:
        assert self.kept is not None
        return TreeVocabulary.from_json(self.kept)

    def make_vocabulary(self) -> dict[str, Any]:
        return self.names.to_json()

    @property
    def about_data(self) -> str:
        data, train = self.settings.data, self.woods.train
        made = f"{data.task} to depth {data.depth}" if data.task in BY_DEPTH else data.task
        what = made if data.path is None else data.path
        return f"{what}: {len(train):,} trees of {train.nodes:,} nodes, {len(self.names.classes)} classes"

    def about_model(self, model: TreeClassifier) -> str:
        settings = self.settings.model
        return f"{self.called} of {settings.hidden_size} units with {count_parameters(model):,} parameters"

    @property
    def called(self) -> str:
        model = self.settings.model
        return f"{model.composition} {model.cell or 'lstm'}" if model.composition in OF_CELLS else model.composition

    def word_tables(self) -> word_vectors.Tables:
        return {"embedding": [UNKNOWN, NODE, *self.names.tokens]}

    def make_model(self) -> TreeClassifier:
        model = self.settings.model
        widest = self.names.widest if model.composition in BY_POSITION else None
        if widest is not None and model.arity is not None and model.arity < widest:
            raise OptionError(
                f"model.arity={model.arity}, but the data has nodes with {widest} children. Leave it out."
            )
        return TreeClassifier(
            self.names.size,
            len(self.names.classes),
            model.hidden_size,
            embedding_size=model.embedding_size,
            composition=model.composition,
            cell=None if model.cell is None else self.find_cell(model.cell),
            arity=widest if model.arity is None else model.arity,
            dropout=model.dropout,
            blank=BLANK,
        )

    def make_batches(self, forest: Forest, *, training: bool) -> Trees:
        return Trees(forest, **self.batch_options(training=training))

    def make_trainer(self, model: TreeClassifier) -> Trainer:
        valid = self.make_batches(self.woods.valid, training=False)
        train = self.make_batches(self.woods.train, training=True)

        def validate(evaluated: TreeClassifier) -> float:
            return score_trees(evaluated, valid, self.ranks)["all"].nats

        return self.train_on(model, train, validate, whole=tree_loss)

    @torch.no_grad()
    def examples(self, model: TreeClassifier) -> Examples:
        """Some held-out trees: their root's symbol, how large they are, the label predicted for the root and the true one."""
        batch = next(iter(self.make_batches(self.woods.test, training=False).one_pass()))
        assert isinstance(batch, TreeBatch)
        forest, predicted = batch.forest, model(batch.forest).argmax(-1)
        labelled = [k for k in range(len(forest)) if forest.labels[forest.roots[k]] >= 0][:SHOWN]
        classes, rows = self.names.classes, []
        for k in labelled:
            root = int(forest.roots[k])
            truth = classes[int(forest.labels[root])]
            rows.append((f"{int(forest.sizes[k])}", f"{int(forest.depths[k])}", classes[int(predicted[root])], truth))
        return Examples(("nodes of the tree", "its depth", "predicted for its root", "true"), rows, "evaluate RUN")

    def evaluate(self, model: TreeClassifier, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        """Nats and accuracy of labelled nodes, by height or (of synthetic trees) by depth; beside the most frequent class, at
        roots and elsewhere, and a bag of the tokens under a node."""
        settings = self.settings.data
        synthetic = settings.path is None and data is None
        name = "test" if synthetic or settings.test or settings.test_path else "validation"
        forest = self.woods.test
        if data is not None:
            other = [reshaped(tree, settings.shape) for tree in read_trees(data, settings.labels)]
            forest, name = self.names.plant(other), data
        batches = self.make_batches(forest, training=False)
        by_depth = synthetic and settings.shape == "given" and settings.task in BY_DEPTH
        groups = roots_by_depth if by_depth else nodes_by_level
        models: dict[str, nn.Module] = {f"{self.called}-{self.settings.model.hidden_size}": model}
        if baselines:
            models |= self.baselines
        scores = {called: score_trees(each, batches, groups=groups) for called, each in models.items()}
        rows = {
            called: {"nats": score["all"].nats, "accuracy": score["all"].accuracy or 0.0}
            | {group: part.accuracy or 0.0 for group, part in score.items() if group != "all"}
            for called, score in scores.items()
        }
        return Evaluation(name, next(iter(scores.values()))["all"].tokens, rows, self.units)

    @cached_property
    def baselines(self) -> dict[str, nn.Module]:
        train, classes = self.woods.train, len(self.names.classes)
        return {
            "most frequent class": MostFrequent(train, classes),
            "bag of tokens": BagOfTokens(train, self.names.size, classes, BLANK),
        }

    def compare(self, model: TreeClassifier) -> Comparison:
        """The network beside its baselines: the accuracy of labelled nodes of the validation part."""
        batches = self.make_batches(self.woods.valid, training=False)
        network, *others = (
            score_trees(each, batches)["all"].accuracy or 0.0 for each in (model, *self.baselines.values())
        )
        advice = "Try more training.steps, another training.learning_rate, or model.dropout=0.5."
        return Comparison("accuracy", True, network, dict(zip(self.baselines, others, strict=True)), advice)


def tree_loss(model: TreeClassifier, batch: TreeBatch) -> Tensor:
    """The negative log-likelihood of the labels, summed."""
    logits = model(batch.forest)[None]
    assert batch.scored is not None
    return weighted_nll(logits, batch.targets.to(logits.device), batch.scored.to(logits.device))


Groups = Callable[[Forest], dict[str, Tensor]]
"""Which nodes of a forest are scored together, by name."""


def roots_by_depth(forest: Forest) -> dict[str, Tensor]:
    """The values of whole trees, all together and by how deep they are."""
    is_root = forest.parents < 0
    depths = sorted(set(forest.depths.tolist()))
    return {"roots": is_root} | {f"depth {k}": is_root & (forest.heights == k) for k in depths}


def nodes_by_level(forest: Forest) -> dict[str, Tensor]:
    """Roots, and labelled nodes by their height."""
    levels = sorted(set(forest.heights.clamp(max=LAST_LEVEL).tolist()))
    named = {f"level {k}{'+' if k == LAST_LEVEL else ''}": forest.heights.clamp(max=LAST_LEVEL) == k for k in levels}
    return {"roots": forest.parents < 0} | named


def score_trees(
    model: nn.Module, batches: Trees, ranks: Ranks = Ranks(), groups: Groups | None = None
) -> dict[str, Score]:
    """One pass: the score of `all` labelled nodes, and of those of each group that has any. The model is left in its mode."""
    tallies = {"all": Tally(weighted_nll)}
    with evaluating(model):
        for batch in _tree_batches(batches):
            logits = model(batch.forest)[None]
            tallies["all"].add(logits, batch)
            for name, nodes in (groups(batch.forest) if groups is not None else {}).items():
                assert batch.scored is not None
                part = replace(batch, scored=batch.scored * nodes)
                if part.tokens:
                    tallies.setdefault(name, Tally(weighted_nll)).add(logits, part)
    device = next((each.device for each in model.parameters()), torch.device("cpu"))
    names = ["all", *sorted(tallies.keys() - {"all"}, key=lambda name: (len(name), name))]
    return {name: tallies[name].score(ranks, device) for name in names}


def _tree_batches(batches: Trees) -> Iterator[TreeBatch]:
    """This rank's share of each batch, where it has one."""
    for batch in batches.one_pass():
        assert isinstance(batch, TreeBatch)
        if batch.tokens:
            yield batch


@recipe(TreeTask)
def tree() -> TreeSettings:
    """trees, each node or the root classified: data.path=FILE, or synthetic list operations and formulas (data.task)"""
    return TreeSettings(
        model=TreeModelSettings(composition="fold", hidden_size=128, embedding_size=32),
        training=Training(steps=2500, batch_size=128, learning_rate=5e-3, validate_every=500, save_every=500),
    )


BATCH, EPOCHS, LEAST = 32, 6, 1000
"""Of a file's trees: how many make a step, how often each is seen, and the fewest steps."""

FEW, SEVERAL = 1000, 200
"""Trees below which more is dropped out, and from which on a token that was seen once is learned as <unk>: otherwise nothing
teaches what an unseen one means."""

MANY = 1_000_000
"""Labels from which on a network of more units pays."""


@tree.rule
def tree_rule(task: TreeTask) -> Iterator[Derived]:
    """of a file's trees, model.composition is n-ary for binary parses (only leaves read); model.hidden_size is 64, and 128 from a
    million labels on; model.dropout is 0.2, and 0.5 for fewer than 1,000 trees; data.min_count is 2 from 200 trees on, unless
    vectors are given; training.steps are six epochs of 32 trees a step, at least 1,000, with an evaluation after each epoch"""
    settings, given = task.settings, task.given or frozenset()
    if settings.data.path is None and settings.data.task in BY_DEPTH:
        return
    train = task.parts[0]
    if all(is_binary_parse(each) for each in train):
        yield Derived("model.composition", "n-ary", "binary parses")
    labels = sum(label is not None for each in train for label in each.labels)
    yield Derived("model.hidden_size", 64 if labels < MANY else 128, f"{labels:,} labels")
    yield Derived("model.dropout", 0.2 if len(train) >= FEW else 0.5, f"{len(train):,} trees")
    if len(train) >= SEVERAL and settings.data.embeddings is None:
        yield Derived("data.min_count", 2, "tokens seen once teach what an unseen one means")
    batch = settings.training.batch_size if "training.batch_size" in given else BATCH
    epoch = -(-len(train) // batch)
    steps = settings.training.steps if "training.steps" in given else max(LEAST, EPOCHS * epoch)
    yield Derived("training.batch_size", batch, f"{len(train):,} trees")
    yield Derived("training.steps", steps, f"{steps / epoch:.1f} epochs")
    for key in ("validate_every", "save_every"):
        yield Derived(f"training.{key}", min(steps, max(50, epoch)), "an epoch")
