"""Numbers about networks: gradients, Jacobians, fixed points, fields, automata, units. No files, no drawing."""

from recurra.analysis.ablation import losses
from recurra.analysis.automata.attractors import find_attractors
from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.own import extract_automaton
from recurra.analysis.column_labels import read_column
from recurra.analysis.echo import echo_state
from recurra.analysis.embeddings import look_at_embeddings
from recurra.analysis.exponents import lyapunov, lyapunov_spectrum
from recurra.analysis.field_views import field_panel, split_field
from recurra.analysis.fields import (
    basins,
    plane_of_principal_components,
    plane_of_units,
    settle,
    trajectory,
    vector_field,
)
from recurra.analysis.fixed_points import find_fixed_points
from recurra.analysis.gradient_map import gradient_map
from recurra.analysis.gradients import gradient_flow, recurrent_spectra, spectrum
from recurra.analysis.jacobians import StepMap
from recurra.analysis.neurons import Unit, record_activity, search
from recurra.analysis.portrait import phase_portrait
from recurra.analysis.source_labels import c_labels, json_labels, python_labels, text_labels
from recurra.analysis.state_space import StateSpace
from recurra.analysis.through_time import watch
from recurra.analysis.trace_table import trace_table
from recurra.analysis.unit_study import find_units

__all__ = [
    "Moore",
    "StateSpace",
    "StepMap",
    "Unit",
    "basins",
    "c_labels",
    "echo_state",
    "extract_automaton",
    "field_panel",
    "find_attractors",
    "find_fixed_points",
    "find_units",
    "gradient_flow",
    "gradient_map",
    "json_labels",
    "look_at_embeddings",
    "losses",
    "lyapunov",
    "lyapunov_spectrum",
    "phase_portrait",
    "plane_of_principal_components",
    "plane_of_units",
    "python_labels",
    "read_column",
    "record_activity",
    "recurrent_spectra",
    "search",
    "settle",
    "spectrum",
    "split_field",
    "text_labels",
    "trace_table",
    "trajectory",
    "vector_field",
    "watch",
]
