"""`augury bench report`: the results of experiments as two pages."""

from collections.abc import Sequence
from pathlib import Path

from augury._errors import StorageError
from augury.bench.experiment_files import read_experiment
from augury.bench.peers import PEERS
from augury.bench.records import read_runs
from augury.bench.report import html, markdown
from augury.bench.report.gathering import build_report
from augury.bench.report.model import ExperimentReport
from augury.cli.bench import known_experiments, with_peers


def report(names: Sequence[str], experiments: Path, results: Path, out: Path, *, quick: bool) -> int:
    """Write the pages of some experiments, or of all that have results; the exit status."""
    found = known_experiments(experiments, names)
    reports = []
    for name in names or found:
        whole = read_experiment(found[name])
        experiment = read_experiment(found[name], quick=True) if quick else whole
        records = read_runs(results, experiment)
        peers = {record["method"] for record in records} & set(PEERS)
        experiment = with_peers(experiment, peers)
        gathered = build_report(experiment, records, whole if quick else None) if records else None
        if gathered is not None and gathered.used:
            reports.append(gathered)
            print(_line(gathered))
        elif names or gathered is not None:
            what = f"{gathered.others} runs with other settings only" if gathered else "no results"
            print(f"{experiment.name}: {what} in {results}. augury bench run {name} makes them.")
    if not reports:
        print(f"No results in {results}, so no report. augury bench run makes some.")
        return 1
    pages = {".html": html.page(reports), ".md": markdown.page(reports, curves=f"{out.name}.html")}
    for suffix, content in pages.items():
        path = out.with_name(out.name + suffix)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"{path} must be a file that can be written; got: {error.strerror}. "
                "Name another with --out."
            ) from error
        print(path)
    return 0


def _line(gathered: ExperimentReport) -> str:
    text = f"{gathered.name}: {gathered.used} runs used, {gathered.missing} missing"
    if gathered.others:
        text += f", {gathered.others} made with other settings and not used"
    return f"{text}, {len(gathered.unavailable)} methods not available" if gathered.unavailable else text
