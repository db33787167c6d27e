"""Fields seen in other ways: taken apart into what the input and the state add, under every input, through training, and with a
state that moves under a sequence of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recurra.analysis.fields import Plane, VectorField, frame, plane_of_principal_components, vector_field
from recurra.analysis.fixed_points import FixedPoints
from recurra.analysis.jacobians import StepMap, step_map
from recurra.errors import OptionError, choose_from
from recurra.results import Film, Result
from recurra.types import Float


@dataclass(frozen=True, eq=False)
class SplitField(Result):
    """What is added up before the activation, over a grid of a plane.

    - `input`: W x + b, the same at every place. `state`: U h. `resultant`: their sum. `moves`: of one step of the network.
    """

    plane: Plane
    places: Float[Tensor, "N 2"]
    input: Float[Tensor, "N 2"]
    state: Float[Tensor, "N 2"]
    resultant: Float[Tensor, "N 2"]
    moves: Float[Tensor, "N 2"]
    size: int
    name: str

    def __str__(self) -> str:
        a, b, c = (float(each.norm(dim=1).mean()) for each in (self.input, self.state, self.resultant))
        return f"mean length of the arrows: W x + b {a:.3g}, U h {b:.3g}, their sum {c:.3g}"

    def arrays(self) -> dict[str, Tensor]:
        return {"places": self.places, "input": self.input, "state": self.state, "resultant": self.resultant}

    def to_json(self) -> dict[str, Any]:
        return {"size": self.size, "axes": list(self.plane.names), "gate": self.name, "summary": str(self)}


@torch.no_grad()
def split_field(
    network: StepMap | nn.Module,
    x: Float[Tensor, " D"] | None = None,
    plane: Plane | None = None,
    low: Tensor | None = None,
    high: Tensor | None = None,
    *,
    size: int = 13,
    name: str | None = None,
) -> SplitField:
    """The field of the input, the field of the state, and their resultant, under an input that is held.

    - `network`: one layer of a cell with one state. `x`, `plane`, `low`, `high`: as in `vector_field`.
    - `name`: of which gate, where the equations have several (`n` of a GRU); otherwise the first that reads both.

    ```python
    parts = rc.analysis.split_field(rc.Recurrent("elman", 2, 8), torch.tensor([1.0, 0.0]))
    assert torch.allclose(parts.input + parts.state, parts.resultant)
    parts.plot()
    ```
    """
    F = step_map(network)
    layer = F.layers[0]
    if len(F.layers) > 1 or F.size != layer.H:
        raise OptionError(
            f"a field is taken apart for one layer of a cell with one state; this state has {F.size} numbers for {layer.H} "
            "units. Take elman, or another cell with one state."
        )
    both = [each for each in layer.graph.drives if each in layer.graph.matrices]
    if not both:
        raise OptionError(f"cell {layer.graph.name!r} has no sum of W x and U h: there is nothing to take apart.")
    chosen = choose_from("name", name or both[0], both)
    x = torch.zeros(F.input_size) if x is None else x
    whole = vector_field(F, x, plane, low, high, size)
    plane, places = whole.plane, whole.places
    row = list(layer.graph.drives).index(chosen) * layer.H
    own = layer.W[row : row + layer.H] @ x.to(F.dtype) + layer.b[row : row + layer.H]
    directions = torch.stack([plane.first, plane.second])
    given = (directions @ own).expand(len(places), 2)
    carried = plane.states(places) @ layer.matrices[chosen].T @ directions.T
    return SplitField(plane, places, given, carried, given + carried, whole.moves, size, chosen)


@dataclass(frozen=True, eq=False)
class FieldPanel(Result):
    """The fields of several inputs in one plane, each with its name, and states to mark."""

    names: tuple[str, ...]
    fields: tuple[VectorField, ...]
    marked: Float[Tensor, "M S"]

    def __str__(self) -> str:
        return "\n".join(f"{name}: {field}" for name, field in zip(self.names, self.fields, strict=True))

    def to_json(self) -> dict[str, Any]:
        return {name: field.to_json() for name, field in zip(self.names, self.fields, strict=True)}


def field_panel(
    network: StepMap | nn.Module,
    inputs: Mapping[str, Float[Tensor, " D"]],
    visited: Float[Tensor, "M S"] | None = None,
    *,
    marked: Float[Tensor, "M S"] | None = None,
    size: int = 15,
) -> FieldPanel:
    """The field of every input, in the plane of the principal components of visited states.

    ```python
    panel = rc.analysis.field_panel(rc.Recurrent("gru", 2, 8), {"rest": torch.zeros(2), "up": torch.ones(2)})
    panel.plot()
    ```
    """
    if not inputs:
        raise OptionError("a panel needs at least one input; got none.")
    F = step_map(network)
    seen = F.visited().detach().flatten(0, 1) if visited is None else visited
    marked = seen[:0] if marked is None else marked
    plane = plane_of_principal_components(marked if len(marked) > 2 else seen)
    low, high = frame(plane.project(torch.cat([seen, marked])))
    fields = tuple(vector_field(F, x, plane, low, high, size) for x in inputs.values())
    return FieldPanel(tuple(inputs), fields, marked)


@dataclass(frozen=True, eq=False)
class Formation(Film):
    """The field and the attractors of one network at several steps of its training, in the plane of the last one.

    - `steps`: of training. `fields`, `points`: at each. `input`: what was held.
    """

    input: str
    steps: tuple[int, ...]
    fields: tuple[VectorField, ...]
    points: tuple[FixedPoints, ...]

    @property
    def attractors(self) -> list[int]:
        """How many there are at each step."""
        return [len(each.attractors) for each in self.points]

    def __str__(self) -> str:
        rows = zip(self.steps, self.attractors, strict=True)
        return "attractors: " + ", ".join(f"{count} at step {step}" for step, count in rows)

    def to_json(self) -> dict[str, Any]:
        return {"input": self.input, "steps": list(self.steps), "attractors": self.attractors}

    @property
    def frames(self) -> int:
        """One for each step of training."""
        return len(self.steps)


@dataclass(frozen=True, eq=False)
class Walk(Film):
    """A state that moves under a sequence of inputs.

    - `inputs`: their names. `states`: before the first and after each. `predictions`: what the network predicts at each state.
    - `fields`: of each input, in `plane`. `marked`: attractors, with names.
    """

    inputs: tuple[str, ...]
    states: Float[Tensor, "T1 S"]
    predictions: tuple[str, ...]
    fields: dict[str, VectorField]
    plane: Plane
    marked: Float[Tensor, "M S"]
    names: tuple[str, ...]

    def __str__(self) -> str:
        ends = (f"{name} → {said}" for name, said in zip(self.inputs, self.predictions[1:], strict=True))
        return f"{self.predictions[0]}: " + ", ".join(ends)

    def to_json(self) -> dict[str, Any]:
        return {"inputs": list(self.inputs), "predictions": list(self.predictions)}

    def arrays(self) -> dict[str, Tensor]:
        return {"states": self.states}

    @property
    def frames(self) -> int:
        """Before the first input and after each: the field of the input that is read, and the way so far."""
        return len(self.inputs) + 1


@torch.no_grad()
def walk_states(
    F: StepMap,
    inputs: Sequence[tuple[str, Float[Tensor, " D"]]],
    predict: Any,
    visited: Float[Tensor, "M S"],
    marked: Float[Tensor, "M S"],
    names: Sequence[str] = (),
    *,
    size: int = 15,
) -> Walk:
    """Follow the state from the start along named inputs. `predict`: outputs of the last layer to a word for each."""
    if not inputs:
        raise OptionError("a walk needs at least one input; got none.")
    plane = plane_of_principal_components(marked if len(marked) > 2 else visited)
    states = [F.start[None]]
    for _, x in inputs:
        states.append(F(states[-1], x.to(F.dtype)[None]))
    low, high = frame(plane.project(torch.cat([visited, marked, *states])))
    fields = {name: vector_field(F, x, plane, low, high, size) for name, x in dict(inputs).items()}
    found = torch.cat(states)
    said = tuple(predict(F.outputs(found)))
    return Walk(tuple(name for name, _ in inputs), found, said, fields, plane, marked, tuple(names))
