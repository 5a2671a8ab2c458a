"""The order of the test files: those that take longest come first, and no process waits at the end."""

import signal
from pathlib import Path

# What is started in the background, by nohup for example, ignores interrupts, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = (
    "algorithms", "ordeal", "clusters", "sample_then_optimize", "training", "batch_policies",
    "neural_tangent", "bench_runner", "tangent", "ntk_process", "search_cv", "sampler", "studies",
    "leases", "ntk", "empirical_process", "ensemble", "neural_linear", "replay", "tangent_process",
    "executors", "cli_run", "tangent_posterior", "forest", "docs", "optimizer", "plots", "linalg",
    "descent", "design", "images", "bench_automl", "cli", "bad_networks", "networks",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    rank = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(Path(item.path).stem, len(rank)))
