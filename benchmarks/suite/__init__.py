"""The regression suite: `make bench`, or `python -m pytest -p benchmarks.measure benchmarks/suite`."""
