"""Derivatives written by hand equal those of autograd, and of the layer with the same weights."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from recurra import Recurrent
from recurra.cells.elman import elman
from recurra.errors import OptionError, ShapeError
from recurra.lecture.by_hand import (
    ElmanGradients,
    ElmanWeights,
    Layer,
    elman_bptt,
    elman_bptt_double_sum,
    elman_deltas,
    elman_forward,
    feedforward_deltas,
    layers_of,
    stochastic_backpropagation,
)
from recurra.models.feedforward import multilayer

B, T, D, H, O = 3, 7, 4, 5, 6
PHI = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "linear": lambda a: a}
SCALES = {
    "sum": [1.0] * T,
    "mean": [1 / T] * T,
    "1/t": [1 / t for t in range(1, T + 1)],
    "last": [0.0] * (T - 1) + [1.0],
}
NAMES = [field.name for field in dataclasses.fields(ElmanGradients)]

activations = pytest.mark.parametrize("activation", PHI)
losses = pytest.mark.parametrize("loss", ["classes", "real"])
scalings = pytest.mark.parametrize("over_time", SCALES)


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def random(*shape: int, scale: float = 1.0, seed: int) -> Tensor:
    return scale * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def weights(scale: float = 0.5) -> ElmanWeights:
    sizes = [(H, D), (H, H), (H,), (O, H), (O,)]
    return ElmanWeights(*(random(*size, scale=scale, seed=k) for k, size in enumerate(sizes)))


def inputs(loss: str, over_time: str) -> tuple[Tensor, Tensor, Tensor]:
    """x, targets, h0."""
    steps = () if over_time == "last" else (T,)
    classes = torch.randint(O, (B, *steps), generator=torch.Generator().manual_seed(9))
    targets = classes if loss == "classes" else random(B, *steps, O, seed=8)
    return random(B, T, D, seed=6), targets, random(B, H, seed=7)


def half_square(o: Tensor, y: Tensor, *, reduction: str) -> Tensor:
    return 0.5 * F.mse_loss(o, y, reduction=reduction)


def by_autograd(
    given: ElmanWeights, x: Tensor, targets: Tensor, h0: Tensor, activation: str, over_time: str
) -> tuple[Tensor, dict[str, Tensor]]:
    """The same network in torch's own functions: its loss, and the gradient of everything."""
    leaf = {f.name: getattr(given, f.name) for f in dataclasses.fields(given)} | {"h0": h0, "x": x}
    leaf = {name: value.clone().requires_grad_() for name, value in leaf.items()}
    h, total = leaf["h0"], torch.zeros((), dtype=x.dtype)
    for t in range(T):
        h = PHI[activation](F.linear(leaf["x"][:, t], leaf["W_x"], leaf["b"]) + F.linear(h, leaf["W_h"]))
        o = F.linear(h, leaf["W_y"], leaf["c"])
        y = targets if over_time == "last" else targets[:, t]
        distance = half_square if y.is_floating_point() else F.cross_entropy
        total = total + SCALES[over_time][t] * distance(o, y, reduction="sum")
    gradients = torch.autograd.grad(total, [leaf[name] for name in NAMES])
    return total.detach(), dict(zip(NAMES, gradients, strict=True))


@activations
@losses
@scalings
def test_recursion_equals_autograd(activation: str, loss: str, over_time: str) -> None:
    x, targets, h0 = inputs(loss, over_time)
    value, theirs = by_autograd(weights(), x, targets, h0, activation, over_time)
    forward = elman_forward(weights(), x, targets, h0, activation=activation, over_time=over_time)
    ours = elman_bptt(forward)
    close(forward.loss, value)
    for name in NAMES:
        assert theirs[name].abs().max() > 1e-5, f"{name}: a gradient of zero proves nothing"
        close(getattr(ours, name), theirs[name])


@activations
@losses
@scalings
def test_double_sum_equals_recursion(activation: str, loss: str, over_time: str) -> None:
    x, targets, h0 = inputs(loss, over_time)
    forward = elman_forward(weights(), x, targets, h0, activation=activation, over_time=over_time)
    recursion, (double_sum, _) = elman_bptt(forward), elman_bptt_double_sum(forward)
    for name in NAMES:
        close(getattr(double_sum, name), getattr(recursion, name))


