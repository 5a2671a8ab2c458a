"""Everything that the documentation shows is run, or at least read by what would run it."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import augury
from augury import executors, maximizers, plots, policies, surrogates
from augury.algorithm import resolve
from augury.cli import parser
from augury.cli.spec import read_spec

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
ELSEWHERE = ("clusters.md",)  # run by test_clusters.py
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(DOCS / page for page in PAGES)]


class Block(NamedTuple):
    """A fenced block of a page: its language, its text and its line."""

    language: str
    text: str
    line: int


def blocks(path: Path, language: str) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    fence = r"^```(\w*)\n(.*?)^```$"
    found = []
    for match in re.finditer(fence, text, re.DOTALL | re.MULTILINE):
        kind, inside = match.groups()
        line = text[: match.start(2)].count("\n")
        found.append(Block(kind, inside, line))
    return [block for block in found if block.language == language]


def run(path: Path, block: Block, names: dict) -> None:
    """Errors name the page and its line."""
    exec(compile("\n" * block.line + block.text, str(path), "exec"), names)


@pytest.mark.parametrize(
    "page", sorted({page for page in PAGES if blocks(DOCS / page, "python")} - {*ELSEWHERE})
)
def test_the_code_of_a_page_runs_and_prints_what_it_says(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, names = DOCS / page, {"__name__": "__main__"}
    promised = {block.line: block.text for block in blocks(path, "text")}
    for block in blocks(path, "python"):
        run(path, block, names)
        said = capsys.readouterr().out
        after = block.line + block.text.count("\n") + 3  # the line of a block right after it
        assert promised.get(after, said) == said
    if page == "batches.md":
        assert len(names["opt"].trials) == 11
    if page == "studies.md":
        assert len(names["study"].trials) == 20
        assert "GaussianProcess" in names["why"]["chosen"]


def commands(document: Path) -> list[str]:
    """Lines of shell blocks and of indented ones."""
    text = document.read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = [line for block in blocks(document, "sh") for line in block.text.splitlines()]
    return fenced + [line.strip() for line in text.splitlines() if line.startswith("    ")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_of_a_document_exist(document):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in commands(document):
        words = shlex.split(line, comments=True) if re.match(r"(augury|make|python) ", line) else [""]
        if words[0] == "augury":
            parser().parse_args(words[1:])
        elif words[0] == "make":
            assert words[1] in targets, line
    text = document.read_text(encoding="utf-8")
    for script in re.findall(r"\bbenchmarks/\w+\.(?:py|json)\b", text):
        assert (ROOT / script).exists() or script.endswith("json"), script


def test_shell_scripts_can_be_read():
    for document in DOCUMENTS:
        for block in blocks(document, "sh"):
            subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)


def test_specs_can_be_read(tmp_path):
    specs = [block.text for document in DOCUMENTS for block in blocks(document, "toml")]
    assert specs
    for text in specs:
        (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
        assert read_spec(tmp_path / "spec.toml").budget > 0


def test_documents_link_to_files_that_exist():
    for document in DOCUMENTS:
        for target in re.findall(r"\]\((?!http)([^)#\s]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_page_has_a_place_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"- (?:[^:\n]+: )?([\w/-]+\.md)$", nav, re.MULTILINE)
    assert sorted(listed) == sorted([*PAGES, "contributing.md", "changelog.md"])


def test_the_table_of_algorithms_has_every_algorithm_once():
    text = (DOCS / "algorithms.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \|", text.partition("## All of them")[2], re.MULTILINE)
    assert rows == list(augury.algorithms())


def test_the_table_of_algorithms_says_which_take_a_cnn_on_images():
    text = (DOCS / "algorithms.md").read_text(encoding="utf-8").partition("## All of them")[2]
    images = augury.Pool(np.random.default_rng(0).random((4, 6, 6)))
    for name in augury.algorithms():
        process = getattr(resolve(name).on(images).surrogate, "process", None)
        said = re.search(rf"^\| `{name}` \|(?:[^|]*\|){{3}} ([^|]*) \|", text, re.MULTILINE)
        assert (said[1] == "CNN, MLP") == isinstance(getattr(process, "network", None), surrogates.CNN)


def test_the_table_of_algorithms_has_the_seconds_that_were_measured_last():
    rows = json.loads((ROOT / "benchmarks/results/neural.json").read_text(encoding="utf-8"))["rows"]
    of = {(row["algorithm"], row["observations"], row["batch"]): row["seconds"] for row in rows}
    page = (DOCS / "algorithms.md").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    one, image = of["sto-bnts", 500, 1], of["images", 100, 1]
    assert f"| {one:.1f} s at 500 ᶜ; images: {image:.0f} s at 100 ᶜ |" in page
    assert f"| {of['sto-bnts-linear', 2000, 1]:.1f} s at 2000 ᶜ |" in page
    assert f"`sto-bnts` takes {of['sto-bnts', 2000, 4]:.0f} s for a batch of 4" in page


def test_what_is_said_of_thousands_of_evaluations_was_measured_last():
    results = ROOT / "benchmarks/results/neural_growth.json"
    rows = json.loads(results.read_text(encoding="utf-8"))["rows"]
    of = {(row["algorithm"], row["observations"]): row for row in rows}
    page, paper = (
        (DOCS / name).read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
        for name in ("algorithms.md", "papers/neural-bo.md")
    )
    for name in ("neural-bo", "gp-ts"):
        few, many = (of[name, n]["seconds"] for n in (2000, 6000))
        row = re.search(rf"^\| `{name}` .*$", page, re.MULTILINE)
        assert f"| {few:.1f} s at 2000, {many:.1f} s at 6000 ᵈ |" in row[0]
    ahead = [
        n for name, n in of if name == "gp-ts" and of["neural-bo", n]["seconds"] < of[name, n]["seconds"]
    ]
    assert f"`neural-bo` needs less time from {min(ahead)} on" in page
    neural, process = of["neural-bo", 6000], of["gp-ts", 6000]
    assert f"takes {neural['seconds']:.1f} s, of `gp-ts` {process['seconds']:.1f} s" in paper
    assert f"learns the settings anew, {neural['learning']:.1f} s" in paper


def test_the_reference_has_every_public_name():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^::: augury[\w.]*\.(\w+)$", text, re.MULTILINE))
    modules = (surrogates, policies, maximizers, plots, executors)
    names = {*augury.__all__, *(name for module in modules for name in module.__all__)}
    assert names - {"Domain", "executors", "plots"} <= listed  # Domain is Space | Pool
    for module in modules:
        assert module.__name__ in text


def test_there_are_answers_to_at_least_twenty_questions():
    text = (DOCS / "faq.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^### .*\?$", text, re.MULTILINE)) >= 20
