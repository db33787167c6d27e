"""A plan written in CUDA C++: one `forward` and one `backward` for the whole sequence, readable beside the equations.

For cells whose weights fit into the registers of all programs together (`budget`): there a step is a matter of latency, and
Triton has threads wait for others more often than the equations ask for. `steps.cuh` says how programs work together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from recurra.cells.graph import Node
from recurra.engines.fused import budget
from recurra.engines.fused.programs import Source, Tiles, exchanged_rows, inputs, state_argument
from recurra.engines.fused.stages import Pass, Place, Plan, Product, Program
from recurra.engines.fused.writer import ARITHMETIC, CPP_WORDS, Writer

_FORMS = {
    **ARITHMETIC,
    "not": "(!{})",
    "where": "select({}, {}, {})",
    "abs": "absolute({})",
}
_RESERVED = CPP_WORDS | set(
    """
    T B H UNITS LANES WARPS THREADS PAIRS PARTS p t next number parameter whole two both unit lane here alive ends sums
    parts memory tape gradient lengths bias absolute any clamp cos erf exp floor infinity load log maximum minimum narrow
    not_a_number own_lane own_unit owns peek power put quotient relu remainder select shared_memory sigmoid sign sin
    softplus sqrt sum_over_lanes sync tanh wide
    """.split()  # noqa: SIM905
)
_OWN = tuple(
    """
    ahead_ argument_ arrived_ arriving_ bias_ by_ carry_ due_ final_ initial_ kept_ last_ n_ next_ noise_ now_ p_ parameter_ per_
    product_ rows_ s_ state_ tape_ tile_ total_ weights_
    """.split()  # noqa: SIM905
)
C_TYPES = {"bfloat16": "bfloat16", "float16": "float16", "float32": "float"}


def emit_forward(plan: Plan, tiles: Tiles, dtype: str, parameters: str, *, exact: bool = True) -> Source:
    return _Forward(plan, tiles, dtype, parameters, exact).source()


def emit_backward(plan: Plan, tiles: Tiles, dtype: str, parameters: str, *, exact: bool = True) -> Source:
    return _Backward(plan, tiles, dtype, parameters, exact).source()


@dataclass(frozen=True)
class _Load:
    """A number of this step that was there before the kernel began: asked for while the step before is computed."""

    name: str
    kind: str  # the type in memory
    address: str  # at step `next`, for pair `p`
    if_any: str = ""  # the argument without which there is none


class _Writer(Writer):
    forms, own = _FORMS, _OWN

    def __init__(self, kernel: _Kernel, index: int):
        super().__init__(kernel.plan.lowered.names, _RESERVED | set(kernel.types))
        self.kernel, self.index = kernel, index

    def read(self, node: Node) -> str | None:
        return self.kernel.read(node, self.index)

    def number(self, value: float) -> str:
        if value != value:
            return "not_a_number()"
        if value in (float("inf"), float("-inf")):
            return f"({'-' if value < 0 else ''}infinity())"
        return f"{value!r}f"

    def line(self, node: Node, name: str, text: str) -> str:
        return f"const {'both' if node.is_condition else 'two'} {name} = {text};"


class _Kernel(ABC):
    """What forward and backward have in common."""

    name: str
    following: str  # the step after step `t`
    program: Program

    def __init__(self, plan: Plan, tiles: Tiles, dtype: str, parameters: str, exact: bool):
        self.plan, self.graph, self.tiles = plan, plan.graph, tiles
        self.dtype, self.parameters, self.exact = C_TYPES[dtype], C_TYPES[parameters], exact
        self.types = {"T": "whole", "B": "whole", "lengths": "const whole*", "tape": "number*"}  # of the arguments
        self.types |= {state_argument(state.name): "number*" for state in self.graph.states}
        if self.graph.drives:
            self.types["bias"] = "const parameter*"
        self.types |= {f"p_{name}": "const float*" for name in self.graph.parameters}
        for name in self.graph.noises:
            self.types |= {f"n_{name}": "const parameter*", f"by_step_{name}": "whole", f"by_lane_{name}": "whole"}
        self.types |= {f"weights_{k}": "const number*" for k in range(len(plan.groups))}
        self.loads: dict[str, _Load] = {}

    # -- values ------------------------------------------------------------------------------------------------------

    def early(self, name: str, address: str, kind: str = "number") -> str:
        self.loads[name] = _Load(name, kind, address)
        return f"now_{name}[p]"

    def at(self, buffer: str, step: str, blocks: int = 1, block: int = 0) -> str:
        """The address of pair `p` in a buffer of `blocks` times H numbers for each lane of a step."""
        width = blocks * self.tiles.H
        return f"{buffer} + {step} * B * {width} + {block * self.tiles.H} + (lane[p] * {width} + unit)"

    def read(self, node: Node, index: int) -> str | None:
        place = self.program.find(node, index)
        if place is None:
            return None
        if self.is_kept(place, index):
            return f"{_kept(place)}[p]"
        match place.kind:
            case "tape":
                loaded = self.early(f"tape_{place.number}", self.at("tape", "next", self.plan.slots, place.number))
                return f"({loaded} + bias_{self.graph.drives.index(node.name)})" if node.kind == "drive" else loaded
            case "parameter":
                return f"parameter_{place.name}"
            case "noise":
                at = f"n_{place.name} + next * by_step_{place.name} + lane[p] * by_lane_{place.name} + unit"
                return self.early(f"noise_{place.name}", at, "parameter")
            case "tile":
                return f"tile_{place.number}_{place.part}"
        return self.read_other(place)

    def is_kept(self, place: Place, index: int) -> bool:
        """Whether an earlier pass of this step wrote it; then it is still in a register."""
        return any(place == other for each in self.program.passes[:index] for _, other in each.stores)

    @abstractmethod
    def read_other(self, place: Place) -> str | None:
        """What only one of the directions has in memory."""

    @abstractmethod
    def row(self, source: Place) -> tuple[str, str]:
        """The address of the row that a product reads, at lane 0, and the distance between lanes."""

    @abstractmethod
    def store(self, place: Place, value: str) -> list[str]:
        """The lines that put a value where it belongs."""

    @abstractmethod
    def reads(self, product: Product, place: Place) -> bool:
        """Whether a product reads what is stored there."""

    def awaited(self, place: Place) -> int:
        """How soon other programs wait for what is stored there: after how many products; never after all of them."""
        products = list(self.products())
        return next((k for k, product in enumerate(products) if self.reads(product, place)), len(products))

    def final(self, name: str, number: str) -> tuple[str, str]:
        """Whether value `number` of a state is one of the last before a lane's end, and its place among these."""
        late = f"({number} - ends[p])"
        return f"here[p] && {late} >= 0 && {late} < {self.graph.depth(name)}", self.at(
            state_argument(name, "final"), late
        )

    # -- the step ----------------------------------------------------------------------------------------------------

    def at_once(self, product: Product) -> int:
        """Blocks of inputs that a warp reads before it multiplies; the next are then on their way."""
        blocks = budget.blocks(product, self.tiles)
        wishes = (n for n in (blocks, 8, 4, 2) if n <= blocks)
        fits = (n for n in wishes if budget.registers(self.program, self.tiles, product, n) <= budget.REGISTERS)
        return next(fits, 1)

    def products(self) -> Iterable[Product]:
        return (product for each in self.program.passes for product in each.products)

    def pass_lines(self, index: int, each: Pass) -> list[str]:
        lines = []
        for product, at in zip(each.products, self.offsets(each), strict=True):
            row, distance = self.row(product.source)
            lines.append(f"product_{product.number}.multiply(parts + {at}, {row}, {distance}, B);")
        if each.products:
            lines.append("sync();")
        writer = _Writer(self, index)
        for product, at in zip(each.products, self.offsets(each), strict=True):
            for part in range(budget.outputs(product)):
                total = f"product_{product.number}.total(parts + {at}, {part}, p)"
                writer.lines.append(f"const two tile_{product.number}_{part} = {total};")
        stores = sorted(each.stores, key=lambda store: self.awaited(store[1]))  # what others wait for first
        writer.count(node for node, _ in stores)
        for node, place in stores:
            value = writer.value(node)
            if place in self.later:
                writer.lines.append(f"{_kept(place)}[p] = {value};")
            writer.lines += self.store(place, value)
        lines += each_pair(writer.lines)
        if each.products:
            lines.append("parts = memory + PARTS - (parts - memory);" if self.tiles.buffers > 1 else "sync();")
        return lines

    def offsets(self, each: Pass) -> list[int]:
        """Where the sums of each product begin."""
        sizes = [budget.sums_of(product, self.tiles) for product in each.products]
        return [sum(sizes[:k]) for k in range(len(sizes))]

    def step(self) -> list[str]:
        """The lines of one step; after them `loads` is known."""
        self.later = {place for k, each in enumerate(self.program.passes) for place in self.places_read(k, each)}
        written = [self.pass_lines(index, each) for index, each in enumerate(self.program.passes)]
        waiting = next(k for k, each in enumerate(self.program.passes) if each.products)  # it hides the way of numbers
        written.insert(waiting, [f"next = {self.following};  // its numbers are on their way from now on", *self.ask()])
        return [
            *(f"two {_kept(place)}[PAIRS];" for place in sorted(self.later, key=str)),
            *(line for lines in written for line in lines),
        ]

    def places_read(self, index: int, each: Pass) -> Iterable[Place]:
        """Places that earlier passes of the step wrote and that this one reads."""
        seen, stack = set[Node](), [node for node, _ in each.stores]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            place = self.program.find(node, index)
            if place is None:
                stack.extend(node.arguments)
            elif self.is_kept(place, index):
                yield place

    def ask(self) -> list[str]:
        """Have the numbers of step `next` sent on their way."""
        lines = []
        for load in self.loads.values():
            exists = f"here[p] && {load.if_any}" if load.if_any else "here[p]"
            lines.append(f"ahead_{load.name}[p] = {exists} ? load({load.address}) : Stored<{load.kind}>();")
        return each_pair(lines)

    def take(self) -> list[str]:
        """This step's numbers. Only now they become float32: that would wait for them."""
        names = ", ".join(f"now_{name}[PAIRS]" for name in self.loads)
        lines = [f"now_{name}[p] = wide(ahead_{name}[p]);" for name in self.loads]
        return [f"two {names};", *each_pair(lines)] if names else []

    # -- the kernel --------------------------------------------------------------------------------------------------

    def head(self) -> list[str]:
        tiles = self.tiles
        return [
            f"// {self.graph.name}, {self.name}, generated from its equations:",
            *(f"//     {line}" for line in self.graph.equations()),
            f"#define NUMBER {self.dtype}",
            f"constexpr bool EXACT = {str(self.exact).lower()}, KEPT = {str(budget.keeps_parts(self.program, tiles)).lower()};",
            f"#define PARAMETER {self.parameters}",
            f"constexpr int H = {tiles.H}, UNITS = {tiles.units}, LANES = {tiles.lanes}, WARPS = {tiles.warps};",
            f"constexpr int PATIENCE = {budget.patience(self.program, tiles)};",
            '#include "steps.cuh"',
            "",
            f"constexpr int PARTS = {budget.sums(self.program, tiles)};  // numbers of a step's sums in shared memory",
            "",
            f"KERNEL {self.name}({', '.join(f'{kind} {name}' for name, kind in self.types.items())}) {{",
        ]

    def opening(self) -> list[str]:
        """What stays the same from step to step."""
        lines = [
            "float *const memory = shared_memory(), *parts = memory;",
            "const int unit = own_unit();",
            "int lane[PAIRS];",
            "bool here[PAIRS];",
            "whole ends[PAIRS];",
            *each_pair(
                [
                    "lane[p] = own_lane(p), here[p] = owns(p, B);",
                    "ends[p] = here[p] && lengths ? lengths[lane[p]] : T;",
                ]
            ),
        ]
        for k, _ in enumerate(self.graph.drives):
            lines.append(f"const two bias_{k} = unit < H ? wide(load(bias + {k} * H + unit)) : two();")
        for name in self.graph.parameters:
            lines.append(f"const two parameter_{name} = unit < H ? wide(load(p_{name} + unit)) : two();")
        for product in self.products():
            back = "false" if product.nodes[0].kind == "product" else "true"
            lines.append(
                f"Product<{inputs(product, self.tiles.H)}, {budget.outputs(product)}, {back}, {self.at_once(product)}> "
                f"product_{product.number};"
            )
            lines.append(f"product_{product.number}.load(weights_{product.number}, T);")
        return lines

    def ahead(self) -> list[str]:
        return [f"Stored<{load.kind}> ahead_{load.name}[PAIRS];" for load in self.loads.values()]

    def written(self, lines: Iterable[str]) -> Source:
        text = "\n".join([*self.head(), *_indent(lines), "}", ""])
        return Source(text, tuple(self.types))


