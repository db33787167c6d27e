"""A plan written in Triton: one `forward` and one `backward` for the whole sequence, readable beside the equations.

A program owns some units of some lanes and keeps their slice of the recurrent weights on chip. What a product reads is a
whole row of units: where one program owns all of them it has the row in registers, otherwise each program stores its part
and waits for the others' (`triton_runtime`). Elementwise values stay in registers for the whole step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from recurra.cells.graph import Node
from recurra.engines.fused.programs import Source, Tiles, exchanged_rows, inputs, state_argument
from recurra.engines.fused.stages import Place, Plan, Product, Program
from recurra.engines.fused.writer import ARITHMETIC, Writer

_FORMS = {
    **ARITHMETIC,
    "not": "({} == 0)",
    **{name: f"tl.{name}({{}})" for name in ("abs", "cos", "erf", "exp", "floor", "log", "sin")},
    "sqrt": "tl.sqrt_rn({})",
    "where": "tl.where({}, {}, {})",
    "power": "power(zero + {}, zero + {})",  # numbers become tiles: functions take nothing else
    "minimum": "minimum(zero + {}, zero + {})",
    "maximum": "maximum(zero + {}, zero + {})",
    "remainder": "remainder(zero + {}, zero + {})",
    "clamp": "clamp(zero + {}, zero + {}, zero + {})",
}
_FUNCTIONS = (
    *(
        "clamp",
        "laid_out",
        "maximum",
        "minimum",
        "peek",
        "power",
        "put",
        "relu",
        "remainder",
        "sigmoid",
        "sign",
        "softplus",
    ),
    *("tanh", "wait"),
)
_RESERVED = frozenset(
    f"""
    {" ".join(_FUNCTIONS)} T B H LANES UNITS lanes units lane unit here near t step i ends alive zero nought
    triton tl tape gradient lengths bias sums means first inner piece w range float
    False None True and as assert async await break class continue def del elif else except finally for from global if import
    in is lambda nonlocal not or pass raise return try while with yield
    """.split()
)
_OWN = (
    *(
        "ahead_",
        "argument_",
        "arrived_",
        "arriving_",
        "bias_",
        "by_",
        "carry_",
        "columns_",
        "due_",
        "exists_",
        "final_",
        "initial_",
        "input_",
        "last_",
        "mean_",
    ),
    *(
        "n_",
        "next_",
        "noise_",
        "now_",
        "p_",
        "parameter_",
        "part_",
        "per_",
        "row_",
        "rows_",
        "s_",
        "sum_",
        "tape_",
        "tile_",
        "total_",
    ),
    *("w_", "weights_", "within_"),
)
IN_REGISTERS = 64 * 1024
"""Bytes of a row's numbers that a program reads before it multiplies them."""
STREAMED = 64
"""Inputs that a product takes at a time where weights are read again at every step."""
AHEAD = 4
"""Steps whose numbers are on their way at once where no program waits for another; otherwise one, which the waiting hides."""
TYPES = {"bfloat16": ("tl.bfloat16", 16), "float16": ("tl.float16", 16), "float32": ("tl.float32", 32)}


def emit_forward(plan: Plan, tiles: Tiles, dtype: str, precision: str) -> Source:
    return _Forward(plan, tiles, dtype, precision).source()


def emit_backward(plan: Plan, tiles: Tiles, dtype: str, precision: str) -> Source:
    return _Backward(plan, tiles, dtype, precision).source()


def padded(outputs: int) -> int:
    """The outputs of a product lie side by side in memory, a power of two of them."""
    return 1 << (outputs - 1).bit_length()


class _Writer(Writer):
    """Writes a whole step: what an earlier pass computed is still in registers."""

    forms, own = _FORMS, _OWN

    def __init__(self, kernel: _Kernel):
        super().__init__(kernel.plan.lowered.names, _RESERVED | set(kernel.arguments))
        self.kernel, self.index = kernel, 0

    def read(self, node: Node) -> str | None:
        return self.kernel.read(node, self.index)

    def number(self, value: float) -> str:
        if value != value or value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        return repr(value)

    def line(self, node: Node, name: str, text: str) -> str:
        return f"{name} = {text}"


