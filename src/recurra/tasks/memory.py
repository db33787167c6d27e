"""Memory: tasks that are made up, where what must be remembered, and for how long, is known exactly."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.reading import Reading
from recurra.data.batches import Batches, Generated
from recurra.data.machine import NAMES, TRIGGERS, memories_of, tables, washing_machine
from recurra.data.tasks import adding, adding_baseline, copying, copying_baseline, flip_flop, parity
from recurra.errors import OptionError, choose_from
from recurra.models.language import LanguageModel
from recurra.models.readout import Readout
from recurra.models.sequence import SequenceModel
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
    Triggers,
)
from recurra.training.distributed import Ranks
from recurra.training.evaluation import Score, evaluate
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import weighted_nll, weighted_square
from recurra.types import Float, setting

NUMBERS, SYMBOLS = ("adding", "flip-flop"), {"copying": 10, "washing-machine": len(TRIGGERS), "parity": 2}
"""The tasks that read numbers, and those that read symbols with how many there are."""
TEST, VALID, EXTRACT = 2**32, 2**32 + 1, 2**33
"""Seeds of held-out sequences are these plus the recipe's own: none that training draws."""


def _parity() -> tuple[tuple[str, ...], tuple[str, ...], Moore]:
    said = ("even", "odd")
    return ("0", "1"), said, Moore(("0", "1"), ((0, 1), (1, 0)), said)


def _washing_machine() -> tuple[tuple[str, ...], tuple[str, ...], Moore]:
    machines, after, _ = tables()
    return (
        TRIGGERS,
        NAMES,
        Moore(TRIGGERS, tuple(map(tuple, after.tolist())), tuple(m.name for m in machines)).minimised(),
    )


MACHINES = {"parity": _parity, "washing-machine": _washing_machine}
"""The tasks that a finite machine solves: what it reads, what it says, and the machine."""


@dataclass(frozen=True)
class MemoryData:
    task: str = setting("adding", "adding, copying, flip-flop, parity or washing-machine")
    length: int = setting(200, "steps of a sequence, or of the wait before it is said again (copying)")
    bits: int = setting(3, "channels of the flip-flop")
    delay: int = setting(0, "by how many steps its answer comes late")
    noise: float = setting(0.1, "share of the washing machine's triggers that do nothing")
    rest: int = setting(50, "in half of its logs it is left alone now and then, for up to this many steps; 0: never")

    def check(self) -> None:
        choose_from("data.task", self.task, (*NUMBERS, *SYMBOLS))
        if self.bits < 1:
            raise OptionError(f"data.bits must be at least 1; got {self.bits}.")
        if not 0 <= self.noise < 0.6:
            raise OptionError(f"data.noise must lie between 0 and 0.6; got {self.noise}.")
        for name in ("rest", "delay"):
            if getattr(self, name) < 0:
                raise OptionError(f"data.{name} must not be negative; got {getattr(self, name)}.")
        if self.length < 2:
            raise OptionError(f"data.length must be at least 2; got {self.length}.")

    def unused(self) -> dict[str, str]:
        """Settings of other tasks."""
        own = {"flip-flop": ("bits", "delay"), "washing-machine": ("noise", "rest")}
        return {
            f"data.{name}": f"it is of data.task={task}, which is {self.task}"
            for task, names in own.items()
            for name in names
            if task != self.task
        }


@dataclass(frozen=True)
class MemorySettings(Settings):
    data: MemoryData = field(default_factory=MemoryData)
    model: StepModel = field(default_factory=StepModel)

    def check(self) -> None:
        super().check()
        if self.data.task in NUMBERS and (self.model.tied or self.model.embedding_size is not None):
            raise OptionError(
                "model.embedding_size and model.tied are for symbols; this task reads numbers. Leave them out."
            )
        if self.data.task in NUMBERS and self.training.feeding != "teacher":
            raise OptionError(
                f"training.feeding={self.training.feeding} is for symbols; this task reads numbers. Use teacher."
            )

    def unused(self) -> dict[str, str]:
        return super().unused() | self.data.unused()


