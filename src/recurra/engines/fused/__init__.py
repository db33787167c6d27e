"""The fused engine: kernels generated from a cell's graph, the whole sequence in one call, forward and backward.

`stages` plans a step: it folds constants (`constant_folding`), derives the backward equations (`adjoint`) and divides
both into passes. `statements` lowers a pass to the one form that three printers print: `cpp` (around `sequence.hpp`),
`cuda` (around `steps.cuh`) and `triton`; `gpu_kernel` is what the latter two share, `tiles` and `budget` decide between
them. `build` and `nvrtc` compile and cache; `engine` and `gpu` run.
"""
