"""Memory: synthetic tasks, where what must be remembered, and for how long, is known exactly."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.reading import Reading
from recurra.data.batches import Batches, Generated
from recurra.data.limits import VARIABLE, limits
from recurra.data.machine import NAMES, TRIGGERS, memories_of, tables, washing_machine
from recurra.data.tasks import adding, adding_baseline, copying, copying_baseline, flip_flop, parity
from recurra.errors import OptionError
from recurra.models.language import LanguageModel
from recurra.models.readout import Readout
from recurra.models.sequence import SequenceModel
from recurra.tasks.capabilities import Probe, Triggers
from recurra.tasks.recipe import recipe
from recurra.tasks.results import SHOWN, Evaluation, Examples
from recurra.tasks.task import Settings, StepModelSettings, StepTask
from recurra.training.evaluation import evaluate
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import weighted_nll, weighted_square
from recurra.types import MOST, Float, setting

NUMBERS, TOKENS = ("adding", "flip-flop"), {"copying": 10, "washing-machine": len(TRIGGERS), "parity": 2}
"""The tasks that read numbers, and those that read tokens with how many there are."""
TEST, VALID, EXTRACT = 2**32, 2**32 + 1, 2**33
"""Seeds of held-out sequences are these plus the settings' own: none that training draws."""


def _parity() -> tuple[tuple[str, ...], tuple[str, ...], Moore]:
    classes = ("even", "odd")
    return ("0", "1"), classes, Moore(("0", "1"), ((0, 1), (1, 0)), classes)


def _washing_machine() -> tuple[tuple[str, ...], tuple[str, ...], Moore]:
    machines, after, _ = tables()
    machine = Moore(TRIGGERS, tuple(map(tuple, after.tolist())), tuple(m.name for m in machines))
    return TRIGGERS, NAMES, machine.minimised()


MACHINES = {"parity": _parity, "washing-machine": _washing_machine}
"""The tasks that a finite machine solves: what it reads, what it outputs, and the machine."""


def _of(task: str) -> Any:
    return lambda s: None if s.data.task == task else f"it is of data.task={task}, which is {s.data.task}"


@dataclass(frozen=True)
class MemoryData:
    task: str = setting("adding", "adding, copying, flip-flop, parity or washing-machine", choices=(*NUMBERS, *TOKENS))
    length: int = setting(200, "steps of a sequence, or of the wait before it is repeated (copying)", low=2, most=MOST)
    bits: int = setting(3, "channels of the flip-flop", low=1, most=MOST, idle=_of("flip-flop"))
    delay: int = setting(0, "by how many steps its answer comes late", low=0, most=MOST, idle=_of("flip-flop"))
    noise: float = setting(
        0.1, "share of the washing machine's triggers that do nothing", low=0, below=0.6, idle=_of("washing-machine")
    )
    rest: int = setting(
        50,
        "in half of its logs it is left alone now and then, for up to this many steps; 0: never",
        low=0,
        most=MOST,
        idle=_of("washing-machine"),
    )


@dataclass(frozen=True)
class MemorySettings(Settings):
    data: MemoryData = field(default_factory=MemoryData)
    model: StepModelSettings = field(default_factory=StepModelSettings)

    def idle(self) -> dict[str, str]:
        why = "it is for tokens, and this task reads numbers"
        of_tokens = ("model.embedding_size", "model.tied", "training.feeding")
        return dict.fromkeys(of_tokens, why) if self.data.task in NUMBERS else {}


