"""The passes of one step written as C++: what the forward and the backward run have in common.

Each pass is an inline function for one vector of units of one lane; around it stand the loops over units and lanes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from recurra.cells.graph import Group, Node
from recurra.engines.fused.stages import Pass, Place, Plan, Product, Step
from recurra.engines.fused.statements import (
    ARITHMETIC,
    CPP_WORDS,
    Language,
    Let,
    Printer,
    Reduce,
    Statement,
    Store,
    like_a_macro,
    lower_step,
)

CPP = Language(
    forms={**ARITHMETIC, "not": "(~{})", "where": "select({}, {}, {})", "abs": "absolute({})"},
    number="all(real({!r}))",
    nan="all(std::numeric_limits<real>::quiet_NaN())",
    infinity="all({}std::numeric_limits<real>::infinity())",
    line="    const vec {} = {};",
    condition="    const mask {} = {};",
    reserved=CPP_WORDS
    | set(
        """
        a s u t i j m lane at first last count full block vec mask real whole integer V T B H M N
        all load store add sum select sign clamp power exp tanh sigmoid relu log log1p sqrt sin cos erf floor softplus
        remainder minimum maximum absolute multiply pack reduce
        """.split()  # noqa: SIM905
    ),
)


@dataclass
class Signature:
    """The fields of the argument structure, in order: whole numbers, addresses, and `Rows` (an address and two distances)."""

    fields: list[tuple[str, str, str]] = field(default_factory=list)  # type, name, what it is

    def add(self, kind: str, name: str, about: str) -> None:
        self.fields.append((kind, name, about))

    def declare(self, struct: str) -> list[str]:
        width = max(len(f"{kind} {name};") for kind, name, _ in self.fields)
        rows = [f"    {f'{kind} {name};':<{width}}  // {about}" for kind, name, about in self.fields]
        return [f"struct {struct} {{", *rows, "};"]


def vectors(products: Iterable[Product]) -> int:
    """How many vectors of units a pass takes at once: few outputs leave registers for more."""
    most = max((len(product.nodes) for product in products), default=4)
    return max(1, 4 // most)


class Emitter:
    """What forward and backward have in common: passes, their loops, and the layout of a thread's workspace."""

    name: str
    struct: str
    step: Step

    def __init__(self, plan: Plan):
        self.plan, self.graph = plan, plan.graph
        self.signature = Signature()
        for kind, name, about in (
            ("long", "T", "steps"),
            ("long", "B", "lanes"),
            ("long", "D", "inputs"),
            ("long", "H", "units"),
            ("long", "threads", "at most"),
            ("const long*", "lengths", "of each lane; null: all T"),
            ("real*", "memory", "of the forward run; the backward run reads it"),
            ("Rows", "x", "[T, B, D]"),
            ("const real*", "W", f"[{len(self.graph.drives)} H, D]"),
            ("long", "W_row", "from one row to the next"),
            ("const real*", "bias", f"[{len(self.graph.drives)} H], of the drives"),
            ("const real*", "U", f"[{len(self.graph.matrices)} H, H]"),
            ("long", "U_row", "from one row to the next"),
        ):
            self.signature.add(kind, name, about)
        for state in self.graph.states:
            about = f"[{state.depth} + T, B, H]: earlier values, then each step's; null: within memory"
            self.signature.add("real*", state_field(state.name), about)
        for name in self.graph.parameters:
            self.signature.add("const real*", f"p_{name}", "[H]")
        for name in self.graph.noises:
            self.signature.add("Rows", f"n_{name}", "a mask")

    def own_fields(self) -> None:
        """The last fields of the structure: what `place` fills in."""
        self.signature.add("long", "workers", "threads that share the lanes")
        self.signature.add("real*", "workspace", "a share for each of them")
        self.signature.add("real*", "tape", f"[T, B, {self.plan.slots} H]: drives, then what the backward run needs")
        self.signature.add("real*", "weights_x", "packed: W")
        for k, group in enumerate(self.plan.groups):
            names = ", ".join(f"U.{name}" for name in group.names)
            self.signature.add("real*", f"weights_{k}", f"packed: {names}")

    def matrices(self, group: Group) -> str:
        """The places of a group's matrices within U."""
        return f"{{{', '.join(str(self.graph.matrices.index(name)) for name in group.names)}}}"

    def vectors(self) -> list[int]:
        """For each group how many vectors of units the pass takes at once that opens with it."""
        found = {p.number: vectors(each.products) for each in self.step.passes for p in each.products}
        return [found.get(k, 1) for k in range(len(self.plan.groups))]

    def place_weights(self) -> list[str]:
        """Lines of `place` for the packed weights of the recurrence."""
        return [
            f"    a.weights_{k} = own.take(packed_size({len(group.names)}, {q}, a.H));"
            for k, (group, q) in enumerate(zip(self.plan.groups, self.vectors(), strict=True))
        ]

    def pack_weights(self) -> list[str]:
        return [
            f"    pack_{self.name}(a.U, a.U_row, {self.matrices(group)}, {q}, a.H, a.weights_{k});"
            for k, (group, q) in enumerate(zip(self.plan.groups, self.vectors(), strict=True))
        ]

    # -- addresses ---------------------------------------------------------------------------------------------------

    def address(self, place: Place) -> str:
        """The address of the vector at `lane`, `u`."""
        match place.kind:
            case "tape":
                return f"s.tape + lane * {self.plan.slots} * a.H + {place.number} * a.H + u"
            case "state":
                return f"s.{state_field(place.name)}_{place.number} + lane * a.H + u"
            case "next":
                return f"s.{state_field(place.name)}_next + lane * a.H + u"
            case "parameter":
                return f"a.p_{place.name} + u"
            case "noise":
                return f"s.n_{place.name} + lane * a.n_{place.name}.lane + u"
            case "row":
                return f"s.rows + ({place.number} * s.lanes + lane - s.first) * a.H + u"
            case "gradient":
                return f"s.gradient + lane * {self.plan.gradients} * a.H + {place.number} * a.H + u"
            case "carry":
                return f"s.carry_{state_field(place.name)}_{place.number} + (lane - s.first) * a.H + u"
            case "parameter_gradient":
                return f"s.sums + {place.number} * a.H + u"
            case "argument":
                return f"s.argument_{place.number} + lane * a.H + u"
        raise AssertionError(place)

    def read(self, node: Node, place: Place, products: tuple[Product, ...]) -> str:
        if place.kind == "tile":
            return f"tile_{place.number}[{place.part * vectors(products)}]"
        if place.kind == "mean":
            return f"all(s.means[{place.number} * s.lanes + lane - s.first])"
        loaded = f"load<full>({self.address(place)}, count)"
        if node.kind == "drive":
            return f"({loaded} + load<full>(a.bias + {self.graph.drives.index(node.name)} * a.H + u, count))"
        return loaded

    # -- passes ------------------------------------------------------------------------------------------------------

    def pass_function(self, index: int, each: Pass, statements: Iterable[Statement]) -> list[str]:
        """The elementwise program of one pass for one vector of units. All is read before anything is stored: what the tape
        keeps may take the place of a drive."""
        tiles = "".join(f", const vec* tile_{product.number}" for product in each.products)
        lines = [
            "template <bool full>",
            f"static inline void {self.name}_pass_{index}(const {self.struct}& a, const {self.struct}Step& s, long lane, long u, "
            f"int count{tiles}) {{",
        ]
        stores = []
        printer = Printer(CPP, self.plan.lowered.names, lambda node, place: self.read(node, place, each.products))
        for statement in statements:
            match statement:
                case Let():
                    lines += printer.let(statement)
                case Reduce(node, number):
                    total = f"s.means[{number} * s.lanes + lane - s.first]"
                    stores.append(f"    {total} += sum({printer.value(node)}, count);")
                case Store(node, place):
                    adds = place.kind == "parameter_gradient" or (
                        place.kind == "carry" and place.number < self.graph.depth(place.name)
                    )
                    verb = "add" if adds else "store"
                    stores.append(f"    {verb}<full>({self.address(place)}, {printer.value(node)}, count);")
        return [*lines, *stores, "}"]

    def pass_functions(self, zeroed: tuple[str, ...]) -> list[str]:
        """Of all passes, each with what it does for a lane past its end: zeros where whole rows are read later."""
        lowered = lower_step(self.step, self.plan.lowered.names.keys())
        lines = []
        for k, (each, statements) in enumerate(zip(self.step.passes, lowered.passes, strict=True)):
            lines += [*self.pass_function(k, each, statements), *self.idle_function(k, each, zeroed)]
        return lines

    def pass_loop(self, index: int, each: Pass) -> list[str]:
        """The loops around a pass, and the means that it opens and closes."""
        lines = []
        numbers = ", ".join(map(str, each.means))
        if each.means:
            lines += [
                f"for (long k : {{{numbers}}})",
                "    for (long i = 0; i < s.lanes; ++i) s.means[k * s.lanes + i] = 0;",
            ]
        lines += self.product_loop(index, each) if each.products else self.plain_loop(index)
        if each.means:
            lines += [
                f"for (long k : {{{numbers}}})",
                "    for (long i = 0; i < s.lanes; ++i) s.means[k * s.lanes + i] /= a.H;",
            ]
        return [f"        {line}" for line in lines]

    def plain_loop(self, index: int) -> list[str]:
        """Without products: lane by lane, so that memory is read in order."""
        return [
            "for (long lane = s.first; lane < last; ++lane) {",
            "    const bool idle = a.lengths && t >= a.lengths[lane];",
            "    for (long u = 0; u < a.H; u += V) {",
            f"        if (idle) {self.name}_idle_{index}(a, s, lane, u);",
            f"        else if (u + V <= a.H) {self.name}_pass_{index}<true>(a, s, lane, u, V);",
            f"        else {self.name}_pass_{index}<false>(a, s, lane, u, int(a.H - u));",
            "    }",
            "}",
        ]

    def product_loop(self, index: int, each: Pass) -> list[str]:
        """Blocks of units, blocks of lanes, products into a tile in registers, then vector by vector what follows them."""
        q = vectors(each.products)
        most = max(len(product.nodes) for product in each.products) * q
        lines = [
            f"for (long first_unit = 0; first_unit < a.H; first_unit += {q} * V) {{",
            f"    const long block = block_of(s.lanes, lanes_at_once<{most}>());",
            "    for (long at = s.first; at < last; at += block) {",
            "        const int m = int(at + block < last ? block : last - at);",
            "        for (int i = 0; i < m; ++i)  // on its way while the product is computed",
            f"            for (long k = 0; k < {self.plan.slots}; ++k)",
            f"                __builtin_prefetch(s.tape + ((at + i) * {self.plan.slots} + k) * a.H + first_unit, 1);",
        ]
        for product in each.products:
            n, depth = len(product.nodes) * q, f"{product.blocks} * a.H" if product.is_transposed else "a.H"
            rows, stride = self.rows(product.source)
            lines += [
                f"        vec tile_{product.number}[lanes_at_once<{most}>() * {n}];",
                f"        multiply_lanes<lanes_at_once<{most}>(), {n}>(m, {rows}, {stride}, {depth},",
                f"            a.weights_{product.number} + first_unit / V / {q} * {depth} * {n} * V, "
                f"tile_{product.number});",
            ]
        tiles = "".join(f", tile_{p.number} + i * {len(p.nodes) * q} + j" for p in each.products)
        call = f"{self.name}_pass_{index}<{{}}>(a, s, at + i, u, {{}}{tiles});"
        return [
            *lines,
            "        for (int i = 0; i < m; ++i) {",
            "            const bool idle = a.lengths && t >= a.lengths[at + i];",
            f"            for (int j = 0; j < {q}; ++j) {{",
            "                const long u = first_unit + j * V;",
            "                if (u >= a.H) break;",
            f"                if (idle) {self.name}_idle_{index}(a, s, at + i, u);",
            f"                else if (u + V <= a.H) {call.format('true', 'V')}",
            f"                else {call.format('false', 'int(a.H - u)')}",
            "            }",
            "        }",
            "    }",
            "}",
        ]

    def idle_function(self, index: int, each: Pass, kinds: tuple[str, ...]) -> list[str]:
        """Past its end a lane writes zeros where whole rows are read later."""
        lines = [
            f"static inline void {self.name}_idle_{index}(const {self.struct}& a, const {self.struct}Step& s, long lane, "
            "long u) {",
            "    const long count = u + V <= a.H ? V : a.H - u;",
        ]
        for _, place in each.stores:
            if place.kind in kinds:
                lines.append(f"    std::memset({self.address(place)}, 0, count * sizeof(real));")
        return [*lines, "}"]

    def rows(self, source: Place) -> tuple[str, str]:
        """The rows that a product multiplies, at lane `at`, and the distance from one lane to the next."""
        match source.kind:
            case "state":
                return f"s.{state_field(source.name)}_{source.number} + at * a.H", "a.H"
            case "row":
                return f"s.rows + ({source.number} * s.lanes + at - s.first) * a.H", "a.H"
            case "tape":
                return f"s.tape + at * {self.plan.slots} * a.H + {source.number} * a.H", f"{self.plan.slots} * a.H"
            case "gradient":
                stride = f"{self.plan.gradients} * a.H"
                return f"s.gradient + at * {stride} + {source.number} * a.H", stride
        raise AssertionError(source)


_FIELDS = (
    *("T", "B", "D", "H", "x", "W", "U", "bias", "threads", "lengths", "memory"),
    *("workers", "workspace", "tape", "scratch", "gradient", "sums", "parts"),
)


def state_field(name: str) -> str:
    """What a state is called in the structures: its name, unless another field, a macro (`NAN`) or C++ has it."""
    plain = name.isalnum() and not like_a_macro(name) and name not in CPP.reserved and name not in _FIELDS
    return name if plain else f"state_{name}"
