"""A network built from an automaton: its input, recurrent and output weights as pictures of their signs and sizes."""

from __future__ import annotations

from typing import Any

from recurra.lecture.automaton_network import AutomatonNetwork
from recurra.plots.figure import painter


@painter(AutomatonNetwork, (13, 6))
def paint_automaton_network(axis: Any, network: AutomatonNetwork) -> None:
    figure = axis.figure
    axis.remove()
    figure.set_layout_engine(None)
    direction = network.layer.stack[0][0]
    assert direction.U is not None
    machine, states = network.machine, network.machine.state_names()
    names = ["start" if unit is None else f"{states[unit[0]]}, {machine.symbols[unit[1]]}" for unit in network.units]
    matrices = {
        "input W": (direction.W, list(machine.symbols), names),
        "recurrent U": (direction.U, names, names),
        "output V": (network.output.weight, names, list(network.classes)),
    }
    # places of their own: a layout that is found with each drawing moves a little each time, and so would the files
    shares = [max(2, len(machine.symbols)), len(names), len(names)]
    widths = [0.62 * share / sum(shares) for share in shares]
    lefts = [0.12, 0.12 + widths[0] + 0.12, 0.12 + widths[0] + widths[1] + 0.22]
    panels = [figure.add_axes((left, 0.24, width, 0.6)) for left, width in zip(lefts, widths, strict=True)]
    for panel, (title, (weights, across, down)) in zip(panels, matrices.items(), strict=True):
        values = weights.detach().numpy()
        panel.imshow(values / max(abs(values).max(), 1e-30), cmap="cividis", vmin=0, vmax=1, aspect="auto")
        panel.set_title(title)
        if values.size <= 400:  # a line between neighbours, so that units can be counted
            panel.set_xticks([k - 0.5 for k in range(1, len(across))], minor=True)
            panel.set_yticks([k - 0.5 for k in range(1, len(down))], minor=True)
            panel.grid(which="minor", color="white", lw=1.2)
            panel.tick_params(which="minor", length=0)
        if len(across) <= 30:
            panel.set_xticks(range(len(across)), across, rotation=90, fontsize=12)
        if len(down) <= 30:
            panel.set_yticks(range(len(down)), down, fontsize=12)
    bias = float(direction.b[0].detach()) / network.gain
    figure.suptitle(
        f"{len(names)} units; W and U are 0 or {network.gain:g}, every bias −{-bias:g} of that, V is 0 or 1",
        fontsize=15,
    )