class MemoryTask(StepTask[SequenceModel]):
    """Regressions (adding: of the last step; flip-flops: of each), and classifications of each step (copying, the machine)."""

    unit = "step"
    factorisation = (
        "Outputs are independent given the inputs: P(y1 … yT | x) = Π P(yt | x1 … xt). No output is fed back, "
        "so the prediction of one step is not known at the next."
    )

    @property
    def task(self) -> str:
        return str(self.settings.data.task)

    @property
    def about_data(self) -> str:
        return f"{self.task}, {self.settings.data.length} steps, new sequences in every batch"

    @property
    def usual_length(self) -> int:
        return int(self.settings.data.length)

    def make_batch(self, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Sequences of the task; in adding, only the last step counts."""
        data, dtype = self.settings.data, self.settings.precision
        match self.task:
            case "copying":
                return *copying(count, data.length, seed), None
            case "parity":
                return *parity(count, data.length, seed), None
            case "washing-machine":
                return *washing_machine(count, data.length, seed, data.noise, rest=data.rest), None
            case "flip-flop":
                pulses, signs = flip_flop(count, data.length, seed, data.bits, delay=data.delay)
                return pulses.to(dtype), signs.to(dtype), torch.ones(count, data.length)
        inputs, sums = adding(count, data.length, seed)
        scored = torch.zeros(count, data.length)
        scored[:, -1] = 1
        return inputs.to(dtype), sums.to(dtype)[:, None, None].expand(count, data.length, 1), scored

    def make_batches(self, seed: int, *, training: bool) -> Batches:
        size, batches = (self.settings.training.batch_size, 1000) if training else (100, 5)
        steps, most = size * self.settings.data.length, limits().cells
        if steps > most:
            raise OptionError(
                f"a batch of {size:,} sequences of {self.settings.data.length:,} steps has {steps:,}, and {most:,} are drawn "
                f"at most. Choose a smaller training.batch_size or data.length, or set {VARIABLE}=cells={steps}."
            )
        how = self.batch_options(training=True) | {"batch_size": size, "seed": seed + self.settings.seed}
        return Generated(self.make_batch, batches=batches, **how)

    def make_model(self) -> SequenceModel:
        if self.task in NUMBERS:
            read, written = (2, 1) if self.task == "adding" else (self.settings.data.bits,) * 2
            return Readout(self.make_recurrent(read), written, **self.step_options())
        tied = self.settings.model.tied
        return LanguageModel(TOKENS[self.task], self.make_recurrent(), tied=tied, **self.step_options())

    def make_trainer(self, model: SequenceModel) -> Trainer:
        valid = self.make_batches(VALID, training=False)
        loss = weighted_square if self.task in NUMBERS else weighted_nll
        train = self.make_batches(0, training=True)
        return self.train_on(model, train, lambda model: evaluate(model, valid, loss, self.ranks).mean, loss=loss)

    def probe(self, model: SequenceModel, steps: int) -> Probe:
        parts = range(-(-steps // self.settings.data.length) or 1)
        inputs = torch.cat([self.make_batch(8, seed)[0] for seed in parts], dim=1)
        with torch.no_grad():
            return Probe(model.recurrent, model.embed(inputs.to(model.output.weight.device)))

    @torch.no_grad()
    def examples(self, model: SequenceModel) -> Examples:
        """Held-out sequences: of adding their sums, of the other tasks the last steps of one."""
        inputs, targets, _ = self.make_batch(SHOWN, TEST + self.settings.seed)
        predicted = model(inputs.to(model.output.weight.device))[0].cpu()
        if self.task == "adding":
            sums = [(f"{t:.3f}", f"{s:.3f}") for t, s in zip(targets[:, -1, 0], predicted[:, -1, 0], strict=True)]
            return Examples(("the sum", "predicted"), sums, "evaluate RUN")
        chosen = predicted if self.task in NUMBERS else predicted.argmax(-1)
        return Examples(
            ("step", "input", "predicted", "true"), self.last_steps(inputs, chosen, targets), "evaluate RUN"
        )

    def last_steps(self, inputs: Tensor, *outputs: Tensor) -> list[tuple[str, ...]]:
        """The last steps of the first sequence: their number, what was read, and what was predicted or is true."""
        T = inputs.shape[1]
        return [
            (str(t), self._named(inputs[0, t], TRIGGERS), *(self._named(each[0, t], NAMES) for each in outputs))
            for t in range(max(0, T - 3 * SHOWN), T)
        ]

    def _named(self, value: Tensor, names: tuple[str, ...]) -> str:
        """Numbers with a digit, tokens by their name where they have one."""
        if value.is_floating_point():
            return " ".join(f"{number:+.1f}" if number else "0" for number in value.tolist())
        names = names if self.task == "washing-machine" else ()
        return names[int(value)] if int(value) < len(names) else str(int(value))

    def input_names(self) -> list[str]:
        return list(TRIGGERS) if self.task == "washing-machine" else []

    def triggers(self, model: SequenceModel) -> Triggers | None:
        if self.task != "washing-machine":
            return None
        return Triggers(TRIGGERS, torch.stack([self.frozen_input(model, name) for name in TRIGGERS]))

    @property
    def lacks(self) -> tuple[str, ...]:
        return () if self.task in MACHINES else ("automaton",)

    def reading(self, model: SequenceModel) -> Reading:
        if self.task not in MACHINES:
            raise OptionError(
                f"{self.task} is no task of a finite machine. Of these recipes, parity and washing-machine are."
            )
        inputs, classes, truth = MACHINES[self.task]()
        return Reading(
            model.recurrent,
            model.embed(torch.arange(len(inputs))[None])[0],
            model.output,
            inputs,
            classes,
            lambda count, seed: self.make_batch(count, EXTRACT + seed)[0],
            truth=truth,
        )

    def name_states(self, model: SequenceModel, hidden: Float[Tensor, "N H"], after: list[list[int]]) -> list[str]:
        """What the machine would be in, had it read the same triggers; what the network predicts where that is not one thing."""
        memories, _ = memories_of(after)
        return [
            predicted if len(memory) != 1 else " ".join(str(part) for part in next(iter(memory)) if part)
            for predicted, memory in zip(self.name_outputs(model, hidden), memories, strict=True)
        ]

    @torch.no_grad()
    def name_outputs(self, model: SequenceModel, hidden: Float[Tensor, "N H"]) -> list[str]:
        predicted = model.output(hidden.to(model.output.weight.dtype))
        match self.task:
            case "flip-flop":
                return ["".join("+" if bit > 0 else "−" for bit in row) for row in predicted.tolist()]
            case "washing-machine":
                return [NAMES[k] if k < len(NAMES) else "?" for k in predicted.argmax(-1).tolist()]
            case "adding":
                return [f"{value:.2f}" for value in predicted[:, 0].tolist()]
        return [str(k) for k in predicted.argmax(-1).tolist()]

    def evaluate(self, model: SequenceModel, *, baselines: bool = True) -> Evaluation:
        data, batches = self.settings.data, self.make_batches(TEST, training=False)
        if self.task in NUMBERS:
            made = evaluate(model, batches, weighted_square)
            scores = {self.called: {"mean squared error": made.mean}}
            constant = data.bits * max(0, 1 - data.delay / data.length)
            name, error = ("always 1", adding_baseline()) if self.task == "adding" else ("always 0", constant)
            if baselines:
                scores[name] = {"mean squared error": error}
            return Evaluation("test", made.tokens, scores, self.units)
        made = evaluate(model, batches)
        if self.task != "copying":
            scores = {self.called: {"nats": made.nats, "accuracy": made.accuracy or 0.0}}
            return Evaluation("test", made.tokens, scores, self.units)
        # the steps at which the tokens are to be repeated
        repeated = (replace(batch, scored=(batch.targets < 8).float()) for batch in batches.one_pass())
        scores = {self.called: {"nats": made.nats, "recalled": evaluate(model, repeated).accuracy or 0.0}}
        if baselines:
            scores["without memory"] = {"nats": copying_baseline(data.length), "recalled": 1 / 8}
        return Evaluation("test", made.tokens, scores, self.units)


def _training(steps: int, every: int, **settings: Any) -> Training:
    usual: dict[str, Any] = {"batch_size": 64, "truncation": "none", "learning_rate": 5e-3}
    return Training(steps=steps, validate_every=every, save_every=every, **usual | settings)


@recipe(MemoryTask)
def long_memory() -> MemorySettings:
    """the adding problem: the sum of two numbers far back; data.length says how far"""
    return MemorySettings(
        data=MemoryData(task="adding", length=200),
        model=StepModelSettings(cell="carousel", hidden_size=64),
        training=_training(1000, 200, batch_size=32),
    )


@recipe(MemoryTask)
def long_memory_copying() -> MemorySettings:
    """copying memory: ten tokens, a wait of data.length steps, and the same tokens again"""
    return MemorySettings(
        data=MemoryData(task="copying", length=100),
        model=StepModelSettings(cell="rotation", hidden_size=128, embedding_size=10),
        training=_training(500, 100, batch_size=16),
    )


@recipe(MemoryTask, "flip-flop")
def flip_flop_recipe() -> MemorySettings:
    """three bits, each the sign of its last pulse: a memory whose attractors can be counted"""
    return MemorySettings(
        data=MemoryData(task="flip-flop", length=64),
        model=StepModelSettings(cell="gru", hidden_size=24),
        training=_training(2000, 500),
    )


@recipe(MemoryTask)
def delayed_flip_flop() -> MemorySettings:
    """two such bits, output data.delay steps late: pulses on their way are remembered too"""
    return MemorySettings(
        data=MemoryData(task="flip-flop", length=64, bits=2, delay=5),
        model=StepModelSettings(cell="gru", hidden_size=48),
        training=_training(3000, 500),
    )


@recipe(MemoryTask, "parity")
def parity_recipe() -> MemorySettings:
    """whether the ones so far are odd in number: one bit, held for ever"""
    return MemorySettings(
        data=MemoryData(task="parity", length=50),
        model=StepModelSettings(cell="elman", hidden_size=16, embedding_size=4, weight_dropout=0.1),
        training=_training(1500, 500, learning_rate=1e-2, clip_norm=0.1),
    )


@recipe(MemoryTask, "washing-machine")
def washing_machine_recipe() -> MemorySettings:
    """which state a washing machine is in, from its triggers alone, a child's button presses among them"""
    return MemorySettings(
        data=MemoryData(task="washing-machine", length=100),
        model=StepModelSettings(cell="elman", hidden_size=64, embedding_size=16),
        training=_training(9000, 1000, learning_rate=3e-3, clip_norm=0.1, l2=0.07),
    )
