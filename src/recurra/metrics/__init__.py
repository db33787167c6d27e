"""Scores of predictions: ROC AUC, edit distance, BLEU. They need nothing but numbers."""
