"""A plan printed in CUDA C++: one `forward` and one `backward` for the whole sequence, readable beside the equations.

For cells whose weights fit into the registers of all thread blocks together (`budget`): there a step is a matter of
latency, and Triton has threads wait for others more often than the equations ask for. `steps.cuh` says how the threads
of one work together.

A thread has one or two pairs of neighbouring units (`p`); each pass is a loop over them between two products, so that
values which a later pass reads are kept in arrays. That, the sums in shared memory and the loops around a step are this
language's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from recurra.cells.graph import Node
from recurra.engines.fused import budget
from recurra.engines.fused.gpu_kernel import Address, Kernel, Source, Tiles, state_argument
from recurra.engines.fused.stages import Place, Plan, Product
from recurra.engines.fused.statements import (
    ARITHMETIC,
    CPP_WORDS,
    Dot,
    Language,
    Let,
    Printer,
    Statement,
    Store,
    indent,
    lower_step,
)

CUDA = Language(
    forms={**ARITHMETIC, "not": "(!{})", "where": "select({}, {}, {})", "abs": "absolute({})"},
    number="{!r}f",
    nan="not_a_number()",
    infinity="({}infinity())",
    line="const two {} = {};",
    condition="const both {} = {};",
    reserved=CPP_WORDS
    | set(
        """
        T B H UNITS ROWS WARPS THREADS PAIRS PARTS p t next number parameter whole two both unit row here alive ends sums
        parts memory tape gradient lengths bias absolute any clamp cos erf exp floor infinity load log maximum minimum narrow
        not_a_number own_row own_unit owns peek power put quotient relu remainder select shared_memory sigmoid sign sin
        softplus sqrt sum_over_rows sync tanh wide
        """.split()  # noqa: SIM905
    ),
    prefixes=tuple(
        """
        ahead_ argument_ arrived_ arriving_ bias_ by_ carry_ due_ final_ first_ initial_ kept_ last_ n_ next_ noise_ now_ p_
        parameter_ per_ product_ rows_ s_ state_ tape_ tile_ total_ weights_
        """.split()  # noqa: SIM905
    ),
)
C_TYPES = {"bfloat16": "bfloat16", "float16": "float16", "float32": "float"}


def emit(plan: Plan, tiles: Tiles, dtype: str, parameters: str, *, forward: bool, exact: bool = True) -> Source:
    return _Kernel(plan, tiles, C_TYPES[dtype], C_TYPES[parameters], forward=forward, exact=exact).source()


@dataclass(frozen=True)
class Load:
    """A number of this step that was there before the kernel began: prefetched while the step before is computed."""

    kind: str  # the type in memory
    address: str  # at step `next`, for pair `p`
    if_any: str = ""  # the argument without which there is none


class _Kernel(Kernel):
    row, own, now, end = "row[p]", "{}[p]", "now_{}[p]", ";"

    def __init__(self, plan: Plan, tiles: Tiles, dtype: str, parameters: str, *, forward: bool, exact: bool):
        super().__init__(plan, tiles, forward=forward)
        self.dtype, self.parameters, self.exact = dtype, parameters, exact
        if forward:
            for state in self.graph.states:
                self.types[state_argument(state.name, "initial")] = "const parameter*"
                self.types[state_argument(state.name, "final")] = "number*"
        self.lowered = lower_step(self.step, plan.lowered.names.keys(), soonest=self.awaited)
        self.loads: dict[str, Load] = {}
        if not forward:
            for state in self.graph.states:
                name = f"arriving_{state.name}"
                self.loads[name] = Load("number", self.arriving_address(state.name, "next"), name)
        # what an earlier pass of the step wrote and a later one reads stays in a register
        self.kept: set[Place] = set()
        written: set[Place] = set()
        for each, reads in zip(self.step.passes, self.lowered.reads, strict=True):
            self.kept |= reads.keys() & written
            for place in reads:
                name = "" if place in written else self.prefetched(place)
                if name:
                    kind = "parameter" if place.kind == "noise" else "number"
                    self.loads[name] = Load(kind, self.prefetch_address(place, "next"))
            written |= {place for _, place in each.stores}
        self.written: set[Place] = set()  # by the passes that are printed

    # -- values ------------------------------------------------------------------------------------------------------

    def tile(self, place: Place) -> str:
        return f"tile_{place.number}_{place.part}"

    def older(self, place: Place) -> str:
        """This thread's own: there since it was written."""
        return f"(here[p] ? wide(load({self.element(self.address(place), 't')})) : two())"

    def read(self, node: Node, place: Place) -> str:
        return f"{_kept(place)}[p]" if place in self.written else super().read(node, place)

    def element(self, address: Address, step: str) -> str:
        width = (address.blocks or 1) * self.tiles.H
        offset = address.block * self.tiles.H
        return f"{address.buffer} + {address.at(step)} * B * {width} + {offset} + (row[p] * {width} + unit)"

    def masked(self, value: str) -> str:
        return value if self.forward else f"(alive[p] ? two({value}) : two())"

    def put(self, address: Address, value: str, *, awaited: bool) -> str:
        return f"if (here[p]) put({self.element(address, 't')}, {value});"

    def store_next(self, place: Place, value: str) -> list[str]:
        return [f"next_{place.name}[p] = {value};", self.put(self.address(place), value, awaited=True)]

    def awaited(self, place: Place) -> int:
        """How soon other thread blocks wait for what is stored there: after how many products; never after all of them."""
        products = self.step.products
        return next((k for k, product in enumerate(products) if _reads(product, place)), len(products))

    def final(self, name: str, number: str) -> tuple[str, str]:
        """Whether value `number` of a state is one of the last before a batch row's end, and its place among these."""
        late = f"({number} - ends[p])"
        is_final = f"here[p] && {late} >= 0 && {late} < {self.graph.depth(name)}"
        return is_final, self.element(Address(state_argument(name, "final")), late)

    # -- the step ----------------------------------------------------------------------------------------------------

    def at_once(self, product: Product) -> int:
        """Blocks of inputs that a warp reads before it multiplies; the next are then prefetched."""
        blocks = budget.blocks(product, self.tiles)
        wishes = (n for n in (blocks, 8, 4, 2) if n <= blocks)
        fits = (n for n in wishes if budget.registers(self.step, self.tiles, product, n) <= budget.REGISTERS)
        return next(fits, 1)

    def pass_lines(self, statements: Iterable[Statement]) -> list[str]:
        lines, body, sums = [], [], 0
        printer = Printer(CUDA, self.plan.lowered.names, self.read, self.types)
        for statement in statements:
            match statement:
                case Dot(product):
                    number, (row, distance) = product.number, self.address(product.source).row("t", self.tiles.H)
                    lines.append(f"product_{number}.multiply(parts + {sums}, {row}, {distance}, B);")
                    for part in range(budget.outputs(product)):
                        total = f"product_{number}.total(parts + {sums}, {part}, p)"
                        body.append(f"const two tile_{number}_{part} = {total};")
                    sums += budget.sums_of(product, self.tiles)
                case Let():
                    body += printer.let(statement)
                case Store(node, place):
                    value = printer.value(node)
                    if place in self.kept:
                        body.append(f"{_kept(place)}[p] = {value};")
                    body += self.store(place, value)
        if not lines:
            return each_pair(body)
        end = "parts = memory + PARTS - (parts - memory);" if self.tiles.buffers > 1 else "sync();"
        return [*lines, "sync();", *each_pair(body), end]

    def step_lines(self) -> list[str]:
        lines = [f"two {_kept(place)}[PAIRS];" for place in sorted(self.kept, key=str)]
        following = "t + 1 < T ? t + 1 : t" if self.forward else "t > 0 ? t - 1 : 0"
        asked = False
        for each, statements in zip(self.step.passes, self.lowered.passes, strict=True):
            if each.products and not asked:  # waiting hides the prefetch
                lines += [f"next = {following};  // prefetched from now on", *self.ask()]
                asked = True
            lines += self.pass_lines(statements)
            self.written |= {place for _, place in each.stores}
        return lines

    def ask(self) -> list[str]:
        """Prefetch the numbers of step `next`."""
        lines = []
        for name, load in self.loads.items():
            exists = f"here[p] && {load.if_any}" if load.if_any else "here[p]"
            lines.append(f"ahead_{name}[p] = {exists} ? load({load.address}) : Stored<{load.kind}>();")
        return each_pair(lines)

    def take(self) -> list[str]:
        """This step's numbers. Only now they become float32: that would wait for them."""
        names = ", ".join(f"now_{name}[PAIRS]" for name in self.loads)
        lines = [f"now_{name}[p] = wide(ahead_{name}[p]);" for name in self.loads]
        return [f"two {names};", *each_pair(lines)] if names else []

    # -- the kernel --------------------------------------------------------------------------------------------------

    def head(self) -> list[str]:
        tiles = self.tiles
        kept = str(budget.keeps_parts(self.step, tiles)).lower()
        return [
            f"// {self.graph.name}, {self.name}, generated from its equations:",
            *(f"//     {line}" for line in self.graph.equations()),
            f"#define NUMBER {self.dtype}",
            f"constexpr bool EXACT = {str(self.exact).lower()}, KEPT = {kept};",
            f"#define PARAMETER {self.parameters}",
            f"constexpr int H = {tiles.H}, UNITS = {tiles.units}, ROWS = {tiles.rows}, WARPS = {tiles.warps};",
            f"constexpr int PATIENCE = {budget.patience(self.step, tiles)};",
            '#include "steps.cuh"',
            "",
            f"constexpr int PARTS = {budget.sums(self.step, tiles)};  // numbers of a step's sums in shared memory",
            "",
            f"KERNEL {self.name}({', '.join(f'{kind} {name}' for name, kind in self.types.items())}) {{",
        ]

    def opening(self) -> list[str]:
        """What stays the same from step to step."""
        lines = [
            "float *const memory = shared_memory(), *parts = memory;",
            "const int unit = own_unit();",
            "int row[PAIRS];",
            "bool here[PAIRS];",
            "whole ends[PAIRS];",
            *each_pair(
                [
                    "row[p] = own_row(p), here[p] = owns(p, B);",
                    "ends[p] = here[p] && lengths ? lengths[row[p]] : T;",
                ]
            ),
        ]
        for k, _ in enumerate(self.graph.drives):
            lines.append(f"const two bias_{k} = unit < H ? wide(load(bias + {k} * H + unit)) : two();")
        for name in self.graph.parameters:
            lines.append(f"const two parameter_{name} = unit < H ? wide(load(p_{name} + unit)) : two();")
        for product in self.step.products:
            size = f"{product.inputs(self.tiles.H)}, {budget.outputs(product)}"
            transposed = str(product.is_transposed).lower()
            lines += [
                f"Product<{size}, {transposed}, {self.at_once(product)}> product_{product.number};",
                f"product_{product.number}.load(weights_{product.number}, T);",
            ]
        return lines

    def source(self) -> Source:
        lines = [*self.opening(), *(self.forward_lines() if self.forward else self.backward_lines())]
        return Source("\n".join([*self.head(), *indent(lines), "}", ""]), tuple(self.types))

    def forward_lines(self) -> list[str]:
        begin, end = [], []
        for state in self.graph.states:
            last = f"last_{state.name}[p]"
            first = []
            for k in range(state.depth):
                first += self.first_value(state.name, k)
                is_final, to = self.final(state.name, str(k))
                first.append(f"if ({is_final}) put({to}, first_{state.name}_{k});")
            begin += [
                f"{last} = two();",
                "if (here[p]) {",
                *indent(first),
                f"    {last} = first_{state.name}_{state.depth - 1};",
                "}",
            ]
            is_final, to = self.final(state.name, f"t + {state.depth}")
            end.append(f"if ({is_final}) put({to}, next_{state.name}[p]);")
            end.append(f"{last} = next_{state.name}[p];")
        names = ", ".join(f"last_{s.name}[PAIRS], next_{s.name}[PAIRS]" for s in self.graph.states)
        return [
            f"two {names};",
            *each_pair(begin),
            *(f"Stored<{load.kind}> ahead_{name}[PAIRS];" for name, load in self.loads.items()),
            "whole next = 0;",
            *self.ask(),
            "for (whole t = 0; t < T; ++t) {",
            *indent(self.take()),
            *indent(self.step_lines()),
            *indent(each_pair(end)),
            "}",
        ]

    def final_gradient(self, name: str, number: str) -> str:
        """What arrives at value `number` of a state because it is a final one."""
        here, at = self.final(name, number)
        return f"(final_{name} && {here} ? wide(load({at})) : two())"

    def backward_lines(self) -> list[str]:
        body = self.step_lines()
        states, numbers = self.graph.states, range(len(self.plan.accumulated))
        arrive, end, first, last = [], [], [], []
        for state in states:
            name, K = state.name, state.depth
            first += [f"due_{name}_{d}[p] = two();" for d in range(K)]
            arriving = [f"due_{name}_0[p]", f"now_arriving_{name}[p]", self.final_gradient(name, f"t + {K}")]
            arrive.append(f"arrived_{name}[p] = alive[p] ? {' + '.join(arriving)} : two();")
            for d, parts in enumerate(self.due(name)):
                end.append(f"due_{name}_{d}[p] = {' + '.join(f'{part}[p]' for part in parts) or 'two()'};")
            for d in range(K):  # due_d now belongs to value number K - 1 - d
                at = self.element(Address(state_argument(name, "initial")), str(K - 1 - d))
                value = f"due_{name}_{d}[p] + {self.final_gradient(name, str(K - 1 - d))}"
                last.append(f"if (here[p] && {state_argument(name, 'initial')}) put({at}, {value});")
        carried = [f"due_{s.name}_{d}[PAIRS]" for s in states for d in range(s.depth)]
        now = [f"arrived_{s.name}[PAIRS]" for s in states] + [f"carry_{n}_{d}[PAIRS]" for n, d in sorted(self.carried)]
        at = f"sums + (blockIdx.y * {len(numbers)} + {{}}) * H + unit"
        return [
            f"two {', '.join(carried)};",
            *each_pair(first),
            *(f"two total_{k};" for k in numbers),
            *(f"Stored<{load.kind}> ahead_{name}[PAIRS];" for name, load in self.loads.items()),
            "whole next = T - 1;",
            *self.ask(),
            "for (whole t = T - 1; t >= 0; --t) {",
            *indent(self.take()),
            "    bool alive[PAIRS];",
            f"    two {', '.join(now)};",
            *indent(each_pair(["alive[p] = here[p] && t < ends[p];", *arrive])),
            *indent(body),
            *indent(each_pair(end)),
            "}",
            *each_pair(last),
            *(f"sum_over_rows({at.format(k)}, total_{k}, memory);" for k in numbers),
        ]


def _reads(product: Product, place: Place) -> bool:
    """Whether a product reads what is stored there."""
    source = product.source
    match place.kind:
        case "next":
            return source.kind == "state" and source.name == place.name
        case "gradient":
            return source.kind == "gradient" and source.number <= place.number < source.number + product.blocks
    return source == place


def _kept(place: Place) -> str:
    return f"kept_{place.kind}_{place.name}_{place.number}"


def each_pair(lines: list[str]) -> list[str]:
    if not lines:
        return []
    return ["#pragma unroll", "for (int p = 0; p < PAIRS; ++p) {", *indent(lines), "}"]
