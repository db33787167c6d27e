"""One layer as a function of C: the passes of its cell's plan, each a loop over units.

The plan is that of the fused engine without a tape (`engines/fused/stages.py`), lowered and printed as the kernels are. Next
states lie in memory of their own until the step is done, because a later pass may still read the states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from recurra.cells.graph import Node, block
from recurra.engines.fused.adjoint import Lowered, lower
from recurra.engines.fused.constant_folding import fold_constants
from recurra.engines.fused.stages import Pass, Place, schedule_forward
from recurra.engines.fused.statements import Let, Printer, Reduce, Statement, Store, indent, lower_step
from recurra.export.c_language import C, literal
from recurra.export.c_names import comment, safe
from recurra.export.c_numbers import Numbers
from recurra.export.network import StateSlot, Value


class LayerSource:
    """The function `layer_NUMBER` of a network whose names begin with `prefix`; `members` are the names of its states."""

    def __init__(
        self,
        prefix: str,
        number: int,
        layer: Value,
        slots: Sequence[StateSlot],
        members: Sequence[str],
        numbers: Numbers,
    ):
        direction = layer.direction
        assert direction is not None
        self.prefix, self.number, self.numbers, self.slots = prefix, number, numbers, slots
        self.members = dict(zip((state.name for state in direction.cell.graph.states), members, strict=True))
        with torch.no_grad():
            self.weights = direction.weights(1, 1)
        self.H, self.D = direction.hidden_size, direction.input_size
        folded = fold_constants(direction.cell.graph)
        self.graph, self.lowered = folded.graph, lower(folded.graph)
        with torch.no_grad():
            exact = folded.units({name: value.double() for name, value in self.weights.units.items()})
            self.units = {name: value.detach().expand(self.H) for name, value in exact.items()}
        self.step = schedule_forward(self.lowered)
        self.names = _c_names(self.lowered)

    @property
    def name(self) -> str:
        return f"layer_{self.number}"

    def lines(self) -> list[str]:
        H, graph = self.H, self.graph
        lowered = lower_step(self.step, self.lowered.names.keys())
        reads = {place.kind for each in lowered.reads for place in each}
        body = self._drives() if "tape" in reads else ["(void)given;"]
        for each, statements in zip(self.step.passes, lowered.passes, strict=True):
            body += self._pass(each, statements)
        places = [place for each in self.step.passes for _, place in each.stores]
        memory = [f"drive_all[{len(graph.drives) * H}]"] if "tape" in reads else []
        memory += [f"product_{product.number}[{len(product.nodes) * H}]" for product in self.step.products]
        memory += [f"row_{n}[{H}]" for n in sorted({place.number for place in places if place.kind == "row"})]
        memory += [f"next_{self.members[state.name]}[{H}]" for state in graph.states[1:]]
        memory += [f"mean_{n} = 0.0f" for n in range(self.step.means)]
        title = f"layer {self.number}: {graph.name}, {self.D} inputs, {H} units"
        return [
            *comment([title, *(f"    {line}" for line in graph.equations())]),
            f"static void {self.name}({self.prefix}_state *restrict state, const float *restrict given, "
            "float *restrict result)",
            "{",
            *indent([*([f"float {', '.join(memory)};"] if memory else []), *self._past(), *body, *self._keep()]),
            "}",
        ]

    # -- memory ------------------------------------------------------------------------------------------------------

    def _past(self) -> list[str]:
        """Where the values of earlier steps lie: the oldest is at `_at`, and the next state takes its place."""
        lines = []
        for state in self.graph.states:
            member = self.members[state.name]
            for delay in range(1, state.depth + 1) if state.depth > 1 else ():
                if self._is_read(state.name, delay):
                    place = f"(state->{member}_at + {state.depth - delay}) % {state.depth}"
                    lines.append(f"const float *ago_{delay}_{member} = state->{member}[{place}];")
        return lines

    def _is_read(self, name: str, delay: int) -> bool:
        return any(n.kind == "state" and (n.name, n.delay) == (name, delay) for n in self.lowered.nodes)

    def _keep(self) -> list[str]:
        """The next states become the states."""
        lines = []
        for state in self.graph.states:
            member, source = self.members[state.name], self._array(Place("next", state.name))
            if state.depth == 1:
                lines.append(f"real_copy({source}, state->{member}, {self.H});")
            else:
                lines.append(f"real_copy({source}, state->{member}[state->{member}_at], {self.H});")
                lines.append(f"state->{member}_at = (state->{member}_at + 1) % {state.depth};")
        return lines

    def _array(self, place: Place) -> str:
        """The units of a place."""
        match place.kind:
            case "tape":
                return f"drive_all + {place.number * self.H}" if place.number else "drive_all"
            case "tile":
                array = f"product_{place.number}"
                return f"{array} + {place.part * self.H}" if place.part else array
            case "row":
                return f"row_{place.number}"
            case "next":
                return "result" if place.name == self.graph.states[0].name else f"next_{self.members[place.name]}"
            case "state":
                member = self.members[place.name]
                deep = self.graph.depth(place.name) > 1
                return f"ago_{place.number}_{member}" if deep else f"state->{member}"
        raise AssertionError(place)

    def _at(self, place: Place) -> str:
        """The place of unit k."""
        array, plus, offset = self._array(place).partition(" + ")
        return f"{array}[{offset + ' + ' if plus else ''}k]"

    def _read(self, node: Node, place: Place) -> str:
        match place.kind:
            case "mean":
                return f"mean_{place.number}"
            case "noise":
                return C.constant(self.graph.noises[place.name].mean)
            case "parameter":
                values = self.units[place.name].float()
                if bool((values == values[0]).all()):
                    return C.constant(float(values[0]))
                return f"{self.numbers.put(f'unit_{self.number}_{safe(place.name)}', values)}[k]"
        return self._at(place)

    # -- statements --------------------------------------------------------------------------------------------------

    def _drives(self) -> list[str]:
        W = self.numbers.matrix(f"W_{self.number}", self.weights.W)
        return [W.product(self._bias(self.weights.b), "given", "drive_all")]

    def _bias(self, b: torch.Tensor) -> str | None:
        return self.numbers.put(f"b_{self.number}", b) if bool(b.any()) else None

    def _pass(self, each: Pass, statements: Iterable[Statement]) -> list[str]:
        lines = []
        for product in each.products:
            names = [node.name for node in product.nodes]
            wanted = torch.cat([block(self.weights.U, self.graph.matrices, [name], self.H) for name in names])
            U = self.numbers.matrix(f"U_{self.number}_{product.number}", wanted)
            lines.append(U.product(None, self._array(product.source), f"product_{product.number}"))
        printer = Printer(C, self.names, self._read)
        inner: list[str] = []
        stores: list[str] = []
        for statement in statements:
            match statement:
                case Let():
                    inner += printer.let(statement)
                case Reduce(node, number):
                    stores.append(f"    mean_{number} += {printer.value(node)};")
                case Store(node, place):
                    stores.append(f"    {self._at(place)} = {printer.value(node)};")
        if inner or stores:
            lines += [f"for (int k = 0; k < {self.H}; ++k) {{", *inner, *stores, "}"]
        return lines + [f"mean_{number} /= {self.H}.0f;" for number in each.means]


def _c_names(lowered: Lowered) -> dict[Node, str]:
    """What the equations call their values, in letters that C knows."""
    prefixes = {"drive": "x_", "product": "u_", "parameter": "", "noise": ""}
    names = {node: safe(name) for node, name in lowered.names.items()}
    for node in lowered.nodes:
        if node.kind in prefixes:
            names.setdefault(node, safe(prefixes[node.kind] + node.name))
        elif node.kind == "state":
            names.setdefault(node, safe(f"{node.name}_{node.delay}"))
    return names


def reset_lines(slot: StateSlot, member: str, numbers: Numbers) -> list[str]:
    """A state as it is before the first step."""
    count, deep = slot.initial.numel(), len(slot.shape) > 1
    into = f"state->{member}[0]" if deep else f"state->{member}"
    if not bool(slot.initial.any()):
        value = literal(torch.zeros(1).numpy()[0])
        inner = f"state->{member}[k / {slot.shape[1]}][k % {slot.shape[1]}]" if deep else f"{into}[k]"
        lines = [f"for (int k = 0; k < {count}; ++k) {inner} = {value};"]
    elif deep:
        first = numbers.put(f"first_{member}", slot.initial)
        row = slot.shape[1]
        lines = [
            f"for (int k = 0; k < {slot.shape[0]}; ++k) real_copy({first} + {row} * k, state->{member}[k], {row});"
        ]
    else:
        lines = [f"real_copy({numbers.put(f'first_{member}', slot.initial)}, {into}, {count});"]
    return [*lines, *([f"state->{member}_at = 0;"] if deep else [])]
