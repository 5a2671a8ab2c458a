"""Benchmarks: problems, experiments, a resumable runner, statistics and reports."""
