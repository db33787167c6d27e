"""The dynamics of a task's network: what an analysis needs of the task, and the analysis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.attractors import Automaton, find_attractors, link_attractors
from recurra.analysis.automata.extraction import METHODS, Extraction, extract
from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.weighted import WeightedExtraction, extract_weighted
from recurra.analysis.fixed_points import FixedPoints, find_fixed_points
from recurra.analysis.gradients import GradientFlow, gradient_flow
from recurra.analysis.jacobians import StepMap
from recurra.analysis.portrait import Portrait, RestingPlaces, name_points, phase_portrait, resting_places
from recurra.analysis.state_space import LocatedAutomaton, StateSpace
from recurra.errors import OptionError, choose_from
from recurra.lecture.robot import NetworkOperator, RobotWork, operate
from recurra.tasks.capabilities import HasTriggers, Probe, Probes, ReadsTokens, Triggers, find, offers

WARMUP = 40
"""Steps that are read before the first that is looked at."""
FAR = 100
"""Steps back that gradients are followed by default."""
LOCATED, LOCATED_STRINGS, LOCATED_SEED, MOST_LOCATED = 200, 24, 7, 24
"""Strings from which an automaton is extracted to be looked at, those whose states are shown, their seed, and its most states."""


def probe_of(task: Any, model: Any, steps: int, asked: str) -> Probe:
    """Typical inputs, on the CPU."""
    return find(task, Probes, asked).probe(model, steps)


def gradients(task: Any, model: Any, steps: int = FAR, starts: int = 4) -> GradientFlow:
    """How far gradients reach back along a typical sequence."""
    probe = probe_of(task, model, steps + WARMUP, "gradients")
    return gradient_flow(probe.layer, probe.x[0], steps=steps, starts=starts)


def triggers_of(task: Any, model: Any) -> Triggers | None:
    """The triggers of a task that is a state machine."""
    return task.triggers(model) if offers(task, HasTriggers) else None


def frozen_input(task: Any, model: Any, name: str | None) -> tuple[str, Tensor]:
    """The input that is held: by name; otherwise a trigger of rest, or zero."""
    triggers = triggers_of(task, model)
    name = name or (triggers.names[0] if triggers is not None else "zero")
    x: Tensor = task.frozen_input(model, name)
    return name, x


def machine_of(task: Any, model: Any) -> Automaton | None:
    """The attractors of a state machine by name, and the transitions between them; `None` if there are fewer than three."""
    triggers = triggers_of(task, model)
    if triggers is None:
        return None
    layer = task.probe(model, 1).layer
    F = StepMap(layer)
    found = find_attractors(F, triggers.x, triggers.x[0], F.start)
    if len(found.states) < 3:
        return None
    return found.named(task.name_states(model, F.outputs(found.states), found.after.tolist()), triggers.names)


def visited_states(task: Any, model: Any, asked: str) -> tuple[StepMap, Tensor, Callable[[Tensor], list[str]]]:
    """The step, states that the network visits, and names for what it predicts."""
    probe = probe_of(task, model, FAR + WARMUP, asked)
    F = StepMap(probe.layer)
    return F, F.visited(probe.x).detach(), lambda hidden: task.name_outputs(model, hidden)


def fixed_points(task: Any, model: Any, input: str | None = None, starts: int = 1024, period: int = 1) -> FixedPoints:
    """Where the network stands still while the input is held, and cycles up to a period."""
    F, runs, name = visited_states(task, model, "fixed_points")
    called, x = frozen_input(task, model, input)
    machine = machine_of(task, model)
    also = None if machine is None else machine.states
    found = find_fixed_points(F, x, runs.flatten(0, 1), starts=starts, period=period, also=also)
    return name_points(replace(found, input=called), F, name, machine)


def portrait(task: Any, model: Any, input: str | None = None, starts: int = 1024, period: int = 1) -> Portrait:
    """Fixed points, vector field and basins while the input is held."""
    F, runs, name = visited_states(task, model, "field")
    called, x = frozen_input(task, model, input)
    machine = machine_of(task, model)
    return phase_portrait(F, x, runs, input=called, starts=starts, period=period, machine=machine, name=name)


def state_space(task: Any, model: Any) -> StateSpace:
    """The state space, to be looked at again and again."""
    F, runs, name = visited_states(task, model, "state_space")
    machine = machine_of(task, model)
    return StateSpace(F, runs, lambda input: frozen_input(task, model, input)[1], name=name, machine=machine)


def automaton(
    task: Any,
    model: Any,
    method: str | None = None,
    *,
    states: int | None = None,
    most: int = 64,
    strings: int | None = None,
    scored: int | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Extraction | WeightedExtraction:
    """The finite automaton in a network that reads tokens: by a quotient of its states, by asking it, or with weights."""
    reading = find(task, ReadsTokens, "automaton").reading(model)
    usual = "weighted" if reading.predicts_next else "quotient"
    chosen = choose_from("method", method or usual, (*METHODS, "weighted"))
    if chosen == "weighted" and not reading.predicts_next:
        raise OptionError(
            "method weighted is for language models and event logs, which predict what comes next; this task predicts "
            f"classes. Use {' or '.join(METHODS)}."
        )
    if chosen != "weighted" and reading.is_language:
        raise OptionError(f"method {chosen} is not for language models: leave it out, and it is weighted.")
    if chosen == "weighted":
        # fewer where each step has the chances of thousands of words
        few = max(100, 1_000_000 // len(reading.classes))
        counts = {"count": strings or min(400, few), "scored": scored or min(1000, few)}
        weighted = extract_weighted(reading, states=states, most=most, **counts, tell=tell)
        return replace(weighted, about=reading.about)
    counts = {"count": strings or 400, "scored": scored or 10_000}
    return replace(extract(reading, chosen, states=states, most=most, **counts), about=reading.about)


def linked_attractors(task: Any, model: Any, machine: Any) -> dict[str, list[int]]:
    """By state of an automaton, the attractors of a network that rests: which of them the same triggers lead to."""
    triggers = triggers_of(task, model)
    if triggers is None or triggers.names != getattr(machine, "symbols", None):
        return {}
    layer = task.probe(model, 1).layer
    F = StepMap(layer)
    found = find_attractors(F, triggers.x, triggers.x[0], F.start)
    return dict(zip(machine.state_names(), link_attractors(found, machine), strict=True))


def rest(task: Any, model: Any) -> RestingPlaces:
    """Of a network too large to be searched: where states that it visits come to rest."""
    F, runs, name = visited_states(task, model, "attractors")
    called, x = frozen_input(task, model, None)
    return resting_places(F, x, runs, input=called, name=name)


def located_automaton(task: Any, model: Any) -> LocatedAutomaton:
    """The automaton with the states of the network that belong to each of its own.

    A network that rests has its attractors as states. Of another one, strings are walked through the network and through the
    extracted automaton side by side.
    """
    machine = machine_of(task, model)
    if machine is not None:
        rows = tuple(tuple(row) for row in machine.after.tolist())
        names = [f"{name} {machine.names[: k + 1].count(name)}" for k, name in enumerate(machine.names)]
        plain = [
            name if machine.names.count(name) == 1 else other for name, other in zip(machine.names, names, strict=True)
        ]
        drawn = Moore(machine.triggers, rows, tuple(plain))
        about = f"{machine.lost} of {machine.after.numel()} triggers lead to no attractor"
        return LocatedAutomaton(drawn, machine.states, torch.arange(len(machine.states)), about)
    found = automaton(task, model, most=MOST_LOCATED, strings=LOCATED, scored=LOCATED)
    reading = find(task, ReadsTokens, "automaton").reading(model)
    strings = reading.draw(LOCATED_STRINGS, LOCATED_SEED)[:, :FAR]
    visited, walked = reading.visit(strings), found.machine.walk(strings)
    inside = walked >= 0
    share = found.chosen.network if isinstance(found, Extraction) else found.chosen.agreement
    about = f"it predicts what the network does {100 * share:.1f} % of the time"
    return LocatedAutomaton(found.machine, visited[inside].double(), walked[inside], about)


def robot(task: Any, model: Any, programs: Sequence[int]) -> RobotWork:
    """The network operates the washing machine in closed loop."""
    triggers = triggers_of(task, model)
    if triggers is None:
        raise OptionError("a robot operates the washing machine. Train the recipe washing-machine.")
    F = StepMap(task.probe(model, 1).layer)
    return operate(NetworkOperator(F, triggers.x, lambda h: model.output(h.to(model.output.weight.dtype))), programs)
