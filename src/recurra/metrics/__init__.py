"""Scores of predictions: ROC AUC, edit distance, BLEU, confusion. They need nothing but numbers."""

from recurra.metrics.confusion import Confusion
from recurra.metrics.forecast import Forecast
from recurra.metrics.matching import bleu, edit_distance, exact_match
from recurra.metrics.roc_auc import auc

__all__ = [
    "Confusion",
    "Forecast",
    "auc",
    "bleu",
    "edit_distance",
    "exact_match",
]
