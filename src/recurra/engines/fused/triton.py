"""A plan printed in Triton: one `forward` and one `backward` for the whole sequence, readable beside the equations.

A program has one tile and keeps its slice of the recurrent weights in shared memory. What a product reads is a whole
row of units: where the tile has all of them the row is in registers, otherwise each program stores its part and waits
for the others' (`gpu_kernel`). Elementwise values stay in registers for the whole step.

The statements of a step are the common ones. How a product is divided into `tl.dot`s, with weights in registers, in
shared memory or read again, has no counterpart in the other languages, and neither have the loops around a step: both
are printed here as they are.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable

from recurra.engines.fused.gpu_kernel import Address, Kernel, Source, Tiles, state_argument
from recurra.engines.fused.stages import Place, Plan, Product
from recurra.engines.fused.statements import (
    ARITHMETIC,
    Dot,
    Language,
    Let,
    Printer,
    Reduce,
    Store,
    indent,
    lower_step,
)

FUNCTIONS = """
    clamp laid_out maximum minimum peek power put relu remainder sigmoid sign softplus tanh wait
""".split()  # noqa: SIM905
"""Of `triton_runtime`."""
TRITON = Language(
    forms={
        **ARITHMETIC,
        "not": "({} == 0)",
        **{name: f"tl.{name}({{}})" for name in ("abs", "cos", "erf", "exp", "floor", "log", "sin")},
        "sqrt": "tl.sqrt_rn({})",
        "where": "tl.where({}, {}, {})",
        # numbers become tiles: functions take nothing else
        **{name: f"{name}(zero + {{}}, zero + {{}})" for name in ("power", "minimum", "maximum", "remainder")},
        "clamp": "clamp(zero + {}, zero + {}, zero + {})",
    },
    number="{!r}",
    nan='float("nan")',
    infinity='float("{}inf")',
    line="{} = {}",
    condition="{} = {}",
    reserved=set(FUNCTIONS)
    | set(
        """
        T B H ROWS UNITS rows units row unit here near t step i ends alive zero nought triton tl tape gradient lengths bias
        sums means first inner piece w range float
        """.split()  # noqa: SIM905
    )
    | set(keyword.kwlist),
    prefixes=tuple(
        """
        ahead_ argument_ arrived_ arriving_ bias_ by_ carry_ columns_ due_ exists_ final_ initial_ input_ last_ mean_ n_ next_
        noise_ now_ p_ parameter_ part_ per_ row_ rows_ s_ state_ sum_ tape_ tile_ total_ w_ weights_ within_
        """.split()  # noqa: SIM905
    ),
)
IN_REGISTERS = 64 * 1024
"""Bytes of a row's numbers that a program reads before it multiplies them."""
STREAMED = 64
"""Inputs that a product takes at a time where weights are read again at every step."""
AHEAD = 4
"""Steps that are prefetched where no program waits for another; otherwise one, which the waiting hides."""
TYPES = {"bfloat16": ("tl.bfloat16", 16), "float16": ("tl.float16", 16), "float32": ("tl.float32", 32)}


def emit(plan: Plan, tiles: Tiles, dtype: str, precision: str, *, forward: bool) -> Source:
    return _Kernel(plan, tiles, dtype, precision, forward=forward).source()


def padded(outputs: int) -> int:
    """The outputs of a product lie side by side in memory, a power of two of them."""
    return 1 << (outputs - 1).bit_length()


