"""Training: back-propagation through time, by hand and by autograd."""
