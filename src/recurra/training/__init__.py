"""Training: the loop, truncated back-propagation through time, clipping, averaging, evaluation."""

from recurra.training.backtest import roll, score_paths
from recurra.training.closed_form import ClosedForm
from recurra.training.distributed import Ranks, join
from recurra.training.evaluation import evaluate
from recurra.training.labelling import evaluate_labels, label_loss, predict_labels
from recurra.training.loop import Finished, Save, Step, Trainer, Training, Validated
from recurra.training.objectives import weighted_nll, weighted_square
from recurra.training.tree_penalty import Steps, TreePenalty
from recurra.training.truncation import backward, read_truncation

__all__ = [
    "ClosedForm",
    "Finished",
    "Ranks",
    "Save",
    "Step",
    "Steps",
    "Trainer",
    "Training",
    "TreePenalty",
    "Validated",
    "backward",
    "evaluate",
    "evaluate_labels",
    "join",
    "label_loss",
    "predict_labels",
    "read_truncation",
    "roll",
    "score_paths",
    "weighted_nll",
    "weighted_square",
]