class _Kernel(Kernel):
    row, own, now, end = "row", "{}", "{}", ""

    def __init__(self, plan: Plan, tiles: Tiles, dtype: str, precision: str, *, forward: bool):
        super().__init__(plan, tiles, forward=forward)
        self.type, width = TYPES[dtype]
        self.unwritten, self.precision = hex(2**width - 1), precision
        self.arguments = ["T", "B", "nought", *list(self.types)[2:]]
        if self.step.means and not tiles.alone:
            self.arguments.append("means")
        self.lowered = lower_step(
            self.step,
            plan.lowered.names.keys(),
            registers=("row", "gradient", "next") if forward else ("row", "gradient"),
            rows_in_registers=tiles.alone,
        )
        # loads of this step's numbers, made steps ahead: name → address at step `step`
        self.ahead = {
            self.prefetched(place): self.prefetch_address(place, "step")
            for place in self.lowered.reads[0]
            if self.prefetched(place)
        }
        self.tiles_of: dict[tuple[int, int], str] = {}
        waits = self.step.products or self.step.means
        self.distance = 1 if waits else AHEAD  # how many steps ahead numbers are loaded

    # -- values ------------------------------------------------------------------------------------------------------

    def tile(self, place: Place) -> str:
        return self.tiles_of[place.number, place.part]

    def older(self, place: Place) -> str:
        at = self.element(self.address(place), "step")
        return f"wait({at}, here, {self.unwritten}).to({self.type}, bitcast=True).to(tl.float32)"

    def element(self, address: Address, step: str) -> str:
        width, offset = "H", ""
        if address.blocks is not None:
            width, offset = str(address.blocks * self.tiles.H), f" + {address.block * self.tiles.H}"
        return f"{address.buffer} + ({address.at(step)} * B + row) * {width}{offset} + unit"

    def masked(self, value: str) -> str:
        return f"zero + {value}" if self.forward else f"tl.where(alive, zero + {value}, 0.0)"

    def put(self, address: Address, value: str, *, awaited: bool) -> str:
        at = self.element(address, "step")
        if awaited:
            return f"put({at}, {value}, here, {self.type}, {self.unwritten})"
        return f"tl.store({at}, {value}, mask=here)"

    def store_next(self, place: Place, value: str) -> list[str]:
        name = f"next_{place.name}"
        return [f"{name} = zero + {value}", self.put(self.address(place), name, awaited=True)]

    # -- products ----------------------------------------------------------------------------------------------------

    def parts(self, product: Product) -> tuple[int, int, range]:
        """The inputs of each sum: how many, and the size and numbers of the chunks in which they are read."""
        size = -(-product.inputs(self.tiles.H) // self.tiles.split // 16) * 16
        even = size & -size
        most = 256 if self.type != "tl.float32" else 128  # float32 lies in shared memory as two parts
        chunk = min(even if even >= 64 or even == size else padded(size), most)
        return size, chunk, range(-(-size // chunk))

    def load_weights(self, product: Product) -> list[str]:
        """Before the loop: the slice of these units."""
        number, G, H = product.number, padded(len(product.nodes)), self.tiles.H
        lines = []
        if self.tiles.alone:
            inner = "tl.arange(0, UNITS)[:, None]"
            for b in range(product.blocks if product.is_transposed else len(product.nodes)):
                at = (
                    f"{inner} * {self.tiles.units * G} + {b} + unit * {G}"
                    if not product.is_transposed
                    else f"({b * H} + {inner}) * H + unit"
                )
                lines.append(
                    f"w_{number}_{b} = tl.load(weights_{number} + {at}, mask=({inner} < H) & (unit < H), other=0.0)"
                )
            return lines
        lines.append(f"columns_{number} = tl.program_id(0) * UNITS * {G} + tl.arange(0, UNITS * {G})")
        if self.tiles.resident:
            size, chunk, numbers = self.parts(product)
            for k in numbers:
                within, name = f"{k * chunk} + tl.arange(0, {chunk})", f"input_{number}_{k}"
                if self.tiles.split > 1:
                    lines.append(f"within_{number}_{k} = {within}")
                    lines.append(
                        f"{name} = tl.arange(0, {self.tiles.split})[:, None] * {size} + within_{number}_{k}[None, :]"
                    )
                    exists = f"({name} < {product.inputs(self.tiles.H)}) & (within_{number}_{k} < {size})[None, :]"
                else:
                    lines.append(f"{name} = {within}")
                    exists = f"{name} < {product.inputs(self.tiles.H)}"
                lines.append(f"exists_{number}_{k} = {exists}")
                lines.append(f"w_{number}_{k} = {self.weights(product, name, f'exists_{number}_{k}')}")
        return lines

    def weights(self, product: Product, inputs: str, exists: str) -> str:
        """Loads the weights of these inputs, and of the program's columns."""
        number, H = product.number, self.tiles.H
        width = self.tiles.count * self.tiles.units * padded(len(product.nodes))
        mask = f"tl.expand_dims({exists}, -1)"
        if product.is_transposed:
            width, mask = H, f"{mask} & (columns_{number} < H)"
        return f"tl.load(weights_{number} + tl.expand_dims({inputs}, -1) * {width} + columns_{number}, mask={mask}, other=0.0)"

    def multiply(self, product: Product, printer: Printer) -> list[str]:
        """The product's outputs for these units, as `tile_…` variables."""
        number = product.number
        if self.tiles.alone:
            return self.multiply_alone(product, printer)
        row, distance = self.address(product.source).row("step", self.tiles.H)
        total = f"sum_{number}"
        precise = f"input_precision='{self.precision}'"
        lines = [f"row_{number} = {row} + row * {distance}"]
        if self.tiles.resident:
            lines += self.multiply_resident(product, total)
        else:
            chunk, depth = STREAMED, product.inputs(self.tiles.H)
            lines += [
                f"{total} = tl.zeros((ROWS, UNITS * {padded(len(product.nodes))}), tl.float32)",
                f"for first in range(0, {depth}, {chunk}):",
                f"    inner = first + tl.arange(0, {chunk})",
                f"    piece = wait(row_{number} + inner, near & (inner < {depth}), {self.unwritten})",
                f"    w = {self.weights(product, 'inner', f'(inner < {depth})')}",
                f"    {total} = tl.dot(piece.to({self.type}, bitcast=True), w, {total}, {precise})",
            ]
        return [*lines, *self.take_apart(product, total)]

    def multiply_resident(self, product: Product, total: str) -> list[str]:
        """Read the row until all of it is there, then multiply."""
        number, (_, chunk, chunks) = product.number, self.parts(product)
        reads = []
        for k in chunks:
            row, inner, exists = f"row_{number}", f"input_{number}_{k}", f"exists_{number}_{k}"
            at, mask = f"{row} + {inner}[None, :]", f"near & {exists}[None, :]"
            if self.tiles.split > 1:
                at, mask = f"{row}[None] + {inner}[:, None]", f"near[None] & {exists}[:, None]"
            reads.append(f"row_{number}_{k} = peek({at}, {mask})")
        held = self.tiles.rows * self.tiles.split * chunk * (2 if self.type != "tl.float32" else 8)
        at_once = max(1, IN_REGISTERS // held)
        lines = []
        for first in range(0, len(chunks), at_once):
            batch = chunks[first : first + at_once]
            newest = f"row_{number}_{batch[0]}"
            for k in batch[1:]:
                newest = f"tl.maximum({newest}, row_{number}_{k})"
            some = [reads[k] for k in batch]
            lines += [*some, f"while tl.max({newest}) == {self.unwritten}:", *(f"    {read}" for read in some)]
            for k in batch:
                dot = f"tl.dot(row_{number}_{k}.to({self.type}, bitcast=True), w_{number}_{k}, "
                dot += f"input_precision='{self.precision}')"
                lines.append(f"part_{number} = {dot}" if k == 0 else f"part_{number} += {dot}")
        whole = f"tl.sum(part_{number}, 0)" if self.tiles.split > 1 else f"part_{number}"
        return [*lines, f"{total} = laid_out({whole})"]

    def multiply_alone(self, product: Product, printer: Printer) -> list[str]:
        number, lines = product.number, []
        if not product.is_transposed:
            argument = printer.value(product.nodes[0].arguments[0])
            lines.append(f"row_{number} = tl.where(unit < H, zero + {argument}, 0.0).to({self.type})")
            for g in range(len(product.nodes)):
                self.tiles_of[number, g] = f"tile_{number}_{g}"
                dot = f"tl.dot(row_{number}, w_{number}_{g}, input_precision='{self.precision}')"
                lines.append(f"tile_{number}_{g} = {dot}")
            return lines
        self.tiles_of[number, 0] = f"tile_{number}_0"
        for b, adjoint in enumerate(product.nodes[0].arguments):
            dot = f"tl.dot((zero + tl.where(alive, {printer.value(adjoint)}, 0.0)).to({self.type}), w_{number}_{b}, "
            dot += f"input_precision='{self.precision}')"
            lines.append(f"tile_{number}_0 = {dot if b == 0 else f'tile_{number}_0 + {dot}'}")
        return lines

    def take_apart(self, product: Product, total: str) -> list[str]:
        """Outputs of one unit lie side by side: halve and halve again."""
        number, G = product.number, padded(len(product.nodes))
        if G == 1:
            self.tiles_of[number, 0] = total
            return []
        halves = G.bit_length() - 1
        shape = ", ".join(["ROWS", "UNITS", *["2"] * halves])
        lines, parts = [f"{total} = tl.reshape({total}, ({shape}))"], {"": total}
        for _ in range(halves):  # the last axis is the lowest bit of the number
            new: dict[str, str] = {}
            for low, value in parts.items():
                zero, one = f"tile_{number}_0{low}", f"tile_{number}_1{low}"
                lines.append(f"{zero}, {one} = tl.split({value})")
                new |= {f"0{low}": zero, f"1{low}": one}
            parts = new
        for low, value in parts.items():
            self.tiles_of[number, int(low, 2)] = value
        return lines

    def reduce(self, number: int, value: str) -> list[str]:
        """The mean over the units of all programs, each of which stores its part of the sum for the others."""
        whole = f"tl.sum(tl.where(unit < H, zero + {value}, 0.0), 1)"
        if self.tiles.alone:
            return [f"mean_{number} = ({whole} / H)[:, None]"]
        P = self.tiles.count
        at = f"means + ((step * {self.step.means} + {number}) * {P} + {{}}) * B + {{}}"
        # a number for each thread: none waits for a copy
        others = f"tl.arange(0, {padded(max(P, 32 * self.tiles.warps // self.tiles.rows))})[:, None]"
        parts = f"wait({at.format(others, 'rows[None, :]')}, ({others} < {P}) & (rows < B)[None, :], 0xffffffff)"
        return [
            f"put({at.format('tl.program_id(0)', 'rows')}, {whole}, rows < B, tl.float32, 0xffffffff)",
            f"mean_{number} = (tl.sum({parts}.to(tl.float32, bitcast=True), 0) / H)[:, None]",
        ]

    # -- the kernel --------------------------------------------------------------------------------------------------

    def head(self) -> list[str]:
        return [
            f'"""{self.graph.name}, {self.name}, generated from its equations:',
            "",
            *(f"    {line}" for line in self.graph.equations()),
            '"""',
            "",
            "import triton",
            "import triton.language as tl",
            "",
            "from recurra.engines.fused.triton_runtime import (",
            *(f"    {name}," for name in FUNCTIONS),
            ")",
            "",
            f"H = tl.constexpr({self.tiles.H})",
            f"ROWS = tl.constexpr({self.tiles.rows})",
            f"UNITS = tl.constexpr({self.tiles.units})",
            "",
            "",
            '@triton.jit(do_not_specialize=["nought"])',
            f"def {self.name}({', '.join(self.arguments)}):",
        ]

    def opening(self) -> list[str]:
        """What stays the same from step to step."""
        lines = [
            "rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)",
            "units = tl.program_id(0) * UNITS + tl.arange(0, UNITS) + nought",
            "row, unit = rows.to(tl.int64)[:, None], units[None, :]",
            "near = (rows < B)[:, None]",
            "here = near & (unit < H)",
            "zero = tl.zeros((ROWS, UNITS), tl.float32)",
        ]
        for k, _ in enumerate(self.graph.drives):
            lines.append(f"bias_{k} = tl.load(bias + {k} * H + unit, mask=unit < H, other=0.0).to(tl.float32)")
        for name in self.graph.parameters:
            lines.append(f"parameter_{name} = tl.load(p_{name} + unit, mask=unit < H, other=0.0).to(tl.float32)")
        return [*lines, *(line for product in self.step.products for line in self.load_weights(product))]

    def step_lines(self) -> list[str]:
        lines: list[str] = []
        printer = Printer(TRITON, self.plan.lowered.names, self.read, self.arguments)
        for statement in (statement for each in self.lowered.passes for statement in each):
            match statement:
                case Dot(product):
                    lines += self.multiply(product, printer)
                case Let():
                    lines += printer.let(statement)
                case Reduce(node, number):
                    lines += self.reduce(number, printer.value(node))
                case Store(node, place):
                    lines += self.store(place, printer.value(node))
        return lines

    def load_ahead(self, place: int) -> list[str]:
        """The numbers of step `step`, to be taken when `place` more steps are done."""
        lines = [
            f"ahead_{name}_{place} = tl.load({address}, mask=here, other=0.0)" for name, address in self.ahead.items()
        ]
        for state in self.graph.states if not self.forward else ():
            at = self.arriving_address(state.name, "step")
            load = f"ahead_arriving_{state.name}_{place} = tl.load({at}, mask=here, other=0.0)"
            lines += [f"if arriving_{state.name} is not None:", f"    {load}"]
        return lines

    def first_loads(self, step: str) -> list[str]:
        """Before the loop; `step` is the number of the step that comes at place {}."""
        places = range(self.distance)
        return [line for k in places for line in (f"step = {step.format(k)}", *self.load_ahead(k))]

    def take_loads(self, names: Iterable[str], prefix: str = "") -> list[str]:
        """This step's numbers, and all others one place nearer. Only now they become float32: that would wait for them."""
        moves = [f"ahead_{{0}}_{k} = ahead_{{0}}_{k + 1}" for k in range(self.distance - 1)]
        take = prefix + "{0} = ahead_{0}_0.to(tl.float32)"
        return [line.format(name) for name in names for line in (take, *moves)]

    def source(self) -> Source:
        lines = [*self.opening(), *(self.forward_lines() if self.forward else self.backward_lines())]
        return Source("\n".join([*self.head(), *indent(lines), ""]), tuple(self.arguments))

    def forward_lines(self) -> list[str]:
        begin, end = [], []
        for state in self.graph.states:
            at = self.element(Address(state_argument(state.name)), str(state.depth - 1))
            begin.append(f"last_{state.name} = peek({at}, here).to({self.type}, bitcast=True).to(tl.float32)")
            end.append(f"last_{state.name} = next_{state.name}")
        D = self.distance
        return [
            *begin,
            *self.first_loads("tl.cast(tl.minimum({}, T - 1), tl.int64)"),
            "for t in range(T):",
            *indent(self.take_loads(self.ahead)),
            f"    step = tl.minimum(tl.cast(t, tl.int64) + {D}, T - 1)  # prefetched from now on",
            *indent(self.load_ahead(D - 1)),
            "    step = tl.cast(t, tl.int64)",
            *indent(self.step_lines()),
            *indent(end),
        ]

    def final(self, name: str, index: str) -> str:
        """∂L of the final values for the batch rows whose value number `index` is one of them."""
        late = f"({index} - ends)[:, None]"
        at, mask = self.element(Address(f"final_{name}"), late), f"({late} >= 0) & ({late} < {self.graph.depth(name)})"
        return f"tl.load({at}, mask=here & {mask}, other=0.0).to(tl.float32)"

    def backward_lines(self) -> list[str]:
        body = self.step_lines()
        arrive, begin, end, out = [], [], [], []
        for state in self.graph.states:
            name, K = state.name, state.depth
            begin += [f"due_{name}_{d} = zero" for d in range(K)]
            arrive += [
                f"if arriving_{name} is not None:",
                *indent(self.take_loads([f"arriving_{name}"], "now_")),
            ]
        for state in self.graph.states:
            name, K = state.name, state.depth
            arrive += [
                f"arrived_{name} = due_{name}_0",
                f"if arriving_{name} is not None:",
                f"    arrived_{name} += now_arriving_{name}",
                f"if final_{name} is not None:",
                f"    arrived_{name} += {self.final(name, f't + {K}')}",
                f"arrived_{name} = tl.where(alive, arrived_{name}, 0.0)",
            ]
            for d, parts in enumerate(self.due(name)):
                # "+ zero": of bare copies Triton 3.6 takes it that they never change, and leaves out the arrival
                end.append(f"due_{name}_{d} = {' + '.join([*parts, 'zero'])}")
            for d in range(K):  # due_d now belongs to value number K - 1 - d
                at = self.element(Address(f"initial_{name}"), str(K - 1 - d))
                out += [
                    f"if final_{name} is not None:",
                    f"    due_{name}_{d} += {self.final(name, str(K - 1 - d))}",
                    f"tl.store({at}, due_{name}_{d}, mask=here)",
                ]
        for k, _ in enumerate(self.plan.accumulated):
            begin.append(f"total_{k} = zero")
            at = f"sums + (tl.program_id(1) * {len(self.plan.accumulated)} + {k}) * H + units"
            out.append(f"tl.store({at}, tl.sum(tl.where(near, total_{k}, 0.0), 0), mask=units < H)")
        D = self.distance
        return [
            "ends = tl.zeros((ROWS,), tl.int32) + T",
            "if lengths is not None:",
            "    ends = tl.load(lengths + rows, mask=rows < B, other=0).to(tl.int32)",
            *begin,
            *self.first_loads("tl.cast(tl.maximum(T - 1 - {}, 0), tl.int64)"),
            "for i in range(T):",
            "    t = T - 1 - i",
            "    alive = here & (t < ends)[:, None]",
            *indent(self.take_loads(self.ahead)),
            *indent(arrive),
            f"    step = tl.maximum(tl.cast(t, tl.int64) - {D}, 0)  # prefetched from now on",
            *indent(self.load_ahead(D - 1)),
            "    step = tl.cast(t, tl.int64)",
            *indent(body),
            *indent(end),
            *out,
        ]
