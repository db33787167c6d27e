"""The picture of an attention: which symbols of the source each symbol of the target was made from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from recurra.plots.dynamics import find_matplotlib
from recurra.plots.picture import check_picture_name, save_picture
from recurra.types import Float


def plot_attention(
    weights: Float[Tensor, "T S"], source: Sequence[str], target: Sequence[str], file: Path, title: str = ""
) -> None:
    """Weights as shades: a row for each symbol that was said, a column for each that was read. `file` is a .png or .svg.

    ```python
    plot_attention(weights, list("4 May"), list("05-04"), Path("map.svg"))
    ```
    """
    check_picture_name(file)
    matplotlib = find_matplotlib()
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "recurra", "font.size": 12}):
        size = (2.5 + 0.32 * len(source), 1.8 + 0.32 * len(target))
        figure, axis = pyplot.subplots(figsize=size, layout="constrained")
        shades = axis.imshow(weights.numpy(), cmap="cividis", vmin=0, vmax=1, aspect="equal")
        axis.set_xticks(range(len(source)), [_visible(each) for each in source], rotation=90 if _is_long(source) else 0)
        axis.set_yticks(range(len(target)), [_visible(each) for each in target])
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.set(xlabel="read", ylabel="said", title=title)
        figure.colorbar(shades, ax=axis, shrink=0.7, label="weight")
        save_picture(figure, file)
        pyplot.close(figure)


def _visible(symbol: str) -> str:
    return symbol.replace(" ", "␣").replace("\n", "⏎").replace("$", r"\$") or "∅"


def _is_long(symbols: Sequence[str]) -> bool:
    return any(len(symbol) > 2 for symbol in symbols)
