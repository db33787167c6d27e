"""A reader of exported weights in NumPy alone: `rc.export(model, "weights", out=FOLDER)`, then this. A start for other languages.

python read_network.py FOLDER    prints what one sequence of ones (or of the first token) gives
"""

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

OPERATIONS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negate": np.negative,
    "power": np.power,
    "remainder": np.mod,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "where": np.where,
    "less": np.less,
    "less_equal": np.less_equal,
    "equal": np.equal,
    "clamp": np.clip,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "relu": lambda v: np.maximum(v, 0),
    "softplus": lambda v: np.logaddexp(v, 0),
}


def step(cell, weights, prefix, x, history):
    """The next value of each state: x is [D]; history[state] is [K, H], the oldest value first."""
    values = []
    for node in cell["nodes"]:
        of = [values[k] for k in node.get("of", [])]
        kind, name = node["kind"], node.get("name", "")
        if kind == "constant":
            value = float(node["value"])
        elif kind == "drive":
            value = weights[f"{prefix}.W.{name}"] @ x + weights[f"{prefix}.b.{name}"]
        elif kind == "state":
            value = history[name][-node["delay"]]
        elif kind == "parameter":
            value = weights[f"{prefix}.parameter.{name}"]
        elif kind == "noise":
            value = cell["noises"][name]["chance"] * cell["noises"][name]["scale"]  # its mean
        elif kind == "product":
            value = weights[f"{prefix}.U.{name}"] @ of[0]
        elif kind == "norm":
            centred = of[0] - of[0].mean()
            value = centred / np.sqrt((centred**2).mean() + 1e-5) * weights[f"{prefix}.parameter.{name}"]
        else:
            value = OPERATIONS[kind](*of)
        values.append(value)
    return [values[k] for k in cell["updates"]]


def layer(cell, weights, prefix, xs):
    """The first state after every step."""
    history = {name: weights[f"{prefix}.initial.{name}"] for name in cell["states"]}
    outputs = []
    for x in xs:
        new = step(cell, weights, prefix, x, history)
        for name, value in zip(cell["states"], new, strict=True):
            history[name] = np.concatenate([history[name][1:], np.broadcast_to(value, history[name][:1].shape)])
        outputs.append(history[cell["states"][0]][-1])
    return np.stack(outputs)


def run(told, weights, inputs, network="model"):
    """The outputs by name, of one sequence: tokens [T], or numbers [T, D]."""
    values = []
    for row in told["networks"][network]["values"]:
        of, kind, own = [values[k] for k in row.get("of", [])], row["kind"], row.get("weights", {})
        if kind in ("tokens", "numbers", "label", "vector"):
            value = inputs[row["name"]]
        elif kind == "embedding":
            value = weights[own["table"]][of[0]]
        elif kind == "linear":
            value = of[0] @ weights[own["weight"]].T + (weights[own["bias"]] if "bias" in own else 0)
        elif kind == "layer":
            turned = slice(None, None, -1 if row["reverse"] else 1)
            value = layer(told["cells"][row["cell"]], weights, own, of[0][turned])[turned]
        elif kind in ("concat", "one"):
            parts = of if kind == "concat" else [np.ones_like(of[0][:, :1]), of[0]]
            value = np.concatenate(parts, axis=-1)
        elif kind == "spread":
            value = of[0][None]
        elif kind in ("known", "missing"):
            value = np.where(np.isnan(of[0]), 0, of[0]) if kind == "known" else np.isnan(of[0]).astype(of[0].dtype)
        elif kind in ("add", "multiply", "tanh", "relu", "sigmoid"):
            value = OPERATIONS[kind](*of)
        elif kind in ("mean", "max"):
            value = getattr(of[0], kind)(0)
        elif kind in ("first", "last"):
            value = of[0][0 if kind == "first" else -1]
        else:
            raise SystemExit(f"this reader does not know {kind}")
        values.append(value)
    return {name: values[k] for name, k in told["networks"][network]["outputs"].items()}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    told = json.loads((folder / "network.json").read_text())
    rows = told["networks"]["model"]["values"]
    given = {
        row["name"]: np.zeros(5, int) if row["kind"] == "tokens" else np.ones((5, row["size"]), np.float32)
        for row in rows
        if row["kind"] in ("tokens", "numbers")
    }
    for name, value in run(told, load_file(folder / "weights.safetensors"), given).items():
        print(name, value.shape, np.round(value.ravel()[:4], 4))
