"""Cells as equations: the notation, the graph, and a catalogue with one file for each cell."""
