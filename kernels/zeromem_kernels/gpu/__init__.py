"""Triton forms, for CUDA tensors. Nothing here is imported where triton is not installed.

Each file holds the jit kernels of one operation and their launchers. Kernels follow one set of names:
`i_` a program's index, `o_` offsets, `m_` masks, `b_` blocks of values. Sums keep an order that depends on the
bank alone, never on the columns beside a query: sums over rows run through `blocks.fold`, not `tl.sum`,
whose order follows the compiler's layout and so the width.
"""
