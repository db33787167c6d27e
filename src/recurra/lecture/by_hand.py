"""Back-propagation by hand: the sensitivities δ of an Elman network through time, and of a feed-forward network.

For reading beside the formulas, and as a second opinion on autograd: nothing here asks autograd for a derivative.
Axes beside the usual ones: O outputs (classes, or numbers), N samples, I and J the units below and in a layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, cast

import torch
from torch import Tensor

from recurra.cells.operations import ACTIVATIONS, OPERATIONS
from recurra.errors import OptionError, ShapeError, choose_from
from recurra.models.feedforward import Feedforward, hidden_layers, weights_of
from recurra.types import Float, Int

ELMAN_ACTIVATIONS = ("tanh", "sigmoid", "relu", "linear")
LAYER_ACTIVATIONS = (*ELMAN_ACTIVATIONS, "softplus")
OVER_TIME = ("sum", "mean", "1/t", "last")


@dataclass(frozen=True)
class ElmanWeights:
    """The weights of a(t) = W_x x(t) + W_h h(t−1) + b and o(t) = W_y h(t) + c.

    ```python
    weights = rc.lecture.ElmanWeights(*(torch.randn(size, dtype=torch.float64) for size in ((4, 3), (4, 4), 4, (2, 4), 2)))
    ```
    """

    W_x: Float[Tensor, "H D"]
    W_h: Float[Tensor, "H H"]
    b: Float[Tensor, " H"]
    W_y: Float[Tensor, "O H"]
    c: Float[Tensor, " O"]

    def __post_init__(self) -> None:
        _expect_matrix("W_x", self.W_x, "[H, D]")
        _expect_matrix("W_y", self.W_y, "[O, H]")
        H, O = len(self.W_x), len(self.W_y)
        _expect("W_h", self.W_h, "[H, H]", (H, H), "W_x", self.W_x)
        _expect("b", self.b, "[H]", (H,), "W_x", self.W_x)
        _expect("W_y", self.W_y, "[O, H]", (O, H), "W_x", self.W_x)
        _expect("c", self.c, "[O]", (O,), "W_y", self.W_y)


@dataclass(frozen=True)
class ElmanForward:
    """One forward pass, with all that the backward pass reads.

    - `a`, `h`, `o`, `y_hat`: net input, state, output and prediction at every step; `h0` is the state before the first.
    - `losses`: L_t of every sequence at every step; `scale`: the weight s_t of each step.
    - `loss`: Σ_t s_t L_t, summed over the batch.
    """

    weights: ElmanWeights
    activation: str
    x: Float[Tensor, "B T D"]
    targets: Int[Tensor, "B T"] | Float[Tensor, "B T O"]
    h0: Float[Tensor, "B H"]
    a: Float[Tensor, "B T H"]
    h: Float[Tensor, "B T H"]
    o: Float[Tensor, "B T O"]
    y_hat: Float[Tensor, "B T O"]
    losses: Float[Tensor, "B T"]
    scale: Float[Tensor, " T"]
    loss: Float[Tensor, ""]


@dataclass(frozen=True)
class ElmanDeltas:
    """δ_v(t) = ∂L/∂v(t) for the output o, the state h and the net input a."""

    o: Float[Tensor, "B T O"]
    h: Float[Tensor, "B T H"]
    a: Float[Tensor, "B T H"]


@dataclass(frozen=True)
class ElmanGradients:
    """∂L/∂ each weight, under the weight's own name; also for the state before the first step and for the inputs."""

    W_x: Float[Tensor, "H D"]
    W_h: Float[Tensor, "H H"]
    b: Float[Tensor, " H"]
    W_y: Float[Tensor, "O H"]
    c: Float[Tensor, " O"]
    h0: Float[Tensor, "B H"]
    x: Float[Tensor, "B T D"]


