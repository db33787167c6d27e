"""Language models on text: the recipes, and how one becomes data, model and trainer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from recurra.data.batches import Lanes, Sequences, Stream
from recurra.data.text import python_source, read_documents, split_by_document, split_by_position, split_lines
from recurra.data.tokenisers import Tokeniser, build_tokeniser, tokeniser_from_json
from recurra.errors import DataError, OptionError, RunError, choose_from
from recurra.models.language import LanguageModel
from recurra.models.markov import Markov, best_markov
from recurra.recipes.base import Data, Model, Recipe
from recurra.runs.checkpoint import restore_weights
from recurra.runs.folder import RunFolder
from recurra.training.evaluation import evaluate
from recurra.training.loop import Trainer, Training
from recurra.training.truncation import read_truncation

RECIPES: dict[str, tuple[Recipe, str]] = {
    "python-source": (
        Recipe(
            data=Data(tokens="char", min_count=100),
            model=Model(cell="lstm", hidden_size=256, embedding_size=64),
            training=Training(steps=600, batch_size=32, truncation="every:128", validate_every=200, save_every=100),
        ),
        "the source of Python's standard library on this machine; needs no download",
    ),
    "text": (
        Recipe(
            name="text",
            data=Data(tokens="char", valid=0.1, test=0.0),
            model=Model(cell="lstm", hidden_size=320, embedding_size=64, dropout=0.1),
            training=Training(steps=1500, batch_size=32, truncation="every:128", validate_every=250, save_every=250),
        ),
        "any text file: data.path=FILE",
    ),
    "names": (
        Recipe(
            name="names",
            data=Data(tokens="char", sequences=True, valid=0.1, test=0.1),
            model=Model(cell="lstm", hidden_size=256, embedding_size=32, dropout=0.3),
            training=Training(
                steps=3000, batch_size=128, truncation="none", learning_rate=4e-3, validate_every=250, save_every=250
            ),
        ),
        "any file with one short sequence per line: data.path=FILE",
    ),
}


def find_recipe(name: str) -> Recipe:
    return RECIPES[choose_from("recipe", name, RECIPES)][0]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Training, validation and test text as symbols: one long line of each, or a list of sequences."""

    tokeniser: Tokeniser
    train: list[Tensor]
    valid: list[Tensor]
    test: list[Tensor]

    @cached_property
    def markov(self) -> Markov:
        """The best order-k Markov model, chosen on validation data: what a network has to beat."""
        return best_markov(self.train, self.valid, self.tokeniser.size)


def read_corpus(data: Data, seed: int, tokeniser: Tokeniser | None = None) -> Corpus:
    """The recipe's text, split and encoded. A tokeniser that is given is used; otherwise one is made of the training part."""
    parts: list[list[str]]
    if data.sequences:
        if data.path is None:
            raise OptionError("this recipe reads one sequence per line: give it a file with data.path=FILE.")
        lines = [line for document in read_documents(data.path) for line in document.text.splitlines() if line.strip()]
        parts = list(split_lines(lines, data.valid, data.test, seed))
    else:
        documents = python_source() if data.path is None else read_documents(data.path)
        if len(documents) == 1:
            cut = split_by_position(documents[0].text, data.valid, data.test)
            parts = [[text] if text else [] for text in cut]
        else:
            split = split_by_document(documents, data.valid, data.test, seed)
            parts = [["\n".join(each.text for each in part)] for part in (split.train, split.valid, split.test)]
    if tokeniser is None:
        tokeniser = build_tokeniser(data.tokens, parts[0], min_count=data.min_count, sequences=data.sequences)
    train, valid, test = ([_encode(tokeniser, text) for text in part] for part in parts)
    return Corpus(tokeniser, train, valid, test)


def _encode(tokeniser: Tokeniser, text: str) -> Tensor:
    ids = tokeniser.encode(text, unknown="replace")
    if tokeniser.start is None or tokeniser.end is None:
        return ids
    return torch.cat([torch.tensor([tokeniser.start]), ids, torch.tensor([tokeniser.end])])


def make_stream(recipe: Recipe, part: list[Tensor], *, training: bool) -> Stream:
    """The order in which a part of the corpus is read."""
    settings = recipe.training
    if recipe.data.sequences:
        return Sequences(part, settings.batch_size if training else 256, seed=recipe.seed, shuffle=training)
    truncation = read_truncation(settings.truncation)
    length = truncation.k if truncation.form == "every" and truncation.k else settings.length
    if training:
        return Lanes(torch.cat(part), settings.batch_size, length, seed=recipe.seed)
    return Lanes(torch.cat(part), 8, 512, shuffle=False)


def make_model(recipe: Recipe, vocabulary_size: int) -> LanguageModel:
    model = recipe.model
    made = LanguageModel(
        vocabulary_size,
        model.cell,
        model.hidden_size,
        embedding_size=model.embedding_size,
        layers=model.layers,
        dropout=model.dropout,
        tied=model.tied,
        residual=model.residual,
        learn_initial=model.learn_initial,
        engine=recipe.engine,
    )
    return made.to(recipe.device, torch.float64 if recipe.dtype == "float64" else torch.float32)


def make_trainer(recipe: Recipe, corpus: Corpus) -> Trainer:
    """Everything of a run that is not its folder. Every random number comes from the seed."""
    train = make_stream(recipe, corpus.train, training=True)
    train.steps_per_epoch  # noqa: B018  a text that is too short is refused here, before anything is made
    if not any(len(part) > 1 for part in corpus.valid):
        raise DataError(
            f"the validation part needs at least 2 symbols, but data.valid={recipe.data.valid} leaves fewer. "
            "Give more text or a larger share."
        )
    torch.manual_seed(recipe.seed)
    model = make_model(recipe, corpus.tokeniser.size)
    valid = make_stream(recipe, corpus.valid, training=False)
    return Trainer(
        model,
        train,
        recipe.training,
        lambda judged: evaluate(judged, valid).nats,
        bfloat16=recipe.dtype == "bfloat16",
    )


def open_run(path: Path, which: str = "best") -> tuple[RunFolder, Recipe, Tokeniser, LanguageModel]:
    """A trained model from its folder: the best checkpoint, or the last one where no best was kept."""
    from recurra.recipes.reader import from_dict

    folder = RunFolder.open(path)
    recipe = from_dict(Recipe, folder.recipe)
    if folder.vocabulary is None:
        raise RunError(f"{path} has no vocabulary.json: it is not a language model's run.")
    tokeniser = tokeniser_from_json(folder.vocabulary)
    checkpoint = folder.load(which if folder.has(which) else "last")
    model = make_model(replace(recipe, device="cpu"), tokeniser.size)
    kept = {name.removeprefix("average."): v for name, v in checkpoint.tensors.items() if name.startswith("average.")}
    restore_weights(model, kept or checkpoint.weights, str(path))
    return folder, recipe, tokeniser, model.eval()
