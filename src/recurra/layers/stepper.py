"""`Stepper`: a trained network on a stream, with nothing allocated from step to step."""

from __future__ import annotations

import torch
from torch import Tensor

from recurra.engines.choose import choose
from recurra.engines.fused.streaming import Stream
from recurra.errors import OptionError, ShapeError
from recurra.layers.direction import batch_first, time_first
from recurra.layers.recurrent import Recurrent
from recurra.types import Float, Shape, State


class Stepper:
    """Runs a `Recurrent` layer sample by sample or chunk by chunk, on the CPU, at batch 1, without gradients.

    It copies the weights as they are now and holds the state. Equal to the layer called on the whole sequence.

    ```python
    stepper = rc.Stepper(rc.Recurrent("lstm", input_size=1, hidden_size=32))
    y = stepper.step(torch.tensor([0.5]))        # [32]; overwritten by the next call
    ys = stepper.chunk(torch.randn(480, 1))      # [480, 32]; goes on where step stopped
    ```
    """

    def __init__(self, layer: Recurrent):
        if layer.bidirectional:
            raise OptionError("a stream runs forward in time; a bidirectional layer needs the whole sequence.")
        ones = [directions[0] for directions in layer.stack]
        for one in ones:  # raises with the reason where it cannot run
            choose("fused", one.cell, one.W.device, one.W.dtype, Shape(1, 1, one.input_size, one.hidden_size))
        self.layer = layer
        training, _ = layer.training, layer.eval()  # masks of dropout and zoneout are at their mean
        with torch.no_grad():
            layer(ones[0].W.new_zeros(1, 1, layer.input_size))  # hooks make weights anew: pruning, old weight norm
            self._streams = [Stream(one.cell, one.weights(1, 1), 1) for one in ones]
        layer.train(training)
        self._y = [torch.zeros(one.hidden_size, dtype=one.W.dtype, device="cpu") for one in ones]
        self._addresses = [y.data_ptr() for y in self._y]
        self.reset()

    def reset(self) -> None:
        """Back to the state before the first step."""
        with torch.no_grad():
            self.state = self.layer.initial_state(1)

    @property
    def state(self) -> State:
        """The state as `Recurrent` takes and gives it."""
        return tuple((tuple(batch_first(each) for each in stream.state),) for stream in self._streams)

    @state.setter
    def state(self, state: State) -> None:
        self.layer._check_state(state, 1)
        for stream, directions in zip(self._streams, state, strict=True):
            stream.state = tuple(time_first(each) for each in directions[0])

    def step(self, x: Float[Tensor, " D"]) -> Float[Tensor, " H"]:
        """One step. The result is memory of the stepper: clone it if it must outlive the next call."""
        if x.shape != (self.layer.input_size,) or x.dtype != self._y[0].dtype or not x.is_contiguous():
            self._refuse(x, "[D]")
        address = x.data_ptr()
        residual = self.layer.residual
        for k, (stream, out) in enumerate(zip(self._streams, self._addresses, strict=True)):
            stream.run(address, out, 1)
            if residual and k:
                self._y[k] += self._y[k - 1]
            address = out
        return self._y[-1]

    def chunk(self, x: Float[Tensor, "T D"]) -> Float[Tensor, "T H"]:
        """All steps of a chunk of the stream."""
        if x.ndim != 2 or x.shape[1] != self.layer.input_size or x.dtype != self._y[0].dtype or len(x) == 0:
            self._refuse(x, "[T, D]")
        x = x.detach().contiguous()
        for k, stream in enumerate(self._streams):
            out = x.new_empty(len(x), len(self._y[k]))
            stream.run(x.data_ptr(), out.data_ptr(), len(x))
            if self.layer.residual and k:
                out += x
            x = out
        return x

    def _refuse(self, x: Tensor, wanted: str) -> None:
        raise ShapeError(
            f"the stream takes {wanted} with D = {self.layer.input_size} in {self._y[0].dtype}, contiguous; "
            f"got {list(x.shape)} in {x.dtype}."
        )