@torch.no_grad()
def elman_forward(
    weights: ElmanWeights,
    x: Float[Tensor, "B T D"],
    targets: Tensor,
    h0: Float[Tensor, "B H"] | None = None,
    *,
    activation: str = "tanh",
    over_time: str = "sum",
) -> ElmanForward:
    """Run sequences forward and measure the loss.

        a(t) = W_x x(t) + W_h h(t−1) + b        h(t) = φ(a(t))        o(t) = W_y h(t) + c

        targets are class indices:   ŷ(t) = softmax(o(t))    L_t = −log ŷ(t)[y(t)]
        targets are real numbers:    ŷ(t) = o(t)             L_t = ½ ‖ŷ(t) − y(t)‖²

        L = Σ_t s_t L_t

    - `targets`: whole numbers `[B, T]`, or real numbers `[B, T, O]`.
    - `h0`: the state before the first step; zero otherwise.
    - `activation`: φ, one of `tanh`, `sigmoid`, `relu`, `linear`.
    - `over_time`: the weights s_t. `sum` is 1; `mean` is 1/T; `1/t` divides the gradient of L_t by the number of steps that
      it runs back through, which leaves its direction as it was; `last` is 1 at t = T and 0 before, and takes one target
      per sequence: `[B]`, or `[B, O]`.

    Elman 1990; in this notation: Goodfellow, Bengio & Courville 2016, Deep Learning, section 10.2.

    ```python
    weights = rc.lecture.ElmanWeights(*(torch.randn(size, dtype=torch.float64) for size in ((4, 3), (4, 4), 4, (2, 4), 2)))
    x, y = torch.randn(1, 5, 3, dtype=torch.float64), torch.randint(2, (1, 5))
    rc.lecture.elman_forward(weights, x, y).loss
    ```
    """
    choose_from("activation", activation, ELMAN_ACTIVATIONS)
    choose_from("over_time", over_time, OVER_TIME)
    W_x, W_h, b, W_y, c = weights.W_x, weights.W_h, weights.b, weights.W_y, weights.c
    H, D = W_x.shape
    if x.ndim != 3 or x.shape[2] != D or min(x.shape[:2]) < 1:
        raise ShapeError(
            f"x must be [B, T, {D}] (D = {D} columns of W_x) with at least one sequence and step; got {list(x.shape)}."
        )
    B, T, _ = x.shape
    _expect("x", x, "[B, T, D]", (B, T, D), "W_x", W_x)
    h0 = x.new_zeros(B, H) if h0 is None else h0
    _expect("h0", h0, "[B, H]", (B, H), "W_x", W_x)
    targets = _spread_targets(targets, B, T, weights, over_time)

    steps = torch.arange(1, T + 1, dtype=x.dtype, device=x.device)
    scale = {
        "sum": torch.ones_like(steps),
        "mean": torch.ones_like(steps) / T,
        "1/t": 1 / steps,
        "last": (steps == T).to(x.dtype),
    }[over_time]

    nets, states, before = [], [], h0
    for t in range(T):
        nets.append(x[:, t] @ W_x.T + before @ W_h.T + b)
        states.append(_phi(activation, nets[t]))
        before = states[t]
    a, h = torch.stack(nets, dim=1), torch.stack(states, dim=1)

    o = h @ W_y.T + c
    if _are_classes(targets):
        log_y = o.log_softmax(dim=-1)
        y_hat = log_y.exp()
        losses = -log_y.gather(-1, targets[:, :, None])[:, :, 0]
    else:
        y_hat = o
        losses = 0.5 * (y_hat - targets).square().sum(dim=-1)
    loss = (scale * losses).sum()
    return ElmanForward(weights, activation, x, targets, h0, a, h, o, y_hat, losses, scale, loss)


