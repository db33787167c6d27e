"""The run folder: recipe, vocabulary, metrics and checkpoints, written so that a kill at any moment loses nothing."""
