"""Finite machines in networks: read off visited states, learned by asking, or from the attractors in which a network rests."""