@torch.no_grad()
def elman_deltas(forward: ElmanForward) -> ElmanDeltas:
    """The sensitivities, from the last step to the first.

        δ_o(t) = s_t (ŷ(t) − y(t))                       for both losses; y(t) is one-hot for classes
        δ_h(t) = W_yᵀ δ_o(t) + W_hᵀ δ_a(t+1)             δ_a(T+1) = 0
        δ_a(t) = φ'(a(t)) ⊙ δ_h(t)

    At the last step only its own error counts; before it, also what flows back from the step after. Werbos 1990.
    """
    W_h, W_y = forward.weights.W_h, forward.weights.W_y
    slope = _slope(forward.activation, forward.a, forward.h)
    delta_o = _output_deltas(forward)
    delta_h, delta_a = torch.empty_like(forward.h), torch.empty_like(forward.a)
    after = torch.zeros_like(forward.h0)
    for t in reversed(range(forward.h.shape[1])):
        delta_h[:, t] = delta_o[:, t] @ W_y + after @ W_h
        delta_a[:, t] = slope[:, t] * delta_h[:, t]
        after = delta_a[:, t]
    return ElmanDeltas(delta_o, delta_h, delta_a)


@torch.no_grad()
def elman_bptt(forward: ElmanForward) -> ElmanGradients:
    """Back-propagation through time: the gradients of `forward.loss`, read off the sensitivities of `elman_deltas`.

        ∂L/∂W_y = Σ_t δ_o(t) h(t)ᵀ          ∂L/∂c = Σ_t δ_o(t)
        ∂L/∂W_h = Σ_t δ_a(t) h(t−1)ᵀ        ∂L/∂b = Σ_t δ_a(t)
        ∂L/∂W_x = Σ_t δ_a(t) x(t)ᵀ
        ∂L/∂h(0) = W_hᵀ δ_a(1)              ∂L/∂x(t) = W_xᵀ δ_a(t)

    Each weight is the same at every step, so its gradient is a sum over the steps (and over the batch); the state before
    the first step and the inputs belong to one sequence each. Werbos 1990.

    ```python
    weights = rc.lecture.ElmanWeights(*(torch.randn(size, dtype=torch.float64) for size in ((4, 3), (4, 4), 4, (2, 4), 2)))
    x, y = torch.randn(1, 5, 3, dtype=torch.float64), torch.randint(2, (1, 5))
    rc.lecture.elman_bptt(rc.lecture.elman_forward(weights, x, y)).W_h
    ```
    """
    weights, delta = forward.weights, elman_deltas(forward)
    return ElmanGradients(
        W_x=torch.einsum("bth,btd->hd", delta.a, forward.x),
        W_h=torch.einsum("bti,btj->ij", delta.a, _states_before(forward)),
        b=delta.a.sum(dim=(0, 1)),
        W_y=torch.einsum("bto,bth->oh", delta.o, forward.h),
        c=delta.o.sum(dim=(0, 1)),
        h0=delta.a[:, 0] @ weights.W_h,
        x=delta.a @ weights.W_x,
    )


