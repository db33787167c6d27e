"""Do a cell's engines agree? Equations against finite differences, then each engine against the eager engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from recurra.cells.graph import Node, block, evaluate, named_blocks
from recurra.cells.notation import Cell
from recurra.engines.choose import ENGINES
from recurra.layers.recurrent import Recurrent
from recurra.results import Result, Table, to_plain
from recurra.types import Shape

EXACT, DIFFERENCES = 1e-10, 1e-6  # limits in float64: rounding, and the error of a central difference


@dataclass(frozen=True)
class Row:
    """One comparison: the largest difference, relative to the size of what is compared."""

    what: str
    error: float
    limit: float

    @property
    def agrees(self) -> bool:
        return self.error <= self.limit  # false for NaN


@dataclass(frozen=True)
class Agreement(Result):
    """All comparisons of one cell, and why engines do not run it."""

    cell: str
    equations: tuple[str, ...]
    rows: tuple[Row, ...]
    not_run: dict[str, str]

    @property
    def agrees(self) -> bool:
        return all(row.agrees for row in self.rows)

    def table(self) -> Table:
        rows = [
            [row.what, f"{row.error:.1e}", f"{row.limit:.0e}", "ok" if row.agrees else "DISAGREES"] for row in self.rows
        ]
        return Table(["check (float64)", "error", "limit", ""], rows)

    def __str__(self) -> str:
        head = f"{self.cell}: {'; '.join(self.equations)}\n"
        reasons = [f"{engine} does not run it: {reason}" for engine, reason in self.not_run.items()]
        return "\n".join([head, str(self.table()), *reasons, "", "all agree" if self.agrees else "something disagrees"])

    def to_json(self) -> dict[str, Any]:
        rows = [{"check": row.what, "error": row.error, "limit": row.limit, "agrees": row.agrees} for row in self.rows]
        found: dict[str, Any] = to_plain(
            {"cell": self.cell, "agrees": self.agrees, "rows": rows, "not_run": self.not_run}
        )
        return found


@dataclass
class Problem:
    """A layer with random weights, an input, a state and lengths, and a random linear loss of all that comes out."""

    cell: Cell
    shape: Shape
    dtype: torch.dtype = torch.float64
    device: str = "cpu"
    with_lengths: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            B, T, D, H = self.shape
            self.layer = Recurrent(self.cell, D, H, dtype=torch.float64)
            for parameter in self.layer.parameters():  # away from zeros and ones, where mistakes hide
                parameter.data += 0.3 * torch.randn_like(parameter)
            self.x = torch.randn(B, T, D, dtype=torch.float64)
            depths = [state.depth for state in self.cell.graph.states]
            self.state = [torch.randn((B, H) if k == 1 else (B, k, H), dtype=torch.float64) for k in depths]
            self.lengths = torch.randint(0, T + 1, (B,)) if self.with_lengths else None
            if self.lengths is not None:
                self.lengths[0] = T
            self.weighting = [
                torch.randn(B, T, H, dtype=torch.float64),
                *(torch.randn_like(state) for state in self.state),
            ]
        self.layer.to(self.device, self.dtype)
        self.x, self.state = self.x.to(self.device, self.dtype), [s.to(self.device, self.dtype) for s in self.state]
        self.weighting = [w.to(self.device, self.dtype) for w in self.weighting]

    def leaves(self) -> dict[str, Tensor]:
        """Everything with a gradient, by name."""
        first = self.layer.stack[0][0]
        states = {f"initial {s.name}": value for s, value in zip(self.cell.graph.states, self.state, strict=True)}
        return {"inputs": self.x, **states, **dict(first.named_parameters())}

    def loss(self, engine: str) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss on that engine, and the outputs and final states that it weighs."""
        self.layer.engine = engine
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)  # so that masks of zoneout and dropout are the same on every engine
            trace = self.layer(self.x, ((tuple(self.state),),), self.lengths)
        values = [trace.outputs, *trace.final[0][0]]
        names = ["outputs", *(f"final {state.name}" for state in self.cell.graph.states)]
        total = sum((value * weight).sum() for value, weight in zip(values, self.weighting, strict=True))
        return torch.as_tensor(total), dict(zip(names, values, strict=True))

    def gradients(self, engine: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What comes out on that engine, and the gradient of the loss for every leaf."""
        leaves = self.leaves()
        for leaf in leaves.values():
            leaf.requires_grad_(True)
        total, values = self.loss(engine)
        grads = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        found = {
            f"gradient of {name}": torch.zeros_like(leaf) if grad is None else grad
            for (name, leaf), grad in zip(leaves.items(), grads, strict=True)
        }
        return {name: value.detach() for name, value in values.items()}, found


def relative_error(value: Tensor, reference: Tensor) -> float:
    """The largest difference over the largest magnitude (at least 1)."""
    if value.numel() == 0:
        return 0.0
    reference = reference.to(value.device, torch.float64)
    return float((value.to(torch.float64) - reference).abs().max() / reference.abs().max().clamp(min=1.0))


def check_cell(cell: Cell, shape: Shape) -> Agreement:
    """All comparisons for one cell."""
    rows = [Row("equations as they stand = their graph", _function_against_graph(cell, shape), EXACT)]
    not_run: dict[str, str] = {}
    plain = Problem(cell, shape, with_lengths=False)
    for name, error in _finite_differences(plain).items():
        rows.append(Row(f"eager against finite differences: gradient of {name}", error, DIFFERENCES))
    for with_lengths in (False, True):
        problem = Problem(cell, shape, with_lengths=with_lengths)
        reference = problem.gradients("eager")
        for name, engine in ENGINES.items():
            answer = engine.supports(cell, torch.device("cpu"), torch.float64, shape)
            if not answer:
                not_run[name] = answer.reason
            elif name != "eager":
                suffix = " (with lengths)" if with_lengths else ""
                for kind, ours, theirs in zip(
                    ("outputs", "gradients"), problem.gradients(name), reference, strict=True
                ):
                    error = max(relative_error(ours[key], theirs[key]) for key in ours)
                    rows.append(Row(f"{name} against eager: {kind}{suffix}", error, EXACT))
    return Agreement(cell.name, tuple(cell.graph.equations()), tuple(rows), not_run)


def _finite_differences(problem: Problem, step: float = 1e-6) -> dict[str, float]:
    """For each leaf: the derivative of the loss along a random direction, by autograd and by a central difference."""
    _, gradients = problem.gradients("eager")
    generator = torch.Generator().manual_seed(problem.seed)
    errors = {}
    with torch.no_grad():
        for name, leaf in problem.leaves().items():
            direction = torch.randn(leaf.shape, generator=generator, dtype=leaf.dtype)
            direction /= direction.norm()
            kept = leaf.clone()
            losses = []
            for sign in (1, -1):
                leaf.copy_(kept + sign * step * direction)
                losses.append(float(problem.loss("eager")[0]))
            leaf.copy_(kept)
            measured = (losses[0] - losses[1]) / (2 * step)
            exact = float((gradients[f"gradient of {name}"] * direction).sum())
            scale = max(1.0, abs(exact), abs(losses[0]))
            errors[name] = abs(measured - exact) / scale
    return errors


def _function_against_graph(cell: Cell, shape: Shape) -> float:
    """One step of the function on tensors against the same step of its graph."""
    problem = Problem(cell, Shape(shape.B, 1, shape.D, shape.H), with_lengths=False)
    first = problem.layer.stack[0][0].eval()
    graph, H = cell.graph, shape.H
    with torch.no_grad():
        weights = first.weights(1, shape.B)
        drives = dict(zip(graph.drives, named_blocks(linear(problem.x[:, 0], weights.W, weights.b), H), strict=True))
        past = {s.name: value for s, value in zip(graph.states, problem.state, strict=True)}

        def leaf(node: Node) -> Tensor:
            value: Tensor
            match node.kind:
                case "drive":
                    value = drives[node.name]
                case "state":
                    value = past[node.name] if past[node.name].ndim == 2 else past[node.name][:, -node.delay]
                case "noise":
                    value = weights.noise[node.name][0]
                case _:
                    value = weights.units[node.name]
            return value

        def product(name: str, v: Tensor) -> Tensor:
            return linear(v.to(weights.U.dtype), block(weights.U, graph.matrices, [name], H))

        values = evaluate(graph.updates, leaf, product)
        problem.layer.eval()
        _, outcome = problem.loss("eager")
        return max(
            relative_error(
                torch.as_tensor(values[update], dtype=torch.float64).expand(shape.B, H),
                final if final.ndim == 2 else final[:, -1],
            )
            for update, final in zip(graph.updates, list(outcome.values())[1:], strict=True)
        )
