"""The smallest network whose gradient vanishes: h(t) = a(v h(t−1) + w x(t)), one unit, and ∂h(t)/∂h(t−k) = Π v a′(·).

With tanh or the logistic function each factor is smaller than |v|, so that the product vanishes unless v is large; with the
line it is v^k; with a rectifier it is v^k until the first negative sum, and 0 from there on.
"""

from __future__ import annotations

import json
import math

from recurra.cells.operations import ACTIVATIONS
from recurra.errors import OptionError, choose_from

SHOWN = ("tanh", "sigmoid", "relu", "softplus", "linear")


def scalar_gradient(
    v: float, activation: str = "tanh", *, steps: int = 50, x: float = 0.0, start: float = 0.5
) -> list[float]:
    """∂h(t)/∂h(t−k) for k = 0 … steps, along the run from h = `start` with the input w x = `x` at every step.

    ```python
    rc.lecture.scalar_gradient(0.9, steps=10)
    ```
    """
    import torch

    function = ACTIVATIONS[choose_from("activation", activation, SHOWN)]
    if steps < 1:
        raise OptionError(f"steps must be at least 1; got {steps}.")
    h = torch.tensor(start, dtype=torch.float64)
    factors = []
    for _ in range(steps):
        a = (v * h + x).detach().requires_grad_()
        h = function(a)
        slope = torch.ones((), dtype=torch.float64) if h is a else torch.autograd.grad(h, a)[0]
        factors.append(v * float(slope))
        h = h.detach()
    product, found = 1.0, [1.0]
    for factor in reversed(factors):
        product *= factor
        found.append(product)
    return found


def scalar_page() -> str:
    """A page of its own with sliders for the weight and the input: the product over k, on a logarithmic scale.

    ```python
    from pathlib import Path

    Path("scalar.html").write_text(rc.lecture.scalar_page())
    ```
    """
    first = scalar_gradient(0.9)
    return _PAGE.replace("__FIRST__", json.dumps([math.log10(abs(value) + 1e-300) for value in first]))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The gradient of one unit over time</title><style>
:root { color-scheme: light dark; --line: #0072B2; --other: #D55E00; }
body { font: 17px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 52rem; padding: 0 1rem; }
label { display: grid; grid-template-columns: 11rem 1fr 4rem; gap: 1rem; align-items: center; margin: .4rem 0; }
svg { width: 100%; height: auto; overflow: visible; } text { fill: currentColor; font-size: 15px; }
.axis { stroke: currentColor; opacity: .35; } #curve { fill: none; stroke: var(--line); stroke-width: 3; }
#straight { fill: none; stroke: var(--other); stroke-width: 2; stroke-dasharray: 7 5; }
</style></head><body>
<h1>The gradient of one unit over time</h1>
<p>h(t) = a(v h(t−1) + x). The curve is log₁₀ |∂h(t)/∂h(t−k)|, the dashed line is log₁₀ |v|^k.</p>
<label>weight v <input id="v" type="range" min="-3" max="3" step="0.01" value="0.9"><output id="vo"></output></label>
<label>input x <input id="x" type="range" min="-2" max="2" step="0.01" value="0"><output id="xo"></output></label>
<label>activation a <select id="a"><option>tanh<option>sigmoid<option>relu<option>softplus<option>linear</select></label>
<p id="verdict" role="status"></p>
<svg viewBox="0 0 800 380" role="img" aria-label="log norm of the gradient over k"><g id="grid"></g>
<path id="straight"/><path id="curve"/></svg>
<script>
const first = __FIRST__, steps = first.length - 1, low = -16, high = 6;
const act = {
  tanh: [Math.tanh, (a, y) => 1 - y * y],
  sigmoid: [a => 1 / (1 + Math.exp(-a)), (a, y) => y * (1 - y)],
  relu: [a => Math.max(0, a), a => a > 0 ? 1 : 0],
  softplus: [a => Math.log1p(Math.exp(-Math.abs(a))) + Math.max(a, 0), a => 1 / (1 + Math.exp(-a))],
  linear: [a => a, () => 1],
};
const $ = id => document.getElementById(id);
const px = k => 60 + 720 * k / steps, py = v => 20 + 330 * (high - Math.max(low, Math.min(high, v))) / (high - low);
for (let e = low + 1; e <= high; e += 3) $('grid').innerHTML +=
  `<line class="axis" x1="60" x2="780" y1="${py(e)}" y2="${py(e)}"/><text x="52" y="${py(e) + 5}" text-anchor="end">${e}</text>`;
for (let k = 0; k <= steps; k += 10) $('grid').innerHTML += `<text x="${px(k)}" y="376" text-anchor="middle">${k}</text>`;
function draw() {
  const v = +$('v').value, x = +$('x').value, [f, df] = act[$('a').value];
  $('vo').value = v.toFixed(2); $('xo').value = x.toFixed(2);
  let h = 0.5; const factors = [];
  for (let t = 0; t < steps; t++) { const a = v * h + x; h = f(a); factors.push(v * df(a, h)); }
  let p = 0; const logs = [0];
  for (const g of factors.reverse()) { p += Math.log10(Math.abs(g)); logs.push(p); }
  $('curve').setAttribute('d', 'M' + logs.map((l, k) => px(k) + ',' + py(l)).join('L'));
  const s = Math.log10(Math.abs(v));
  $('straight').setAttribute('d', `M${px(0)},${py(0)}L${px(steps)},${py(s * steps)}`);
  const slope = (logs[steps] - logs[steps >> 1]) / (steps - (steps >> 1)) * Math.LN10;
  $('verdict').textContent = !isFinite(slope) ? 'It is exactly zero from some step on.' : Math.abs(slope) < 0.001 ? 'It holds.'
    : slope > 0 ? `It explodes: doubles every ${(Math.LN2 / slope).toPrecision(3)} steps.`
    : `It vanishes with a half-life of ${(-Math.LN2 / slope).toPrecision(3)} steps.`;
}
for (const id of ['v', 'x', 'a']) $(id).addEventListener('input', draw);
draw();
</script></body></html>
"""
