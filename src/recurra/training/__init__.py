"""Training: the loop, truncated back-propagation through time, clipping, averaging, evaluation."""

from recurra.training.backtest import roll, score_paths
from recurra.training.distributed import join
from recurra.training.evaluation import evaluate
from recurra.training.events import Step
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import weighted_nll
from recurra.training.tree_penalty import Steps, TreePenalty
from recurra.training.truncation import backward, read_truncation

__all__ = [
    "Step",
    "Steps",
    "Trainer",
    "Training",
    "TreePenalty",
    "backward",
    "evaluate",
    "join",
    "read_truncation",
    "roll",
    "score_paths",
    "weighted_nll",
]
