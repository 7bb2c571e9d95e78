"""The steps of `benchmarks/gpu.py`, one file each: correctness first, then times."""