@torch.no_grad()
def elman_bptt_double_sum(forward: ElmanForward) -> tuple[ElmanGradients, Float[Tensor, "T T"]]:
    """The gradients of `elman_bptt`, with every path from a loss to a step written out; slow, for reading.

        ∂L/∂W_h = Σ_t Σ_{k≤t} ∂L_t/∂h_t · ∂h_t/∂h_k · ∂⁺h_k/∂W_h

        ∂h_t/∂h_k = Π_{j=k+1..t} ∂h_j/∂h_{j−1}          ∂h_j/∂h_{j−1} = diag(φ'(a_j)) W_h

    and likewise for W_x and b. ∂⁺h_k/∂W_h is the derivative at step k alone, with h_{k−1} held fixed: φ'(a_k) h_{k−1}ᵀ.
    s_t stands inside ∂L_t.

    The second result holds the norm of each contribution to ∂L/∂W_h: `norms[t, k]` is what the loss at step t contributes through
    the use of W_h at step k (both counted from 0), zero for k > t. Along a row, to the left, it shrinks or grows as
    the product of Jacobians does. Where h0 is zero, so is column 0. Pascanu, Mikolov & Bengio 2013.

    ```python
    weights = rc.lecture.ElmanWeights(*(torch.randn(size, dtype=torch.float64) for size in ((4, 3), (4, 4), 4, (2, 4), 2)))
    x, y = torch.randn(1, 5, 3, dtype=torch.float64), torch.randint(2, (1, 5))
    gradients, norms = rc.lecture.elman_bptt_double_sum(rc.lecture.elman_forward(weights, x, y))
    ```
    """
    weights, x = forward.weights, forward.x
    B, T, H = forward.h.shape
    before = _states_before(forward)
    slope = _slope(forward.activation, forward.a, forward.h)
    jacobian = slope[:, :, :, None] * weights.W_h  # ∂h_k/∂h_{k−1}, [B, T, H, H]
    delta_o = _output_deltas(forward)

    d_W_x, d_W_h, d_b = torch.zeros_like(weights.W_x), torch.zeros_like(weights.W_h), torch.zeros_like(weights.b)
    d_W_y, d_c = torch.zeros_like(weights.W_y), torch.zeros_like(weights.c)
    d_h0, d_x = torch.zeros_like(forward.h0), torch.zeros_like(x)
    norms = x.new_zeros(T, T)
    for t in range(T):
        d_W_y += delta_o[:, t].T @ forward.h[:, t]
        d_c += delta_o[:, t].sum(dim=0)
        loss_by_h_t = delta_o[:, t] @ weights.W_y
        h_t_by_h_k = torch.eye(H, dtype=x.dtype, device=x.device).expand(B, H, H)
        for k in range(t, -1, -1):
            loss_by_a_k = _row_times(loss_by_h_t, h_t_by_h_k) * slope[:, k]
            contribution = loss_by_a_k.T @ before[:, k]
            norms[t, k] = contribution.norm()
            d_W_h += contribution
            d_W_x += loss_by_a_k.T @ x[:, k]
            d_b += loss_by_a_k.sum(dim=0)
            d_x[:, k] += loss_by_a_k @ weights.W_x
            h_t_by_h_k = h_t_by_h_k @ jacobian[:, k]
        d_h0 += _row_times(loss_by_h_t, h_t_by_h_k)
    return ElmanGradients(d_W_x, d_W_h, d_b, d_W_y, d_c, d_h0, d_x), norms


@dataclass(frozen=True)
class Layer:
    """One layer of a feed-forward network: φ(W y + b), with φ one of `tanh`, `sigmoid`, `relu`, `softplus`, `linear`.

    ```python
    rc.lecture.Layer(torch.randn(4, 3), torch.zeros(4), "relu")
    ```
    """

    W: Float[Tensor, "J I"]
    b: Float[Tensor, " J"]
    activation: str = "tanh"

    def __post_init__(self) -> None:
        choose_from("activation", self.activation, LAYER_ACTIVATIONS)
        _expect_matrix("W", self.W, "[J, I]")
        _expect("b", self.b, "[J]", (len(self.W),), "W", self.W)


@dataclass(frozen=True)
class FeedforwardDeltas:
    """A pass forward and back.

    - `z`: the network's outputs (of classes: their probabilities); `loss`: J.
    - `deltas`: for each layer, the sensitivity of each sample's own error, ½‖t − z‖² or −log z_t, to the layer's net inputs.
    - `W`, `b`: for each layer, ∂J/∂W and ∂J/∂b.
    """

    z: Float[Tensor, "N O"]
    loss: Float[Tensor, ""]
    deltas: tuple[Float[Tensor, "N J"], ...]
    W: tuple[Float[Tensor, "J I"], ...]
    b: tuple[Float[Tensor, " J"], ...]

    @property
    def norm(self) -> float:
        """‖∇J‖ over all weights and biases together."""
        return math.sqrt(sum(float(gradient.square().sum()) for gradient in (*self.W, *self.b)))


