"""`python -m benchmarks`: all benchmarks of speed, one after the other, each in a process of its own.

`--write-doc` shows the last results again and puts them into docs/speed.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

TITLES = {
    "suggest": "Seconds per suggestion, beside BoTorch and Optuna",
    "growth": "Time and memory by observations, parameters and batch, beside peers",
    "cold": "Imports, first suggestion, compilations",
}


def main() -> None:
    """Run the benchmarks, or show their results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Benchmarks of speed.")
    parser.add_argument("--peers", default=".venv-peers/bin/python", help="has BoTorch and Optuna")
    parser.add_argument("--table", action="store_true", help="print the last results and stop")
    parser.add_argument("--write-doc", action="store_true", help="put the results into docs/speed.md")
    arguments = parser.parse_args()
    interpreters = ["--python", sys.executable, "--peers", arguments.peers]
    for name, title in TITLES.items():
        options = interpreters
        if arguments.table:
            options = ["--table"]
        if arguments.write_doc:
            options = ["--write-doc"]
        print(f"\n## {title}\n", flush=True)
        script = Path(__file__).with_name(f"{name}.py")
        subprocess.run([sys.executable, str(script), *options], check=True)


if __name__ == "__main__":
    main()
