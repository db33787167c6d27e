"""What is for learning: back-propagation through time by hand, the scalar case, linear regions."""
