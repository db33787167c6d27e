"""Ways to run a cell through time. Each agrees with `eager`, outputs and all gradients."""
