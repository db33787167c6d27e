"""Open a run and export every result as numbers: python examples/open_and_export.py [RUN] (otherwise a tiny one is trained)."""

import json
import sys
from pathlib import Path

import numpy as np

import recurra as rc

run = rc.open(sys.argv[1]) if len(sys.argv) > 1 else rc.train("tomita", steps=100, hidden_size=8)
out = Path("export")
out.mkdir(exist_ok=True)
use = ("evaluate", "predict", "sample", "forecast", "flag", "examples", "mimic", "regions", "units", "automaton")
for name in (*use, "gradients", "spectra", "fixed_points", "field", "basins", "attractors"):
    try:
        result = getattr(run, name)()
    except rc.RecurraError as error:  # a line that says what this run can do instead
        print(f"{name}: {error}")
        continue
    if result is not None:
        (out / f"{name}.json").write_text(json.dumps(result.to_json()))
        np.savez(out / f"{name}.npz", **result.arrays())
        if table := result.table():
            (out / f"{name}.csv").write_text(table.to_csv())
