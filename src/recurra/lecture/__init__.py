"""What is for learning: back-propagation through time by hand, the scalar case, regions, approximation, automata, trees,
convolution, the robot."""

from recurra.lecture.activations import activations
from recurra.lecture.approximation import approximate
from recurra.lecture.automaton_network import automaton_network
from recurra.lecture.by_hand import (
    ElmanWeights,
    Layer,
    elman_bptt,
    elman_bptt_double_sum,
    elman_forward,
    feedforward_deltas,
    layers_of,
    stochastic_backpropagation,
)
from recurra.lecture.convolution import convolve
from recurra.lecture.pairs import compare_truncations, kept_pairs
from recurra.lecture.region_count import count_regions, polygonal_line
from recurra.lecture.regions import (
    Rectifier,
    folding_network,
    lower_bound,
    most_regions,
    polygonal_network,
    rectifier_of,
    regions_on_line,
    regions_on_plane,
    upper_bound,
)
from recurra.lecture.residuals import gradients_over_depth
from recurra.lecture.robot import operate
from recurra.lecture.scalar_case import scalar_case, scalar_gradient
from recurra.lecture.scalar_page import scalar_page
from recurra.lecture.small_network import SmallNetwork
from recurra.lecture.state_vectors import add_triggers, state_vectors
from recurra.lecture.tree_graph import unroll_tree
from recurra.lecture.unroll import unroll, wire

__all__ = [
    "ElmanWeights",
    "Layer",
    "Rectifier",
    "SmallNetwork",
    "activations",
    "add_triggers",
    "approximate",
    "automaton_network",
    "compare_truncations",
    "convolve",
    "count_regions",
    "elman_bptt",
    "elman_bptt_double_sum",
    "elman_forward",
    "feedforward_deltas",
    "folding_network",
    "gradients_over_depth",
    "kept_pairs",
    "layers_of",
    "lower_bound",
    "most_regions",
    "operate",
    "polygonal_line",
    "polygonal_network",
    "rectifier_of",
    "regions_on_line",
    "regions_on_plane",
    "scalar_case",
    "scalar_gradient",
    "scalar_page",
    "state_vectors",
    "stochastic_backpropagation",
    "unroll",
    "unroll_tree",
    "upper_bound",
    "wire",
]
