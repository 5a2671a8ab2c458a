"""Made-up results of made-up experiments, for the tests of the report."""

from augury.bench.experiment import Experiment, Method, Task

TASK = Task("branin", 2, 3)


def method(name, **settings):
    return Method(name, {"algorithm": "random"}, name, **settings)


def experiment(*methods, tasks=(TASK,), metric="cumulative regret", repeats=3, **more):
    listed = tuple(m if isinstance(m, Method) else method(m) for m in methods)
    return Experiment("made-up", "none", "A made-up experiment", metric, repeats, tasks, listed, **more)


def record(problem, name, seed, values, *, initial=2, batch=1, **more):
    """A line of results as the runner writes it; the optimum is 0, to be minimized."""
    suggestions = len(values) - initial
    stretches = range(min(20, suggestions))
    return {
        "key": f"{problem}/{name}/{seed}",
        "problem": problem,
        "method": name,
        "seed": seed,
        "initial": initial,
        "batch": batch,
        "values": list(values),
        "points": 0,
        "best": {"x1": 0.0, "x2": 0.0},
        "suggestions": suggestions,
        "seconds": [0.1 * (i + 1) for i in stretches],
        "peak_mib": 100 + seed,
        "memory": [100 + i for i in stretches],
        "direction": "minimize",
        "optimum": 0.0,
        "exact": True,
        "versions": {"augury": "0.1.0"},
        "commit": "abc",
        **more,
    }
