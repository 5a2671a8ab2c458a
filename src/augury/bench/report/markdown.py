"""The report as one Markdown page, which reads well as it is."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from augury.bench.report import sentences, tables
from augury.bench.report.model import ExperimentReport, ProblemReport, Table
from augury.bench.report.overall import overall

SPECIAL = re.compile(r"([\\*_<>\[\]#|])")


def page(reports: Sequence[ExperimentReport], curves: str = "") -> str:
    """The whole page; `curves` is the HTML page beside it."""
    lines = ["# Augury: benchmark report", "", sentences.subtitle(reports)]
    if curves:
        lines += ["", f"The curves are in [{text(curves)}]({curves})."]
    together = overall(reports)
    if together is not None:
        lines += ["", "## All experiments together", ""]
        lines += [f"- {text(sentence)}" for sentence in together.sentences]
        for table in (tables.ranks(together.ranks), *together.tables):
            lines += ["", *_table(table)]
    for report in reports:
        lines += ["", *_experiment(report)]
    return "\n".join(lines) + "\n"


def _experiment(report: ExperimentReport) -> Iterator[str]:
    yield f"## {text(report.title)}"
    yield ""
    yield f"{text(report.paper)} · `{report.name}` · {report.used} of {report.used + report.missing} runs"
    yield ""
    yield from (f"- {text(sentence)}" for sentence in report.sentences)
    missing = tables.not_available(report)
    if missing:
        yield from ("", text(missing))
    yield ""
    yield from (f"- {text(term)}: {text(value)}" for term, value in report.facts)
    if report.note:
        yield from ("", f"> {text(report.note)}")
    for table in _over_problems(report):
        yield from ("", *_table(table))
    if report.quantity:
        yield from ("", text(report.quantity))
    if report.also_printed:
        yield from ("", f"The paper also prints, of {text('; of '.join(report.also_printed))}.")
    if report.detailed:
        for problem in report.problems:
            yield from ("", *_problem(problem, report))
    else:
        yield from ("", *_table(tables.matrix(report)))


def _over_problems(report: ExperimentReport) -> Iterator[Table]:
    if report.ranks is not None:
        yield tables.ranks(report.ranks)
    if report.against is not None:
        yield report.against
    yield from (tables.chart(chart) for chart in report.charts if chart.lines)
    known = [claim for claim in report.claims if claim.known]
    for number, claim in enumerate(known, start=1):
        note = tables.CLAIM_NOTE if number == len(known) else ""
        yield replace(tables.claim(claim), note=note)
    if report.published:
        yield from tables.published(report.published)
    if report.tests:
        yield tables.paper_tests(report.tests)


def _problem(problem: ProblemReport, report: ExperimentReport) -> Iterator[str]:
    yield f"### {text(problem.label)}"
    yield ""
    yield " ".join(map(text, (*problem.sentences, problem.remark)))
    optional = (tables.progress(problem), *problem.settings, tables.tests(problem))
    for table in (tables.results(problem, report), *optional):
        if table is not None:
            yield from ("", *_table(table))


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield from (f"{text(table.title)}:", "")
    yield f"| {' | '.join(text(name) for name in table.columns)} |"
    yield f"|---|{'---:|' * (len(table.columns) - 1)}"
    for i, row in enumerate(table.rows):
        cells = (f"**{text(c)}**" if (i, j) in table.best else text(c) for j, c in enumerate(row))
        yield f"| {' | '.join(cells)} |"
    if table.note:
        yield from ("", text(table.note))


def text(sentence: str) -> str:
    """A sentence without accidental markup; names stay code, in which only the bar needs care."""
    parts = sentence.split("`")
    return "`".join(
        part.replace("|", "\\|") if place % 2 else SPECIAL.sub(r"\\\1", part)
        for place, part in enumerate(parts)
    )
