"""Echo state networks: recurrent weights that are drawn and stay, and a linear readout that is solved for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from recurra.cells.leaky import leaky
from recurra.cells.parameters import Fixed, Groups
from recurra.errors import DataError, OptionError, quoted
from recurra.layers.initial import spectral_radius
from recurra.layers.recurrent import Recurrent
from recurra.models.ridge import Ridge
from recurra.types import Float, State

States = tuple[State, ...]
"""The state of each reservoir."""


class EchoState(nn.Module):
    """y_t = V [1, x_t, h_t], with h_t from reservoirs that read x_t: recurrent layers whose weights are never trained.

    x_t is an input, or (`feedback`) the output of the step before, or both, one after the other. While it is taught, the true
    outputs are fed back; by itself (`run_free`) its own are. Outputs and inputs are standardised by `shift` and `scale`, which
    `standardise` sets.

    - `input_size`, `output_size`: the numbers that a step reads, and that it predicts. `input_size` may be 0 with feedback.
    - `hidden_size`: units of each layer. `layers`: how many are stacked; the readout reads all of them. `reservoirs`: how many
      such stacks run side by side.
    - `leak`: the share of its state that a unit renews at each step; several, for equal groups of units: several time scales.
    - `radius`: the largest |λ| of each recurrent matrix. `density`: the share of its weights that are not zero.
    - `input_scale`, `bias_scale`: input weights and biases are uniform in ± these.
    - `draw`: draw the weights; `False` leaves them to be loaded.

    ```python
    series = rc.data.mackey_glass(4000)
    model = rc.models.EchoState(0, 1, feedback=True, hidden_size=300)
    model.standardise(series)
    model.learn(series, washout=200, penalty=1e-9)
    future = model.run_free(100, *model.warm_up(series[None]))     # [1, 100, 1]
    ```
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        *,
        feedback: bool = False,
        hidden_size: int = 1000,
        leak: float | Sequence[float] = 0.8,
        layers: int = 1,
        reservoirs: int = 1,
        radius: float = 1.0,
        density: float = 1.0,
        input_scale: float = 0.2,
        bias_scale: float = 0.2,
        engine: str = "auto",
        draw: bool = True,
    ):
        super().__init__()
        if input_size < 1 and not feedback:
            raise OptionError("an echo state network needs inputs: input_size of at least 1, or feedback=True.")
        if reservoirs < 1 or output_size < 1:
            raise OptionError(f"reservoirs and output_size must be at least 1; got {reservoirs} and {output_size}.")
        self.input_size, self.output_size, self.feedback = input_size, output_size, feedback
        read = input_size + output_size * feedback
        leaks = [leak] if isinstance(leak, (int, float)) else list(leak)
        if not leaks or not all(0 < each <= 1 for each in leaks):
            raise OptionError(f"leak must lie above 0 and not above 1, one or several; got {quoted(leak)}.")
        cell = leaky(alpha=Fixed(Groups([1 - each for each in leaks])))
        self.reservoirs = nn.ModuleList(
            Recurrent(
                cell,
                read,
                hidden_size,
                layers=layers,
                engine=engine,
                init=spectral_radius(radius, density) if draw else _leave,
                dtype=torch.float64,
            )
            for _ in range(reservoirs)
        )
        self.output = nn.Linear(
            1 + read + reservoirs * layers * hidden_size, output_size, bias=False, dtype=torch.float64
        )
        nn.init.zeros_(self.output.weight)
        self.shift: Tensor
        self.scale: Tensor
        self.register_buffer("shift", torch.zeros(input_size + output_size, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(input_size + output_size, dtype=torch.float64))
        self.requires_grad_(False)
        if draw:
            self._draw_inputs(input_scale, bias_scale)

    @torch.no_grad()
    def _draw_inputs(self, input_scale: float, bias_scale: float) -> None:
        """Input weights and biases; a layer that reads another has many inputs, which together weigh as much as one."""
        for reservoir in self.stacks:
            for k, (direction,) in enumerate(reservoir.stack):
                bound = input_scale / (direction.input_size**0.5 if k else 1)
                direction.W.uniform_(-bound, bound)
                direction.b.uniform_(-bias_scale, bias_scale)

    @property
    def stacks(self) -> list[Recurrent]:
        """The reservoirs, each with its layers."""
        return [cast(Recurrent, each) for each in self.reservoirs]

    @torch.no_grad()
    def standardise(self, outputs: Float[Tensor, "T O"], inputs: Float[Tensor, "T D"] | None = None) -> None:
        """Read and predict numbers of about the size of these as if their mean were 0 and their standard deviation 1."""
        known = outputs if inputs is None else torch.cat([inputs, outputs], dim=1)
        self.shift.copy_(known.mean(0))
        self.scale.copy_(known.std(0))
        if not bool((self.scale > 0).all()):
            raise DataError("a column never changes: there is nothing to learn in it. Leave it out.")

    def rows(
        self, outputs: Float[Tensor, "B T O"], inputs: Float[Tensor, "B T D"] | None = None
    ) -> tuple[Float[Tensor, "B N X"], Float[Tensor, "B N O"]]:
        """What is read and what is to be predicted at each step, standardised. With feedback the first step is only fed."""
        outputs = outputs.to(self.shift)
        y = (outputs - self.shift[self.input_size :]) / self.scale[self.input_size :]
        u = (
            y[..., :0]
            if inputs is None
            else (inputs.to(y) - self.shift[: self.input_size]) / self.scale[: self.input_size]
        )
        if not self.feedback:
            return u, y
        return torch.cat([u[:, 1:], y[:, :-1]], dim=-1), y[:, 1:]

    def echoes(self, x: Float[Tensor, "B T X"], states: States | None = None) -> tuple[Float[Tensor, "B T F"], States]:
        """What the readout reads at each step, [1, x, every layer's h], and the states after the last."""
        parts, finals = [torch.ones_like(x[..., :1]), x], []
        for k, reservoir in enumerate(self.stacks):
            deep = len(reservoir.stack) > 1
            trace = reservoir(x, None if states is None else states[k], record=deep)
            if deep and trace.record is not None:
                first = reservoir.cell.graph.states[0].name
                parts += [layer[0][first] for layer in trace.record]
            else:
                parts.append(trace.outputs)
            finals.append(trace.final)
        return torch.cat(parts, dim=-1), tuple(finals)

    def forward(self, x: Float[Tensor, "B T X"], states: States | None = None) -> tuple[Float[Tensor, "B T O"], States]:
        """What is predicted at each step, standardised, and the states after the last."""
        read, final = self.echoes(x, states)
        return self.output(read), final

    @torch.no_grad()
    def learn(
        self,
        outputs: Float[Tensor, "T O"],
        inputs: Float[Tensor, "T D"] | None = None,
        *,
        washout: int = 100,
        penalty: float = 1e-8,
    ) -> ReadoutFit:
        """Solve for the readout that predicts `outputs`, all but the first `washout` of them, while it reads `inputs`."""
        fit = ReadoutFit(self, outputs, inputs, washout)
        for _ in range(fit.chunks):
            fit.read()
        fit.solve(penalty)
        return fit

    @torch.no_grad()
    def warm_up(
        self,
        outputs: Float[Tensor, "B T O"],
        inputs: Float[Tensor, "B T D"] | None = None,
        states: States | None = None,
    ) -> tuple[States, Float[Tensor, "B O"]]:
        """Read what is known: the states after it, and the last output, which the next step is fed."""
        x, _ = self.rows(outputs, inputs)
        return self.echoes(x, states)[1], outputs[:, -1]

    @torch.no_grad()
    def run_free(
        self,
        steps: int,
        states: States,
        last: Float[Tensor, "B O"],
        inputs: Float[Tensor, "B T D"] | None = None,
    ) -> Float[Tensor, "B T O"]:
        """Go on alone: each step is fed what the step before predicted.

        - `states`, `last`: as `warm_up` gives them.
        - `inputs`: those of the steps to come, for a network that reads inputs as well.
        """
        if not self.feedback:
            raise OptionError("this network is not fed its outputs: it cannot run free. Build it with feedback=True.")
        D = self.input_size
        shift, scale = self.shift[D:], self.scale[D:]
        fed = ((last.to(shift) - shift) / scale)[:, None]
        predicted = []
        for t in range(steps):
            x = fed
            if inputs is not None:
                x = torch.cat([(inputs[:, t : t + 1].to(shift) - self.shift[:D]) / self.scale[:D], fed], dim=-1)
            fed, states = self(x, states)
            predicted.append(fed)
        return torch.cat(predicted, dim=1) * scale + shift


class ReadoutFit:
    """The readout of a network being solved for, a chunk of the series at a time: its length does not matter to memory.

    - `ridge`: what is known of all chunks so far; `states`: the reservoirs after them; `done`: how many.
    """

    def __init__(
        self,
        model: EchoState,
        outputs: Float[Tensor, "T O"],
        inputs: Float[Tensor, "T D"] | None,
        washout: int,
        length: int = 1000,
    ):
        if len(outputs) <= washout + 1:
            raise DataError(
                f"a series of {len(outputs)} steps is too short to learn from after a washout of {washout}. "
                "Give more data, or a shorter washout."
            )
        self.model, self.length = model, length
        self.x, self.y = model.rows(outputs[None], None if inputs is None else inputs[None])
        self.skipped = max(0, washout - model.feedback)  # fed back, the first output is never asked for
        self.ridge = Ridge(model.output.in_features, model.output_size)
        self.states: States | None = None
        self.done = 0

    @property
    def chunks(self) -> int:
        return -(-self.x.shape[1] // self.length)

    @torch.no_grad()
    def read(self) -> tuple[float, int]:
        """Read the next chunk: how far the readout as it is now is off in it (mean square, standardised), and its steps."""
        first = self.done * self.length
        part = slice(first, first + self.length)
        read, self.states = self.model.echoes(self.x[:, part], self.states)
        wanted = self.y[:, part]
        error = float((self.model.output(read) - wanted).square().mean())
        kept = slice(max(0, self.skipped - first), None)
        self.ridge.add(read[0, kept], wanted[0, kept])
        self.done += 1
        return error, wanted.shape[1]

    @torch.no_grad()
    def solve(self, penalty: float) -> float:
        """Put the best readout for all chunks so far into the model: its error in them, root mean square, standardised."""
        W = self.ridge.solve(penalty)
        self.model.output.weight.copy_(W.T)
        return float(self.ridge.error(W).mean().sqrt())


def join(states: Sequence[States]) -> States:
    """The states of several runs as batch rows of one."""
    joined: States = _join(list(states))
    return joined


def _join(parts: list[Any]) -> Any:
    if isinstance(parts[0], Tensor):
        return torch.cat(parts)
    return tuple(_join(list(each)) for each in zip(*parts, strict=True))


def _leave(matrix: Tensor) -> None:
    """For weights that are about to be loaded: finding eigenvalues takes longer than all the rest."""
    matrix.zero_()
