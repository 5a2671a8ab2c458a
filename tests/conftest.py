"""The order of the test files: those that take longest come first, and no process waits at the end."""

from pathlib import Path

LONGEST = (
    "algorithms", "sample_then_optimize", "ordeal", "training", "clusters", "batch_policies", "tangent",
    "ensemble", "bench_runner", "studies", "neural_tangent", "ntk_process", "neural_linear", "ntk",
    "empirical_process", "search_cv", "sampler", "cli_run", "docs", "bench_automl", "optimizer",
    "executors", "plots", "replay",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    rank = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(Path(item.path).stem, len(rank)))