@activations
@losses
def test_equals_the_layer_with_the_same_weights(activation: str, loss: str) -> None:
    given, (x, targets, h0) = weights(), inputs(loss, "sum")
    layer = Recurrent(elman(activation=activation), D, H, engine="eager", dtype=torch.float64)
    direction = layer.stack[0][0]
    with torch.no_grad():
        direction.W.copy_(given.W_x)
        direction.U.copy_(given.W_h)
        direction.b.copy_(given.b)
    x, h0 = x.requires_grad_(), h0.requires_grad_()
    outputs = layer(x, (((h0,),),)).outputs
    o = outputs @ given.W_y.T + given.c
    if loss == "classes":
        total = F.cross_entropy(o.flatten(0, 1), targets.flatten(), reduction="sum")
    else:
        total = half_square(o, targets, reduction="sum")
    total.backward()

    forward = elman_forward(given, x, targets, h0, activation=activation)
    ours = elman_bptt(forward)
    close(forward.h, outputs.detach())
    close(forward.loss, total.detach())
    theirs = {"W_x": direction.W, "W_h": direction.U, "b": direction.b, "h0": h0, "x": x}
    for name, parameter in theirs.items():
        close(getattr(ours, name), parameter.grad)


@losses
def test_losses_and_predictions_at_each_step(loss: str) -> None:
    x, targets, h0 = inputs(loss, "sum")
    forward = elman_forward(weights(), x, targets, h0, over_time="1/t")
    if loss == "classes":
        close(forward.y_hat.sum(-1), torch.ones(B, T, dtype=torch.float64))
        close(forward.losses, F.cross_entropy(forward.o.mT, targets, reduction="none"))
    else:
        close(forward.y_hat, forward.o)
        close(forward.losses, half_square(forward.o, targets, reduction="none").sum(-1))
    close(forward.loss, sum(forward.losses[:, t].sum() / (t + 1) for t in range(T)))


def test_large_scores_do_not_overflow() -> None:
    given = dataclasses.replace(weights(), c=torch.tensor([0.0, 0, 0, 0, 0, 2000], dtype=torch.float64))
    x, targets, h0 = inputs("classes", "sum")
    forward = elman_forward(given, x, torch.full_like(targets, 5), h0)
    assert forward.loss == 0
    assert all(bool(getattr(elman_bptt(forward), name).isfinite().all()) for name in NAMES)


def test_deltas_are_derivatives_by_net_input_state_and_output() -> None:
    given, (x, targets, h0) = weights(), inputs("classes", "sum")
    h, nets, states, scores = h0, [], [], []
    for t in range(T):
        nets.append((F.linear(x[:, t], given.W_x, given.b) + F.linear(h, given.W_h)).requires_grad_())
        h = torch.tanh(nets[t])
        states.append(h)
        scores.append(F.linear(h, given.W_y, given.c))
    total = F.cross_entropy(torch.stack(scores, -1), targets, reduction="sum")
    deltas = elman_deltas(elman_forward(given, x, targets, h0))
    for ours, theirs in ((deltas.a, nets), (deltas.h, states), (deltas.o, scores)):
        close(ours, torch.stack(torch.autograd.grad(total, theirs, retain_graph=True), dim=1))


def test_each_norm_is_that_of_the_derivative_by_one_use_of_one_weight() -> None:
    given, (x, targets, h0) = weights(), inputs("real", "mean")
    _, norms = elman_bptt_double_sum(elman_forward(given, x, targets, h0, over_time="mean"))
    replicas = [given.W_h.clone().requires_grad_() for _ in range(T)]
    h = h0
    for t in range(T):
        h = torch.tanh(F.linear(x[:, t], given.W_x, given.b) + F.linear(h, replicas[t]))
        at_t = half_square(F.linear(h, given.W_y, given.c), targets[:, t], reduction="sum") / T
        parts = torch.autograd.grad(at_t, replicas[: t + 1], retain_graph=True)
        close(norms[t, : t + 1], torch.stack([part.norm() for part in parts]))
        assert norms[t, t + 1 :].eq(0).all()


