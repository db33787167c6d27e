"""A run: a trained (or training) task with its folder. Everything that can be done with it is a method, its result an object."""

from __future__ import annotations

import copy
import hashlib
import inspect
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recurra.analysis.automata.attractors import Automaton
from recurra.analysis.automata.extraction import Extraction
from recurra.analysis.automata.weighted import WeightedExtraction
from recurra.analysis.beam import BeamTree
from recurra.analysis.embeddings import Embeddings
from recurra.analysis.field_views import FieldPanel, Formation, SplitField, Walk
from recurra.analysis.fields import Basins
from recurra.analysis.fixed_points import FixedPoints
from recurra.analysis.gradients import GradientFlow, Spectra, recurrent_spectra
from recurra.analysis.jacobians import StepMap
from recurra.analysis.neurons import read_unit
from recurra.analysis.order_tables import OrderComparison
from recurra.analysis.portrait import Portrait, RestingPlaces
from recurra.analysis.state_space import LocatedAutomaton, StateSpace
from recurra.analysis.through_time import AblatedText, ThroughTime, ablate_text, watch, watch_reading
from recurra.analysis.trace_table import TraceTable, trace_table
from recurra.analysis.unit_study import UnitStudy
from recurra.errors import OptionError, RunError
from recurra.export.door import export
from recurra.export.exported import Exported
from recurra.layers.names import without_names
from recurra.lecture.region_count import RegionCount, count_regions
from recurra.lecture.robot import RobotWork
from recurra.metrics.confusion import Confusion
from recurra.models.sampling import Choice
from recurra.results import Result
from recurra.runs.disk import arrays_to_bytes, reason, replace_file, to_json
from recurra.runs.folder import INSIDE, METRICS, RunFolder, warn
from recurra.runs.log import POINTS, Curve, Log
from recurra.runs.manifest import Damage
from recurra.runs.reading import read_object
from recurra.tasks import capabilities as can
from recurra.tasks import dynamics, field_views
from recurra.tasks.catalogue import open_task
from recurra.tasks.following import Outcome
from recurra.tasks.generation import generate_text
from recurra.tasks.mimic import Mimicry, mimic
from recurra.tasks.own_cells import check_sizes, store_cells
from recurra.tasks.recipe import check_path, stage_data
from recurra.tasks.results import (
    Comparison,
    Evaluation,
    Examples,
    Flags,
    Forecast,
    Predictions,
    Sample,
    TextScore,
    Translation,
)
from recurra.tasks.settings import to_dict
from recurra.tasks.streaming import Stream, Streamer
from recurra.tasks.task import Task, check_device
from recurra.tasks.unit_search import UnitReading, find_units, read_one_text, read_one_unit


