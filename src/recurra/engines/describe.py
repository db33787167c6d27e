"""A cell in words and numbers: its equations, parameters and products, and which engines run it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from recurra.cells.graph import write
from recurra.cells.notation import Cell
from recurra.engines.choose import ENGINES
from recurra.results import Result, Table
from recurra.types import Shape


@dataclass(frozen=True)
class CellDescription(Result):
    """Everything that a cell's graph knows, and what each engine answers (float32 on the CPU).

    - `states`: how many steps back each is read. `stages`: products by stage, those of one argument together.
    - `engines`: why an engine cannot run the cell; empty where it can.
    """

    name: str
    summary: str
    about: str
    equations: list[str]
    states: dict[str, int]
    gates: list[str]
    parameters: list[dict[str, str]]
    stages: list[list[dict[str, list[str] | str]]]
    linear: bool
    diagonal: bool
    engines: dict[str, str]

    @property
    def runs_on(self) -> list[str]:
        return [engine for engine, reason in self.engines.items() if not reason]

    def __str__(self) -> str:
        parameters = [[each["name"], each["shape"], each["first"]] for each in self.parameters]
        stages = [
            [str(k), "; ".join(f"U.[{', '.join(each['matrices'])}]({each['of']})" for each in stage)]
            for k, stage in enumerate(self.stages, 1)
        ]
        engines = [[name, _yes(not reason), reason] for name, reason in self.engines.items()]
        blocks = [
            f"{self.name}: {self.about}",
            "\n".join(f"    {line}" for line in self.equations),
            Table(["name", "shape", "first value"], parameters, "parameters"),
            Table(["stage", "products"], stages or [["-", "none"]], "products in each step"),
            f"linear in the state: {_yes(self.linear)}; diagonal Jacobian: {_yes(self.diagonal)}",
            Table(["engine", "runs it", "why not"], engines, "engines"),
        ]
        return "\n\n".join(map(str, blocks))


def describe_cell(cell: Cell) -> CellDescription:
    graph, about = cell.graph, cell.__doc__ or ""
    shape = Shape(B=32, T=128, D=256, H=256)
    answers = {name: e.supports(cell, torch.device("cpu"), torch.float32, shape) for name, e in ENGINES.items()}
    parameters = [
        *((f"W.{drive}", "H × D", "Xavier") for drive in graph.drives),
        *((f"b.{drive}", "H", f"{graph.bias.get(drive, 0.0):g}") for drive in graph.drives),
        *((f"U.{name}", "H × H", graph.constraints.get(name, "orthogonal")) for name in graph.matrices),
        *((name, "H", repr(declared)) for name, declared in graph.parameters.items()),
    ]
    return CellDescription(
        name=cell.name,
        summary=" ".join(about.split("\n\n")[0].split()),
        about=about,
        equations=graph.equations(),
        states={state.name: state.depth for state in graph.states},
        gates=list(graph.gates),
        parameters=[dict(zip(("name", "shape", "first"), each, strict=True)) for each in parameters],
        stages=[
            [{"matrices": list(group.names), "of": write(group.argument, graph.written, top=False)} for group in stage]
            for stage in graph.stages
        ],
        linear=graph.is_linear,
        diagonal=graph.is_diagonal,
        engines={name: answer.reason for name, answer in answers.items()},
    )


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"
