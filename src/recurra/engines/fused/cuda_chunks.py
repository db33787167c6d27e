"""A linear recurrence printed in CUDA C++, all chunks of time side by side.

Forward: the `transfer` of each chunk (`affine.transfer`), for each chain of states; the states at the `borders` between
chunks, from these maps; and the cell itself, each chunk from its true states. Backward the same in the opposite order: what
`arrive`s at a chunk's beginning if nothing arrives at its end; what arrives at its end, by the transposed maps; and
every gradient. `chunks.cuh` says how threads share the work.

Invariant: a unit waits for no other, so a step has one pass, and all that is alive between steps is in registers. What is
at a border is float32.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from recurra.cells.graph import Node
from recurra.engines.affine import Transfer, transfers
from recurra.engines.fused.adjoint import lower
from recurra.engines.fused.cuda import C_TYPES, CUDA, Load
from recurra.engines.fused.gpu_kernel import Address, Kernel, Source, Tiles, state_argument
from recurra.engines.fused.stages import Pass, Place, Plan, Step, schedule_forward
from recurra.engines.fused.statements import Let, Printer, Store, indent, lower_step

WARPS, BORDER_WARPS = 4, 32
"""Of a thread block: in the kernels over chunks, and where these are put together."""
AHEAD = 4
"""Steps whose numbers a thread asks for at once."""
WALKS = {"ahead": "from", "t": "to"}
"""The steps of addresses that a thread walks through: of what it reads, some steps ahead, and of what it writes."""
LANGUAGE = replace(
    CUDA,
    reserved={
        *CUDA.reserved,
        *"L PAIRS SINGLE NEIGHBOURS begin chunk count first index k map offset own_index per_row per_step steps until".split(),  # noqa: SIM905
    },
    prefixes=(*CUDA.prefixes, "borders_", "from_", "to_"),
)


@dataclass(frozen=True, eq=False)
class Chunked:
    """What every kernel of a plan is printed for."""

    plan: Plan
    H: int
    dtype: str
    parameters: str

    @property
    def pairs(self) -> int:
        """Threads of a batch row of a chunk."""
        return self.H // 2 if self.H % 2 == 0 else self.H

    @cached_property
    def chains(self) -> tuple[Transfer, ...]:
        return transfers(self.plan.graph)

    @cached_property
    def components(self) -> dict[tuple[str, int], tuple[int, int]]:
        """A state and how many steps before: the chain that it is of, and its number there."""
        return {each: (k, i) for k, made in enumerate(self.chains) for i, each in enumerate(made.components)}

    def transfer(self, chain: int) -> Source:
        return _Transfer(self, chain).source()

    def forward(self, *, keep: str) -> Source:
        """`keep`: every state and what the backward run reads (`all`), every state (`states`), or the outputs (`outputs`)."""
        return _Forward(self, keep).source()

    def arrive(self, chain: int) -> Source:
        return _Arrive(self, chain).source()

    def backward(self) -> Source:
        return _Backward(self).source()

    def borders(self, chain: int, *, forward: bool) -> Source:
        """What is at the borders between chunks. Forward the first of it are the states before the first step."""
        made = self.chains[chain]
        N = len(made.components)
        types = {
            "C": "whole",
            "count": "whole",
            "matrix": "const float*",
            "offset": "const float*",
            "borders": "float*",
        }
        first = ["0.0f"] * N
        if forward:
            types |= {state_argument(name, "initial"): "const parameter*" for name in made.offsets}
            first = []
            for name, delay in made.components:
                initial = state_argument(name, "initial")
                place = f"{initial}[{self.plan.graph.depth(name) - delay} * count + element]"
                first.append(f"{initial} && element < count ? wide({place}) : 0.0f")
        lines = [
            "const whole element = whole(blockIdx.x) * 32 + threadIdx.x % 32;",
            f"float state[{N}] = {{{', '.join(first)}}};",
            f"put_together<{N}, {str(not forward).lower()}>(C, count, matrix, offset, borders, state);",
        ]
        return Source(_text([], self, BORDER_WARPS, "borders", types, lines), tuple(types))

    def border_memory(self, chain: int) -> int:
        """Bytes of shared memory of a thread block of `borders`."""
        N = len(self.chains[chain].components)
        return 4 * 32 * BORDER_WARPS * N * (N + 1)


def _text(
    about: Iterable[str], made: Chunked, warps: int, name: str, types: Mapping[str, str], lines: Iterable[str]
) -> str:
    head = [
        *(f"// {line}" for line in about),
        f"#define NUMBER {C_TYPES[made.dtype]}",
        f"#define PARAMETER {C_TYPES[made.parameters]}",
        f"constexpr int H = {made.H}, WARPS = {warps}, AHEAD = {AHEAD};",
        f"constexpr bool SINGLE = {str(made.H % 2 == 1).lower()};",
        '#include "chunks.cuh"',
        "",
        f"KERNEL {name}({', '.join(f'{kind} {argument}' for argument, kind in types.items())}) {{",
    ]
    return "\n".join([*head, *indent(lines), "}", ""])


class _Chunk(Kernel):
    """A kernel over chunks. A thread has a pair of units of one batch row and walks through one chunk."""

    row, own, now, end = "row", "{}", "wide(ahead_{}[k])", ";"
    name: str

    def __init__(self, made: Chunked, plan: Plan, step: Step, *, forward: bool):
        super().__init__(plan, Tiles(made.H, 1, made.H, alone=True, native=True), forward=forward)
        self.made, self.step = made, step
        self.name = type(self).__name__.strip("_").lower()
        self.types = {"T": "whole", "B": "whole", "L": "whole", "per_step": "whole", "per_row": "whole"} | self.types
        self.lowered = lower_step(step, plan.lowered.names.keys())
        self.walks: dict[str, tuple[str, str]] = {}  # pointers, the buffers that they go through, and how far a step is
        self.loads = {
            self.prefetched(place): Load(
                "parameter" if place.kind == "noise" else "number", self.prefetch_address(place, "ahead")
            )
            for reads in self.lowered.reads
            for place in reads
            if self.prefetched(place)
        }

    @property
    def deepest(self) -> int:
        return max(state.depth for state in self.graph.states)

    def drop(self, *roles: str) -> None:
        """Arguments that this kernel does not have."""
        gone = {state_argument(state.name, role) for state in self.graph.states for role in roles}
        self.types = {name: kind for name, kind in self.types.items() if name not in gone}

    def give_borders(self, chains: Iterable[int]) -> None:
        self.types |= {f"borders_{k}": "const float*" for k in chains}

    # -- values ------------------------------------------------------------------------------------------------------

    def tile(self, place: Place) -> str:
        raise AssertionError(place)

    def older(self, place: Place) -> str:
        return f"last_{place.name}_{place.number}"

    def read(self, node: Node, place: Place) -> str:
        return self.older(place) if self.forward and place.kind == "state" else super().read(node, place)

    def element(self, address: Address, step: str) -> str:
        """What belongs to drives lies in the order of the input."""
        width, own = (address.blocks or 1) * self.made.H, address.block * self.made.H
        if step in WALKS:
            walk = self.walk(step, address.buffer, f"per_step * {width}" if address.blocks else "count")
            earlier = f" + {address.shift} * count" if address.shift else ""
            return f"{walk}{earlier} + {own}"
        at = address.at(step)
        row = f"({at} * per_step + row * per_row)" if address.blocks else f"({at} * B + row)"
        return f"{address.buffer} + {row} * {width} + {own} + unit"

    def strided(self, buffer: str, per_step: str, per_row: str, step: str) -> str:
        return self.walk(step, buffer, per_step)

    def walk(self, step: str, buffer: str, per_step: str) -> str:
        """A pointer that goes through a buffer with the steps."""
        name = f"{WALKS[step]}_{buffer}"
        self.walks[name] = (buffer, per_step)
        return name

    def walk_lines(self) -> list[str]:
        """Where a thread is in memory, at the first step that it takes, and how far the next one is."""
        lines = []
        first, sign = ("begin", "") if self.forward else ("(begin + steps - 1)", "-")
        for buffer, per_step in dict(self.walks.values()).items():
            lines.append(f"const int by_{buffer} = {sign}int({per_step});")
        for name, (buffer, per_step) in self.walks.items():
            per_row = "H" if per_step == "count" else per_step.replace("_step", "_row", 1)
            lines.append(f"{self.types[buffer]} {name} = {buffer} + {first} * {per_step} + row * {per_row} + unit;")
        return lines

    def step_on(self, kind: str) -> list[str]:
        return [f"{name} += by_{buffer};" for name, (buffer, _) in self.walks.items() if name.startswith(f"{kind}_")]

    def masked(self, value: str) -> str:
        return value if self.forward else f"(alive ? two({value}) : two())"

    def put(self, address: Address, value: str, *, awaited: bool) -> str:
        return f"put({self.element(address, 't')}, {value});"

    def store_next(self, place: Place, value: str) -> list[str]:
        return [f"const two next_{place.name} = {value};", self.put(self.address(place), value, awaited=False)]

    def of_chunk(self, buffer: str, number: int, count: int) -> str:
        """The address of one of `count` numbers that each chunk has."""
        return f"{buffer} + ((chunk * {count} + {number}) * B + row) * H + unit"

    def border(self, name: str, delay: int) -> str:
        chain, number = self.made.components[name, delay]
        place = self.of_chunk(f"borders_{chain}", number, len(self.made.chains[chain].components))
        return f"wide(load({place}))"

    def final(self, name: str, number: str) -> tuple[str, str]:
        """Whether value `number` of a state is one of the last before a batch row's end, and its place among these; the number is
        one of this chunk: those of earlier steps come first."""
        late = f"({number} - until)"
        to = self.element(Address(state_argument(name, "final")), late)
        return f"unsigned{late} < {self.graph.depth(name)}u", to

    # -- the kernel --------------------------------------------------------------------------------------------------

    def opening(self) -> list[str]:
        lines = [
            "const whole index = own_index();",
            "const int unit = index % PAIRS * NEIGHBOURS;",
            "const whole row = index / PAIRS % B, chunk = index / PAIRS / B, begin = chunk * L;",
            "if (begin >= T) return;",
            "const int steps = min(L, T - begin), count = B * H;",
            "// the steps that the batch row has from here on, as far as this chunk is concerned",
            f"const int until = min(max((lengths ? lengths[row] : T) - begin, whole(-{self.deepest})), L + {self.deepest});",
        ]
        for k, _ in enumerate(self.graph.drives):
            lines.append(f"const two bias_{k} = wide(load(bias + {k} * H + unit));")
        for name in self.graph.parameters:
            lines.append(f"const two parameter_{name} = wide(load(p_{name} + unit));")
        return lines

    def step_lines(self) -> list[str]:
        lines = []
        printer = Printer(LANGUAGE, self.plan.lowered.names, self.read, self.types)
        for statements in self.lowered.passes:
            for statement in statements:
                match statement:
                    case Let():
                        lines += printer.let(statement)
                    case Store(node, place):
                        lines += self.store(place, printer.value(node))
                    case _:
                        raise AssertionError(statement)
        return lines

    def loop(self, steps: str, body: Iterable[str]) -> list[str]:
        """All steps of the chunk; the numbers of several are asked for at once."""
        each = ["#pragma unroll", "for (int k = 0; k < AHEAD; ++k) {"]
        ask = []
        for name, load in self.loads.items():
            value = f"load({load.address})"
            choice = f"{load.if_any} ? {value} : Stored<{load.kind}>()" if load.if_any else value
            ask.append(f"ahead_{name}[k] = {choice};")
        lines = [f"Stored<{load.kind}> ahead_{name}[AHEAD];" for name, load in self.loads.items()]
        t = "first + k" if self.forward else f"{steps} - 1 - first - k"
        ask += self.step_on("from")
        for inside in (ask, [f"const int t = {t};", *body, *self.step_on("to")]):
            if inside:
                lines += [*each, f"    if (first + k < {steps}) {{", *indent(inside, 8), "    }", "}"]
        return [
            *self.walk_lines(),
            f"for (int first = 0; first < {steps}; first += AHEAD) {{",
            *indent(lines),
            "}",
        ]

    @abstractmethod
    def lines(self) -> list[str]: ...

    def source(self) -> Source:
        equations = (f"    {line}" for line in self.plan.folded.graph.equations())
        about = [f"{self.graph.name}, {self.name}, generated from its equations:", *equations]
        text = _text(about, self.made, WARPS, self.name, self.types, [*self.opening(), *self.lines()])
        return Source(text, tuple(self.types))

    def shift(self) -> list[str]:
        """The end of a step forward: each value is one step older."""
        lines = []
        for state in self.graph.states:
            lines += [f"last_{state.name}_{d} = last_{state.name}_{d - 1};" for d in range(state.depth, 1, -1)]
            lines.append(f"last_{state.name}_1 = next_{state.name};")
        return lines


class _Transfer(_Chunk):
    """The affine map of a chain of states over each chunk."""

    def __init__(self, made: Chunked, number: int):
        self.chain = made.chains[number]
        lowered = lower(self.chain.graph)
        step = schedule_forward(lowered)
        super().__init__(made, replace(made.plan, lowered=lowered, forward=step), step, forward=True)
        self.drop("s")
        self.give_borders(sorted({made.components[name, 1][0] for name in self.chain.given}))
        self.types |= {"matrix": "float*", "offset": "float*"}

    def store_next(self, place: Place, value: str) -> list[str]:
        return [f"const two next_{place.name} = {value};"]

    def lines(self) -> list[str]:
        chain, N = self.chain, len(self.chain.components)
        ones = {
            (column[chain.offsets.index(name)], delay)
            for column, (name, delay) in zip(chain.columns, chain.components, strict=True)
        }
        lines = []
        for state in self.graph.states:
            for d in range(1, state.depth + 1):
                value = (
                    self.border(state.name, d) if state.name in chain.given else f"{float((state.name, d) in ones)}f"
                )
                lines.append(f"two last_{state.name}_{d} = {value};")
        lines += self.loop("min(steps, until)", [*self.step_lines(), *self.shift()])
        for i, (name, delay) in enumerate(chain.components):
            lines.append(f"put({self.of_chunk('offset', i, N)}, last_{name}_{delay});")
            for j, column in enumerate(chain.columns):
                place = self.of_chunk("matrix", i * N + j, N * N)
                lines.append(f"put({place}, last_{column[chain.offsets.index(name)]}_{delay});")
        return lines


class _Forward(_Chunk):
    """The cell itself, each chunk from its true states."""

    def __init__(self, made: Chunked, keep: str):
        step = made.plan.forward if keep == "all" else schedule_forward(made.plan.lowered)
        super().__init__(made, made.plan, step, forward=True)
        self.keep = keep
        for state in self.graph.states:
            self.types[state_argument(state.name, "initial")] = "const parameter*"
            self.types[state_argument(state.name, "final")] = "number*"
        self.give_borders(range(len(made.chains)))

    def store_next(self, place: Place, value: str) -> list[str]:
        lines = super().store_next(place, value)
        return lines if self.keep != "outputs" or place.name == self.graph.states[0].name else lines[:1]

    def lines(self) -> list[str]:
        lines, early, late = [], [], []
        for state in self.graph.states:
            for d in range(1, state.depth + 1):
                known = (state.name, d) in self.made.components
                lines.append(f"two last_{state.name}_{d} = {self.border(state.name, d) if known else 'two()'};")
            for k in range(state.depth):
                early += self.first_value(state.name, k)
                is_final, to = self.final(state.name, str(k))
                early.append(f"if ({is_final}) put({to}, first_{state.name}_{k});")
            is_final, to = self.final(state.name, f"(t + {state.depth})")
            late.append(f"if ({is_final}) put({to}, next_{state.name});")
        lines += ["if (chunk == 0) {", *indent(early), "}"]
        return [*lines, *self.loop("steps", [*self.step_lines(), *late, *self.shift()])]


class _Backwards(_Chunk):
    """What both kernels of the backward run do: from the end of a chunk to its beginning."""

    def __init__(self, made: Chunked, step: Step, known: Iterable[int]):
        super().__init__(made, made.plan, step, forward=False)
        self.known = set(known)  # chains of which it is known what arrives at the ends of chunks
        for state in self.graph.states:
            name = f"arriving_{state.name}"
            self.loads[name] = Load("number", self.arriving_address(state.name, "ahead"), name)
        self.give_borders(sorted(self.known))

    def final_gradient(self, name: str, number: str) -> str:
        """What arrives at value `number` of a state because it is a final one."""
        is_final, at = self.final(name, number)
        return f"({is_final} && final_{name} ? wide(load({at})) : two())"

    def steps(self) -> list[str]:
        lines, arrive, body, end = [], [], self.step_lines(), []
        for state in self.graph.states:
            name, K = state.name, state.depth
            for d in range(K):
                known = self.made.components.get((name, d + 1), (None, 0))[0] in self.known
                lines.append(f"two due_{name}_{d} = {self.border(name, d + 1) if known else 'two()'};")
            arriving = f"due_{name}_0 + wide(ahead_arriving_{name}[k]) + {self.final_gradient(name, f'(t + {K})')}"
            arrive.append(f"const two arrived_{name} = alive ? {arriving} : two();")
            for d, parts in enumerate(self.due(name)):
                end.append(f"due_{name}_{d} = {' + '.join(parts) or 'two()'};")
        carried = [f"two carry_{name}_{d};" for name, d in sorted(self.carried)]
        lines += self.loop("steps", ["const bool alive = t < until;", *arrive, *carried, *body, *end])
        return lines


class _Arrive(_Backwards):
    """What arrives at the beginning of each chunk for one chain, if for it nothing arrives at its end."""

    def __init__(self, made: Chunked, number: int):
        self.chain = made.chains[number]
        earlier = {name for each in made.chains[:number] for name in each.offsets}
        (whole,) = made.plan.backward.passes
        stores = tuple(store for store in whole.stores if store[1].kind == "carry" and store[1].name not in earlier)
        step = Step((Pass((), stores, ()),), made.plan.backward.find, 0, 0)
        super().__init__(made, step, range(number + 1, len(made.chains)))
        self.drop("initial")
        self.types = {name: kind for name, kind in self.types.items() if name not in ("gradient", "sums")}
        self.types |= {"offset": "float*"}

    def lines(self) -> list[str]:
        N = len(self.chain.components)
        return [
            *self.steps(),
            *(
                f"put({self.of_chunk('offset', i, N)}, due_{name}_{delay - 1});"
                for i, (name, delay) in enumerate(self.chain.components)
            ),
        ]


class _Backward(_Backwards):
    """Every gradient. Those of parameters are summed over a chunk."""

    def __init__(self, made: Chunked):
        super().__init__(made, made.plan.backward, range(len(made.chains)))

    def lines(self) -> list[str]:
        numbers, first = range(len(self.plan.accumulated)), []
        for state in self.graph.states:
            for d in range(state.depth):  # due_d now belongs to value number K - 1 - d
                number = str(state.depth - 1 - d)
                at = self.element(Address(state_argument(state.name, "initial")), number)
                value = f"due_{state.name}_{d} + {self.final_gradient(state.name, number)}"
                first.append(f"if ({state_argument(state.name, 'initial')}) put({at}, {value});")
        return [
            *(f"two total_{k};" for k in numbers),
            *self.steps(),
            *(f"put(sums + ((chunk * B + row) * {len(numbers)} + {k}) * H + unit, total_{k});" for k in numbers),
            "if (chunk == 0) {",
            *indent(first),
            "}",
        ]