def _kept(place: Place) -> str:
    return f"kept_{place.kind}_{place.name}_{place.number}"


def _indent(lines: Iterable[str], by: int = 4) -> list[str]:
    return [line if line.startswith("#") else " " * by + line for line in lines]


def each_pair(lines: list[str]) -> list[str]:
    if not lines:
        return []
    return ["#pragma unroll", "for (int p = 0; p < PAIRS; ++p) {", *_indent(lines), "}"]


class _Forward(_Kernel):
    name, following = "forward", "t + 1 < T ? t + 1 : t"

    def __init__(self, plan: Plan, tiles: Tiles, dtype: str, parameters: str, exact: bool):
        super().__init__(plan, tiles, dtype, parameters, exact)
        self.program = plan.forward
        self.rows = exchanged_rows(self.program, tiles)
        self.types |= {f"rows_{k}": "number*" for k in self.rows}
        self.types |= {state_argument(state.name, "final"): "number*" for state in self.graph.states}

    def read_other(self, place: Place) -> str | None:
        if place.kind != "state":
            return None
        if place.number == 1:
            return f"last_{place.name}[p]"
        back = self.graph.depth(place.name) - place.number  # this thread's own: there since it was written
        return f"(here[p] ? wide(load({self.at(state_argument(place.name), f'(t + {back})')})) : two())"

    def row(self, source: Place) -> tuple[str, str]:
        if source.kind == "state":
            back = self.graph.depth(source.name) - source.number
            return f"{state_argument(source.name)} + (t + {back}) * B * H", "H"
        return f"rows_{source.number} + t * B * H", "H"

    def reads(self, product: Product, place: Place) -> bool:
        if place.kind == "next":
            return product.source.kind == "state" and product.source.name == place.name
        return place.kind == "row" and product.source == place

    def store(self, place: Place, value: str) -> list[str]:
        match place.kind:
            case "row":
                if place.number not in self.rows:
                    return []
                return [f"if (here[p]) put({self.at(f'rows_{place.number}', 't')}, {value});"]
            case "next":
                at = self.at(state_argument(place.name), f"(t + {self.graph.depth(place.name)})")
                return [f"next_{place.name}[p] = {value};", f"if (here[p]) put({at}, {value});"]
            case "tape":
                return [f"if (here[p]) put({self.at('tape', 't', self.plan.slots, place.number)}, {value});"]
        raise AssertionError(place)

    def source(self) -> Source:
        body = self.step()
        begin, end = [], []
        for state in self.graph.states:
            at = self.at(state_argument(state.name), str(state.depth - 1))
            begin.append(f"last_{state.name}[p] = here[p] ? wide(load({at})) : two();")
            for k in range(state.depth):
                is_final, to = self.final(state.name, str(k))
                begin.append(f"if ({is_final}) put({to}, wide(load({self.at(state_argument(state.name), str(k))})));")
            is_final, to = self.final(state.name, f"t + {state.depth}")
            end.append(f"if ({is_final}) put({to}, next_{state.name}[p]);")
            end.append(f"last_{state.name}[p] = next_{state.name}[p];")
        names = ", ".join(f"last_{s.name}[PAIRS], next_{s.name}[PAIRS]" for s in self.graph.states)
        return self.written(
            [
                *self.opening(),
                f"two {names};",
                *each_pair(begin),
                *self.ahead(),
                "whole next = 0;",
                *self.ask(),
                "for (whole t = 0; t < T; ++t) {",
                *_indent(self.take()),
                *_indent(body),
                *_indent(each_pair(end)),
                "}",
            ]
        )


