"""A network as one header and one source of C99."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from recurra.errors import OptionError
from recurra.export.c_cell import LayerSource, reset_lines
from recurra.export.c_language import C, needs_math, with_functions
from recurra.export.c_names import comment, prefix, safe
from recurra.export.c_numbers import Numbers, is_diagonal
from recurra.export.network import Network, StateSlot, Value, state_slots

TOKENS = ("tokens", "label")
ELEMENTWISE = ("tanh", "relu", "sigmoid", "add", "multiply")


@dataclass(frozen=True)
class Port:
    """An input or an output: its name in the network and in C, how many numbers it has, whether it is a token, and whether
    there is one for all steps of a call."""

    name: str
    c_name: str
    size: int
    is_token: bool = False
    is_whole: bool = False

    def step_argument(self, *, out: bool = False) -> str:
        return f"int32_t {self.c_name}" if self.is_token else f"{'' if out else 'const '}float *{self.c_name}"

    def chunk_argument(self, *, out: bool = False) -> str:
        if self.is_token and not self.is_whole:
            return f"const int32_t *{self.c_name}"
        return self.step_argument(out=out)


class Source:
    """The text of `NAME.h` and `NAME.c`, and what a caller must know of them."""

    def __init__(self, network: Network, name: str, *, int8: bool, own_math: bool, facts: Mapping[str, object]):
        reason = network.cannot_stream
        if reason is not None:
            raise OptionError(f"export to C: the network cannot run step by step: {reason}. Export it as ONNX.")
        for value in network.values:
            if value.kind in ("attend", "memory"):
                raise OptionError(
                    "export to C: attention over another sequence needs memory for all of its steps. Export it as ONNX."
                )
        if any(value.is_whole for value in network.outputs.values()):
            raise OptionError(
                "export to C: the condition becomes the first state, and a reset takes none. Export it as ONNX, or train with "
                "model.condition=input."
            )
        self.network, self.name, self.facts = network, prefix(name), facts
        self.int8, self.own_math = int8, own_math
        self.numbers = Numbers(int8)
        taken: set[str] = {"state", "steps"}
        self.inputs = [self._port(v.name, v, taken) for v in network.inputs]
        self.outputs = [self._port(name, v, taken, out=True) for name, v in network.outputs.items()]
        self.slots = state_slots(network)
        self.members: list[str] = []
        for slot in self.slots:
            self.members.append(safe(slot.name, self.members))

    @staticmethod
    def _port(name: str, value: Value, taken: set[str], *, out: bool = False) -> Port:
        c_name = safe(name, taken)
        taken.add(c_name)
        is_token = value.kind in TOKENS and not out
        return Port(name, c_name, value.size, is_token, value.kind in ("label", "vector") and not out)

    @property
    def upper(self) -> str:
        return self.name.upper()

    @property
    def state_bytes(self) -> int:
        """Of the state: floats, and a position for each state that is read several steps back."""
        return sum(4 * slot.initial.numel() + 4 * (len(slot.shape) > 1) for slot in self.slots) or 1

    @cached_property
    def signatures(self) -> dict[str, str]:
        state, name = f"{self.name}_state *state", self.name
        one = [*(p.step_argument() for p in self.inputs), *(p.step_argument(out=True) for p in self.outputs)]
        many = [*(p.chunk_argument() for p in self.inputs), *(p.chunk_argument(out=True) for p in self.outputs)]
        return {
            "reset": f"void {name}_reset({state})",
            "step": f"void {name}_step({', '.join([state, *one])})",
            "chunk": f"void {name}_chunk({', '.join([state, *many, 'int steps'])})",
        }

    # -- the header --------------------------------------------------------------------------------------------------

    def header(self) -> str:
        upper = self.upper
        members = [
            line for slot, member in zip(self.slots, self.members, strict=True) for line in _member(slot, member)
        ] or ["char unused;"]
        sizes = {f"{upper}_INPUTS": sum(1 if p.is_token else p.size for p in self.inputs)}
        sizes[f"{upper}_OUTPUTS"] = sum(p.size for p in self.outputs)
        for port in (*self.inputs, *self.outputs):
            sizes[f"{upper}_{port.c_name.upper()}_SIZE"] = port.size
        ports = [f"    {p.c_name}: {self._about(p)}" for p in self.inputs]
        ports += [f"    {p.c_name}: {p.size} numbers, written" for p in self.outputs]
        lines = [
            *comment([f"{self.name}: a recurrent network, step by step.", *self._facts()]),
            f"#ifndef {upper}_H",
            f"#define {upper}_H",
            "",
            "#include <stdint.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            *(f"#define {name} {size}" for name, size in sizes.items()),
            "",
            "typedef struct {",
            *(f"    {line}" for line in members),
            f"}} {self.name}_state;",
            "",
            *comment(["the state before the first step: call it first, and before each new sequence"]),
            f"{self.signatures['reset']};",
            "",
            *comment(["one step. Inputs and outputs must not overlap.", *ports]),
            f"{self.signatures['step']};",
            "",
            *comment(["as many steps as `steps` says: the numbers of each step lie one after the other"]),
            f"{self.signatures['chunk']};",
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            "#endif",
            "",
        ]
        return "\n".join(lines)

    def _facts(self) -> list[str]:
        weights = "matrices in int8 with a scale for each row" if self.int8 else "float32"
        told = [f"{n}: {v}"[:100] for n, v in self.facts.items() if isinstance(v, str | int | float)]
        return [f"weights: {weights}", *told]

    def _about(self, port: Port) -> str:
        whole = ", the same at all steps" if port.is_whole else ""
        if port.is_token:
            return f"a whole number from 0 to {port.size - 1} (any other is read as 0){whole}"
        return f"{port.size} numbers{whole}"

    # -- the source --------------------------------------------------------------------------------------------------

    @cached_property
    def source(self) -> str:
        layers, calls = self._layers()
        step = self._step(calls)
        reset = [
            line
            for slot, member in zip(self.slots, self.members, strict=True)
            for line in reset_lines(slot, member, self.numbers)
        ] or ["state->unused = 0;"]
        body = "\n".join(
            [
                *(line for lines in layers for line in [*lines, ""]),
                self.signatures["reset"],
                "{",
                *(f"    {line}" for line in reset),
                "}",
                "",
                self.signatures["step"],
                "{",
                *(f"    {line}" for line in step),
                "}",
                "",
                self.signatures["chunk"],
                "{",
                *(f"    {line}" for line in self._chunk()),
                "}",
                "",
            ]
        )
        functions, body = with_functions(body, own_math=self.own_math)
        arrays = [line for array in self.numbers.arrays for line in [*array.lines(), ""]]
        text = "\n\n".join(functions)
        head = [f'#include "{self.name}.h"', *(["", "#include <math.h>"] if needs_math(text + body) else []), ""]
        return "\n".join([*comment([f"{self.name}: see {self.name}.h"]), *head, *arrays, text, "", body])

    def _layers(self) -> tuple[list[list[str]], dict[Value, str]]:
        """The functions of all layers, and what each is called."""
        texts, calls = [], {}
        for number, layer in enumerate(self.network.layers):
            own = [k for k, slot in enumerate(self.slots) if slot.layer is layer]
            members = [self.members[k] for k in own]
            made = LayerSource(self.name, number, layer, [self.slots[k] for k in own], members, self.numbers)
            texts.append(made.lines())
            calls[layer] = made.name
        return texts, calls

    def _step(self, calls: Mapping[Value, str]) -> list[str]:
        """The body of a step: each value in memory of its own, or where an output is wanted."""
        where = {v: port.c_name for v, port in zip(self.network.inputs, self.inputs, strict=True)}
        memory, lines = [], [] if self.slots else ["(void)state;"]
        for port, value in zip(self.outputs, self.network.outputs.values(), strict=True):
            if value.kind not in ("spread", *TOKENS, "numbers", "vector"):
                where.setdefault(value, port.c_name)
        for number, value in enumerate(self.network.values):
            if value.kind in (*TOKENS, "numbers", "vector"):
                continue
            if value.kind == "spread":
                where[value] = where[value.arguments[0]]
                continue
            if value not in where:
                where[value] = f"value_{number}"
                memory.append(f"value_{number}[{value.size}]")
            given = [where[argument] for argument in value.arguments]
            if value.kind == "layer":
                lines.append(f"{calls[value]}(state, {given[0]}, {where[value]});")
            else:
                lines += self._value(value, number, given, where[value])
        for port, value in zip(self.outputs, self.network.outputs.values(), strict=True):
            if where[value] != port.c_name:
                lines.append(f"real_copy({where[value]}, {port.c_name}, {port.size});")
        return [*([f"float {', '.join(memory)};"] if memory else []), *lines]

    def _value(self, value: Value, number: int, given: list[str], out: str) -> list[str]:
        each = f"for (int k = 0; k < {value.size}; ++k) {out}[k] = "
        match value.kind:
            case "embedding":
                table = self.numbers.matrix(f"table_{number}", value.weights["table"], table=True)
                return [table.row(given[0], out)]
            case "linear":
                return self._linear(value, number, given[0], out)
            case "known":
                return [f"{each}real_is_nan({given[0]}[k]) ? 0.0f : {given[0]}[k];"]
            case "missing":
                return [f"{each}(float)real_is_nan({given[0]}[k]);"]
            case "one":
                return [f"{out}[0] = 1.0f;", f"real_copy({given[0]}, {out} + 1, {value.size - 1});"]
            case "concat":
                lines, at = [], 0
                for argument, place in zip(value.arguments, given, strict=True):
                    lines.append(f"real_copy({place}, {out}{f' + {at}' if at else ''}, {argument.size});")
                    at += argument.size
                return lines
            case kind if kind in ELEMENTWISE:
                terms = [f"{place}[k]" for place in given]
                text = terms[0]
                if len(terms) == 1:
                    text = C.forms[kind].format(text)
                for term in terms[1:]:
                    text = C.forms[kind].format(text, term)
                return [f"{each}{text};"]
        raise OptionError(f"export to C: there is no form for {value.kind!r}. Export the network as ONNX.")

    def _linear(self, value: Value, number: int, given: str, out: str) -> list[str]:
        """A product; a diagonal matrix, as standardising is, is no more than a factor for each number."""
        weight, bias = value.weights["weight"], value.weights.get("bias")
        b = self.numbers.put(f"bias_{number}", bias) if bias is not None and bool(bias.any()) else None
        diagonal = torch.diagonal(weight)
        if not is_diagonal(weight):
            return [self.numbers.matrix(f"weight_{number}", weight).product(b, given, out)]
        factor = "" if bool((diagonal == 1).all()) else f" * {self.numbers.put(f'factor_{number}', diagonal)}[k]"
        shift = f" + {b}[k]" if b else ""
        return [f"for (int k = 0; k < {value.size}; ++k) {out}[k] = {given}[k]{factor}{shift};"]

    def _chunk(self) -> list[str]:
        ports = [*self.inputs, *self.outputs]
        arguments = [f"*{p.c_name}" if p.is_token and not p.is_whole else p.c_name for p in ports]
        moved = [f"{p.c_name} += {1 if p.is_token else p.size};" for p in ports if not p.is_whole]
        return [
            "for (int t = 0; t < steps; ++t) {",
            f"    {self.name}_step({', '.join(['state', *arguments])});",
            *(f"    {line}" for line in moved),
            "}",
        ]


def _member(slot: StateSlot, member: str) -> list[str]:
    sizes = "".join(f"[{size}]" for size in slot.shape)
    if len(slot.shape) == 1:
        return [f"float {member}{sizes};"]
    return [f"float {member}{sizes};", f"int32_t {member}_at; /* the row of the oldest value */"]
