"""A plan written as C++: one `forward` and one `backward` for the whole sequence, readable beside the equations.

Around the steps stand the products over all of time: drives before them, gradients of inputs and weights after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recurra.cells.graph import Node
from recurra.engines.fused.cpp_passes import Emitter, Signature, state_field
from recurra.engines.fused.stages import Place, Plan, Product


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


class _Forward(Emitter):
    name, struct = "forward", "Forward"

    def __init__(self, plan: Plan):
        super().__init__(plan)
        self.step = plan.forward
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
            *self.pass_functions(("next",)),
            "static inline long forward_workspace(long lanes, long H) {",
            f"    return round_up(lanes * {self.step.rows} * H, V) + round_up(lanes * {self.step.means}, V) + V;",
            "}",
            "static void forward_steps(const Forward& a, long thread, long first, long last) {",
            "    ForwardStep s;",
            "    s.first = first, s.lanes = last - first;",
            "    s.rows = a.workspace + thread * forward_workspace((a.B + a.workers - 1) / a.workers + 1, a.H);",
            f"    s.means = s.rows + round_up(s.lanes * {self.step.rows} * a.H, V);",
            "    for (long t = 0; t < a.T; ++t) {",
            *(f"        {row}" for row in moves),
            *(line for k, each in enumerate(self.step.passes) for line in self.pass_loop(k, each)),
            "    }",
            "}",
            *self.whole(),
            *self.stream(),
        ]

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


class _Backward(Emitter):
    name, struct = "backward", "Backward"

    def __init__(self, plan: Plan):
        super().__init__(plan)
        self.step = plan.backward
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
        offset = f"round_up(s.lanes * {self.step.rows} * a.H, V) + round_up(s.lanes * {self.step.means}, V)"
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
            *self.pass_functions(("gradient", "argument")),
            "static inline long backward_workspace(long lanes, long H) {",
            f"    return round_up(lanes * {self.step.rows} * H, V) + round_up(lanes * {self.step.means}, V)"
            f" + (lanes * {rings} + {len(self.plan.accumulated)}) * H + V;",
            "}",
            "static void backward_steps(const Backward& a, long thread, long first, long last) {",
            "    BackwardStep s;",
            "    s.first = first, s.lanes = last - first;",
            "    s.rows = a.workspace + thread * backward_workspace((a.B + a.workers - 1) / a.workers + 1, a.H);",
            f"    s.means = s.rows + round_up(s.lanes * {self.step.rows} * a.H, V);",
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
            *(line for k, each in enumerate(self.step.passes) for line in self.pass_loop(k, each)),
            "        // a long sum of small numbers in one go would lose digits",
            "        if (t % often == 0)",
            "            for (long i = 0; i < sums; ++i) totals[i] += s.sums[i], s.sums[i] = 0;",
            "    }",
            "    for (long lane = first; lane < last; ++lane) {",
            *(f"        {row}" for row in out),
            "    }",
            "}",
            *self.whole(),
        ]

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
        ]

    def gather_weights(self) -> list[str]:
        """∂L/∂W and ∂L/∂U: products over all of time, together where they are taken of the same adjoints."""
        G = len(self.graph.drives)
        gathered = {(0, G, ""): ["{x.lanes(first, last), a.D, d_W, false}"]}
        seen: set[str] = set()
        for group, slot, number in zip(self.plan.groups, self.plan.places, self.plan.arguments, strict=True):
            if number is None:
                name, delay = group.argument.name, group.argument.delay
                argument = f"a.{state_field(name)} + {self.graph.depth(name) - delay} * a.B * a.H"
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
