"""The fused engine: kernels generated from a cell's graph, the whole sequence in one call, forward and backward.

`adjoint` derives the backward equations, `stages` decides what is computed when and what is kept, `cpp` writes it as C++
(around `products.hpp` and `runtime.hpp`),
`build` compiles and caches, `engine` runs it.
"""
