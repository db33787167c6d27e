"""A plan printed in C++: the passes of a step, forward and backward, readable beside the equations.

Each pass is an inline function for one vector of units of one batch row, with the loops over units and batch rows
around it. What is the same for every cell is C++ as it stands: what a kernel is given (`arguments.hpp`), memory,
threads, streams and the products over all of time (`sequence.hpp`, `scan.hpp`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recurra.cells.graph import Node
from recurra.engines.fused.stages import Pass, Place, Plan, Product
from recurra.engines.fused.statements import (
    ARITHMETIC,
    CPP_WORDS,
    Language,
    Let,
    Printer,
    Reduce,
    Statement,
    Store,
    indent,
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
        a s u t i j m b at first last count full block vec mask real whole integer V T B H M N
        all load store add sum select sign clamp power exp tanh sigmoid relu log log1p sqrt sin cos erf floor softplus
        remainder minimum maximum absolute multiply pack reduce
        """.split()  # noqa: SIM905
    ),
)


def emit(plan: Plan, around: str) -> str:
    """`around` is the file that takes the steps through time: `sequence.hpp`, or `scan.hpp` where no pass has products."""
    graph, arguments = plan.graph, {number for number in plan.arguments if number is not None}
    sizes = {
        "DRIVES": len(graph.drives),
        "MATRICES": len(graph.matrices),
        "PARAMETERS": len(graph.parameters),
        "NOISES": len(graph.noises),
        "GROUPS": len(plan.groups),
        "SLOTS": plan.slots,
        "GRADIENTS": plan.gradients,
        "SUMS": len(plan.accumulated),
        "ARGUMENTS": len(arguments),
        "FORWARD_ROWS": plan.forward.rows,
        "FORWARD_MEANS": plan.forward.means,
        "BACKWARD_ROWS": plan.backward.rows,
        "BACKWARD_MEANS": plan.backward.means,
    }
    lines = [
        f"// {graph.name}, generated from its equations:",
        *(f"//     {line}" for line in graph.equations()),
        f"constexpr int DEPTH[] = {{{', '.join(str(state.depth) for state in graph.states)}}};"
        f"  // of {', '.join(state.name for state in graph.states)}",
        *(f"constexpr int {name} = {size};" for name, size in sizes.items()),
        '#include "arguments.hpp"',
        "",
        *_Passes(plan, forward=True).lines(),
        *_Passes(plan, forward=False).lines(),
        *_gather_weights(plan),
        "",
        f'#include "{around}"',
        '#include "sizes.hpp"',
        "",
    ]
    return "\n".join(lines)


