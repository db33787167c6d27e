"""`newton`: all of time side by side for cells that are not linear in their state, with a certificate.

A trajectory is the root of s(t) − f(s(t−1), x(t)) = 0 for all t at once. A Newton iteration linearises f around the trajectory
at hand; the linear recurrence that is left is a scan (`linear_scan`). Lim et al. 2024 (DEER); Gonzalez et al. 2024 (quasi-DEER).

- Few values of the state: whole Jacobians, and convergence is quadratic. More: what each unit does to itself stands for the
  Jacobian, and convergence is linear.
- Damping: where an iteration leaves the finite numbers or only grows, the Jacobians are scaled down. Scaled to nothing, an
  iteration is the step itself, which makes one more value of the trajectory right each time.
- The certificate of every call: the last correction, and the residual |s(t) − f(s(t−1), x(t))| of what is returned, both near
  rounding beside the largest value of the state in that sequence, so that small signals are held to as many digits. At least two
  iterations are made, and of linear convergence the corrections that are still to come count too. A network that amplifies
  rounding over T steps does not get there: then another engine runs, counted and logged.

Invariant: what is returned is f of the last trajectory, so that outputs are the cell's own values. Gradients are those of the
implicit function: ∂L/∂s obeys the transposed linear recurrence at the certified point, one scan from the last step to the first,
and one step of autograd for all t gives the rest. Nothing is remembered from call to call: a resumed run has the numbers of one
that was never interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import linear

from recurra.cells.graph import Graph, Node, block, evaluate_in_order, make, named_blocks
from recurra.cells.notation import Cell
from recurra.cells.slopes import OwnSlope, Slope, slopes
from recurra.engines.eager import Eager, run_eagerly
from recurra.engines.fused.engine import Fused
from recurra.engines.linear_scan import SMALL, apply, linear_scan
from recurra.engines.protocol import Run, Support, Weights, differentiate, needs_other_derivatives, no
from recurra.types import Float, Int, Shape

log = logging.getLogger("recurra.engines")

WHOLE = 64
"""Values of a state up to which its whole Jacobians are taken."""
ITERATIONS = 60
"""What a trajectory is given to converge."""
GROWS = 4
"""Iterations in a row without a smaller correction, after which Jacobians are scaled down."""
MEMORY = 2**30
"""Numbers that the Jacobians of a call may have."""


@dataclass(frozen=True)
class Certificate:
    """How a trajectory was reached: the last `correction` and the `residual`, as shares of the largest |s| of a sequence."""

    iterations: int
    correction: float
    residual: float
    holds: bool


@dataclass
class Tally:
    """What became of the calls of this process: how many, how many another engine took over, and the last certificate."""

    calls: int = 0
    refused: int = 0
    last: Certificate | None = None

    def __str__(self) -> str:
        if self.last is None:
            return ""
        last = f"last: {self.last.iterations} iterations, residual {self.last.residual:.0e}"
        return f"{self.refused} of {self.calls} calls went to another engine; {last}"


@dataclass
class Newton:
    name: str = "newton"
    tally: Tally = field(default_factory=Tally)

    def priority(self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape) -> int:
        """After the plain loop, which runs everything: `auto` never takes it."""
        return -1

    def supports(
        self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape, *, record: bool = False
    ) -> Support:
        if dtype not in (torch.float32, torch.float64):
            return no(f"it computes in float32 and float64, not {dtype}")
        per_unit = sum(state.depth for state in cell.graph.states)
        size = per_unit * shape.H
        whole = size <= WHOLE
        if not whole and per_unit > SMALL:
            return no(
                f"{cell.name} keeps {per_unit} values for each unit; with more than {WHOLE} in all it takes at most {SMALL}"
            )
        numbers = shape.T * shape.B * size * (size if whole else per_unit)
        if numbers > MEMORY:
            return no(
                f"the Jacobians of {shape.T} steps of {shape.B} rows have {numbers:.1e} numbers; it takes at most {MEMORY:.1e}"
            )
        kind = f"whole Jacobians of {size} values" if whole else f"{per_unit} values of each unit by themselves"
        return Support(True, how=f"{kind}. {self.tally}".rstrip(". "))

    def run(
        self,
        cell: Cell,
        weights: Weights,
        x: Float[Tensor, "T B D"],
        initial: tuple[Float[Tensor, "_K B H"], ...],
        lengths: Int[Tensor, " B"] | None,
        *,
        record: bool = False,
    ) -> Run:
        units = (weights.units[name] for name in cell.graph.parameters)
        tensors = (x, weights.W, weights.b, weights.U, *units, *initial)
        ends = None if lengths is None else lengths.clone()
        task = Task(cell, weights, ends, len(x), x.shape[1], record)
        with torch.no_grad():
            s, certificate = task.solve(tensors)
        self.tally.calls += 1
        self.tally.last = certificate
        if not certificate.holds:
            self.tally.refused += 1
            other = self._other(cell, x, weights)
            if self.tally.refused.bit_count() == 1:  # the 1st, 2nd, 4th, 8th, … of them
                log.info(
                    "newton: %s over %d steps has no certificate (%d iterations, correction %.0e, residual %.0e); %s runs it, "
                    "as %d of %d calls so far",
                    *(cell.name, len(x), certificate.iterations, certificate.correction, certificate.residual),
                    *(other.name, self.tally.refused, self.tally.calls),
                )
            return other.run(cell, weights, x, initial, lengths, record=record)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            results = _Certified.apply(task, s, *tensors)  # type: ignore[no-untyped-call]
        else:
            results = task.results(s, initial)
        seen = len(initial) if record else 1
        return Run(results[0], tuple(results[seen:]), tuple(results[:seen]) if record else None)

    @staticmethod
    def _other(cell: Cell, x: Tensor, weights: Weights) -> Fused | Eager:
        fused, shape = Fused(), Shape(x.shape[1], len(x), x.shape[2], weights.U.shape[1])
        return fused if fused.supports(cell, x.device, weights.W.dtype, shape) else Eager()


class Task:
    """What a run has besides tensors with gradients. Those are x, W, b, U, per-unit parameters, initial states.

    A state stands as its components: each state of the cell and each of its earlier values that are read, `[N, B, H]`.
    """

    def __init__(self, cell: Cell, weights: Weights, ends: Tensor | None, T: int, B: int, record: bool):
        self.cell, self.noise, self.ends, self.record = cell, weights.noise, ends, record
        self.graph: Graph = cell.graph
        self.T, self.B, self.H = T, B, weights.U.shape[1]
        self.components = [(state.name, d) for state in self.graph.states for d in range(1, state.depth + 1)]
        self.newest = [self.components.index((state.name, 1)) for state in self.graph.states]
        self.whole = len(self.components) * self.H <= WHOLE
        # the steps of each batch row that it takes: nothing is computed of the others, where equations may have no value
        self.idle, self.taken = None, None
        if ends is not None:
            idle = torch.arange(T, device=ends.device)[:, None] >= ends
            self.idle, self.taken = idle[:, None, :, None], (~idle).flatten().nonzero()[:, 0]
        self.count = T * B if self.taken is None else len(self.taken)

    # -- one step of all times ---------------------------------------------------------------------------------------

    def first(self, initial: Sequence[Tensor]) -> Float[Tensor, "N B H"]:
        values = dict(zip((state.name for state in self.graph.states), initial, strict=True))
        return torch.stack([values[name][-delay] for name, delay in self.components])

    def before(self, s: Float[Tensor, "T N B H"], first: Tensor) -> Float[Tensor, "T N B H"]:
        """The state before each step; none where a sequence has ended."""
        values = torch.cat([first[None], s[:-1]])[: self.T]
        return values if self.idle is None else values.masked_fill(self.idle, 0.0)

    def rows(self, values: Float[Tensor, "T B _F"]) -> Float[Tensor, "N _F"]:
        """Those of all steps that are taken."""
        flat = values.flatten(0, 1)
        return flat if self.taken is None else flat[self.taken]

    def by_time(self, rows: Tensor) -> Tensor:
        """`[T, B, …]` again; zero where no step is taken."""
        if self.taken is not None:
            rows = rows.new_zeros(self.T * self.B, *rows.shape[1:]).index_copy(0, self.taken, rows)
        return cast(Tensor, rows.unflatten(0, (self.T, self.B)))

    def values(self, before: Float[Tensor, "T N B H"], tensors: Sequence[Tensor]) -> dict[Node, Any]:
        """Every value of the equations, for all steps of all batch rows in one axis."""
        x, W, b, U, *units = tensors[: 4 + len(self.graph.parameters)]
        drives = dict(zip(self.graph.drives, named_blocks(linear(self.rows(x), W, b), self.H), strict=True))
        states = {leaf: self.rows(before[:, k]) for k, leaf in enumerate(self.components)}
        masks = {name: self.rows(mask.expand(self.T, self.B, self.H)) for name, mask in self.noise.items()}
        parameters = dict(zip(self.graph.parameters, units, strict=True))

        def leaf(node: Node) -> Tensor:
            match node.kind:
                case "drive":
                    return drives[node.name]
                case "state":
                    return states[node.name, node.delay]
                case "noise":
                    return masks[node.name]
            return parameters[node.name]

        def product(name: str, v: Tensor) -> Tensor:
            wide = torch.as_tensor(v, dtype=U.dtype, device=U.device).expand(self.count, self.H)
            return linear(wide, block(U, self.graph.matrices, [name], self.H))

        return evaluate_in_order(self.graph.nodes, leaf, product)

    def after(self, before: Float[Tensor, "T N B H"], values: dict[Node, Any]) -> Float[Tensor, "T N B H"]:
        """f: the next value of each component; earlier values move on by one."""
        updates = {state.name: update for state, update in zip(self.graph.states, self.graph.updates, strict=True)}
        parts = []
        for name, delay in self.components:
            if delay > 1:
                parts.append(before[:, self.components.index((name, delay - 1))])
                continue
            value = torch.as_tensor(values[updates[name]], dtype=before.dtype, device=before.device)
            parts.append(self.by_time(value.expand(self.count, self.H)))
        made = torch.stack(parts, 1)
        return made if self.idle is None else made.masked_fill(self.idle, 0.0)

    def jacobians(self, values: dict[Node, Any], tensors: Sequence[Tensor]) -> Tensor:
        """∂f/∂s of each step: `[T, NH, NH, B]`, or what each unit does to itself, `[T, N, N, B, H]`."""
        T, B, H, N, R = self.T, self.B, self.H, len(self.components), self.count
        U, units = tensors[3], tensors[4 : 4 + len(self.graph.parameters)]
        matrices = {name: block(U, self.graph.matrices, [name], H) for name in self.graph.matrices}
        parameters = dict(zip(self.graph.parameters, units, strict=True))
        like = U.new_empty(1, H).expand(R, H)
        kind: type[Any] = Slope if self.whole else OwnSlope
        found = slopes(kind, self.graph.nodes, values, matrices, parameters, like)
        made = like.new_zeros((R, N, H, N, H) if self.whole else (R, N, N, H))
        for i, (name, delay) in enumerate(self.components):
            if delay > 1:
                j = self.components.index((name, delay - 1))
                if self.whole:
                    made[:, i, :, j].diagonal(dim1=-2, dim2=-1).fill_(1)
                else:
                    made[:, i, j] = 1
        for i, update in zip(self.newest, self.graph.updates, strict=True):
            for j, (name, delay) in enumerate(self.components):
                slope = found[update].get(make("state", name=name, delay=delay))
                if slope is not None and self.whole:
                    made[:, i, :, j] = slope.matrix(matrices, like)
                elif slope is not None:
                    made[:, i, j] = slope.value
        made = self.by_time(made)
        return made.reshape(T, B, N * H, N * H).permute(0, 2, 3, 1) if self.whole else made.movedim(1, 3)

    # -- forward -----------------------------------------------------------------------------------------------------

    def solve(self, tensors: Sequence[Tensor]) -> tuple[Float[Tensor, "T N B H"], Certificate]:
        """The trajectory, and whether it is one."""
        first = self.first(tensors[4 + len(self.graph.parameters) :])
        correction_limit, residual_limit = _limits(first.dtype)
        s = first.expand(self.T, *first.shape)
        s = s if self.idle is None else s.masked_fill(self.idle, 0.0)
        scale, least, grown, change = 1.0, float("inf"), 0, float("inf")
        iterations, arrived = 0, False
        while iterations < ITERATIONS and not arrived:
            iterations += 1
            before = self.before(s, first)
            values = self.values(before, tensors)
            J, b = scale * self.jacobians(values, tensors), self.after(before, values)
            b[1:] -= self.apply(J, before)[1:]
            found = self.scan(J, b)
            last, change = change, _relative(found - s, found)
            if self.whole and scale == 1:
                arrived = iterations > 1 and change <= correction_limit
            else:
                arrived = change <= residual_limit and _to_come(change, last) <= correction_limit
            grown = 0 if change < least else grown + 1
            if not change < float("inf") or grown > GROWS:
                scale, least, grown, change, arrived = scale / 2, float("inf"), 0, float("inf"), False
                found = torch.where(found.isfinite(), found, first)
            least, s = min(least, change), found
        before = self.before(s, first)
        s, earlier = self.after(before, self.values(before, tensors)), s
        residual = _relative(s - earlier, s)
        holds = self.T == 0 or (arrived and residual <= residual_limit)
        return s, Certificate(iterations, change, residual, holds)

    def apply(self, J: Tensor, s: Float[Tensor, "T N B H"]) -> Float[Tensor, "T N B H"]:
        return self.by_component(apply(J, self.as_scanned(s)))

    def scan(self, J: Tensor, b: Float[Tensor, "T N B H"], *, backward: bool = False) -> Float[Tensor, "T N B H"]:
        return self.by_component(linear_scan(J, self.as_scanned(b), backward=backward))

    def as_scanned(self, values: Float[Tensor, "T N B H"]) -> Tensor:
        """With the axes of `jacobians`."""
        return values.transpose(2, 3).flatten(1, 2) if self.whole else values

    def by_component(self, values: Tensor) -> Float[Tensor, "T N B H"]:
        return values.unflatten(1, (-1, self.H)).transpose(2, 3) if self.whole else values

    def results(self, s: Float[Tensor, "T N B H"], initial: Sequence[Tensor]) -> list[Tensor]:
        seen = self.newest if self.record else self.newest[:1]
        final = []
        path = torch.cat([self.first(initial)[None], s])
        ends = torch.full((self.B,), self.T, device=s.device) if self.ends is None else self.ends
        last = path[ends, :, torch.arange(self.B, device=s.device)]  # [B, N, H]
        for state, k in zip(self.graph.states, self.newest, strict=True):
            final.append(last[:, k : k + state.depth].flip(1).transpose(0, 1))
        return [*(s[:, k] for k in seen), *final]

    # -- backward ----------------------------------------------------------------------------------------------------

    def backward(
        self, s: Tensor, tensors: Sequence[Tensor], grads: Sequence[Tensor | None], wanted: Sequence[bool]
    ) -> list[Tensor | None] | None:
        """The gradients of what `results` gives; `None` if they were not reached."""
        count = 4 + len(self.graph.parameters)
        arriving, of_first = self.arriving(s, grads)
        with torch.no_grad():
            before = self.before(s, self.first(tensors[count:]))
            J = self.jacobians(self.values(before, tensors), tensors).transpose(1, 2)
        leaves = [each.detach().requires_grad_(want) for each, want in zip(tensors[:count], wanted, strict=False)]
        before = before.requires_grad_()
        with torch.enable_grad():
            after = self.after(before, self.values(before, leaves))

        def pass_back(adjoint: Tensor) -> Tensor:
            (found,) = torch.autograd.grad(after, before, adjoint, retain_graph=True, materialize_grads=True)
            return found

        adjoint = self.adjoint(_next(J), arriving, pass_back)
        if adjoint is None:
            return None
        asked = [before, *(leaf for leaf in leaves if leaf.requires_grad)]
        found = torch.autograd.grad(after, asked, adjoint, materialize_grads=True)
        of_first = of_first + found[0][:1].sum(0)  # of no steps: nothing
        rest = iter(found[1:])
        of_leaves = [next(rest) if leaf.requires_grad else None for leaf in leaves]
        of_initial = [
            of_first[k : k + state.depth].flip(0) for state, k in zip(self.graph.states, self.newest, strict=True)
        ]
        return [*of_leaves, *of_initial]

    def arriving(self, s: Tensor, grads: Sequence[Tensor | None]) -> tuple[Float[Tensor, "T N B H"], Tensor]:
        """What arrives at each component of each step, and at those before the first, from outside."""
        made = s.new_zeros(self.T + 1, *s.shape[1:])
        seen = self.newest if self.record else self.newest[:1]
        for k, grad in zip(seen, grads, strict=False):
            if grad is not None:
                made[1:, k] += grad if self.idle is None else grad.masked_fill(self.idle[:, 0], 0.0)
        ends = torch.full((self.B,), self.T, device=s.device) if self.ends is None else self.ends
        rows = torch.arange(self.B, device=s.device)
        for state, k, grad in zip(self.graph.states, self.newest, grads[len(seen) :], strict=True):
            for delay in range(1, state.depth + 1):
                if grad is not None:
                    made[ends, k + delay - 1, rows] += grad[-delay]
        return made[1:], made[0]

    def adjoint(
        self, A: Tensor, arriving: Float[Tensor, "T N B H"], pass_back: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "T N B H"] | None:
        """∂L/∂s: its own linear recurrence, backward. Where `A` has only a part of the Jacobians, what is missing is passed back
        through the step until nothing changes; `None` if that does not end."""
        found = self.scan(A, arriving, backward=True)
        if self.whole or not found.numel():
            return found
        limit, change = _limits(found.dtype)[0], float("inf")
        for _ in range(ITERATIONS):
            missing = _next(pass_back(found)) - self.apply(A, _next(found))
            better = self.scan(A, arriving + missing, backward=True)
            last, change, found = change, _relative(better - found, better), better
            if change <= limit and _to_come(change, last) <= limit:
                return found
        return None


class _Certified(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, task: Task, s: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.task = task
        ctx.save_for_backward(s, *tensors)
        ctx.set_materialize_grads(False)
        return tuple(task.results(s, tensors[4 + len(task.graph.parameters) :]))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        task: Task = ctx.task
        s, *tensors = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:]
        found = None if needs_other_derivatives(grads) else task.backward(s, tensors, grads, wanted)
        if found is None:  # or an adjoint that was not reached

            def again(*given: Tensor) -> list[Tensor]:
                return run_eagerly(task.cell, task.noise, task.ends, given, record=task.record)

            found = differentiate(again, tensors, grads, wanted, create_graph=torch.is_grad_enabled())
        return (None, None, *found)


def _limits(dtype: torch.dtype) -> tuple[float, float]:
    """The largest correction and the largest residual that are taken for none."""
    return (1e-10, 1e-12) if dtype == torch.float64 else (1e-5, 2e-6)


def _relative(difference: Float[Tensor, "T N B H"], s: Float[Tensor, "T N B H"]) -> float:
    """The largest difference, as a share of the largest |s| of its state in its sequence; infinite where any is not finite."""
    if not difference.numel():
        return 0.0
    off, size = (each.abs().amax((0, 3)) for each in (difference, s))
    worst = float(torch.where(off == 0, 0, off / size).max())
    return worst if worst < float("inf") else float("inf")


def _to_come(change: float, last: float) -> float:
    """What all further corrections add up to, if each is as much smaller than the one before as this one is; of the first one
    nothing is known."""
    shrinks = change / last if change > 0 and last < float("inf") else float(change > 0)
    return change * shrinks / (1 - shrinks) if shrinks < 1 else float("inf")


def _next(values: Tensor) -> Tensor:
    """Those of the step after; zero after the last one."""
    return torch.cat([values[1:], torch.zeros_like(values[:1])])
