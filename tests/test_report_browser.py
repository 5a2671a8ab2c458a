"""The report in a real browser: it renders, the plots show, nothing complains, nothing is loaded."""

import numpy as np
import pytest

from augury.bench.experiment import Claim, Task
from augury.bench.report import html
from augury.bench.report.gathering import build_report
from chromium import browser
from made_up import experiment, record

PROBLEMS = ("branin", "hartmann-3", "levy-5")
METHODS = ("good", "good (code)", "plain", "random")


@pytest.fixture(scope="module")
def tab():
    with browser() as page:
        yield page


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    rng = np.random.default_rng(0)
    decay = {name: rate for rate, name in enumerate(reversed(METHODS))}
    records = [
        record(p, n, seed, (rng.exponential(5.0, 40) * np.exp(-decay[n] * np.arange(40) / 20)).tolist())
        for p in PROBLEMS
        for n in METHODS
        for seed in range(4)
    ]
    made = experiment(
        *METHODS,
        tasks=tuple(Task(p, 2, 38) for p in PROBLEMS),
        repeats=4,
        note="A note.",
        claims=(Claim("good beats random", "good", ("random", "plain"), "cumulative regret"),),
        published={"good": {"mean": 20.0, "deviation": 3.0}},
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html.page([build_report(made, records)]), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(tab, address):
    tab.view(1280, 900)
    tab.open(address)
    return tab


def test_nothing_complains_and_nothing_is_loaded_but_the_page(page, address):
    assert page.complaints == []
    assert page.requests == [address]


def test_the_browser_would_tell_of_errors_and_requests(tab, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<img src='http://127.0.0.1:9/x.png'><script>console.error('no'); missing()</script>",
        encoding="utf-8",
    )
    tab.open(bad.as_uri())
    assert "http://127.0.0.1:9/x.png" in tab.requests
    assert len(tab.complaints) >= 2


def test_the_text_and_the_tables_are_there(page):
    assert page.evaluate("document.title") == "Augury: benchmark report"
    text = page.evaluate("document.body.innerText")
    assert "A made-up experiment" in text
    assert "The paper says: good beats random." in text
    rows = page.evaluate("[...document.querySelectorAll('h3 + p + p + .scroll tbody tr')].length")
    assert rows == len(PROBLEMS) * len(METHODS)


def test_every_plot_shows_its_lines(page):
    charts = page.evaluate(
        """[...document.querySelectorAll('svg.chart')].map(svg => ({
             box: [svg.getBoundingClientRect().width, svg.getBoundingClientRect().height],
             lengths: [...svg.querySelectorAll('path.l')].map(path => path.getTotalLength()),
             colours: [...svg.querySelectorAll('path.l')].map(path => getComputedStyle(path).stroke),
             inside: [...svg.querySelectorAll('path.l, path.b, text')].every(part => {
               const a = part.getBoundingClientRect(), b = svg.getBoundingClientRect();
               return a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1
                 && a.bottom <= b.bottom + 1 && a.width > 0;
             }),
           }))"""
    )
    assert len(charts) == 4 * len(PROBLEMS)  # two regrets, seconds, memory
    for chart in charts:
        assert min(chart["box"]) > 150
        assert len(chart["lengths"]) == len(METHODS)
        assert min(chart["lengths"]) > 100
        assert "none" not in chart["colours"]
        assert len(set(chart["colours"])) == 3  # variants share theirs
        assert chart["inside"]
    diagram = page.evaluate(
        "[...document.querySelectorAll('svg.ranks text')].map(t => t.getBoundingClientRect().width)"
    )
    assert min(diagram) > 0


def test_a_key_hides_and_shows_the_lines_of_its_method(page):
    hidden = "[...document.querySelectorAll('.chart .gone')].map(line => line.dataset.m)"
    press = "document.querySelectorAll('.key')[1].click()"
    page.evaluate(press)
    found = page.evaluate(hidden)
    assert set(found) == {"1"}
    assert len(found) >= 4 * len(PROBLEMS)
    assert page.evaluate("document.querySelectorAll('.key[aria-pressed=false]').length") == 3
    page.evaluate(press)
    assert page.evaluate(hidden) == []


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_its_window_and_wide_tables_scroll(page, width):
    page.view(width, 900)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('.scroll')].some(box => box.scrollWidth > box.clientWidth)"
    assert page.evaluate(wide) == (width == 400)


def test_the_dark_scheme_has_a_dark_page_and_readable_text(page):
    look = (
        "['color', 'backgroundColor'].map(k => getComputedStyle(document.body)[k]"
        ".match(/\\d+/g).reduce((sum, part) => sum + Number(part), 0))"
    )
    ink, paper = page.evaluate(look)
    assert paper - ink > 500
    page.view(1280, 900, dark=True)
    ink, paper = page.evaluate(look)
    assert ink - paper > 500