def vectors(products: Iterable[Product]) -> int:
    """How many vectors of units a pass takes at once: few outputs leave registers for more."""
    most = max((len(product.nodes) for product in products), default=4)
    return max(1, 4 // most)


class _Passes:
    """The passes of one direction."""

    def __init__(self, plan: Plan, *, forward: bool):
        self.plan, self.graph = plan, plan.graph
        self.name, self.struct = ("forward", "Forward") if forward else ("backward", "Backward")
        self.step = plan.forward if forward else plan.backward
        self.zeroed = ("next",) if forward else ("gradient", "argument")  # whole rows of these are read later
        self.states = [state.name for state in self.graph.states]

    def lines(self) -> list[str]:
        lowered = lower_step(self.step, self.plan.lowered.names.keys())
        lines, loops = [], []
        for k, (each, statements) in enumerate(zip(self.step.passes, lowered.passes, strict=True)):
            lines += [*self.pass_function(k, each, statements), *self.idle_function(k, each)]
            loops += self.pass_loop(k, each)
        at_once = {product.number: vectors(each.products) for each in self.step.passes for product in each.products}
        visits = []
        for k in range(len(self.plan.groups)):
            visits.append(f"    visit({k}, Matrices{{{self.matrices(k)}}}, {at_once.get(k, 1)});")
        return [
            *lines,
            f"static inline void {self.name}_passes(const {self.struct}& a, const Step& s, long t, long last) {{",
            *indent(loops),
            "}",
            "template <typename Visit>",
            f"static inline void {self.name}_groups(Visit visit) {{",
            *visits,
            "}",
            "",
        ]

    # -- addresses ---------------------------------------------------------------------------------------------------

    def value(self, array: str, name: str, delay: int) -> str:
        """The values of a state, of as many steps before, or what arrives at them."""
        return f"s.{array}[value_of({self.states.index(name)}) + {delay}]"

    def rows(self, place: Place, row: str) -> tuple[str, str]:
        """The numbers of a batch row, and the distance to the next."""
        own = f"({row} - s.first) * a.H"
        match place.kind:
            case "tape":
                return f"s.tape + {row} * SLOTS * a.H + {place.number} * a.H", "SLOTS * a.H"
            case "gradient":
                return f"s.gradient + {row} * GRADIENTS * a.H + {place.number} * a.H", "GRADIENTS * a.H"
            case "state" | "next":
                delay = place.number if place.kind == "state" else 0
                return f"{self.value('value', place.name, delay)} + {row} * a.H", "a.H"
            case "row":
                return f"s.rows + ({place.number} * s.batch + {row} - s.first) * a.H", "a.H"
            case "carry":
                return f"{self.value('carry', place.name, place.number)} + {own}", "a.H"
            case "argument":
                return f"s.argument[{place.number}] + {row} * a.H", "a.H"
            case "noise":
                number = list(self.graph.noises).index(place.name)
                return f"s.noise[{number}] + {row} * a.noise[{number}].row", ""
            case "parameter":
                return f"a.parameter[{list(self.graph.parameters).index(place.name)}]", ""
            case "parameter_gradient":
                return f"s.sums + {place.number} * a.H", ""
        raise AssertionError(place)

    def address(self, place: Place) -> str:
        """The address of the vector at batch row `b` and unit `u`."""
        return f"{self.rows(place, 'b')[0]} + u"

    def read(self, node: Node, place: Place, products: tuple[Product, ...]) -> str:
        match place.kind:
            case "tile":
                return f"tile_{place.number}[{place.part * vectors(products)}]"
            case "mean":
                return f"all(s.means[{place.number} * s.batch + b - s.first])"
            case "adjoint":
                k = self.states.index(place.name)
                carried = f"load<full>({self.address(Place('carry', place.name, 0))}, count)"
                row = f"s.arriving[{k}] + b * a.arriving[{k}].row + u"
                return f"({carried} + (s.arriving[{k}] ? load<full>({row}, count) : vec{{}}))"
        loaded = f"load<full>({self.address(place)}, count)"
        if node.kind == "drive":
            return f"({loaded} + load<full>(a.bias + {self.graph.drives.index(node.name)} * a.H + u, count))"
        return loaded

    # -- passes ------------------------------------------------------------------------------------------------------

    def matrices(self, group: int) -> str:
        """The numbers of the matrices of a group of products."""
        return ", ".join(str(self.graph.matrices.index(name)) for name in self.plan.groups[group].names)

    def pass_function(self, index: int, each: Pass, statements: Iterable[Statement]) -> list[str]:
        """The elementwise program of one pass for one vector of units. All is read before anything is stored: what the tape
        keeps may take the place of a drive."""
        tiles = "".join(f", const vec* tile_{product.number}" for product in each.products)
        lines = [
            "template <bool full>",
            f"static inline void {self.name}_pass_{index}(const {self.struct}& a, const Step& s, long b, long u, "
            f"int count{tiles}) {{",
        ]
        stores = []
        printer = Printer(CPP, self.plan.lowered.names, lambda node, place: self.read(node, place, each.products))
        for statement in statements:
            match statement:
                case Let():
                    lines += printer.let(statement)
                case Reduce(node, number):
                    total = f"s.means[{number} * s.batch + b - s.first]"
                    stores.append(f"    {total} += sum({printer.value(node)}, count);")
                case Store(node, place):
                    younger = place.kind == "carry" and place.number < self.graph.depth(place.name)
                    verb = "add" if younger or place.kind == "parameter_gradient" else "store"
                    stores.append(f"    {verb}<full>({self.address(place)}, {printer.value(node)}, count);")
        return [*lines, *stores, "}"]

    def idle_function(self, index: int, each: Pass) -> list[str]:
        """Past its end a batch row writes zeros where whole rows are read later."""
        return [
            f"static inline void {self.name}_idle_{index}(const {self.struct}& a, const Step& s, long b, long u) {{",
            "    const long count = u + V <= a.H ? V : a.H - u;",
            *(
                f"    std::memset({self.address(place)}, 0, count * sizeof(real));"
                for _, place in each.stores
                if place.kind in self.zeroed
            ),
            "}",
        ]

    def pass_loop(self, index: int, each: Pass) -> list[str]:
        """The loops around a pass, and the means that it opens and closes."""
        lines = self.product_loop(index, each) if each.products else self.plain_loop(index)
        if not each.means:
            return lines
        means = f"for (long k : {{{', '.join(map(str, each.means))}}})"
        all_rows = "    for (long i = 0; i < s.batch; ++i) s.means[k * s.batch + i]"
        return [means, f"{all_rows} = 0;", *lines, means, f"{all_rows} /= a.H;"]

    def plain_loop(self, index: int) -> list[str]:
        """Without products: row by row, so that memory is read in order."""
        return [
            "for (long b = s.first; b < last; ++b) {",
            "    const bool idle = a.lengths && t >= a.lengths[b];",
            "    for (long u = s.from; u < s.to; u += V) {",
            f"        if (idle) {self.name}_idle_{index}(a, s, b, u);",
            f"        else if (u + V <= a.H) {self.name}_pass_{index}<true>(a, s, b, u, V);",
            f"        else {self.name}_pass_{index}<false>(a, s, b, u, int(a.H - u));",
            "    }",
            "}",
        ]

    def product_loop(self, index: int, each: Pass) -> list[str]:
        """Blocks of units, blocks of batch rows, products into a tile in registers, then vector by vector what follows them."""
        q = vectors(each.products)
        most = max(len(product.nodes) for product in each.products) * q
        lines = [
            f"for (long first_unit = 0; first_unit < a.H; first_unit += {q} * V) {{",
            f"    const long block = block_of(s.batch, rows_at_once<{most}>());",
            "    for (long at = s.first; at < last; at += block) {",
            "        const int m = int(at + block < last ? block : last - at);",
            "        for (int i = 0; i < m; ++i)  // prefetched while the product is computed",
            "            for (long k = 0; k < SLOTS; ++k)",
            "                __builtin_prefetch(s.tape + ((at + i) * SLOTS + k) * a.H + first_unit, 1);",
        ]
        for product in each.products:
            number, n = product.number, len(product.nodes) * q
            depth = f"{product.blocks} * a.H" if product.is_transposed else "a.H"
            rows, distance = self.rows(product.source, "at")
            direct = (
                f"combine_direct<rows_at_once<{most}>(), {q}>" if product.is_transposed else f"multiply_direct<{q}>"
            )
            lines += [
                f"        vec tile_{number}[rows_at_once<{most}>() * {n}];",
                f"        if (a.direct) {direct}(m, {rows}, {distance},",
                f"            a.U, a.U_row, Matrices{{{self.matrices(number)}}}, a.H, first_unit, tile_{number});",
                f"        else multiply_rows<rows_at_once<{most}>(), {n}>(m, {rows}, {distance}, {depth},",
                f"            a.weights[{number}] + first_unit / V / {q} * {depth} * {n} * V, tile_{number});",
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


def _gather_weights(plan: Plan) -> list[str]:
    """∂L/∂W and ∂L/∂U: products over all of time, together where they are taken of the same adjoints."""
    graph = plan.graph
    states = [state.name for state in graph.states]
    gathered = {(0, len(graph.drives), ""): ["{x, a.D, d_W, false}"]}
    seen: set[str] = set()
    for group, slot, number in zip(plan.groups, plan.places, plan.arguments, strict=True):
        argument = f"a.argument[{number}]"
        if number is None:
            name, delay = group.argument.name, group.argument.delay
            argument = f"a.state[{states.index(name)}] + {graph.depth(name) - delay} * a.B * a.H"
        for names in _neighbours(group.names, graph.matrices, seen):
            place = graph.matrices.index(names[0])
            out = f"d_U ? d_U + {place} * a.H * a.H : nullptr" if place else "d_U"
            # what is added to a matrix comes after what was written to it
            key, adds = (slot, len(names), argument), "true"
            if names[0] not in seen:
                key, adds = (slot, len(names), ""), "false"
            gathered.setdefault(key, []).append(f"{{rows({argument}), a.H, {out}, {adds}}}")
            slot += len(names)
        seen.update(group.names)
    return [
        "template <typename Adjoint, typename RowsAt>",
        "static inline void gather_weights(",
        "    const Backward& a, const Block& x, real* d_W, real* d_U, const Adjoint& adjoint, const RowsAt& rows) {",
        *(
            f"    gather(adjoint({slot}), {count} * a.H, {{{', '.join(each)}}});"
            for (slot, count, _), each in gathered.items()
        ),
        "}",
    ]


def _neighbours(names: Iterable[str], matrices: Sequence[str], seen: set[str]) -> list[list[str]]:
    """Names in runs of neighbours within `matrices` that were all seen before, or none of them."""
    runs: list[list[str]] = []
    for name in names:
        before = runs[-1][-1] if runs else ""
        if runs and matrices.index(name) == matrices.index(before) + 1 and (name in seen) == (before in seen):
            runs[-1].append(name)
        else:
            runs.append([name])
    return runs