@pytest.mark.parametrize(("factor", "vanishes"), [(0.5, True), (2.0, False)])
def test_contributions_follow_powers_of_the_recurrent_matrix(factor: float, vanishes: bool) -> None:
    """Linear, W_h = factor · I, h(t) kept at one value: ∂L_t/∂W_h at step k is factor^(t−k) times that at step t."""
    eye = torch.eye(2, dtype=torch.float64)
    given = ElmanWeights(eye, factor * eye, torch.zeros_like(eye[0]), eye, torch.zeros_like(eye[0]))
    h0 = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    x = ((1 - factor) * h0)[:, None].expand(1, T, 2)
    forward = elman_forward(given, x, torch.zeros(1, 2).double(), h0, activation="linear", over_time="last")
    _, norms = elman_bptt_double_sum(forward)
    close(norms[-1], norms[-1, -1] * factor ** torch.arange(T - 1, -1, -1, dtype=torch.float64))
    assert (norms[-1, 0] < norms[-1, -1] / 50) == vanishes
    assert norms[:-1].eq(0).all()


def test_initial_state_is_zero_unless_given() -> None:
    x, targets, h0 = inputs("real", "sum")
    zero = elman_forward(weights(), x, targets, torch.zeros_like(h0))
    close(elman_forward(weights(), x, targets).h, zero.h)
    assert not torch.allclose(elman_forward(weights(), x, targets, h0).h, zero.h)


