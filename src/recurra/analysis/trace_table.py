"""The table of the cell at work: one row for each step of a language model, from the token that it reads to its error.

    input, its vector, weighted vector | current state, weighted state, gates, next state | output, prediction, target, error

"Weighted" is what the equations add up: W x + b for each drive, U h for each recurrent matrix.
"""

from __future__ import annotations

import csv
import html
import io
from dataclasses import dataclass
from itertools import islice, pairwise, zip_longest
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.jacobians import StepMap
from recurra.errors import OptionError
from recurra.models.language import LanguageModel
from recurra.results import Result, Table


@dataclass(frozen=True)
class Row:
    """One step. Vectors are by name where the equations name several."""

    input: str
    vector: Tensor
    weighted_vector: dict[str, Tensor]
    state: dict[str, Tensor]
    weighted_state: dict[str, Tensor]
    gates: dict[str, Tensor]
    next_state: dict[str, Tensor]
    output: Tensor
    prediction: str
    probability: float
    target: str
    error: int


@dataclass(frozen=True, eq=False)
class TraceTable(Result):
    """A row for each step. It is a table by itself and has no other picture: see `to_html` and `to_csv`."""

    rows: list[Row]

    COLUMNS = (
        "input",
        "vector",
        "weighted vector",
        "current state",
        "weighted state",
        "gates",
        "next state",
        "output",
        "prediction",
        "target",
        "error",
    )

    def cells(self, digits: int = 2, most: int = 5) -> list[list[str]]:
        """Every cell as text; long vectors are cut after `most` numbers (0: whole)."""

        def vector(v: Tensor) -> str:
            shown = v.tolist() if not most or len(v) <= most else v[:most].tolist()
            return " ".join(f"{value:.{digits}f}" for value in shown) + (" …" if len(shown) < len(v) else "")

        def named(values: dict[str, Tensor]) -> str:
            if len(values) == 1:
                return vector(next(iter(values.values())))
            return "\n".join(f"{name}: {vector(value)}" for name, value in values.items())

        return [
            [
                row.input,
                vector(row.vector),
                named(row.weighted_vector),
                named(row.state),
                named(row.weighted_state),
                named(row.gates) if row.gates else "",
                named(row.next_state),
                vector(row.output),
                f"{row.prediction} ({row.probability:.2f})",
                row.target,
                str(row.error),
            ]
            for row in self.rows
        ]

    def table(self) -> Table:
        """A cell with several vectors goes on in the lines below it."""
        rows: list[tuple[str, ...]] = []
        for cells in self._readable(most=3):
            rows += zip_longest(*(cell.split("\n") for cell in cells), fillvalue="")
        return Table([self.COLUMNS[k] for k in self._filled], rows)

    @property
    def _filled(self) -> list[int]:
        """The columns that the cell fills: elman has no gates."""
        return [k for k, name in enumerate(self.COLUMNS) if name != "gates" or any(row.gates for row in self.rows)]

    def _readable(self, most: int = 5) -> list[list[str]]:
        """Filled cells. Tokens that are only space are named; in the other columns a new line begins another vector."""
        rows = (
            [_named_token(cell) if k in TOKENS else cell for k, cell in enumerate(row)] for row in self.cells(most=most)
        )
        return [[row[k] for k in self._filled] for row in rows]

    def _repr_html_(self) -> str:
        return f"<table>{self._html()}</table>"

    def to_json(self) -> dict[str, Any]:
        return {"rows": [dict(zip(self.COLUMNS, cells, strict=True)) for cells in self.cells(digits=6, most=0)]}

    def to_csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.COLUMNS)
        writer.writerows(self.cells(digits=6, most=0))
        return out.getvalue()

    def to_html(self, title: str) -> str:
        """A page of its own: light or dark as the reader's machine has it, wrong predictions marked by word and colour."""
        return _PAGE.format(title=html.escape(title), table=self._html())

    def _html(self) -> str:
        symbols = {"weighted vector": "W x + b", "current state": "s", "weighted state": "U s", "next state": "s′"}
        head = "".join(
            f"<th>{html.escape(name)}{f'<br><i>{symbols[name]}</i>' if name in symbols else ''}</th>"
            for name in (self.COLUMNS[k] for k in self._filled)
        )
        body = []
        for row, cells in zip(self.rows, self._readable(), strict=True):
            kind = ' class="wrong"' if row.error else ""
            inner = "".join(f"<td>{html.escape(cell).replace(chr(10), '<br>')}</td>" for cell in cells)
            body.append(f"<tr{kind}>{inner}</tr>")
        return f"<thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(body) + "\n</tbody>"


