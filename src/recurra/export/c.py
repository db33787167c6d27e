"""A network as C99: one header and one source, no dependencies, no allocation; compiled, measured and compared at once."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurra.errors import EngineError, OptionError
from recurra.export.c_check import Agreement, compare, loss_of_int8
from recurra.export.c_library import SMALL, CLibrary, Sizes, compile_c, find_c_compiler, read_sizes
from recurra.export.c_source import Source
from recurra.export.network import Network
from recurra.results import Result
from recurra.runs.disk import reason, replace_file


@dataclass(frozen=True)
class CExport(Result):
    """A network that was written as C.

    - `files`: the header and the source. `name`: what their functions begin with.
    - `sizes`: bytes of code, weights, state and stack, compiled with `-Os` for this machine; none without a compiler.
    - `agreement`: the distance to the model over some steps of random inputs; none without a compiler.
    - `int8_loss`: what 8-bit weights change of the outputs on random inputs (norm of the difference to norm of the outputs).
    """

    name: str
    files: tuple[Path, ...]
    weights: int
    state: int
    sizes: Sizes | None
    agreement: Agreement | None
    int8_loss: float | None

    def __str__(self) -> str:
        return "\n".join([*map(str, self.files), *self.measured()])

    def measured(self) -> list[str]:
        """Sizes, agreement and what 8 bits cost, a line each."""
        lines = []
        if self.sizes is not None:
            stack = f", {self.sizes.stack:,} of stack in a step" if self.sizes.stack >= 0 else ""
            lines.append(f"{self.sizes.code:,} bytes of code (-Os, this machine), {self.weights:,} of weights")
            lines.append(f"{self.state:,} bytes of state{stack}")
        else:
            lines.append(f"{self.weights:,} bytes of weights, {self.state:,} of state")
        if self.agreement is None:
            lines.append("no C compiler was found here: neither compiled nor compared with the model")
        else:
            found = self.agreement
            own = f"float32 itself is off by {found.plain:.1e} from float64"
            lines.append(
                f"agrees with the model to {found.error:.1e} over {found.steps} steps of random inputs ({own})"
            )
        if self.int8_loss is not None:
            lines.append(f"int8 changes the outputs by {100 * self.int8_loss:.2g} % on random inputs")
        return lines


def write_c(
    network: Network,
    folder: Path,
    name: str,
    *,
    int8: bool = False,
    own_math: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> CExport:
    """Write `NAME.h` and `NAME.c`, compile them, and compare them with the model; a disagreement is an error.

    - `int8`: matrices in 8 bits with a scale for each row, a quarter of the memory.
    - `own_math`: nothing is asked of `math.h`.
    - `facts`: what the header says of where the network comes from.

    Weights in float64 are written as float32; the agreement is then that with the model in float64.
    """
    source = Source(network, name, int8=int8, own_math=own_math, facts=facts or {})
    texts = {f"{source.name}.h": source.header(), f"{source.name}.c": source.source}
    compiler, agreement, sizes = find_c_compiler(), None, None
    with tempfile.TemporaryDirectory() as place:
        for file, text in texts.items():
            (Path(place) / file).write_text(text, encoding="ascii")
        if compiler is not None:
            # compiled once: a large network is millions of numbers to read
            written = Path(place) / f"{source.name}.c"
            made = compile_c([written], written.with_suffix(".o"), *SMALL, "-fPIC")
            agreement = compare(CLibrary.load(source, [made], Path(place)), network, int8=int8)
            sizes = read_sizes(source, made)
    if agreement is not None and not agreement.holds:
        raise EngineError(
            f"export to C: {source.name} is off by {agreement.error:.1e} from the model in {agreement.steps} steps, "
            f"{agreement.excess:.2g} times what is allowed; nothing was written. Please report it."
        )
    files = _write(folder, texts)
    loss = loss_of_int8(network) if int8 else None
    return CExport(source.name, files, source.numbers.bytes, source.state_bytes, sizes, agreement, loss)


def _write(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            replace_file(folder / file, text.encode("ascii"))
    except OSError as error:
        raise OptionError(f"export to C: {folder} cannot be written: {reason(error)}. Name another folder.") from error
    return tuple(folder / file for file in texts)
