"""Array operations of Zero-Mem retrieval: tensors in, tensors out; nothing here knows what a memory is.

Every score matrix is a stack of *tiles*. A tile is one bank together with up to `width` of its
queries; tile t of an axis with n rows occupies n consecutive rows of a `[rows, width]` matrix (see
`tiles.py`). Each operation has a torch form for any device and, for CPU tensors, a compiled form that is
used when numba is installed; PageRank, activation, the reset vector, top-k, fusion, the pooling of encoded
texts and sums over tables that have slices have Triton forms (`gpu/`) that CUDA tensors take. All return
the same values (tests hold them against float64 references).
"""
