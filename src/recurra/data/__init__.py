"""Data: files and Python objects to sequences, and sequences to batches; synthetic data."""

from recurra.data.batches import Chunks, Sequences
from recurra.data.events import read_log
from recurra.data.forest import balanced, make_forest
from recurra.data.formal import dyck, tomita
from recurra.data.in_memory import write_data
from recurra.data.labelled import read_labelled
from recurra.data.labelled_tasks import labelled_series
from recurra.data.log_tasks import synthetic_log
from recurra.data.machine import machine_vectors, trigger_vector
from recurra.data.machine_log import simulate_log, write_log
from recurra.data.pair_tasks import synthetic_dates, synthetic_sums
from recurra.data.pairs import read_pairs
from recurra.data.plane import synthetic as synthetic_points
from recurra.data.reviews import reviews
from recurra.data.series import read_timed_series
from recurra.data.series_kinds import synthetic_series
from recurra.data.series_tasks import lorenz, mackey_glass, narma, seasons, sines
from recurra.data.signal_noise import posterior, signal_and_noise
from recurra.data.tasks import adding, copying, flip_flop, parity
from recurra.data.tokenizers import build_tokenizer
from recurra.data.trees import build_vocabulary, parse_expressions, read_trees, write_expression
from recurra.data.word_vectors import read_vectors

__all__ = [
    "Chunks",
    "Sequences",
    "adding",
    "balanced",
    "build_tokenizer",
    "build_vocabulary",
    "copying",
    "dyck",
    "flip_flop",
    "labelled_series",
    "lorenz",
    "machine_vectors",
    "mackey_glass",
    "make_forest",
    "narma",
    "parity",
    "parse_expressions",
    "posterior",
    "read_labelled",
    "read_log",
    "read_pairs",
    "read_timed_series",
    "read_trees",
    "read_vectors",
    "reviews",
    "seasons",
    "signal_and_noise",
    "simulate_log",
    "sines",
    "synthetic_dates",
    "synthetic_log",
    "synthetic_points",
    "synthetic_series",
    "synthetic_sums",
    "tomita",
    "trigger_vector",
    "write_data",
    "write_expression",
    "write_log",
]