@torch.no_grad()
def feedforward_deltas(layers: Sequence[Layer], x: Float[Tensor, "N I"], targets: Tensor) -> FeedforwardDeltas:
    """The δ rule for a network of any number of layers.

        forward, layer by layer:     net = W y + b        y ← φ(net)        z is the y of the last layer
        J = 1/(2n) Σ ‖t − z‖²

        last layer:                  δ_k = −(t_k − z_k) φ'(net_k)
        each layer below:            δ_j = φ'(net_j) Σ_k δ_k w_kj
        gradients:                   ∂J/∂w_kj = 1/n Σ δ_k y_j        ∂J/∂b_k = 1/n Σ δ_k

    y_j is what the layer reads: the output of the layer below, or x. Rumelhart, Hinton & Williams 1986.

    - `targets`: real numbers `[N, O]`, or whole numbers `[N]`, which are classes. The last layer is linear then, z is the softmax
      of its output, and J = −1/n Σ log z_t: its δ_k = −(t_k − z_k), with t one-hot.

    ```python
    layers = [rc.lecture.Layer(torch.randn(4, 3), torch.zeros(4)), rc.lecture.Layer(torch.randn(2, 4), torch.zeros(2), "linear")]
    rc.lecture.feedforward_deltas(layers, torch.randn(8, 3), torch.randint(2, (8,)))
    ```
    """
    _check_network(layers, x, targets)
    n = len(x)
    ys, nets = [x], []
    for layer in layers:
        nets.append(ys[-1] @ layer.W.T + layer.b)
        ys.append(_phi(layer.activation, nets[-1]))
    z = ys[-1]
    if _are_classes(targets):
        log_z = z.log_softmax(dim=-1)
        z, loss = log_z.exp(), -log_z.gather(1, targets[:, None]).mean()
        targets = torch.nn.functional.one_hot(targets, z.shape[1])
    else:
        loss = (targets - z).square().sum() / (2 * n)

    by_output = -(targets - z)
    deltas: list[Tensor] = []
    for k in reversed(range(len(layers))):
        deltas.insert(0, by_output * _slope(layers[k].activation, nets[k], ys[k + 1]))
        by_output = deltas[0] @ layers[k].W
    return FeedforwardDeltas(
        z=z,
        loss=loss,
        deltas=tuple(deltas),
        W=tuple(delta.T @ y / n for delta, y in zip(deltas, ys[:-1], strict=True)),
        b=tuple(delta.sum(dim=0) / n for delta in deltas),
    )


def layers_of(model: Feedforward) -> list[Layer]:
    """The layers of a model, for `feedforward_deltas`; they read `model.scaling(x)`.

    ```python
    rc.lecture.layers_of(rc.models.multilayer([3], 2, hidden_size=4))
    ```
    """
    found = hidden_layers(model)
    if found.residual and len(found.maps) > 1:
        raise OptionError("the δ rule is written for layers one above the other; this model has residual connections.")
    names = [*[found.activation.name] * len(found.maps), "linear"]
    return [Layer(W.clone(), b.clone(), name) for (W, b), name in zip(weights_of(model), names, strict=True)]


class Check(NamedTuple):
    """J and ‖∇J‖ over all samples, after so many updates."""

    step: int
    loss: float
    gradient_norm: float


@dataclass(frozen=True)
class Descent:
    """Where stochastic back-propagation ended: `converged`: whether the last check in `history` had ‖∇J‖ < ε."""

    layers: tuple[Layer, ...]
    converged: bool
    history: tuple[Check, ...]


