"""The method in float64 NumPy and plain Python: one function a formula, independent of the engine."""
