"""A plan written as C++: one `forward` and one `backward` for the whole sequence, readable beside the equations.

Each pass is an inline function for one vector of units of one lane; around it stand the loops over units, lanes and time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from recurra.cells.graph import Group, Node
from recurra.engines.fused.stages import Pass, Place, Plan, Product, Program
from recurra.engines.fused.writer import ARITHMETIC, Writer, like_a_macro

_FORMS = {
    **ARITHMETIC,
    "not": "(~{})",
    "where": "select({}, {}, {})",
    "abs": "absolute({})",
}
_RESERVED = frozenset(
    """
    a s u t i j m lane at first last count full block vec mask real whole integer V T B H M N
    all load store add sum select sign clamp power exp tanh sigmoid relu log log1p sqrt sin cos erf floor softplus
    remainder minimum maximum absolute multiply pack reduce
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
    const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
    while xor xor_eq
    """.split()  # noqa: SIM905
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


@dataclass(frozen=True)
class Source:
    """Generated code with the signatures of its two functions."""

    text: str
    forward: Signature
    backward: Signature


def emit(plan: Plan) -> Source:
    graph = plan.graph
    forward, backward = _Forward(plan), _Backward(plan)
    body = [*forward.lines(), "", *backward.lines()]
    head = [
        f"// {graph.name}, generated from its equations:",
        *(f"//     {line}" for line in graph.equations()),
        '#include "products.hpp"',
        "",
    ]
    return Source("\n".join([*head, *body, ""]), forward.signature, backward.signature)


def vectors(products: Iterable[Product]) -> int:
    """How many vectors of units a pass takes at once: few outputs leave registers for more."""
    most = max((len(product.nodes) for product in products), default=4)
    return max(1, 4 // most)


class _Emitter:
    """What forward and backward have in common: passes, their loops, and the layout of a thread's workspace."""

    name: str
    program: Program

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
        found = {p.number: vectors(each.products) for each in self.program.passes for p in each.products}
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

    def pass_function(self, index: int, each: Pass) -> list[str]:
        """The elementwise program of one pass for one vector of units."""
        tiles = "".join(f", const vec* tile_{product.number}" for product in each.products)
        lines = [
            "template <bool full>",
            f"static inline void {self.name}_pass_{index}(const {self.struct}& a, const {self.struct}Step& s, long lane, long u, "
            f"int count{tiles}) {{",
        ]
        writer = _Writer(self, index, each)
        stores = []
        for node, place in each.stores:
            value = writer.value(node)
            stores.append(f"    {self.write(place, value)}")
        return [*lines, *writer.lines, *stores, "}"]

    def write(self, place: Place, value: str) -> str:
        if place.kind == "mean":
            return f"s.means[{place.number} * s.lanes + lane - s.first] += sum({value}, count);"
        adds = place.kind == "parameter_gradient" or (place.kind == "carry" and place.number < self.depth(place.name))
        return f"{'add' if adds else 'store'}<full>({self.address(place)}, {value}, count);"

    def depth(self, name: str) -> int:
        return next(state.depth for state in self.graph.states if state.name == name)

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
            n = len(product.nodes) * q
            rows, stride = self.rows(product.source)
            lines += [
                f"        vec tile_{product.number}[lanes_at_once<{most}>() * {n}];",
                f"        multiply_lanes<lanes_at_once<{most}>(), {n}>(m, {rows}, {stride}, {self.depth_of(product)},",
                f"            a.weights_{product.number} + first_unit / V / {q} * {self.depth_of(product)} * {n} * V, "
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

    def depth_of(self, product: Product) -> str:
        """How many inputs the product sums over."""
        return "a.H" if product.nodes[0].kind == "product" else f"{product.blocks} * a.H"

    struct: str


_FIELDS = (
    *("T", "B", "D", "H", "x", "W", "U", "bias", "threads", "lengths", "memory"),
    *("workers", "workspace", "tape", "scratch", "gradient", "sums", "parts"),
)


def state_field(name: str) -> str:
    """What a state is called in the structures: its name, unless another field, a macro (`NAN`) or C++ has it."""
    plain = name.isalnum() and not like_a_macro(name) and name not in _RESERVED and name not in _FIELDS
    return name if plain else f"state_{name}"


class _Writer(Writer):
    """Writes one pass in C++."""

    forms = _FORMS

    def __init__(self, emitter: _Emitter, index: int, each: Pass):
        super().__init__(emitter.plan.lowered.names, _RESERVED)
        self.emitter, self.index, self.each = emitter, index, each
        self.count(node for node, _ in each.stores)

    def read(self, node: Node) -> str | None:
        place = self.emitter.program.find(node, self.index)
        return None if place is None else self.emitter.read(node, place, self.each.products)

    def number(self, value: float) -> str:
        if value != value or value in (float("inf"), float("-inf")):
            limit = "quiet_NaN" if value != value else "infinity"
            return f"all({'-' if value < 0 else ''}std::numeric_limits<real>::{limit}())"
        return f"all(real({value!r}))"

    def line(self, node: Node, name: str, text: str) -> str:
        return f"    const {'mask' if node.is_condition else 'vec'} {name} = {text};"


class _Forward(_Emitter):
    name, struct = "forward", "Forward"

    def __init__(self, plan: Plan):
        super().__init__(plan)
        self.program = plan.forward
        for state in self.graph.states:
            name = state_field(state.name)
            self.signature.add("Rows", f"{name}_first", f"[{state.depth}, B, H]: the values before the first step")
            self.signature.add("real*", f"{name}_final", f"[{state.depth}, B, H]: those before each lane's end")
        self.own_fields()

    def lines(self) -> list[str]:
        states, noises = self.graph.states, self.graph.noises
        step = ["long first, lanes; real *tape, *rows, *means;"]
        moves = [f"s.tape = a.tape + t * a.B * {self.plan.slots} * a.H;"]
        for state in states:
            name = state_field(state.name)
            delays = sorted({n.delay for n in self.plan.lowered.nodes if n.kind == "state" and n.name == state.name})
            for d in delays:
                step.append(f"const real* {name}_{d};")
                moves.append(f"s.{name}_{d} = a.{name} + (t + {state.depth - d}) * a.B * a.H;")
            step.append(f"real* {name}_next;")
            moves.append(f"s.{name}_next = a.{name} + (t + {state.depth}) * a.B * a.H;")
        for name in noises:
            step.append(f"const real* n_{name};")
            moves.append(f"s.n_{name} = a.n_{name}.at + t * a.n_{name}.step;")
        return [
            *self.signature.declare("Forward"),
            "struct ForwardStep {",
            *(f"    {row}" for row in step),
            "};",
            *(line for k, each in enumerate(self.program.passes) for line in (
                *self.pass_function(k, each), *self.idle_function(k, each, ("next",))
            )),
            "static inline long forward_workspace(long lanes, long H) {",
            f"    return round_up(lanes * {self.program.rows} * H, V) + round_up(lanes * {self.program.means}, V) + V;",
            "}",
            "static void forward_steps(const Forward& a, long thread, long first, long last) {",
            "    ForwardStep s;",
            "    s.first = first, s.lanes = last - first;",
            "    s.rows = a.workspace + thread * forward_workspace((a.B + a.workers - 1) / a.workers + 1, a.H);",
            f"    s.means = s.rows + round_up(s.lanes * {self.program.rows} * a.H, V);",
            "    for (long t = 0; t < a.T; ++t) {",
            *(f"        {row}" for row in moves),
            *(line for k, each in enumerate(self.program.passes) for line in self.pass_loop(k, each)),
            "    }",
            "}",
            *self.whole(),
            *self.stream(),
        ]  # fmt: skip

    def whole(self) -> list[str]:
        """The memory of a run, and all of it: drives, first values, steps, final values."""
        G = len(self.graph.drives)
        copies, finals = [], []
        for state in self.graph.states:
            name, K = state_field(state.name), state.depth
            copies.append(f"    copy_rows({{a.{name}_first, {K}, a.B}}, a.H, a.{name});")
            finals.append(f"    copy_last(a.{name}, {K}, a.T, a.B, a.H, a.lengths, a.{name}_final);")
        return [
            "",
            "// What the backward run reads too comes first.",
            "template <typename Arguments>",
            "static inline Parts place_kept(Arguments& a) {",
            f"    const long work = std::max(a.H * {len(self.graph.matrices)}, 64L) + {G} * a.D;  // for each unit of each step",
            "    a.workers = threads_for(a.threads, double(a.T) * a.B * a.H * work, a.B);",
            "    Parts own{a.memory};",
            f"    a.tape = own.take(a.T * a.B * {self.plan.slots} * a.H);",
            *(
                f"    if (!a.{name}) a.{name} = own.take(({depth} + a.T) * a.B * a.H);"
                for name, depth in ((state_field(state.name), state.depth) for state in self.graph.states)
            ),
            "    return own;",
            "}",
            "static inline long place(Forward& a) {",
            "    Parts own = place_kept(a);",
            "    a.workspace = own.take(a.workers * forward_workspace((a.B + a.workers - 1) / a.workers + 1, a.H));",
            f"    a.weights_x = own.take(packed_size({G} * a.H, a.D));",
            *self.place_weights(),
            "    return own.size;",
            "}",
            "static inline void pack_all(const Forward& a) {",
            f"    pack_outputs(a.W, a.W_row, 1, {G} * a.H, a.D, a.weights_x);",
            *self.pack_weights(),
            "}",
            "static inline Block tape(const Forward& a) {",
            f"    return {{{{a.tape, a.B * {self.plan.slots} * a.H, {self.plan.slots} * a.H}}, a.T, a.B}};",
            "}",
            'extern "C" long forward_memory(const Forward* given) {',
            "    Forward a = *given;",
            "    return place(a);",
            "}",
            'extern "C" void forward(const Forward* given) {',
            "    Forward a = *given;",
            "    place(a);",
            "    pack_all(a);",
            *copies,
            "    const Block x{a.x, a.T, a.B}, drives = tape(a);",
            "    const bool few = a.B < a.threads;",
            f"    if (few) times_by_rows(x, a.D, a.weights_x, drives, {G} * a.H, a.threads);",
            "    share_lanes(a.workers, a.B, [&](long thread, long first, long last) {",
            f"        if (!few) times(x.lanes(first, last), a.D, a.weights_x, drives.lanes(first, last), {G} * a.H);",
            "        forward_steps(a, thread, first, last);",
            "    });",
            *finals,
            "}",
        ]

    def stream(self) -> list[str]:
        """Any number of steps in constant memory: blocks of at most a.T, each leaves the state where the next begins."""
        output, depth = state_field(self.graph.states[0].name), self.graph.states[0].depth
        return [
            "",
            'extern "C" void open_stream(Forward* a) {',
            "    place(*a);",
            "    pack_all(*a);",
            "}",
            'extern "C" void stream(Forward* a, real* x, real* out, long steps) {',
            "    const long most = a->T, row = a->B * a->H, inputs = a->B * a->D;",
            "    for (long done = 0; done < steps; done += a->T) {",
            "        a->T = done + most < steps ? most : steps - done;",
            "        times({{x + done * inputs, inputs, a->D}, a->T, a->B}, a->D, a->weights_x, tape(*a), "
            f"{len(self.graph.drives)} * a->H);",
            "        forward_steps(*a, 0, 0, a->B);",
            f"        std::memcpy(out + done * row, a->{output} + {depth} * row, a->T * row * sizeof(real));",
            *(
                f"        std::memmove(a->{name}, a->{name} + a->T * row, {depth} * row * sizeof(real));"
                for name, depth in ((state_field(state.name), state.depth) for state in self.graph.states)
            ),
            "    }",
            "    a->T = most;",
            "}",
        ]


class _Backward(_Emitter):
    name, struct = "backward", "Backward"

    def __init__(self, plan: Plan):
        super().__init__(plan)
        self.program = plan.backward
        for state in self.graph.states:
            name = state_field(state.name)
            self.signature.add("Rows", f"{name}_arriving", "[T, B, H]: ∂L of each step's value; null: none")
            self.signature.add(
                "const real*", f"{name}_final", f"[{state.depth}, B, H]: ∂L of the final values; null: none"
            )
            self.signature.add("real*", f"d_{name}", f"[{state.depth}, B, H]: ∂L of the first values; null: not wanted")
        self.signature.add("real*", "scratch", "memory of the backward run")
        self.signature.add("Rows", "d_x", "∂L of x; null: not wanted, as in all of these")
        for name in ("W", "bias", "U", *(f"p_{name}" for name in self.graph.parameters)):
            self.signature.add("real*", f"d_{name}", f"∂L of {name}")
        self.own_fields()
        self.signature.add("real*", "gradient", f"[T, B, {plan.gradients} H]: ∂L of drives and products")
        self.signature.add("real*", "sums", f"[workers, {len(plan.accumulated)}, H]: ∂L of biases and parameters")
        self.signature.add("real*", "parts", "of the gradients of weights: those of all threads but the first")
        self.numbers = sorted({number for number in plan.arguments if number is not None})
        for k in self.numbers:
            self.signature.add("real*", f"argument_{k}", "[T, B, H]: what products were taken of")

    def read(self, node: Node, place: Place, products: tuple[Product, ...]) -> str:
        if place.kind == "adjoint":
            name = state_field(place.name)
            carried = f"load<full>(s.carry_{name}_0 + (lane - s.first) * a.H + u, count)"
            row = f"s.{name}_arriving + lane * a.{name}_arriving.lane + u"
            arriving = f"s.{name}_arriving ? load<full>({row}, count) : vec{{}}"
            return f"({carried} + ({arriving}))"
        return super().read(node, place, products)

    def lines(self) -> list[str]:
        states = self.graph.states
        step = ["long first, lanes; real *tape, *rows, *means, *gradient, *sums;"]
        moves = [
            f"s.tape = a.tape + t * a.B * {self.plan.slots} * a.H;",
            f"s.gradient = a.gradient + t * a.B * {self.plan.gradients} * a.H;",
        ]
        carry, into, out = [], [], []
        offset = f"round_up(s.lanes * {self.program.rows} * a.H, V) + round_up(s.lanes * {self.program.means}, V)"
        rings = 0
        for state in states:
            name, K = state_field(state.name), state.depth
            carry.append(f"real* const ring_{name} = s.rows + {offset} + {rings} * s.lanes * a.H;")
            rings += K + 1
            ring = f"ring_{name} + (({{}}) % {K + 1}) * s.lanes * a.H"
            for d in range(K + 1):
                step.append(f"real* carry_{name}_{d};")
                moves.append(f"s.carry_{name}_{d} = {ring.format(f't + {K - d}')};")
                if d:
                    step.append(f"const real* {name}_{d};")
                    moves.append(f"s.{name}_{d} = a.{name} + (t + {K - d}) * a.B * a.H;")
            step += [f"const real* {name}_next;", f"const real* {name}_arriving;"]
            moves.append(f"s.{name}_next = a.{name} + (t + {K}) * a.B * a.H;")
            moves.append(
                f"s.{name}_arriving = a.{name}_arriving.at ? a.{name}_arriving.at + t * a.{name}_arriving.step : nullptr;"
            )
            lane_ring = f"ring_{name} + ((end + k) % {K + 1} * s.lanes + lane - first) * a.H"
            into += [
                f"for (long k = 0; k < {K}; ++k) {{",
                f"    real* to = {lane_ring};",
                f"    if (a.{name}_final) std::memcpy(to, a.{name}_final + (k * a.B + lane) * a.H, a.H * sizeof(real));",
                "    else std::memset(to, 0, a.H * sizeof(real));",
                "}",
            ]
            out += [
                f"for (long k = 0; a.d_{name} && k < {K}; ++k)",
                f"    std::memcpy(a.d_{name} + (k * a.B + lane) * a.H, ring_{name} + (k * s.lanes + lane - first) * a.H, "
                "a.H * sizeof(real));",
            ]
        for name in self.graph.noises:
            step.append(f"const real* n_{name};")
            moves.append(f"s.n_{name} = a.n_{name}.at + t * a.n_{name}.step;")
        for k in self.numbers:
            step.append(f"real* argument_{k};")
            moves.append(f"s.argument_{k} = a.argument_{k} + t * a.B * a.H;")
        return [
            *self.signature.declare("Backward"),
            "struct BackwardStep {",
            *(f"    {row}" for row in step),
            "};",
            *(line for k, each in enumerate(self.program.passes) for line in (
                *self.pass_function(k, each), *self.idle_function(k, each, ("gradient", "argument"))
            )),
            "static inline long backward_workspace(long lanes, long H) {",
            f"    return round_up(lanes * {self.program.rows} * H, V) + round_up(lanes * {self.program.means}, V)"
            f" + (lanes * {rings} + {len(self.plan.accumulated)}) * H + V;",
            "}",
            "static void backward_steps(const Backward& a, long thread, long first, long last) {",
            "    BackwardStep s;",
            "    s.first = first, s.lanes = last - first;",
            "    s.rows = a.workspace + thread * backward_workspace((a.B + a.workers - 1) / a.workers + 1, a.H);",
            f"    s.means = s.rows + round_up(s.lanes * {self.program.rows} * a.H, V);",
            f"    const long sums = {len(self.plan.accumulated)} * a.H, often = 512 / s.lanes + 1;",
            "    real* const totals = a.sums + thread * sums;",
            f"    s.sums = s.rows + {offset} + {rings} * s.lanes * a.H;",
            "    std::memset(s.sums, 0, sums * sizeof(real));",
            "    std::memset(totals, 0, sums * sizeof(real));",
            "    // what arrives at the K youngest values of each state, in a ring of K + 1 rows by time",
            *(f"    {row}" for row in carry),
            "    for (long lane = first; lane < last; ++lane) {",
            "        const long end = a.lengths ? a.lengths[lane] : a.T;",
            *(f"        {row}" for row in into),
            "    }",
            "    for (long t = a.T - 1; t >= 0; --t) {",
            *(f"        {row}" for row in moves),
            *(line for k, each in enumerate(self.program.passes) for line in self.pass_loop(k, each)),
            "        // a long sum of small numbers in one go would lose digits",
            "        if (t % often == 0)",
            "            for (long i = 0; i < sums; ++i) totals[i] += s.sums[i], s.sums[i] = 0;",
            "    }",
            "    for (long lane = first; lane < last; ++lane) {",
            *(f"        {row}" for row in out),
            "    }",
            "}",
            *self.whole(),
        ]  # fmt: skip

    def whole(self) -> list[str]:
        """The memory of a run, and all of it: steps, then the gradients of inputs, weights and parameters that are wanted."""
        G, P, A = len(self.graph.drives), len(self.graph.matrices), len(self.plan.accumulated)
        return [
            "",
            "static inline long place(Backward& a) {",
            "    place_kept(a);",
            "    Parts own{a.scratch};",
            "    a.workspace = own.take(a.workers * backward_workspace((a.B + a.workers - 1) / a.workers + 1, a.H));",
            f"    a.weights_x = own.take(packed_size(a.D, {G} * a.H));",
            *self.place_weights(),
            f"    a.gradient = own.take(a.T * a.B * {self.plan.gradients} * a.H);",
            f"    a.sums = own.take(a.workers * {A} * a.H);",
            f"    a.parts = own.take((a.workers - 1) * a.H * ({G} * a.D + {P} * a.H));",
            *(f"    a.argument_{k} = own.take(a.T * a.B * a.H);" for k in self.numbers),
            "    return own.size;",
            "}",
            'extern "C" long backward_memory(const Backward* given) {',
            "    Backward a = *given;",
            "    return place(a);",
            "}",
            'extern "C" void backward(const Backward* given) {',
            "    Backward a = *given;",
            "    place(a);",
            *self.pack_weights(),
            f"    if (a.d_x.at) pack_outputs(a.W, 1, a.W_row, a.D, {G} * a.H, a.weights_x);",
            f"    const long row = {self.plan.gradients} * a.H, size_W = {G} * a.H * a.D, size_U = {P} * a.H * a.H;",
            "    const Block x{a.x, a.T, a.B}, d_x{a.d_x, a.T, a.B}, adjoints{{a.gradient, a.B * row, row}, a.T, a.B};",
            "    const bool few = a.B < a.threads;",
            "    share_lanes(a.workers, a.B, [&](long thread, long first, long last) {",
            "        backward_steps(a, thread, first, last);",
            "        const auto adjoint = [&](long slot) {",
            "            return Block{{a.gradient + slot * a.H, a.B * row, row}, a.T, a.B}.lanes(first, last);",
            "        };",
            "        const auto rows = [&](real* at) { return Block{{at, a.B * a.H, a.H}, a.T, a.B}.lanes(first, last); };",
            f"        if (a.d_x.at && !few) times(adjoint(0), {G} * a.H, a.weights_x, d_x.lanes(first, last), a.D);",
            "        real* const part = a.parts + (thread - 1) * (size_W + size_U);",
            "        real* const d_W = thread && a.d_W ? part : a.d_W;",
            "        real* const d_U = thread && a.d_U ? part + size_W : a.d_U;",
            *self.gather_weights(),
            "    });",
            f"    if (a.d_x.at && few) times_by_rows(adjoints, {G} * a.H, a.weights_x, d_x, a.D, a.threads);",
            "    if (a.d_W) add_parts(a.d_W, size_W, a.parts, size_W + size_U, a.workers - 1);",
            "    if (a.d_U) add_parts(a.d_U, size_U, a.parts + size_W, size_W + size_U, a.workers - 1);",
            f"    add_parts(a.sums, {A} * a.H, a.sums + {A} * a.H, {A} * a.H, a.workers - 1);",
            f"    if (a.d_bias) std::memcpy(a.d_bias, a.sums, {G} * a.H * sizeof(real));",
            *(
                f"    if (a.d_p_{name}) std::memcpy(a.d_p_{name}, a.sums + {G + k} * a.H, a.H * sizeof(real));"
                for k, name in enumerate(self.graph.parameters)
            ),
            "}",
        ]  # fmt: skip

    def gather_weights(self) -> list[str]:
        """∂L/∂W and ∂L/∂U: products over all of time, together where they are taken of the same adjoints."""
        G = len(self.graph.drives)
        gathered = {(0, G, ""): ["{x.lanes(first, last), a.D, d_W, false}"]}
        depths = {state.name: state.depth for state in self.graph.states}
        seen: set[str] = set()
        for group, slot, number in zip(self.plan.groups, self.plan.places, self.plan.arguments, strict=True):
            if number is None:
                name, delay = group.argument.name, group.argument.delay
                argument = f"a.{state_field(name)} + {depths[name] - delay} * a.B * a.H"
            else:
                argument = f"a.argument_{number}"
            for names in _neighbours(group.names, self.graph.matrices, seen):
                place = self.graph.matrices.index(names[0])
                out = f"d_U ? d_U + {place} * a.H * a.H : nullptr" if place else "d_U"
                # what is added to a matrix comes after what was written to it
                key, adds = (slot, len(names), argument), "true"
                if names[0] not in seen:
                    key, adds = (slot, len(names), ""), "false"
                gathered.setdefault(key, []).append(f"{{rows({argument}), a.H, {out}, {adds}}}")
                slot += len(names)
            seen.update(group.names)
        return [
            f"        gather(adjoint({slot}), {count} * a.H, {{{', '.join(each)}}});"
            for (slot, count, _), each in gathered.items()
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