TOKENS = (0, 8, 9)
"""The columns of tokens: input, prediction, target."""


def _named_token(cell: str) -> str:
    """Space, tab and the end of a line by name."""
    head, mark, rest = cell.partition(" (") if cell.endswith(")") and " (" in cell else (cell, "", "")
    names = {" ": "space", "\n": "line end", "\t": "tab", "": "none"}
    return names.get(head, head.replace("\n", "⏎").replace("\t", "⇥")) + mark + rest


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 1rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 12px; width: 100%; }}
th, td {{ border: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: .2rem .35rem; text-align: left;
  vertical-align: top; }}
th {{ position: sticky; top: 0; background: Canvas; }}
td:first-child, td:nth-last-child(2), td:nth-last-child(3) {{ font-weight: 600; }}
.wrong {{ background: color-mix(in srgb, #d55e00 22%, Canvas); }}
</style></head><body><h1>{title}</h1><div style="overflow-x:auto"><table>
{table}</table></div></body></html>
"""


@torch.no_grad()
def trace_table(model: LanguageModel, tokens: list[int], names: list[str], layer: int = 0) -> TraceTable:
    """Run a sequence of tokens through the model, and record every value of one layer.

    - `tokens`: what the model reads, with the target of the last one at the end; a row for all but the last.
    - `names`: the text of each token of the vocabulary.

    ```python
    model = rc.models.LanguageModel(3, rc.Recurrent("gru", 4, 4))
    print(rc.analysis.trace_table(model, [0, 1, 2, 0], ["a", "b", "c"]))
    ```
    """
    recurrent = model.recurrent
    if len(tokens) < 2:
        raise OptionError("a table needs at least two tokens: one to read and one to predict.")
    if not 0 <= layer < len(recurrent.stack):
        raise OptionError(f"layer must be 0 to {len(recurrent.stack) - 1}; got {layer}.")
    training = model.training
    model.eval()
    F = StepMap(recurrent)
    own = F.layers[layer]
    graph = own.graph
    s = F.pack(recurrent.initial_state(1))
    rows = []
    for token, target in pairwise(tokens):
        vector = model.embed(torch.tensor([[token]]))[0].to(F.dtype)
        at = next(islice(F.walk(s, vector), layer, None))
        before, read, values = at.state, at.read, at.values
        s = F(s, vector)
        after = s.split(F.sizes, dim=-1)[layer]
        products = {
            f"U.{node.name}({graph.names.get(node.arguments[0], node.arguments[0].name or 'v')})": values[node]
            for node in own.order
            if node.kind == "product"
        }
        logits = model.output(F.outputs(s).to(model.output.weight.dtype))[0]
        best = int(logits.argmax())
        rows.append(
            Row(
                input=names[token],
                vector=vector[0],
                weighted_vector={
                    name: part[0]
                    for name, part in zip(
                        graph.drives, torch.nn.functional.linear(read, own.W, own.b).split(own.H, -1), strict=True
                    )
                },
                state={name: part[0, -1] for name, part in own.unpack(before).items()},
                weighted_state={name: own.wide(value, before)[0] for name, value in products.items()},
                gates={name: own.wide(values[node], before)[0] for name, node in graph.gates.items() if node in values},
                next_state={name: part[0, -1] for name, part in own.unpack(after).items()},
                output=logits,
                prediction=names[best],
                probability=float(logits.softmax(-1)[best]),
                target=names[target],
                error=int(best != target),
            )
        )
    model.train(training)
    return TraceTable(rows)