class _Kernel(ABC):
    """What forward and backward have in common."""

    name: str
    program: Program

    def __init__(self, plan: Plan, tiles: Tiles, dtype: str, precision: str):
        self.plan, self.graph, self.tiles = plan, plan.graph, tiles
        self.type, width = TYPES[dtype]
        self.unwritten, self.precision = hex(2**width - 1), precision
        self.arguments = ["T", "B", "nought", "lengths", "tape"]
        self.arguments += [state_argument(state.name) for state in self.graph.states]
        if self.graph.drives:
            self.arguments.append("bias")
        self.arguments += [f"p_{name}" for name in self.graph.parameters]
        for name in self.graph.noises:
            self.arguments += [f"n_{name}", f"by_step_{name}", f"by_lane_{name}"]
        self.arguments += [f"weights_{k}" for k in range(len(plan.groups))]
        self.ahead: dict[str, str] = {}  # loads of this step's numbers, made steps ahead: name → address at step `step`
        self.tiles_of: dict[tuple[int, int], str] = {}

    # -- memory ------------------------------------------------------------------------------------------------------

    def early(self, name: str, address: str) -> str:
        """A number of this step that was there before the kernel began: loaded while the step before is computed."""
        self.ahead[name] = address
        return name

    def read(self, node: Node, index: int) -> str | None:
        place = self.program.find(node, index)
        if place is None:
            return None
        match place.kind:
            case "tape":
                loaded = self.early(
                    f"tape_{place.number}",
                    f"tape + (step * B + lane) * {self.plan.slots * self.tiles.H} + {place.number * self.tiles.H} + unit",
                )
                return f"({loaded} + bias_{self.graph.drives.index(node.name)})" if node.kind == "drive" else loaded
            case "parameter":
                return f"parameter_{place.name}"
            case "noise":
                return self.early(
                    f"noise_{place.name}",
                    f"n_{place.name} + step * by_step_{place.name} + lane * by_lane_{place.name} + unit",
                )
            case "tile":
                return self.tiles_of.get((place.number, place.part), "")
            case "mean":
                return f"mean_{place.number}"
        return self.read_other(node, place)

    @abstractmethod
    def read_other(self, node: Node, place: Place) -> str | None:
        """What only one of the directions has in memory."""

    # -- products ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def row(self, source: Place) -> tuple[str, int]:
        """The address of the first number of the row that a product reads, at `lane`, and the distance between lanes."""

    def columns(self, product: Product) -> int:
        """How many outputs for each unit lie side by side in the weights."""
        return padded(len(product.nodes))

    def parts(self, product: Product) -> tuple[int, int, range]:
        """The inputs of each sum: how many, and the size and numbers of the chunks in which they are read."""
        size = -(-inputs(product, self.tiles.H) // self.tiles.split // 16) * 16
        even = size & -size
        most = 256 if self.type != "tl.float32" else 128  # float32 lies in shared memory as two parts
        chunk = min(even if even >= 64 or even == size else padded(size), most)
        return size, chunk, range(-(-size // chunk))

    def load_weights(self, product: Product) -> list[str]:
        """Before the loop: the slice of these units."""
        number, G, H = product.number, self.columns(product), self.tiles.H
        lines = []
        if self.tiles.alone:
            inner = "tl.arange(0, UNITS)[:, None]"
            for b in range(product.blocks if product.nodes[0].kind == "back" else len(product.nodes)):
                at = (
                    f"{inner} * {self.tiles.units * G} + {b} + unit * {G}"
                    if product.nodes[0].kind == "product"
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
                    exists = f"({name} < {inputs(product, self.tiles.H)}) & (within_{number}_{k} < {size})[None, :]"
                else:
                    lines.append(f"{name} = {within}")
                    exists = f"{name} < {inputs(product, self.tiles.H)}"
                lines.append(f"exists_{number}_{k} = {exists}")
                lines.append(f"w_{number}_{k} = {self.weights(product, name, f'exists_{number}_{k}')}")
        return lines

    def weights(self, product: Product, inputs: str, exists: str) -> str:
        """Loads the weights of these inputs, and of the program's columns."""
        number, H = product.number, self.tiles.H
        width = self.tiles.programs * self.tiles.units * self.columns(product)
        mask = f"tl.expand_dims({exists}, -1)"
        if product.nodes[0].kind == "back":
            width, mask = H, f"{mask} & (columns_{number} < H)"
        return f"tl.load(weights_{number} + tl.expand_dims({inputs}, -1) * {width} + columns_{number}, mask={mask}, other=0.0)"

    def multiply(self, product: Product, writer: _Writer) -> list[str]:
        """The product's outputs for these units, as `tile_…` variables."""
        number = product.number
        if self.tiles.alone:
            return self.multiply_alone(product, writer)
        row, distance = self.row(product.source)
        total = f"sum_{number}"
        precise = f"input_precision='{self.precision}'"
        lines = [f"row_{number} = {row} + lane * {distance}"]
        if self.tiles.resident:
            lines += self.multiply_resident(product, total)
        else:
            chunk, depth = STREAMED, inputs(product, self.tiles.H)
            lines += [
                f"{total} = tl.zeros((LANES, UNITS * {self.columns(product)}), tl.float32)",
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
        held = self.tiles.lanes * self.tiles.split * chunk * (2 if self.type != "tl.float32" else 8)
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

    def multiply_alone(self, product: Product, writer: _Writer) -> list[str]:
        number, lines = product.number, []
        if product.nodes[0].kind == "product":
            argument = writer.value(product.nodes[0].arguments[0])
            lines.append(f"row_{number} = tl.where(unit < H, zero + {argument}, 0.0).to({self.type})")
            for g in range(len(product.nodes)):
                self.tiles_of[number, g] = f"tile_{number}_{g}"
                dot = f"tl.dot(row_{number}, w_{number}_{g}, input_precision='{self.precision}')"
                lines.append(f"tile_{number}_{g} = {dot}")
            return lines
        self.tiles_of[number, 0] = f"tile_{number}_0"
        for b, adjoint in enumerate(product.nodes[0].arguments):
            dot = f"tl.dot((zero + {self.masked(writer.value(adjoint))}).to({self.type}), w_{number}_{b}, "
            dot += f"input_precision='{self.precision}')"
            lines.append(f"tile_{number}_0 = {dot if b == 0 else f'tile_{number}_0 + {dot}'}")
        return lines

    def masked(self, value: str) -> str:
        return value

    def take_apart(self, product: Product, total: str) -> list[str]:
        """Outputs of one unit lie side by side: halve and halve again."""
        number, G = product.number, self.columns(product)
        if G == 1:
            self.tiles_of[number, 0] = total
            return []
        halves = G.bit_length() - 1
        shape = ", ".join(["LANES", "UNITS", *["2"] * halves])
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

    # -- means -------------------------------------------------------------------------------------------------------

    def put_mean(self, number: int, value: str) -> list[str]:
        whole = f"tl.sum(tl.where(unit < H, zero + {value}, 0.0), 1)"
        if self.tiles.alone:
            return [f"mean_{number} = ({whole} / H)[:, None]"]
        P = self.tiles.programs
        at = f"means + ((step * {self.program.means} + {number}) * {P} + {{}}) * B + {{}}"
        rows = padded(
            max(P, 32 * self.tiles.warps // self.tiles.lanes)
        )  # a number for each thread: none waits for a copy
        others = f"tl.arange(0, {rows})[:, None]"
        parts = f"wait({at.format(others, 'lanes[None, :]')}, ({others} < {P}) & (lanes < B)[None, :], 0xffffffff)"
        return [
            f"put({at.format('tl.program_id(0)', 'lanes')}, {whole}, lanes < B, tl.float32, 0xffffffff)",
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
            *(f"    {name}," for name in _FUNCTIONS),
            ")",
            "",
            f"H = tl.constexpr({self.tiles.H})",
            f"LANES = tl.constexpr({self.tiles.lanes})",
            f"UNITS = tl.constexpr({self.tiles.units})",
            "",
            "",
            '@triton.jit(do_not_specialize=["nought"])',
            f"def {self.name}({', '.join(self.arguments)}):",
        ]

    def opening(self) -> list[str]:
        """What stays the same from step to step."""
        lines = [
            "lanes = tl.program_id(1) * LANES + tl.arange(0, LANES)",
            "units = tl.program_id(0) * UNITS + tl.arange(0, UNITS) + nought",
            "lane, unit = lanes.to(tl.int64)[:, None], units[None, :]",
            "near = (lanes < B)[:, None]",
            "here = near & (unit < H)",
            "zero = tl.zeros((LANES, UNITS), tl.float32)",
        ]
        for k, _ in enumerate(self.graph.drives):
            lines.append(f"bias_{k} = tl.load(bias + {k} * H + unit, mask=unit < H, other=0.0).to(tl.float32)")
        for name in self.graph.parameters:
            lines.append(f"parameter_{name} = tl.load(p_{name} + unit, mask=unit < H, other=0.0).to(tl.float32)")
        for each in self.program.passes:
            for product in each.products:
                lines += self.load_weights(product)
        return lines

    @property
    def distance(self) -> int:
        """How many steps ahead numbers are loaded."""
        waits = any(each.products for each in self.program.passes) or self.program.means
        return 1 if waits else AHEAD

    def step(self) -> list[str]:
        """The lines of one step; after them `ahead` is known."""
        writer = _Writer(self)
        for k, each in enumerate(self.program.passes):
            writer.index = k
            writer.count(node for node, _ in each.stores)
        writer.uses.update(
            {n: 2 for each in self.program.passes for node, _ in each.stores for n in [node] if n.kind != "constant"}
        )
        for k, each in enumerate(self.program.passes):
            writer.index = k
            for product in each.products:
                writer.lines.extend(self.multiply(product, writer))  # which may itself have written lines
            for node, place in each.stores:
                writer.lines += self.store(place, writer.value(node))
        return writer.lines

    def load_ahead(self, place: int) -> list[str]:
        """The numbers of step `step`, to be taken when `place` more steps are done."""
        return [
            f"ahead_{name}_{place} = tl.load({address}, mask=here, other=0.0)" for name, address in self.ahead.items()
        ]

    def first_loads(self, step: str) -> list[str]:
        """Before the loop; `step` is the number of the step that comes at place {}."""
        places = range(self.distance)
        return [line for k in places for line in (f"step = {step.format(k)}", *self.load_ahead(k))]

    def take_loads(self, names: Iterable[str], prefix: str = "") -> list[str]:
        """This step's numbers, and all others one place nearer. Only now they become float32: that would wait for them."""
        moves = [f"ahead_{{0}}_{k} = ahead_{{0}}_{k + 1}" for k in range(self.distance - 1)]
        take = prefix + "{0} = ahead_{0}_0.to(tl.float32)"
        return [line.format(name) for name in names for line in (take, *moves)]

    @abstractmethod
    def store(self, place: Place, value: str) -> list[str]:
        """The lines that put a value where it belongs."""


def _indent(lines: Iterable[str], by: int) -> list[str]:
    return [" " * by + line for line in lines]


class _Forward(_Kernel):
    name = "forward"

    def __init__(self, plan: Plan, tiles: Tiles, dtype: str, precision: str):
        super().__init__(plan, tiles, dtype, precision)
        self.program = plan.forward
        self.rows = exchanged_rows(self.program, tiles)
        self.arguments += [f"rows_{k}" for k in self.rows]
        if self.program.means and not tiles.alone:
            self.arguments.append("means")

    def read_other(self, node: Node, place: Place) -> str | None:
        if place.kind == "state":
            if place.number == 1:
                return f"last_{place.name}"
            back = self.graph.depth(place.name) - place.number
            at = f"{state_argument(place.name)} + ((step + {back}) * B + lane) * H + unit"
            return f"wait({at}, here, {self.unwritten}).to({self.type}, bitcast=True).to(tl.float32)"
        return None  # computed earlier in the step: still in registers

    def row(self, source: Place) -> tuple[str, int]:
        H = self.tiles.H
        if source.kind == "state":
            back = self.graph.depth(source.name) - source.number
            return f"{state_argument(source.name)} + (step + {back}) * B * H", H
        return f"rows_{source.number} + step * B * H", H

    def store(self, place: Place, value: str) -> list[str]:
        match place.kind:
            case "mean":
                return self.put_mean(place.number, value)
            case "row":
                if place.number not in self.rows:
                    return []
                at = f"rows_{place.number} + (step * B + lane) * H + unit"
                return [f"put({at}, zero + {value}, here, {self.type}, {self.unwritten})"]
            case "next":
                at = f"{state_argument(place.name)} + ((step + {self.graph.depth(place.name)}) * B + lane) * H + unit"
                return [
                    f"next_{place.name} = zero + {value}",
                    f"put({at}, next_{place.name}, here, {self.type}, {self.unwritten})",
                ]
            case "tape":
                at = f"tape + (step * B + lane) * {self.plan.slots * self.tiles.H} + {place.number * self.tiles.H} + unit"
                return [f"tl.store({at}, zero + {value}, mask=here)"]
        raise AssertionError(place)

    def source(self) -> Source:
        body = self.step()
        begin, end = [], []
        for state in self.graph.states:
            at = f"{state_argument(state.name)} + ({state.depth - 1} * B + lane) * H + unit"
            begin.append(f"last_{state.name} = peek({at}, here).to({self.type}, bitcast=True).to(tl.float32)")
            end.append(f"last_{state.name} = next_{state.name}")
        D = self.distance
        lines = [
            *self.head(),
            *_indent(self.opening(), 4),
            *_indent(begin, 4),
            *_indent(self.first_loads("tl.cast(tl.minimum({}, T - 1), tl.int64)"), 4),
            "    for t in range(T):",
            *_indent(self.take_loads(self.ahead), 8),
            f"        step = tl.minimum(tl.cast(t, tl.int64) + {D}, T - 1)  # its numbers are on their way from now on",
            *_indent(self.load_ahead(D - 1), 8),
            "        step = tl.cast(t, tl.int64)",
            *_indent(body, 8),
            *_indent(end, 8),
            "",
        ]
        return Source("\n".join(lines), tuple(self.arguments))


class _Backward(_Kernel):
    name = "backward"

    def __init__(self, plan: Plan, tiles: Tiles, dtype: str, precision: str):
        super().__init__(plan, tiles, dtype, precision)
        self.program = plan.backward
        for state in self.graph.states:
            roles = ("arriving", "per_step", "per_lane", "final", "initial")
            self.arguments += [state_argument(state.name, role) for role in roles]
        self.arguments += ["gradient", "sums"]
        self.arguments += [f"argument_{k}" for k in sorted({n for n in plan.arguments if n is not None})]
        if not tiles.alone and self.program.means:
            self.arguments.append("means")
        self.carried: dict[tuple[str, int], str] = {}

    def columns(self, product: Product) -> int:
        return 1

    def masked(self, value: str) -> str:
        return f"tl.where(alive, {value}, 0.0)"

    def read_other(self, node: Node, place: Place) -> str | None:
        H = self.tiles.H
        if place.kind in ("state", "next"):
            name = state_argument(place.name)
            K = self.graph.depth(place.name)
            back = K - place.number if place.kind == "state" else K
            return self.early(f"{place.name}_at_{back}", f"{name} + ((step + {back}) * B + lane) * {H} + unit")
        if place.kind == "adjoint":
            return f"arrived_{place.name}"
        return None

    def load_ahead(self, place: int) -> list[str]:
        """What arrives at a state from outside is loaded as well, where anything does."""
        lines = super().load_ahead(place)
        for state in self.graph.states:
            at = f"arriving_{state.name} + step * per_step_{state.name} + lane * per_lane_{state.name} + unit"
            load = f"ahead_arriving_{state.name}_{place} = tl.load({at}, mask=here, other=0.0)"
            lines += [f"if arriving_{state.name} is not None:", f"    {load}"]
        return lines

    def take_arriving(self) -> list[str]:
        lines = []
        for state in self.graph.states:
            taken = self.take_loads([f"arriving_{state.name}"], "now_")
            lines += [f"if arriving_{state.name} is not None:", *_indent(taken, 4)]
        return lines

    def row(self, source: Place) -> tuple[str, int]:
        width = self.plan.gradients * self.tiles.H
        return f"gradient + step * B * {width} + {source.number * self.tiles.H}", width

    def store(self, place: Place, value: str) -> list[str]:
        H = self.tiles.H
        kept = f"tl.where(alive, zero + {value}, 0.0)"
        match place.kind:
            case "mean":
                return self.put_mean(place.number, value)
            case "row":
                return []
            case "gradient":
                at = f"gradient + (step * B + lane) * {self.plan.gradients * H} + {place.number * H} + unit"
                return [f"put({at}, {kept}, here, {self.type}, {self.unwritten})"]
            case "parameter_gradient":
                return [f"total_{place.number} += {kept}"]
            case "carry":
                name = f"carry_{place.name}_{place.number}"
                self.carried[place.name, place.number] = name
                return [f"{name} = {kept}"]
            case "argument":
                return [f"tl.store(argument_{place.number} + (step * B + lane) * H + unit, {kept}, mask=here)"]
        raise AssertionError(place)

    def final(self, name: str, K: int, index: str) -> str:
        """∂L of the final values for the lanes whose value number `index` is one of them."""
        late = f"({index} - ends)[:, None]"
        mask = f"here & ({late} >= 0) & ({late} < {K})"
        return f"tl.load(final_{name} + ({late} * B + lane) * H + unit, mask={mask}, other=0.0).to(tl.float32)"

    def source(self) -> Source:
        body = self.step()
        arrive, begin, end, out = [], [], [], []
        for state in self.graph.states:
            name, K = state.name, state.depth
            begin += [f"due_{name}_{d} = zero" for d in range(K)]
            arrive += [
                f"arrived_{name} = due_{name}_0",
                f"if arriving_{name} is not None:",
                f"    arrived_{name} += now_arriving_{name}",
                f"if final_{name} is not None:",
                f"    arrived_{name} += {self.final(name, K, f't + {K}')}",
                f"arrived_{name} = tl.where(alive, arrived_{name}, 0.0)",
            ]
            for d in range(1, K + 1):
                parts = [f"due_{name}_{d}"] if d < K else []
                parts += [self.carried[state.name, d]] if (state.name, d) in self.carried else []
                # "+ zero": of bare copies Triton 3.6 takes it that they never change, and leaves out the arrival
                end.append(f"due_{name}_{d - 1} = {' + '.join([*parts, 'zero'])}")
            for d in range(K):  # due_d now belongs to value number K - 1 - d
                k = K - 1 - d
                out += [
                    f"if final_{name} is not None:",
                    f"    due_{name}_{d} += {self.final(name, K, str(k))}",
                    f"tl.store(initial_{name} + ({k} * B + lane) * H + unit, due_{name}_{d}, mask=here)",
                ]
        for k, _ in enumerate(self.plan.accumulated):
            begin.append(f"total_{k} = zero")
            at = f"sums + (tl.program_id(1) * {len(self.plan.accumulated)} + {k}) * H + units"
            out.append(f"tl.store({at}, tl.sum(tl.where(near, total_{k}, 0.0), 0), mask=units < H)")
        D = self.distance
        lines = [
            *self.head(),
            *_indent(self.opening(), 4),
            "    ends = tl.zeros((LANES,), tl.int32) + T",
            "    if lengths is not None:",
            "        ends = tl.load(lengths + lanes, mask=lanes < B, other=0).to(tl.int32)",
            *_indent(begin, 4),
            *_indent(self.first_loads("tl.cast(tl.maximum(T - 1 - {}, 0), tl.int64)"), 4),
            "    for i in range(T):",
            "        t = T - 1 - i",
            "        alive = here & (t < ends)[:, None]",
            *_indent(self.take_loads(self.ahead), 8),
            *_indent(self.take_arriving(), 8),
            *_indent(arrive, 8),
            f"        step = tl.maximum(tl.cast(t, tl.int64) - {D}, 0)  # its numbers are on their way from now on",
            *_indent(self.load_ahead(D - 1), 8),
            "        step = tl.cast(t, tl.int64)",
            *_indent(body, 8),
            *_indent(end, 8),
            *_indent(out, 4),
            "",
        ]
        return Source("\n".join(lines), tuple(self.arguments))