@torch.no_grad()
def stochastic_backpropagation(
    layers: Sequence[Layer],
    x: Float[Tensor, "N I"],
    targets: Tensor,
    *,
    learning_rate: float,
    epsilon: float,
    max_steps: int,
    batch_size: int = 1,
    check_every: int = 1,
    seed: int = 0,
) -> Descent:
    """Update with randomly chosen samples until the gradient over all of them is small: ‖∇J‖ < ε.

        choose samples at random        w_kj ← w_kj − η δ_k y_j        until ‖∇J(w)‖ < ε

    - `targets`: as for `feedforward_deltas`. `learning_rate`: η; `epsilon`: ε; `max_steps`: updates at most.
    - `batch_size`: samples in one update, none twice; their gradients are averaged. All N make it plain gradient descent.
    - `check_every`: updates between two looks at ∇J, each of which costs a pass over all samples.
    - `seed`: of the choice of samples; the same on every device.

    The layers given are left as they are. It ends early, not converged, where J or ∇J is no longer finite: lower η.
    Robbins & Monro 1951.

    ```python
    layers = [rc.lecture.Layer(torch.randn(4, 3), torch.zeros(4)), rc.lecture.Layer(torch.randn(2, 4), torch.zeros(2), "linear")]
    x, y = torch.randn(8, 3), torch.randint(2, (8,))
    rc.lecture.stochastic_backpropagation(layers, x, y, learning_rate=0.1, epsilon=0.01, max_steps=50)
    ```
    """
    _check_network(layers, x, targets)
    for name, value in (("learning_rate", learning_rate), ("epsilon", epsilon)):
        if not (value > 0 and math.isfinite(value)):
            raise OptionError(f"{name} must be a positive number; got {value}.")
    for name, whole, low in (("max_steps", max_steps, 0), ("check_every", check_every, 1)):
        if whole < low:
            raise OptionError(f"{name} must be at least {low}; got {whole}.")
    if not 1 <= batch_size <= len(x):
        raise OptionError(f"batch_size must lie between 1 and the {len(x)} samples of x; got {batch_size}.")

    generator = torch.Generator().manual_seed(seed)
    current, history = tuple(layers), []
    for step in range(max_steps + 1):
        if step % check_every == 0 or step == max_steps:
            whole_set = feedforward_deltas(current, x, targets)
            history.append(Check(step, float(whole_set.loss), whole_set.norm))
            if history[-1].gradient_norm < epsilon:
                return Descent(current, True, tuple(history))
            if not math.isfinite(history[-1].loss + history[-1].gradient_norm):
                break
        if step < max_steps:
            chosen = torch.randperm(len(x), generator=generator)[:batch_size].to(x.device)
            gradients = feedforward_deltas(current, x[chosen], targets[chosen])
            current = tuple(
                Layer(layer.W - learning_rate * d_W, layer.b - learning_rate * d_b, layer.activation)
                for layer, d_W, d_b in zip(current, gradients.W, gradients.b, strict=True)
            )
    return Descent(current, False, tuple(history))


def _phi(activation: str, a: Tensor) -> Tensor:
    return cast(Tensor, ACTIVATIONS[activation](a))


def _slope(activation: str, a: Tensor, h: Tensor) -> Tensor:
    """φ'(a), where h = φ(a): tanh 1 − h², sigmoid h(1 − h), relu 1 where a > 0, softplus sigmoid(a), linear 1."""
    if activation == "linear":
        return torch.ones_like(a)
    partial = OPERATIONS[activation].partials[0]
    assert partial is not None
    return cast(Tensor, partial(h, a)).to(a.dtype)


def _output_deltas(forward: ElmanForward) -> Float[Tensor, "B T O"]:
    """s_t (ŷ − y)."""
    y = forward.targets
    if _are_classes(y):
        y = torch.nn.functional.one_hot(y, forward.o.shape[-1]).to(forward.o.dtype)
    return forward.scale[:, None] * (forward.y_hat - y)


def _states_before(forward: ElmanForward) -> Float[Tensor, "B T H"]:
    """h(t−1) at the place of t."""
    return torch.cat([forward.h0[:, None], forward.h[:, :-1]], dim=1)


def _row_times(row: Float[Tensor, "B H"], matrix: Float[Tensor, "B H H"]) -> Float[Tensor, "B H"]:
    return (row[:, None] @ matrix)[:, 0]


