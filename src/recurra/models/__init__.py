"""Models: what is fitted to data, from counting to networks."""
