"""The command line; nothing heavy is imported before a command needs it."""

import argparse
import os
import sys
from collections.abc import Sequence

from augury import __version__


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
    demo.add_argument("--plot", default="augury-demo.png", help="file for the plot")

    commands.add_parser("algorithms", help="list the algorithms")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    options = parser().parse_args(arguments)
    # Augury computes on the CPU: without this, JAX would also start, and reserve, an accelerator.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from augury._errors import AuguryError

    try:
        if options.command == "demo":
            from augury.cli.demo import demo

            demo(options.budget, options.algorithm, options.seed, options.plot)
        else:
            from augury.cli.tables import print_algorithms

            print_algorithms()
    except AuguryError as error:
        print(f"augury: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
