"""The engine behind other front ends' calls, beside what is there else: `python -m benchmarks.compat`."""
