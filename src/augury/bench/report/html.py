"""The report as one self-contained HTML page, which loads nothing."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from augury.bench.report import claims, sentences, tables
from augury.bench.report.model import Chart, ExperimentReport, ProblemReport, Table
from augury.bench.report.overall import overall
from augury.bench.report.rank_diagram import rank_diagram
from augury.bench.report.svg import Style, draw, styles

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
NUMBER = re.compile(r"[\d–∞(+−<]|not reached")


def page(reports: Sequence[ExperimentReport]) -> str:
    """The whole page."""
    here = files("augury.bench.report")
    style, script = (here.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<title>Augury: benchmark report</title>",
            f"<style>\n{style}</style>",
            "</head>",
            "<body>",
            "<header>",
            "<h1>Augury: benchmark report</h1>",
            f'<p class="soft">{escape(sentences.subtitle(reports))}</p>',
            "</header>",
            *_contents(reports),
            "<main>",
            *_together(reports),
            *(part for report in reports for part in _experiment(report)),
            "</main>",
            f"<script>\n{script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _together(reports: Sequence[ExperimentReport]) -> Iterator[str]:
    together = overall(reports)
    if together is None:
        return
    yield "<section>"
    yield "<h2>All experiments together</h2>"
    yield '<ul class="says">'
    yield from (f"<li>{text(sentence)}</li>" for sentence in together.sentences)
    yield "</ul>"
    yield f'<div class="scroll" tabindex="0">{rank_diagram(together.ranks)}</div>'
    note = f"{tables.rank_note(together.ranks)} Bars join methods that cannot be told apart."
    yield f'<p class="note">{text(note)}</p>'
    yield from map(_table, together.tables)
    yield "</section>"


def _contents(reports: Sequence[ExperimentReport]) -> Iterator[str]:
    yield "<nav><ul>"
    for report in reports:
        total = report.used + report.missing
        yield (
            f'<li><a href="#{_anchor(report)}">{escape(report.title)}</a>'
            f'<span class="soft">{report.used} of {total} runs</span></li>'
        )
    yield "</ul></nav>"


def _anchor(report: ExperimentReport) -> str:
    return re.sub(r"[^\w-]", "-", report.name)


def _experiment(report: ExperimentReport) -> Iterator[str]:
    style = styles(report.names)
    numbers = {name: number for number, name in enumerate(report.names)}
    yield f'<section id="{_anchor(report)}">'
    yield f"<h2>{escape(report.title)}</h2>"
    yield f'<p class="soft">{escape(report.paper)} · <code>{escape(report.name)}</code></p>'
    yield '<ul class="says">'
    yield from (f"<li>{text(sentence)}</li>" for sentence in report.sentences)
    yield "</ul>"
    missing = tables.not_available(report)
    if missing:
        yield f'<p class="note">{text(missing)}</p>'
    yield "<details><summary>What was run</summary><dl>"
    yield from (f"<dt>{escape(term)}</dt><dd>{escape(value)}</dd>" for term, value in report.facts)
    yield "</dl>"
    yield f"<p>{escape(report.note)}</p></details>" if report.note else "</details>"
    yield from _over_problems(report, style, numbers)
    if report.detailed:
        for problem in report.problems:
            yield from _problem(problem, report, style, numbers)
    else:
        yield f"<h3>{len(report.problems)} problems</h3>"
        yield _table(tables.matrix(report))
    yield "</section>"


def _over_problems(
    report: ExperimentReport, style: dict[str, Style], numbers: dict[str, int]
) -> Iterator[str]:
    if report.ranks is not None:
        yield "<h3>Over all problems</h3>"
        yield f'<div class="scroll" tabindex="0">{rank_diagram(report.ranks)}</div>'
        note = f"{tables.rank_note(report.ranks)} Bars join methods that cannot be told apart."
        yield f'<p class="note">{text(note)}</p>'
    if report.against is not None:
        yield _table(report.against)
    if report.charts:
        yield _legend(report.names, style, numbers)
        yield _charts(report.charts, style, numbers)
    if report.claims:
        yield "<h3>What the paper says</h3>"
        for claim in report.claims:
            yield f'<p class="claim">{claims.introduction(claim)}: {text(claim.text)}.</p>'
            yield _table(tables.claim(claim)) if claim.known else "<p>There are no results yet.</p>"
        yield f'<p class="note">{text(tables.CLAIM_NOTE)}</p>'
    if report.published or report.tests or report.also_printed:
        yield "<h3>What the paper prints</h3>"
        yield f'<p class="note">{text(report.quantity)}</p>' if report.quantity else ""
    if report.published:
        yield from map(_table, tables.published(report.published))
    if report.tests:
        yield _table(tables.paper_tests(report.tests))
    if report.also_printed:
        facts = escape("; of ".join(report.also_printed))
        yield f'<p class="note">The paper also prints, of {facts}.</p>'


def _problem(
    problem: ProblemReport, report: ExperimentReport, style: dict[str, Style], numbers: dict[str, int]
) -> Iterator[str]:
    yield f"<h3><code>{escape(problem.label)}</code></h3>"
    yield from (f"<p>{text(sentence)}</p>" for sentence in problem.sentences)
    yield f'<p class="note">{text(problem.remark)}</p>'
    yield _table(tables.results(problem, report))
    yield _legend([row.name for row in problem.rows], style, numbers)
    yield _charts(problem.charts, style, numbers)
    for table in problem.settings:
        yield f"<details><summary>{text(table.title)}</summary>{_table(table, title=False)}</details>"
    tests = tables.tests(problem)
    if tests is not None:
        yield f"<details><summary>{text(tests.title)}</summary>{_table(tests, title=False)}</details>"


def _legend(names: Sequence[str], style: dict[str, Style], numbers: dict[str, int]) -> str:
    keys = (
        f'<button type="button" class="key" aria-pressed="true" data-m="{numbers[name]}">'
        f'<svg viewBox="0 0 26 8" aria-hidden="true"><path class="l c{style[name][0]} d{style[name][1]}" '
        f'd="M0 4H26"/></svg>{escape(name)}</button>'
        for name in names
    )
    return f'<div class="legend">{"".join(keys)}</div>'


def _charts(charts: Sequence[Chart], style: dict[str, Style], numbers: dict[str, int]) -> str:
    figures = []
    for chart in charts:
        remarks = ", ".join(filter(None, [chart.band, "logarithmic axis" if chart.log else ""]))
        caption = escape(chart.title) + (f" <span>({escape(remarks)})</span>" if remarks else "")
        figures.append(
            f"<figure><figcaption>{caption}</figcaption>{draw(chart, style, numbers)}</figure>"
        )
    return f'<div class="charts">{"".join(figures)}</div>'


def _table(table: Table, *, title: bool = True) -> str:
    words = [_words(table, column) for column in range(len(table.columns))]
    head = "".join(_cell("th", name, words[j], ' scope="col"') for j, name in enumerate(table.columns))
    rows = []
    for i, row in enumerate(table.rows):
        first, *others = row
        cells = [f'<th scope="row">{_stressed(text(first), (i, 0) in table.best)}</th>']
        for j, cell in enumerate(others, start=1):
            cells.append(_cell("td", cell, words[j], stressed=(i, j) in table.best))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    caption = f"<caption>{text(table.title)}</caption>" if table.title and title else ""
    note = f'<p class="note">{text(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll" tabindex="0"><table>{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{note}"
    )


def _words(table: Table, column: int) -> bool:
    """Whether a column holds words, which stand on the left, and not numbers."""
    return any(row[column] and not NUMBER.match(row[column]) for row in table.rows)


def _cell(tag: str, content: str, words: bool, attributes: str = "", *, stressed: bool = False) -> str:
    kind = ' class="words"' if words else ""
    return f"<{tag}{kind}{attributes}>{_stressed(text(content), stressed)}</{tag}>"


def _stressed(content: str, stressed: bool) -> str:
    return f"<b>{content}</b>" if stressed else content


def text(sentence: str) -> str:
    """A sentence with its names as code."""
    parts = sentence.split("`")
    return "".join(
        f"<code>{escape(part)}</code>" if place % 2 else escape(part) for place, part in enumerate(parts)
    )
