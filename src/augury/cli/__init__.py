"""The command line; nothing heavy is imported before a command needs it."""

import argparse
import os
import sys
from collections.abc import Sequence

from augury import __version__


def count(text: str) -> int:
    """An option that must be a whole number of at least 1."""
    number = int(text) if text.strip().isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1; got {text}")
    return number


def parser() -> argparse.ArgumentParser:
    """The arguments of every command."""
    top = argparse.ArgumentParser(
        prog="augury", description="Find the best input of expensive black-box functions."
    )
    top.add_argument("--version", action="version", version=f"augury {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")

    demo = commands.add_parser("demo", help="optimize a 6-dimensional function and plot the run")
    demo.add_argument("--budget", type=int, default=60, help="evaluations (default: 60)")
    demo.add_argument("--algorithm", default="auto", help="a name of `augury algorithms`")
    demo.add_argument("--seed", type=int, default=0, help="decides the whole run (default: 0)")
    demo.add_argument("--plot", default="augury-demo.html", help="file for the plot, .html or .png")

    commands.add_parser("algorithms", help="list the algorithms")

    run = commands.add_parser("run", help="optimize any function or program, as a TOML file describes it")
    run.add_argument("spec", metavar="SPEC.toml", help="what docs/cli.md describes")
    show = commands.add_parser("show", help="the best point and all trials of a study")
    show.add_argument("storage", help="a path or a URL")
    show.add_argument("--name", help="of the study, if the storage has several")
    show.add_argument("--export", metavar="FILE", help="write all trials to a .csv or .json file")
    show.add_argument("--last", type=count, default=20, help="so many trials are listed (default: 20)")
    dashboard = commands.add_parser("dashboard", help="a storage's studies, in a browser")
    dashboard.add_argument("storage", help="a path or a URL")
    dashboard.add_argument("--host", default="127.0.0.1", help="address (default: this machine only)")
    dashboard.add_argument("--port", type=int, default=8080, help="0 is any free one (default: 8080)")

    bench = commands.add_parser("bench", help="the papers' experiments").add_subparsers(
        dest="bench", required=True, metavar="what"
    )
    listing = bench.add_parser("list", help="list the experiments, or the problems")
    listing.add_argument("--problems", action="store_true", help="list the problems")
    run = bench.add_parser("run", help="run experiments, or what is left of them")
    run.add_argument("names", nargs="+", metavar="name", help="a name of `augury bench list`")
    run.add_argument("--quick", action="store_true", help="the small variant, which takes minutes")
    run.add_argument("--workers", type=count, help="processes (default: one per core)")
    run.add_argument("--repeats", type=count, help="other than the experiment's")
    run.add_argument("--results", default="results", help="folder for results (default: results)")
    run.add_argument(
        "--methods", nargs="+", metavar="method", help="only these (default: the experiment's)"
    )
    run.add_argument(
        "--peers", nargs="*", metavar="peer", help="run other libraries beside (default: all of them)"
    )
    run.add_argument(
        "--device",
        choices=("cpu", "gpu"),
        default="cpu",
        help="for our own methods, and turbo (default: cpu)",
    )
    report = bench.add_parser("report", help="write results as an HTML and a Markdown page")
    report.add_argument(
        "names", nargs="*", metavar="name", help="experiments (default: all with results)"
    )
    report.add_argument("--quick", action="store_true", help="of the small variants")
    report.add_argument("--results", default="results", help="folder of results (default: results)")
    report.add_argument("--out", help="path of the pages without .html and .md (default: RESULTS/report)")
    for command in (listing, run, report):
        command.add_argument("--experiments", default="experiments", help="folder of TOML files")
    return top


def _bench(options: argparse.Namespace) -> int:
    from pathlib import Path

    from augury.cli import bench

    if options.bench == "run":
        folders = Path(options.experiments), Path(options.results)
        failures = bench.run(
            options.names,
            *folders,
            quick=options.quick,
            workers=options.workers,
            repeats=options.repeats,
            methods=options.methods,
            peers=options.peers,
            device=options.device,
        )
        return int(failures > 0)
    if options.bench == "report":
        from augury.cli.report import report

        folders = Path(options.experiments), Path(options.results)
        out = Path(options.out) if options.out else folders[1] / "report"
        return report(options.names, *folders, out, quick=options.quick)
    if options.problems:
        bench.list_problems()
    else:
        bench.list_experiments(Path(options.experiments))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status: 1 where runs failed, 2 for what the user must correct."""
    options = parser().parse_args(arguments)
    # Augury computes on the CPU: without this, JAX would also start, and reserve, an accelerator.
    if getattr(options, "device", "cpu") == "cpu":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    else:
        os.environ.setdefault("JAX_PLATFORMS", "")  # all there are, also in the workers,
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # which share its memory
    from augury._errors import AuguryError

    try:
        if options.command == "demo":
            from augury.cli.demo import demo

            demo(options.budget, options.algorithm, options.seed, options.plot)
        elif options.command == "algorithms":
            from augury.cli.tables import print_algorithms

            print_algorithms()
        elif options.command == "run":
            from pathlib import Path

            from augury.cli.run import run_spec

            return run_spec(Path(options.spec))
        elif options.command == "show":
            from augury.cli.show import show

            show(options.storage, options.name, options.last, options.export)
        elif options.command == "dashboard":
            from augury.cli.dashboard import dashboard

            dashboard(options.storage, options.host, options.port)
        else:
            return _bench(options)
    except AuguryError as error:
        print(f"augury: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if options.command == "dashboard":
            return 0
        running = options.command == "bench" and options.bench == "run"
        more = "; the same command continues after the last finished evaluation" if running else ""
        print(f"augury: interrupted{more}.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