def _are_classes(targets: Tensor) -> bool:
    return not targets.is_floating_point()


def _spread_targets(targets: Tensor, B: int, T: int, weights: ElmanWeights, over_time: str) -> Tensor:
    """Targets checked, and given to every step where there is one per sequence."""
    O = len(weights.W_y)
    steps, names = ((), "[B") if over_time == "last" else ((T,), "[B, T")
    if targets.is_floating_point():
        _expect("targets", targets, f"{names}, O]", (B, *steps, O), "W_y", weights.W_y)
    elif targets.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        if tuple(targets.shape) != (B, *steps):
            raise ShapeError(
                f"targets that are class indices must be {names}] = {[B, *steps]}; got {list(targets.shape)}. "
                f"Real-valued targets must be floating-point."
            )
        low, high = int(targets.min()), int(targets.max())
        if low < 0 or high >= O:
            raise ShapeError(f"targets must be class indices from 0 to {O - 1} (rows of W_y); got {low} to {high}.")
        targets = targets.to(device=weights.W_y.device, dtype=torch.int64)
    else:
        raise ShapeError(f"targets must be whole numbers (classes) or floating-point numbers; got {targets.dtype}.")
    return targets if steps else targets[:, None].expand(B, T, *targets.shape[1:])


def _check_network(layers: Sequence[Layer], x: Tensor, targets: Tensor) -> None:
    if not layers:
        raise OptionError("layers must hold at least one Layer; got none.")
    first, last = layers[0].W, layers[-1].W
    if x.ndim != 2 or len(x) < 1:
        raise ShapeError(f"x must be [N, I] with at least one sample; got {list(x.shape)}.")
    _expect("x", x, "[N, I]", (len(x), first.shape[1]), "W of layers[0]", first)
    for k, (below, above) in enumerate(pairwise(layers), start=1):
        wanted = (len(above.W), len(below.W))
        _expect(f"W of layers[{k}]", above.W, "[J, I]", wanted, f"W of layers[{k - 1}]", below.W)
    if not _are_classes(targets):
        _expect("targets", targets, "[N, O]", (len(x), len(last)), f"W of layers[{len(layers) - 1}]", last)
        return
    if layers[-1].activation != "linear":
        raise OptionError(
            f"classes are the softmax of a last layer that is linear; this one is {layers[-1].activation}. Set it to linear."
        )
    if targets.dtype != torch.int64 or tuple(targets.shape) != (len(x),):
        raise ShapeError(
            f"targets that are classes must be [N] = [{len(x)}] of torch.int64; got {list(targets.shape)} of {targets.dtype}."
        )
    if int(targets.min()) < 0 or int(targets.max()) >= len(last):
        raise ShapeError(
            f"targets must be classes from 0 to {len(last) - 1}; got {int(targets.min())} to {int(targets.max())}."
        )


def _expect_matrix(name: str, matrix: Tensor, axes: str) -> None:
    if matrix.ndim != 2 or min(matrix.shape) < 1 or not matrix.is_floating_point():
        raise ShapeError(f"{name} must be a floating-point matrix {axes}; got {list(matrix.shape)} of {matrix.dtype}.")


def _expect(name: str, tensor: Tensor, axes: str, wanted: tuple[int, ...], like_name: str, like: Tensor) -> None:
    """`tensor` has that shape, and the type and device of `like`; otherwise an error in one sentence."""
    if tuple(tensor.shape) != wanted:
        raise ShapeError(
            f"{name} must be {axes} = {list(wanted)} to fit {like_name} {list(like.shape)}; got {list(tensor.shape)}."
        )
    if (tensor.dtype, tensor.device) != (like.dtype, like.device):
        raise ShapeError(
            f"{name} must be {like.dtype} on {like.device} like {like_name}; got {tensor.dtype} on {tensor.device}. "
            f"Convert one of them with .to(...)."
        )
