"""The engine beside its peers on the same data, machine and run: `python -m benchmarks.peers`."""