class Run:
    """A run folder and what it is of. `rc.train` makes one, `rc.open` opens one.

    - `path`, `task`, `settings`, `model` (the best checkpoint, on `device`; the untrained one while there is no checkpoint),
      `metrics` (rows that pandas can read), `outcome` (how the last training in this process ended).

    A method that the task is not capable of raises one clear line. Data is read when a method needs it.

    ```python
    run = rc.train("tomita", steps=50)
    run.evaluate().scores
    run.fixed_points(input="1").plot()
    ```
    """

    def __init__(self, folder: RunFolder, task: Task[Any] | None = None, device: str = "cpu"):
        check_device(device)
        self.folder, self.device = folder, device
        folder.notice = folder.notice or warn
        self.outcome: Outcome | None = None
        if task is not None:
            self.task = task

    @cached_property
    def task(self) -> Task[Any]:
        """What was trained, as its recipe describes it."""
        return open_task(self.folder)

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def settings(self) -> Any:
        """Everything that the run depends on."""
        return self.task.settings

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Every row of the log, in order: `pandas.DataFrame(run.metrics)`."""
        return self.folder.metrics()

    def curve(self, name: str = "loss", points: int = POINTS) -> Curve:
        """One metric over the steps, thinned to so many points at most: `run.curve("valid").plot()`."""
        return Log(self.path / METRICS).curve(name, points)

    @property
    def is_trained(self) -> bool:
        """Whether there is a checkpoint."""
        return self.folder.has("best") or self.folder.has("last")

    @cached_property
    def model(self) -> Any:
        """The model of the best checkpoint, or of the last one where no best was kept; untrained where there is none."""
        if not self.is_trained:
            return self.task.untrained_model().to(self.device)
        checkpoint = self.folder.load_evaluated()
        check_sizes(self.settings, checkpoint.weights, str(self.path))
        return self.task.trained(checkpoint, str(self.path)).to(self.device)

    @property
    def damaged(self) -> list[Damage]:
        """What was found in the folder that is not as it was written, and what is used instead."""
        return self.folder.damaged

    @property
    def snapshots(self) -> list[int]:
        """The steps whose weights were kept on the way: see `at`."""
        return self.folder.snapshots()

    def at(self, step: int) -> Run:
        """The run with the weights of a step that `training.snapshots` kept; step 0 is the untrained model.

        ```python
        [len(run.at(step).fixed_points(input="1").points) for step in run.snapshots]
        ```
        """
        found = Run(self.folder, self.task, self.device)
        untrained = step == 0
        model = (
            self.task.untrained_model()
            if untrained
            else self.task.trained(self.folder.load_snapshot(step), str(self.path))
        )
        found.model = model.to(self.device)
        return found

    @property
    def _trained_model(self) -> Any:
        if not self.is_trained:
            raise RunError(f"{self.path} has no checkpoint yet. Train it: run.resume(), or recurra train --resume.")
        return self.model

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.folder.recipe.get('name')}>"

    def __str__(self) -> str:
        verbs = ", ".join(can.verbs_of(self.task))
        return f"{self.path}: {self.folder.recipe.get('name')}, {self.task.called}; it can {verbs}"

    # -- training ----------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, task: Task[Any], out: str | os.PathLike[str] | None = None) -> Run:
        """A new folder for a task: `out`, or runs/RECIPE-N. Data that was given as an object goes into it."""
        path = new_folder(task.settings.name, out)
        settings, staged = task.settings, task.staged
        if staged is None:
            return cls(RunFolder.create(path, to_dict(settings), task.vocabulary, cells=store_cells(settings)), task)
        inside = replace(settings, data=replace(settings.data, path=f"{INSIDE}{staged.name}"))
        cells = store_cells(settings)
        run = cls(RunFolder.create(path, to_dict(inside), task.vocabulary, cells=cells, data=staged), task)
        task.settings = replace(settings, data=replace(settings.data, path=str(path / staged.name)))
        task.staged = None
        shutil.rmtree(staged.parent, ignore_errors=True)
        return run

    def resume(
        self,
        *,
        minutes: float | None = None,
        monitor: int | None = None,
        tensorboard: bool = False,
        progress: str = "auto",
    ) -> Run:
        """Go on with training from the last checkpoint, to the same numbers as if it had never stopped; options as for
        `rc.train`."""
        from recurra.tasks.train import resume  # train.py imports this module

        return resume(self, minutes=minutes, monitor=monitor, tensorboard=tensorboard, progress=progress)

    # -- evaluation and use ------------------------------------------------------------------------------------------

    def evaluate(self, data: Any = None, *, baselines: bool = True, **options: Any) -> Evaluation:
        """Scores on the run's own test part (or validation), or on other data, with baselines beside them.

        - `data`: a path, or data as for `rc.train`. Language models also take `window`, `dynamic` and `cache`.
        """
        given = {name: value for name, value in options.items() if value is not None}
        if data is not None:
            given["data"] = data
        known = inspect.signature(self.task.evaluate).parameters
        for name in given:
            if name not in known:
                why = ", whose data is synthetic" if name == "data" else ""
                takes = ", ".join(list(known)[1:])
                raise OptionError(f"evaluate: {name} is not for {self.settings.name}{why}. It takes {takes}.")
        with self._data(data) as path:
            read = given | ({} if data is None else {"data": path})
            found = self.task.evaluate(self._trained_model, **read, baselines=baselines)
        if not given and baselines:
            self._keep_scores(found)
        return found

    def compare(self) -> Comparison | None:
        """The network alone beside its baselines on validation data, and combined with one where the run is; `None` where
        nothing is held out."""
        return self._can(can.Compares, "compare").compare(self._trained_model)

    def predict(self, data: Any = None) -> Predictions:
        """Labels of sequences, or what follows in each case of a log: of `data`, or of the run's own test part."""
        task = self._can(can.Predicts, "predict")
        if self.task.data_kind == "labelled" and isinstance(data, list | np.ndarray | torch.Tensor):
            data = (data, None)  # sequences without labels
        with self._data(data) as path:
            return task.predict(self._trained_model, path)

    def generate(
        self,
        prime: str = "",
        length: int | None = 500,
        *,
        greedy: bool = False,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop_probability: float = 0.0,
        given: str | None = None,
        seed: int | None = None,
    ) -> Iterator[str]:
        """Text as it is produced.

        - `prime`: text to go on from. `length`: at most so many tokens; `None`: drawn from the lengths of training sequences.
        - `greedy`, `temperature`, `top_k`, `top_p`: how a token is chosen. `stop_probability`: of ending before each.
        - `given`: the class, for a class-conditional model. `seed`: the same seed gives the same text.
        """
        task, choice = self._can(can.Generates, "sample"), Choice(greedy, temperature, top_k, top_p)
        how = {"given": given, "choice": choice, "stop_probability": stop_probability, "generator": _generator(seed)}
        return generate_text(task, self._trained_model, prime, length, **how)

    def sample(self, prime: str = "", length: int | None = 500, **options: Any) -> Sample:
        """A text that the model writes after a prime; options as for `generate`."""
        return Sample(prime, "".join(self.generate(prime, length, **options)))

    def score(self, text: str, *, baselines: bool = True) -> TextScore:
        """The probability of a text, token by token, beside the best Markov model."""
        return self._can(can.ScoresText, "score").score(self._trained_model, text, baselines=baselines)

    def translate(self, text: str, **options: Any) -> Translation:
        """The translation of a text, with its map of attention if the model has one; options as for `translate_all`."""
        return self.translate_all([text], **{"attention": True} | options)[0]

    def translate_all(self, texts: Sequence[str], *, seed: int | None = None, **options: Any) -> list[Translation]:
        """The translations of several texts, side by side in batches.

        Options: `beam`, `n_best`, `length_power`; `choice` to draw instead; `lengths` (`predicted`, `drawn`), `limit`,
        `stop_probability`, `unknown`, `attention` (a map for each, which takes a second pass).
        """
        task = self._can(can.Translates, "translate")
        return task.translate(self._trained_model, texts, generator=_generator(seed), **options)

    def beam(self, text: str, width: int = 4, length_power: float = 1.0) -> BeamTree:
        """What a beam search for the translation of a text held at each step, as a tree."""
        return self._can(can.SearchesBeam, "beam").beam(self._trained_model, text, width, length_power)

    def forecast(self, steps: int = 100, data: Any = None) -> Forecast:
        """How the run's series goes on, or that of other data, run free."""
        task = self._can(can.Forecasts, "forecast")
        with self._data(data) as path:
            return task.forecast(self._trained_model, steps, path)

    def stream(self) -> Stream:
        """A stream that the model reads as it comes, step by step, with its state kept: what a session of `recurra serve` is."""
        return Stream(self.streamer)

    @cached_property
    def streamer(self) -> Streamer:
        """Many streams of the model side by side; each gets the same bits as alone."""
        return Streamer(self._can(can.Streams, "stream").streaming(self._trained_model))

    def flag(self, data: Any = None, *, below: float | None = None, alarms: float = 0.01) -> Flags:
        """Events less probable than `below`, or than a share `alarms` of validation events is."""
        task = self._can(can.FlagsEvents, "flag")
        with self._data(data) as path:
            return task.flag(self._trained_model, path, below=below, alarms=alarms)

    def examples(self) -> Examples | None:
        """What the model writes or predicts for a few inputs that it never saw."""
        task: Any = self.task
        return task.examples(self.model) if can.offers(task, can.HasExamples) else None

    # -- analyses ----------------------------------------------------------------------------------------------------

    def probe(self, steps: int) -> can.Probe:
        """The recurrent layers, and typical inputs of at least so many steps as they read them: for analyses of your own."""
        return dynamics.probe_of(self.task, self._analysed, steps, "probe")

    def gradients(self, steps: int = dynamics.FAR, starts: int = 4) -> GradientFlow:
        """How far gradients reach back, with a verdict in words."""
        return dynamics.gradients(self.task, self._analysed, steps, starts)

    def spectra(self) -> Spectra:
        """The eigenvalues of the recurrent matrices."""
        return recurrent_spectra(dynamics.probe_of(self.task, self._analysed, 1, "spectra").layer)

    def fixed_points(self, input: str | None = None, *, starts: int = 1024, period: int = 1) -> FixedPoints:
        """Where the network stands still while an input is held: a token or trigger by name, or `zero`."""
        return dynamics.fixed_points(self.task, self._analysed, input, starts, period)

    def field(self, input: str | None = None, *, starts: int = 1024, period: int = 1) -> Portrait:
        """The vector field in a plane of the state space with fixed points and basins, while an input is held."""
        return dynamics.portrait(self.task, self._analysed, input, starts, period)

    def basins(self, input: str | None = None, *, starts: int = 1024) -> Basins:
        """Which attractor each place of a plane ends at, while an input is held."""
        found = self.field(input, starts=starts).basins
        if found is None:
            raise OptionError(
                "the search found no attractor under this input: there are no basins. Hold another input."
            )
        return found

    def fields(self, inputs: Sequence[str] = ()) -> FieldPanel:
        """The field under every trigger, or under some inputs by name, in one plane."""
        return field_views.panel(self.task, self._analysed, inputs)

    def split_field(self, input: str | None = None) -> SplitField:
        """The field of the input, the field of the state, and their resultant, while an input is held."""
        return field_views.parts(self.task, self._analysed, input)

    def formation(self, input: str | None = None, *, steps: Sequence[int] | None = None) -> Formation:
        """Field and attractors at the steps that `training.snapshots` kept, or at some of them; step 0 is the untrained model."""
        return field_views.formation(self, self._analysed, input, self.snapshots if steps is None else steps)

    def walk(self, inputs: Sequence[str]) -> Walk:
        """The state as it moves under a sequence of triggers, or of other inputs by name."""
        return field_views.walk(self.task, self._analysed, inputs)

    def state_space(self) -> StateSpace:
        """Trajectories, fixed points, field and basins for every input, and states that are dropped; what does not change is
        computed once."""
        return dynamics.state_space(self.task, self._analysed)

    def resting_places(self) -> RestingPlaces:
        """Of a network too large for a search: where states that it visits come to rest."""
        return dynamics.rest(self.task, self._analysed)

    @property
    def state_size(self) -> int:
        """How many numbers the state of the recurrent layers has."""
        return StepMap(dynamics.probe_of(self.task, self._analysed, 1, "state_size").layer).size

    @property
    def has_triggers(self) -> bool:
        """Whether the network works as a state machine."""
        return dynamics.triggers_of(self.task, self._analysed) is not None

    def attractors(self) -> Automaton | None:
        """The network as a state machine that rests: its attractors by name, and where each trigger leads. `None` where it comes
        to rest in fewer than three places."""
        self._can(can.HasTriggers, "attractors")
        return dynamics.machine_of(self.task, self._analysed)

    def robot(self, programs: Sequence[int] = (1, 2, 3, 4, 5, 6)) -> RobotWork:
        """The network operates the washing machine: it presses buttons, waits for the machine's own triggers; mistakes are
        counted."""
        self._can(can.HasTriggers, "robot")
        return dynamics.robot(self.task, self._analysed, programs)

    def automaton(self, method: str | None = None, **options: Any) -> Extraction | WeightedExtraction:
        """The finite automaton in a network that reads tokens; options `states`, `most`, `strings`, `scored`."""
        return dynamics.automaton(self.task, self._analysed, method, **options)

    def located_automaton(self) -> LocatedAutomaton:
        """A quick automaton with the states of the network that belong to each of its own, for a picture of both."""
        return dynamics.located_automaton(self.task, self._analysed)

    def linked_attractors(self, machine: Any) -> dict[str, list[int]]:
        """By state of an extracted automaton, the attractors that the same triggers lead to."""
        return dynamics.linked_attractors(self.task, self._analysed, machine)

    def units(self, labels: Sequence[Any] = (), text: Any = None, **options: Any) -> UnitStudy:
        """Single units that follow something in the text, beside controls.

        - `labels`: names, `FILE.py:FUNCTION`, `FILE.tsv:COLUMN`, or functions from a text to values by name. `text`: a path or a
          list of texts; otherwise the run's held-out part. Options: `gates`, `size`, `seed`.
        """
        self._refuse_own_code(labels)
        return find_units(self.task, self._analysed, labels, text, **options)

    def embeddings(self) -> Embeddings:
        """The vectors of tokens: nearest neighbours, and a map."""
        return self._can(can.HasEmbeddings, "embeddings").embeddings(self._analysed)

    def orders(self, most: int = 6) -> OrderComparison:
        """Tables of order 0 to `most` beside the network: number of parameters and perplexity."""
        return self._can(can.ComparesOrders, "orders").compare_orders(self._trained_model, most)

    def unit(self, unit: str, labels: Sequence[Any] = (), text: Any = None, size: int = 100_000) -> UnitReading:
        """One unit over the text, by name: LAYER.NAME.INDEX as in `0.c.17`."""
        self._refuse_own_code(labels)
        return read_one_unit(self.task, self._analysed, unit, labels, text, size)

    def _refuse_own_code(self, labels: Sequence[Any]) -> None:
        """A label in a Python file that lies in the run folder is code of whoever made the folder."""
        for each in labels:
            file = each.rpartition(":")[0] if isinstance(each, str) else ""
            inside = os.path.realpath(self.path)
            if file.endswith(".py") and not self.folder.trust and os.path.realpath(file).startswith(inside + os.sep):
                raise RunError(
                    f"label {each}: the file lies in the run folder, and is code of whoever made it. Read it, and if you trust "
                    "it, add --trust (in Python trust=True)."
                )

    def mimic(self, *, min_leaf: int = 25, prune: bool = False) -> Mimicry:
        """The decision tree distilled from the network's predictions, with its fidelity and average path length."""
        return mimic(self._can(can.ClassifiesSteps, "mimic"), self._trained_model, min_leaf=min_leaf, prune=prune)

    def table(self, text: str, layer: int = 0) -> TraceTable:
        """The cell of a layer at work on a text, step by step."""
        task = self._can(can.ReadsText, "table")
        return trace_table(self._analysed, task.tokens_of(text), task.token_names, layer)

    def through_time(self, text: str | None = None, *, steps: int = 200) -> ThroughTime:
        """Every state and gate at every step, and what is predicted there, while a language model reads `text`; of other
        networks, over so many steps of a typical input."""
        if text is None:
            probe = dynamics.probe_of(self.task, self._analysed, steps, "through_time")
            return watch(probe.layer, probe.x[:1, :steps])
        return watch_reading(self._analysed, *read_one_text(self.task, text, "through_time"))

    def ablate(self, unit: str, text: str) -> AblatedText:
        """What a language model loses on a text while one unit, by name, is held at its mean."""
        reading, names = read_one_text(self.task, text, "ablate")
        return ablate_text(self._analysed, reading, read_unit(unit, self._analysed.recurrent), names)

    def regions(self, line: Sequence[Sequence[float]] | None = None) -> RegionCount:
        """The linear regions of a rectifier network in the plane of its inputs, or on the line through two points."""
        task = self._can(can.DividesSpace, "regions")
        return count_regions(self._trained_model, line, task.window, task.region_labels if line is None else None)

    @property
    def input_count(self) -> int:
        """How many inputs a feed-forward network has."""
        return len(self._can(can.DividesSpace, "regions").window()[0])

    def report(self) -> Path:
        """Write RUN/report.html, one page about the run that needs no network; its path."""
        from importlib import import_module

        # the report reads runs: it stands above them
        page: Path = import_module("recurra.report.contents").write_report(self).path
        return page

    def export(self, to: str = "onnx", out: str | os.PathLike[str] | None = None, **options: Any) -> Exported:
        """Write the model so that other programs can run it: `onnx`, `c` or `weights`, into `out` or RUN/export/FORMAT.

        The recipe's settings and the vocabulary go with it; options as for `rc.export`.
        """
        facts = {"recipe": self.folder.recipe, "vocabulary": self.task.vocabulary}
        folder = self.path / "export" / to if out is None else Path(out)
        return export(self._trained_model, to, folder, facts=facts, **options)

    # -- inside ------------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """The run in a line: its folder, recipe, step and best validation."""
        rows = self.folder.glance()
        valid = [row["valid"] for row in rows if "valid" in row]
        return {
            "run": str(self.path),
            "recipe": str(self.folder.recipe.get("name", ""))[:100],
            "step": rows[-1]["step"] if rows else 0,
            "best_valid": min(valid) if valid else None,
            "damaged": self.damaged,
        }

    def save(self, result: Result, name: str, *, picture: bool = True, **options: Any) -> None:
        """Keep a result in RUN/explain/: NAME.json, NAME.npz where it has arrays, and its picture."""
        self.write(f"{name}.json", result.to_json())
        arrays = result.arrays()
        if arrays:
            self.write(f"{name}.npz", arrays_to_bytes(arrays))
        if picture:
            result.plot(self.folder.explain / name, **options)

    def write(self, name: str, content: Any) -> None:
        """A file in RUN/explain/: bytes, text, or what JSON holds."""
        if isinstance(content, str):
            content = content.encode()
        data = content if isinstance(content, bytes) else to_json(content, name, pretty=True)
        try:
            self.folder.explain.mkdir(exist_ok=True)
            replace_file(self.folder.explain / name, data)
        except OSError as error:
            where = error.filename or self.folder.explain
            raise RunError(
                f"{where} cannot be written ({reason(error)}). Give the run folder room and rights."
            ) from error

    def _can(self, capability: type[can.C], asked: str) -> can.C:
        return can.find(self.task, capability, asked)

    @property
    def _analysed(self) -> Any:
        """The model as analyses read it: on the CPU, where float64 is fast enough and every operation is exact."""
        return self.model if self.device == "cpu" else copy.deepcopy(self.model).cpu()

    @contextmanager
    def _data(self, data: Any) -> Iterator[str | None]:
        """Data as a path: what is no path is written to a temporary folder, and removed when it was read."""
        if data is None or isinstance(data, str | os.PathLike):
            yield None if data is None else check_path(data)
            return
        kind = self.task.data_kind
        if kind is None:
            raise OptionError(f"the data of {self.settings.name} is synthetic: leave data out.")
        staged = stage_data(kind, data, **self.task.data_options(self.settings))
        try:
            yield str(staged)
        finally:
            shutil.rmtree(staged.parent, ignore_errors=True)

    def _keep_scores(self, found: Evaluation) -> None:
        """Keep the scores of the weights as they are now, so that a report need not compute them again."""
        kept = {"weights": self.digest(), "unit": found.unit} | found.to_json()
        with suppress(RunError):  # a folder that is only read has no place to keep them
            self.write("scores.json", kept | {"sha256": _seal(kept)})

    def kept_scores(self) -> Evaluation | None:
        """The scores of the last evaluation, if they are those of the weights as they are now."""
        try:
            kept = read_object(self.folder.explain / "scores.json", MOST_SCORES)
            if kept.pop("sha256", None) != _seal(kept) or kept["weights"] != self.digest():
                return None
            confusion = Confusion(**kept["confusion"]) if "confusion" in kept else None
            return Evaluation(kept["data"], kept["tokens"], kept["scores"], kept["unit"], confusion)
        except (RunError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def digest(self) -> str:
        """A digest of the weights that a run is evaluated with, as they were loaded."""
        made = hashlib.blake2b(digest_size=16)
        for name, value in sorted(without_names(self.model.state_dict()).items()):
            made.update(name.encode() + b"\0")
            made.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return made.hexdigest()


def new_folder(name: str, out: str | os.PathLike[str] | None) -> Path:
    """`out`, or the first of runs/NAME-1, runs/NAME-2 … that is free."""
    path, k = None if out is None else Path(out), 1
    while path is None or (out is None and path.exists()):
        path, k = Path("runs") / f"{name}-{k}", k + 1
    return path


MOST_SCORES = 1 << 24


def _seal(kept: dict[str, Any]) -> str:
    """A checksum of scores that are kept: a report must not show a number that a flipped bit has made."""
    return hashlib.sha256(to_json(kept, "scores")).hexdigest()[:32]


def _generator(seed: int | None) -> torch.Generator:
    made = torch.Generator()
    made.seed() if seed is None else made.manual_seed(seed)
    return made