class MemoryTask(Task[SequenceModel]):
    """Regressions (adding: of the last step; flip-flops: of each), and classifications of each step (copying, the machine)."""

    unit = "step"
    keeps_vocabulary = False
    factorisation = (
        "Outputs are independent given the inputs: P(y1 … yT | x) = Π P(yt | x1 … xt). No output is fed back, "
        "so what is said at one step is not known at the next."
    )

    def __init__(self, recipe: MemorySettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(recipe, ranks)

    @property
    def task(self) -> str:
        return str(self.settings.data.task)

    @property
    def vocabulary(self) -> None:
        return None

    @property
    def about_data(self) -> str:
        return f"{self.settings.data.task}, {self.settings.data.length} steps, new sequences in every batch"

    def make_batch(self, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Sequences of the task; in adding, only the last step counts."""
        length = self.settings.data.length
        dtype = self.settings.precision
        if self.task == "copying":
            return *copying(count, length, seed), None
        if self.task == "parity":
            return *parity(count, length, seed), None
        if self.task == "washing-machine":
            return *washing_machine(count, length, seed, self.settings.data.noise, rest=self.settings.data.rest), None
        if self.task == "flip-flop":
            pulses, signs = flip_flop(count, length, seed, self.settings.data.bits, delay=self.settings.data.delay)
            return pulses.to(dtype), signs.to(dtype), torch.ones(count, length)
        inputs, sums = adding(count, length, seed)
        scored = torch.zeros(count, length)
        scored[:, -1] = 1
        return inputs.to(dtype), sums.to(dtype)[:, None, None].expand(count, length, 1), scored

    def make_batches(self, seed: int, *, training: bool) -> Batches:
        size, batches = (self.settings.training.batch_size, 1000) if training else (100, 5)
        return Generated(
            self.make_batch,
            size,
            batches,
            seed=seed + self.settings.seed,
            rank=self.ranks.rank,
            world=self.ranks.world,
        )

    def make_model(self) -> SequenceModel:
        model = self.settings.model
        options = self.model_options()
        if self.task in NUMBERS:
            read, said = (2, 1) if self.task == "adding" else (self.settings.data.bits, self.settings.data.bits)
            return Readout(read, model.cell, model.hidden_size, said, **options)
        return LanguageModel(
            SYMBOLS[self.task],
            model.cell,
            model.hidden_size,
            embedding_size=model.embedding_size,
            tied=model.tied,
            **options,
        )

    def make_trainer(self, model: SequenceModel) -> Trainer:
        valid = self.make_batches(VALID, training=False)
        loss = weighted_square if self.task in NUMBERS else weighted_nll
        return Trainer(
            model,
            self.make_batches(0, training=True),
            self.settings.training,
            lambda judged: evaluate(judged, valid, loss, self.ranks).mean,
            loss=loss,
            bfloat16=self.settings.dtype == "bfloat16",
            ranks=self.ranks,
        )

    def probe(self, model: SequenceModel, steps: int) -> Probe:
        inputs = torch.cat(
            [self.make_batch(8, seed)[0] for seed in range(-(-steps // self.settings.data.length) or 1)], dim=1
        )
        with torch.no_grad():
            return Probe(model.recurrent, model.embed(inputs.to(model.output.weight.device)))

    @torch.no_grad()
    def examples(self, model: SequenceModel) -> Examples:
        """Held-out sequences: of adding their sums, of the other tasks the last steps of one."""
        inputs, targets, _ = self.make_batch(SHOWN, TEST + self.settings.seed)
        said = model(inputs.to(model.output.weight.device))[0].cpu()
        if self.task == "adding":
            sums = [(f"{t:.3f}", f"{s:.3f}") for t, s in zip(targets[:, -1, 0], said[:, -1, 0], strict=True)]
            return Examples(("the sum", "said"), sums, "evaluate RUN")
        rows = []
        for t in range(max(0, inputs.shape[1] - 3 * SHOWN), inputs.shape[1]):
            values = [each[0, t] for each in (inputs, said if self.task in NUMBERS else said.argmax(-1), targets)]
            rows.append((str(t), self._called(values[0], read=True), *(self._called(v) for v in values[1:])))
        return Examples(("step", "read", "said", "true"), rows, "evaluate RUN")

    def _called(self, value: Tensor, *, read: bool = False) -> str:
        """Numbers with a digit, symbols by their name where they have one."""
        if value.is_floating_point():
            return " ".join(f"{number:+.1f}" if number else "0" for number in value.tolist())
        names = () if self.task != "washing-machine" else TRIGGERS if read else NAMES
        return names[int(value)] if int(value) < len(names) else str(int(value))

    def frozen_input(self, model: SequenceModel, name: str) -> Tensor:
        """`zero`, or for the washing machine a trigger that is held."""
        if self.task != "washing-machine" or name == "zero":
            return super().frozen_input(model, name)
        trigger = TRIGGERS.index(choose_from("input", name, TRIGGERS))
        with torch.no_grad():
            return model.embed(torch.tensor([[trigger]]))[0, 0]

    def triggers(self, model: SequenceModel) -> Triggers | None:
        if self.task != "washing-machine":
            return None
        return Triggers(TRIGGERS, torch.stack([self.frozen_input(model, name) for name in TRIGGERS]))

    def reading(self, model: SequenceModel) -> Reading:
        if self.task not in MACHINES:
            return super().reading(model)
        symbols, classes, truth = MACHINES[self.task]()
        return Reading(
            model.recurrent,
            model.embed(torch.arange(len(symbols))[None])[0],
            model.output,
            symbols,
            classes,
            lambda count, seed: self.make_batch(count, EXTRACT + seed)[0],
            truth=truth,
        )

    def name_states(self, model: SequenceModel, hidden: Float[Tensor, "N H"], after: list[list[int]]) -> list[str]:
        """What the machine would be in, had it read the same triggers; what the network says where that is not one thing."""
        memories, _ = memories_of(after)
        return [
            said if len(memory) != 1 else " ".join(str(part) for part in next(iter(memory)) if part)
            for said, memory in zip(self.says(model, hidden), memories, strict=True)
        ]

    @torch.no_grad()
    def says(self, model: SequenceModel, hidden: Float[Tensor, "N H"]) -> list[str]:
        said = model.output(hidden.to(model.output.weight.dtype))
        match self.task:
            case "flip-flop":
                return ["".join("+" if bit > 0 else "−" for bit in row) for row in said.tolist()]
            case "washing-machine":
                return [NAMES[k] if k < len(NAMES) else "?" for k in said.argmax(-1).tolist()]
            case "adding":
                return [f"{value:.2f}" for value in said[:, 0].tolist()]
        return [str(k) for k in said.argmax(-1).tolist()]

    def evaluate(self, model: SequenceModel, question: Question) -> Evaluation:
        if question.data is not None or question.window is not None or question.dynamic is not None:
            raise OptionError("a long-memory task is made up: --data, --window and --dynamic are for language models.")
        called, length = self.called, self.settings.data.length
        batches = self.make_batches(TEST, training=False)
        if self.task in NUMBERS:
            made = evaluate(model, batches, weighted_square)
            scores = {called: {"mean squared error": made.mean}}
            if question.baselines:
                guess = (
                    ("always 1", adding_baseline())
                    if self.task == "adding"
                    else ("always 0", self.settings.data.bits * max(0, 1 - self.settings.data.delay / length))
                )
                scores[guess[0]] = {"mean squared error": guess[1]}
            return Evaluation("test", made.tokens, scores)
        made = evaluate(model, batches)
        if self.task != "copying":
            return Evaluation("test", made.tokens, {called: {"nats": made.nats, "accuracy": made.accuracy or 0.0}})
        recalled = self._recalled(model, batches)
        scores = {called: {"nats": made.nats, "recalled": recalled.accuracy or 0.0}}
        if question.baselines:
            scores["without memory"] = {"nats": copying_baseline(length), "recalled": 1 / 8}
        return Evaluation("test", made.tokens, scores)

    def _recalled(self, model: SequenceModel, batches: Batches) -> Score:
        """The score on the steps at which the symbols are to be said again."""
        said = (replace(batch, scored=(batch.targets < 8).float()) for batch in batches.one_pass())
        return evaluate(model, said)


RECIPES: dict[str, Recipe] = {
    "long-memory": Recipe(
        MemorySettings(
            name="long-memory",
            data=MemoryData(task="adding", length=200),
            model=StepModel(cell="carousel", hidden_size=64),
            training=Training(
                steps=1000, batch_size=32, truncation="none", learning_rate=5e-3, validate_every=200, save_every=200
            ),
        ),
        "the adding problem: the sum of two numbers far back; data.length says how far",
    ),
    "long-memory-copying": Recipe(
        MemorySettings(
            name="long-memory-copying",
            data=MemoryData(task="copying", length=100),
            model=StepModel(cell="rotation", hidden_size=128, embedding_size=10),
            training=Training(
                steps=500, batch_size=16, truncation="none", learning_rate=5e-3, validate_every=100, save_every=100
            ),
        ),
        "copying memory: ten symbols, a wait of data.length steps, and the same symbols again",
    ),
    "flip-flop": Recipe(
        MemorySettings(
            name="flip-flop",
            data=MemoryData(task="flip-flop", length=64),
            model=StepModel(cell="gru", hidden_size=24),
            training=Training(
                steps=2000, batch_size=64, truncation="none", learning_rate=5e-3, validate_every=500, save_every=500
            ),
        ),
        "three bits, each the sign of its last pulse: a memory whose attractors can be counted",
    ),
    "delayed-flip-flop": Recipe(
        MemorySettings(
            name="delayed-flip-flop",
            data=MemoryData(task="flip-flop", length=64, bits=2, delay=5),
            model=StepModel(cell="gru", hidden_size=48),
            training=Training(
                steps=3000, batch_size=64, truncation="none", learning_rate=5e-3, validate_every=500, save_every=500
            ),
        ),
        "two such bits, said data.delay steps late: pulses on their way are remembered too",
    ),
    "parity": Recipe(
        MemorySettings(
            name="parity",
            data=MemoryData(task="parity", length=50),
            model=StepModel(cell="elman", hidden_size=16, embedding_size=4, weight_dropout=0.1),
            training=Training(
                steps=1500,
                batch_size=64,
                truncation="none",
                learning_rate=1e-2,
                clip_norm=0.1,
                validate_every=500,
                save_every=500,
            ),
        ),
        "whether the ones so far are odd in number: one bit, held for ever",
    ),
    "washing-machine": Recipe(
        MemorySettings(
            name="washing-machine",
            data=MemoryData(task="washing-machine", length=100),
            model=StepModel(cell="elman", hidden_size=64, embedding_size=16),
            training=Training(
                steps=9000,
                batch_size=64,
                truncation="none",
                clip_norm=0.1,
                l2=0.07,
                validate_every=1000,
                save_every=1000,
            ),
        ),
        "which state a washing machine is in, from its triggers alone, a child's button presses among them",
    ),
}