class _Backward(_Kernel):
    name, following = "backward", "t > 0 ? t - 1 : 0"

    def __init__(self, plan: Plan, tiles: Tiles, dtype: str, parameters: str, exact: bool):
        super().__init__(plan, tiles, dtype, parameters, exact)
        self.program = plan.backward
        for state in self.graph.states:
            name = state.name
            kinds = {"arriving": "const number*", "per_step": "whole", "per_lane": "whole", "final": "const number*"}
            self.types |= {state_argument(name, role): kind for role, kind in (kinds | {"initial": "float*"}).items()}
            at = f"arriving_{name} + next * per_step_{name} + lane[p] * per_lane_{name} + unit"
            self.loads[f"arriving_{name}"] = _Load(f"arriving_{name}", "number", at, f"arriving_{name}")
        self.types |= {"gradient": "number*", "sums": "float*"}
        self.types |= {f"argument_{k}": "number*" for k in sorted({n for n in plan.arguments if n is not None})}
        self.carried: set[tuple[str, int]] = set()

    def read_other(self, place: Place) -> str | None:
        if place.kind in ("state", "next"):
            K = self.graph.depth(place.name)
            back = K - place.number if place.kind == "state" else K
            return self.early(f"state_{place.name}_at_{back}", self.at(state_argument(place.name), f"(next + {back})"))
        if place.kind == "adjoint":
            return f"arrived_{place.name}[p]"
        return None

    def row(self, source: Place) -> tuple[str, str]:
        width = self.plan.gradients * self.tiles.H
        return f"gradient + t * B * {width} + {source.number * self.tiles.H}", str(width)

    def reads(self, product: Product, place: Place) -> bool:
        first = product.source.number
        return place.kind == "gradient" and first <= place.number < first + product.blocks

    def store(self, place: Place, value: str) -> list[str]:
        kept = f"(alive[p] ? two({value}) : two())"
        match place.kind:
            case "row":
                return []
            case "gradient":
                return [f"if (here[p]) put({self.at('gradient', 't', self.plan.gradients, place.number)}, {kept});"]
            case "parameter_gradient":
                return [f"total_{place.number} += {kept};"]
            case "carry":
                self.carried.add((place.name, place.number))
                return [f"carry_{place.name}_{place.number}[p] = {kept};"]
            case "argument":
                return [f"if (here[p]) put({self.at(f'argument_{place.number}', 't')}, {kept});"]
        raise AssertionError(place)

    def final_gradient(self, name: str, number: str) -> str:
        """What arrives at value `number` of a state because it is a final one."""
        here, at = self.final(name, number)
        return f"(final_{name} && {here} ? wide(load({at})) : two())"

    def source(self) -> Source:
        body = self.step()
        states, numbers = self.graph.states, range(len(self.plan.accumulated))
        arrive, end, first, last = [], [], [], []
        for state in states:
            name, K = state.name, state.depth
            first += [f"due_{name}_{d}[p] = two();" for d in range(K)]
            arriving = [f"due_{name}_0[p]", f"now_arriving_{name}[p]"]
            arriving.append(self.final_gradient(name, f"t + {K}"))
            arrive.append(f"arrived_{name}[p] = alive[p] ? {' + '.join(arriving)} : two();")
            for d in range(1, K + 1):
                parts = [f"due_{name}_{d}[p]"] if d < K else []
                parts += [f"carry_{name}_{d}[p]"] if (name, d) in self.carried else []
                end.append(f"due_{name}_{d - 1}[p] = {' + '.join(parts) or 'two()'};")
            for d in range(K):  # due_d now belongs to value number K - 1 - d
                k = K - 1 - d
                at = self.at(state_argument(name, "initial"), str(k))
                last.append(f"if (here[p]) put({at}, due_{name}_{d}[p] + {self.final_gradient(name, str(k))});")
        carried = [f"due_{s.name}_{d}[PAIRS]" for s in states for d in range(s.depth)]
        now = [f"arrived_{s.name}[PAIRS]" for s in states] + [f"carry_{n}_{d}[PAIRS]" for n, d in sorted(self.carried)]
        at = f"sums + (blockIdx.y * {len(numbers)} + {{}}) * H + unit"
        return self.written(
            [
                *self.opening(),
                f"two {', '.join(carried)};",
                *each_pair(first),
                *(f"two total_{k};" for k in numbers),
                *self.ahead(),
                "whole next = T - 1;",
                *self.ask(),
                "for (whole t = T - 1; t >= 0; --t) {",
                *_indent(self.take()),
                "    bool alive[PAIRS];",
                f"    two {', '.join(now)};",
                *_indent(each_pair(["alive[p] = here[p] && t < ends[p];", *arrive])),
                *_indent(body),
                *_indent(each_pair(end)),
                "}",
                *each_pair(last),
                *(f"sum_over_lanes({at.format(k)}, total_{k}, memory);" for k in numbers),
            ]
        )