def test_nothing_is_left_to_autograd() -> None:
    given = ElmanWeights(*(getattr(weights(), f.name).requires_grad_() for f in dataclasses.fields(ElmanWeights)))
    x, targets, h0 = inputs("real", "sum")
    forward = elman_forward(given, x.requires_grad_(), targets, h0)
    with torch.enable_grad():
        results = [
            forward.loss,
            forward.h,
            elman_deltas(forward).h,
            elman_bptt(forward).x,
            elman_bptt_double_sum(forward)[1],
        ]
        results.append(feedforward_deltas([Layer(given.W_x, given.b)], x[:, 0], random(B, H, seed=1)).W[0])
    assert not any(result.requires_grad for result in results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@activations
def test_gradients_have_the_type_of_the_weights(dtype: torch.dtype, activation: str) -> None:
    given = ElmanWeights(*(getattr(weights(), f.name).to(dtype) for f in dataclasses.fields(ElmanWeights)))
    x, targets, h0 = inputs("classes", "1/t")
    forward = elman_forward(given, x.to(dtype), targets, h0.to(dtype), activation=activation, over_time="1/t")
    for gradients in (elman_bptt(forward), elman_bptt_double_sum(forward)[0]):
        assert {getattr(gradients, name).dtype for name in NAMES} == {dtype}


FEEDFORWARD_PHI = PHI | {"softplus": F.softplus}


def network(*activations: str, sizes: tuple[int, ...] = (4, 5, 3, 2)) -> list[Layer]:
    pairs = zip(sizes, sizes[1:], activations, strict=False)
    return [
        Layer(random(J, I, scale=0.7, seed=10 + k), random(J, scale=0.3, seed=20 + k), activation)
        for k, (I, J, activation) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    "activations",
    [(name, name, name) for name in FEEDFORWARD_PHI] + [("relu",), ("softplus", "linear"), ("tanh", "relu", "sigmoid")],
    ids=" ".join,
)
def test_feedforward_rule_equals_autograd(activations: tuple[str, ...]) -> None:
    layers = network(*activations)
    x, targets = random(11, 4, seed=1), random(11, len(layers[-1].W), seed=2)
    W = [layer.W.clone().requires_grad_() for layer in layers]
    b = [layer.b.clone().requires_grad_() for layer in layers]
    y, nets = x, []
    for k, layer in enumerate(layers):
        nets.append(F.linear(y, W[k], b[k]))
        y = FEEDFORWARD_PHI[layer.activation](nets[k])
    J = 0.5 * (targets - y).pow(2).sum(1).mean()
    theirs = torch.autograd.grad(J, [*W, *b, *nets])

    ours = feedforward_deltas(layers, x, targets)
    close(ours.z, y.detach())
    close(ours.loss, J.detach())
    n = len(layers)
    for mine, autograd in zip((*ours.W, *ours.b), theirs[: 2 * n], strict=True):
        assert autograd.abs().max() > 1e-4
        close(mine, autograd)
    for delta, autograd in zip(ours.deltas, theirs[2 * n :], strict=True):
        close(delta, 11 * autograd)  # J is the mean over 11 samples; a sensitivity is that of one
    assert math.isclose(ours.norm, torch.cat([g.flatten() for g in theirs[: 2 * n]]).norm().item(), rel_tol=1e-10)


def regression() -> tuple[list[Layer], Tensor, Tensor]:
    """Samples of a curve that the network can pass through exactly, so that one sample at a time can reach ∇J = 0."""
    layers = network("tanh", "linear", sizes=(1, 6, 1))
    x = torch.tensor([[-1.0], [-0.3], [0.4], [1.0]], dtype=torch.float64)
    return layers, x, torch.sin(2 * x)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_stochastic_backpropagation_stops_where_the_gradient_is_small(batch_size: int) -> None:
    layers, x, targets = regression()
    before = [layer.W.clone() for layer in layers]
    options = {"learning_rate": 0.2, "epsilon": 1e-2, "max_steps": 3000, "batch_size": batch_size}
    descent = stochastic_backpropagation(layers, x, targets, **options)
    assert descent.converged
    assert [check.step for check in descent.history] == list(range(len(descent.history)))
    *earlier, last = descent.history
    assert last.gradient_norm < 1e-2 <= min(check.gradient_norm for check in earlier)
    assert len(earlier) > 10
    end = feedforward_deltas(descent.layers, x, targets)
    assert (last.loss, last.gradient_norm) == (float(end.loss), end.norm)
    assert last.loss < descent.history[0].loss / 50
    for layer, W in zip(layers, before, strict=True):
        assert torch.equal(layer.W, W), "the layers given must stay as they are"

    assert stochastic_backpropagation(layers, x, targets, **options).history == descent.history
    assert stochastic_backpropagation(layers, x, targets, seed=1, **options).history != descent.history


def test_updates_follow_the_chosen_samples() -> None:
    layers, x, targets = regression()
    one = stochastic_backpropagation(layers, x, targets, learning_rate=0.1, epsilon=1e-9, max_steps=1)
    moved = [one.layers[k].W - layers[k].W for k in range(2)]
    single = [feedforward_deltas(layers, x[[i]], targets[[i]]).W for i in range(len(x))]
    matches = [all(torch.allclose(moved[k], -0.1 * W[k], rtol=1e-9, atol=1e-12) for k in range(2)) for W in single]
    assert sum(matches) == 1

    every = stochastic_backpropagation(layers, x, targets, learning_rate=0.1, epsilon=1e-9, max_steps=1, batch_size=4)
    whole = feedforward_deltas(layers, x, targets)
    for k in range(2):
        close(every.layers[k].W, layers[k].W - 0.1 * whole.W[k])
        close(every.layers[k].b, layers[k].b - 0.1 * whole.b[k])


def test_a_step_limit_ends_the_descent() -> None:
    layers, x, targets = regression()
    options = {"learning_rate": 0.1, "epsilon": 1e-9, "max_steps": 7}
    descent = stochastic_backpropagation(layers, x, targets, check_every=3, **options)
    assert not descent.converged
    assert [check.step for check in descent.history] == [0, 3, 6, 7]
    close(descent.layers[0].W, stochastic_backpropagation(layers, x, targets, **options).layers[0].W)


def test_a_descent_that_diverges_ends_early_and_says_so() -> None:
    layers, x, targets = regression()
    descent = stochastic_backpropagation(layers, x, targets, learning_rate=1e3, epsilon=1e-9, max_steps=5000)
    assert not descent.converged
    assert len(descent.history) < 1000
    assert not math.isfinite(descent.history[-1].loss + descent.history[-1].gradient_norm)


X, Y, H0 = inputs("classes", "sum")
ELMAN_ERRORS = {
    "W_x": (lambda: ElmanWeights(X, *[X] * 4), r"W_x must be a floating-point matrix \[H, D\]; got \[3, 7, 4\]"),
    "W_h": (
        lambda: dataclasses.replace(weights(), W_h=torch.zeros(5, 4)),
        r"W_h must be \[H, H\] = \[5, 5\] to fit W_x \[5, 4\]; got \[5, 4\]\.",
    ),
    "b": (lambda: dataclasses.replace(weights(), b=torch.zeros(4)), r"b must be \[H\] = \[5\] .* got \[4\]"),
    "W_y": (lambda: dataclasses.replace(weights(), W_y=torch.zeros(6, 4)), r"W_y must be \[O, H\] = \[6, 5\]"),
    "c": (lambda: dataclasses.replace(weights(), c=torch.zeros(5)), r"c must be \[O\] = \[6\] to fit W_y"),
    "dtype of b": (
        lambda: dataclasses.replace(weights(), b=torch.zeros(5)),
        r"b must be torch.float64 .* torch.float32 on cpu",
    ),
    "x axes": (lambda: elman_forward(weights(), X[0], Y), r"x must be \[B, T, 4\] .* got \[7, 4\]"),
    "x size": (lambda: elman_forward(weights(), X[..., :3], Y), r"x must be \[B, T, 4\] .* got \[3, 7, 3\]"),
    "no step": (lambda: elman_forward(weights(), X[:, :0], Y[:, :0]), r"at least one sequence and step; got \[3, 0, 4"),
    "dtype of x": (lambda: elman_forward(weights(), X.float(), Y), r"x must be torch.float64 .* got torch.float32"),
    "h0": (lambda: elman_forward(weights(), X, Y, H0[:2]), r"h0 must be \[B, H\] = \[3, 5\] .* got \[2, 5\]"),
    "classes": (
        lambda: elman_forward(weights(), X, Y[:, 1:]),
        r"class indices must be \[B, T\] = \[3, 7\]; got \[3, 6",
    ),
    "class range": (lambda: elman_forward(weights(), X, Y + 10), r"class indices from 0 to 5 \(rows of W_y\); got 1"),
    "real": (lambda: elman_forward(weights(), X, X), r"targets must be \[B, T, O\] = \[3, 7, 6\] .* got \[3, 7, 4\]"),
    "bool": (lambda: elman_forward(weights(), X, Y > 0), r"targets must be whole numbers .* got torch.bool"),
    "last": (lambda: elman_forward(weights(), X, Y, over_time="last"), r"must be \[B\] = \[3\]; got \[3, 7\]"),
}


@pytest.mark.parametrize("case", ELMAN_ERRORS)
def test_wrong_shapes_are_named(case: str) -> None:
    call, message = ELMAN_ERRORS[case]
    with pytest.raises(ShapeError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_unknown_options_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(OptionError, match=r"activation 'tan' does not exist. Did you mean 'tanh'"):
        elman_forward(weights(), X, Y, activation="tan")
    with pytest.raises(OptionError, match=r"activation 'softplus' does not exist"):
        elman_forward(weights(), X, Y, activation="softplus")
    with pytest.raises(OptionError, match=r"over_time 'means' does not exist. Did you mean 'mean'"):
        elman_forward(weights(), X, Y, over_time="means")
    with pytest.raises(OptionError, match=r"activation 'gelu' does not exist"):
        Layer(X[0], X[0, :, 0], "gelu")


def test_feedforward_errors_are_named() -> None:
    layers, x, targets = regression()
    wrong = {
        r"x must be \[N, I\] with at least one sample; got \[4\]": (layers, x[:, 0], targets),
        r"x must be \[N, I\] = \[4, 1\] to fit W of layers\[0\] \[6, 1\]; got \[4, 2\]": (
            layers,
            x.expand(4, 2),
            targets,
        ),
        r"targets must be \[N, O\] = \[4, 1\] .* got \[3, 1\]": (layers, x, targets[:3]),
        r"W of layers\[1\] must be \[J, I\] = \[6, 6\] .* got \[6, 1\]": ([layers[0], layers[0]], x, targets),
    }
    for message, arguments in wrong.items():
        with pytest.raises(ShapeError, match=message):
            feedforward_deltas(*arguments)
    with pytest.raises(ShapeError, match=r"b must be \[J\] = \[6\]"):
        Layer(layers[0].W, layers[1].b)
    with pytest.raises(OptionError, match="at least one Layer"):
        feedforward_deltas([], x, targets)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("learning_rate", 0.0, "learning_rate must be a positive number; got 0.0"),
        ("learning_rate", math.inf, "learning_rate must be a positive number; got inf"),
        ("epsilon", -1.0, "epsilon must be a positive number; got -1.0"),
        ("max_steps", -1, "max_steps must be at least 0; got -1"),
        ("check_every", 0, "check_every must be at least 1; got 0"),
        ("batch_size", 5, "batch_size must lie between 1 and the 4 samples of x; got 5"),
        ("batch_size", 0, "batch_size must lie between 1 and the 4 samples of x; got 0"),
    ],
)
def test_descent_options_are_checked(option: str, value: float, message: str) -> None:
    options = {"learning_rate": 0.1, "epsilon": 0.1, "max_steps": 5} | {option: value}
    with pytest.raises(OptionError, match=message):
        stochastic_backpropagation(*regression(), **options)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu", "softplus", "linear"])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_deltas_of_a_classifier_are_what_autograd_says_of_the_model(activation: str, depth: int) -> None:
    """Layer by layer: δ of each net input, and the gradient of each weight of the model itself."""
    model = multilayer((3,), 4, hidden_size=6, layers=depth, activation=activation).double()
    x = torch.randn(11, 3, dtype=torch.float64) * 2 + 1
    model.prepare(x)
    classes = torch.randint(4, (11,))
    back = feedforward_deltas(layers_of(model), model.scaling(x), classes)

    nets: list[torch.Tensor] = []
    maps = [part for part in model.modules() if isinstance(part, torch.nn.Linear)]
    for part in maps:
        part.register_forward_hook(lambda module, read, said: (said.retain_grad(), nets.append(said))[0])
    logits = model(x)
    loss = torch.nn.functional.cross_entropy(logits, classes)
    loss.backward()
    assert len(back.W) == len(maps) == depth + 1
    torch.testing.assert_close(back.loss, loss.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(back.z, logits.detach().softmax(1), rtol=0, atol=1e-12)
    for k, part in enumerate(maps):
        torch.testing.assert_close(back.W[k], part.weight.grad, rtol=0, atol=1e-12)
        torch.testing.assert_close(back.b[k], part.bias.grad, rtol=0, atol=1e-12)
        torch.testing.assert_close(back.deltas[k] / len(x), nets[k].grad, rtol=0, atol=1e-12)


def test_stochastic_backpropagation_learns_classes_until_the_gradient_is_small() -> None:
    x = torch.randn(60, 2, dtype=torch.float64)
    classes = (x[:, 0] + 0.3 * torch.randn(60, dtype=torch.float64) > 0).long()  # no line separates them
    layers = [Layer(torch.zeros(2, 2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64), "linear")]
    descent = stochastic_backpropagation(
        layers, x, classes, learning_rate=0.3, epsilon=0.01, max_steps=4000, batch_size=30, check_every=10
    )
    assert descent.converged
    whole = feedforward_deltas(descent.layers, x, classes)
    assert whole.norm == descent.history[-1].gradient_norm < 0.01 < descent.history[0].gradient_norm
    assert whole.loss < 0.5 * math.log(2)


def test_classes_are_checked() -> None:
    layers, x, _ = regression()
    with pytest.raises(OptionError, match="a last layer that is linear; this one is tanh"):
        feedforward_deltas(layers[:1], x, torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ShapeError, match=r"must be \[N\] = \[4\] of torch.int64; got \[3\]"):
        feedforward_deltas(layers, x, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ShapeError, match="classes from 0 to 0; got 0 to 3"):
        feedforward_deltas(layers, x, torch.arange(4))
    with pytest.raises(OptionError, match="residual"):
        layers_of(multilayer((3,), 4, hidden_size=6, layers=2, residual=True))
