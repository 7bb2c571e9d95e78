"""Evaluation on public benchmarks: data sets, metrics, the runner and its reports."""
