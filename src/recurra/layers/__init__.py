"""Layers of any cell: stacked, in both directions, with lengths and explicit state."""
