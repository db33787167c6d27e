"""Every picture: a result as SVG, PNG or PDF, on a light and on a dark ground. matplotlib is imported when something is drawn."""

from recurra.cells.picture import draw as draw_cell
from recurra.plots import (  # noqa: F401  each registers its painters
    activations,
    approximation,
    attention,
    attractors,
    automaton,
    automaton_network,
    basins,
    beam,
    confusion,
    convolution,
    curve,
    decision_tree,
    echo,
    embeddings,
    field,
    field_views,
    fixed_points,
    forecast,
    gradients,
    lecture,
    memory_lengths,
    order_tables,
    penalties,
    regions,
    scalar_case,
    spectrum,
    through_time,
    tree_graph,
    units,
    unroll,
)
from recurra.plots.automaton import to_dot, to_mermaid, to_svg
from recurra.plots.figure import draw

__all__ = ["draw", "draw_cell", "to_dot", "to_mermaid", "to_svg"]
