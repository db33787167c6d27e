"""The scalar case as a page of its own: sliders for the weights, any input sequence, and the gradient over k."""

from __future__ import annotations

import json

from recurra.lecture.scalar_case import SHOWN


def scalar_page(x: str = "1") -> str:
    """A page with sliders for v, w and u, a field for the inputs and the choice of a_s, a_o: ∂e/∂w_{t−k} over k, on a
    logarithmic scale.

    - `x`: the inputs that it begins with, numbers with commas between them; they are repeated.

    ```python
    from pathlib import Path

    Path("scalar.html").write_text(rc.lecture.scalar_page())
    ```
    """
    options = "".join(f"<option>{name}" for name in SHOWN)
    outputs = "<option>linear" + "".join(f"<option>{name}" for name in SHOWN if name != "linear")
    return (
        _PAGE.replace("__A__", options)
        .replace("__O__", outputs)
        .replace('"__X__"', json.dumps(x).replace("<", "\\u003c"))
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The gradient of one unit over time</title><style>
:root { color-scheme: light dark; --line: #0072B2; --other: #D55E00; }
body { font: 17px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 52rem; padding: 0 1rem; }
label { display: grid; grid-template-columns: 15rem 1fr 4rem; gap: 1rem; align-items: center; margin: .4rem 0; }
svg { width: 100%; height: auto; overflow: visible; } text { fill: currentColor; font-size: 15px; }
.axis { stroke: currentColor; opacity: .35; } #curve { fill: none; stroke: var(--line); stroke-width: 4; stroke-linecap: round; }
#product { fill: none; stroke: var(--other); stroke-width: 3; stroke-dasharray: 2 5; }
#straight { fill: none; stroke: currentColor; opacity: .6; stroke-width: 2; stroke-dasharray: 9 6; }
.key { display: inline-block; width: 2.2rem; height: 0; vertical-align: middle; border-top: 3px; margin: 0 .4rem 0 1rem; }
</style></head><body>
<h1>The gradient of one unit over time</h1>
<p>h(t) = a<sub>s</sub>(v h(t−1) + w x(t)), &nbsp; ŷ = a<sub>o</sub>(u h(t)), &nbsp; e = ½ (ŷ − y)² at the last of 50 steps.
Every step has replicas of v and w of its own.</p>
<label>weight v <input id="v" type="range" min="-3" max="3" step="0.01" value="0.9"><output id="vo"></output></label>
<label>weight w <input id="w" type="range" min="-3" max="3" step="0.01" value="1"><output id="wo"></output></label>
<label>weight u <input id="u" type="range" min="-3" max="3" step="0.01" value="1"><output id="uo"></output></label>
<label>target y <input id="y" type="range" min="-2" max="2" step="0.01" value="1"><output id="yo"></output></label>
<label>inputs x(1), x(2), …; repeated <input id="x" type="text"></label>
<label>activation a of the state <select id="a">__A__</select></label>
<label>activation a of the output <select id="o">__O__</select></label>
<p id="verdict" role="status"></p>
<p><span class="key" style="border-top-style: solid; border-color: var(--line)"></span>∂e/∂w(t−k)
<span class="key" style="border-top-style: dotted; border-color: var(--other)"></span>∂h(t)/∂h(t−k)
<span class="key" style="border-top-style: dashed"></span>v to the power k</p>
<svg viewBox="0 0 800 420" role="img" aria-label="log10 of the gradient over k"><g id="grid"></g>
<path id="straight"/><path id="product"/><path id="curve"/>
<text x="430" y="412" text-anchor="middle">k, steps back</text>
<text transform="rotate(-90)" x="-190" y="14" text-anchor="middle">log₁₀ of the absolute value</text></svg>
<script>
const steps = 50, low = -16, high = 6;
const act = {
  tanh: [Math.tanh, (a, y) => 1 - y * y],
  sigmoid: [a => 1 / (1 + Math.exp(-a)), (a, y) => y * (1 - y)],
  relu: [a => Math.max(0, a), a => a > 0 ? 1 : 0],
  softplus: [a => Math.log1p(Math.exp(-Math.abs(a))) + Math.max(a, 0), a => 1 / (1 + Math.exp(-a))],
  linear: [a => a, () => 1],
};
const $ = id => document.getElementById(id);
$('x').value = "__X__";
const px = k => 70 + 710 * k / steps, py = v => 20 + 330 * (high - Math.max(low, Math.min(high, v))) / (high - low);
for (let e = low + 1; e <= high; e += 3) $('grid').innerHTML +=
  `<line class="axis" x1="70" x2="780" y1="${py(e)}" y2="${py(e)}"/><text x="62" y="${py(e) + 5}" text-anchor="end">${e}</text>`;
for (let k = 0; k <= steps; k += 10) $('grid').innerHTML += `<text x="${px(k)}" y="378" text-anchor="middle">${k}</text>`;
const path = logs => { let d = '', pen = 'M';
  logs.forEach((l, k) => { if (l > -Infinity) { d += pen + px(k) + ',' + py(l) + 'h0'; pen = 'L'; } else pen = 'M'; });
  return d; };
function draw() {
  const [v, w, u, y] = ['v', 'w', 'u', 'y'].map(id => +$(id).value), [f, df] = act[$('a').value], [g, dg] = act[$('o').value];
  for (const id of ['v', 'w', 'u', 'y']) $(id + 'o').value = (+$(id).value).toFixed(2);
  const given = $('x').value.split(',').map(Number).filter(Number.isFinite), x = t => given.length ? given[t % given.length] : 0;
  let h = 0; const slopes = [];
  for (let t = 0; t < steps; t++) { const a = v * h + w * x(t); h = f(a); slopes.push(df(a, h)); }
  const out = g(u * h), outer = (out - y) * dg(u * h, out) * u;
  let p = 0; const products = [], own = [];
  for (let k = 0; k < steps; k++) {
    const s = slopes[steps - 1 - k];
    products.push(p); own.push(p + Math.log10(Math.abs(outer * s * x(steps - 1 - k)))); p += Math.log10(Math.abs(v * s));
  }
  $('curve').setAttribute('d', path(own)); $('product').setAttribute('d', path(products));
  const s = Math.log10(Math.abs(v));
  $('straight').setAttribute('d', `M${px(0)},${py(0)}L${px(steps)},${py(s * steps)}`);
  const half = steps >> 1, slope = (products[steps - 1] - products[half]) / (steps - 1 - half) * Math.LN10;
  $('verdict').textContent = !isFinite(slope) ? 'It is exactly zero from some step on.' : Math.abs(slope) < 0.001 ? 'It holds.'
    : slope > 0 ? `It explodes: doubles every ${(Math.LN2 / slope).toPrecision(3)} steps.`
    : `It vanishes with a half-life of ${(-Math.LN2 / slope).toPrecision(3)} steps.`;
}
for (const id of ['v', 'w', 'u', 'y', 'x', 'a', 'o']) $(id).addEventListener('input', draw);
draw();
</script></body></html>
"""
