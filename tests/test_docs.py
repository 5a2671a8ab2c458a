"""Everything that the documentation shows is run, or at least read by what would run it."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path
from typing import NamedTuple

import pytest

import augury
from augury import maximizers, policies, surrogates
from augury.cli import parser
from augury.cli.spec import read_spec

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(DOCS / page for page in PAGES)]
HERE = importlib.util.find_spec("augury.executors.clusters") is not None


class Block(NamedTuple):
    """A fenced block of a page: its language, its text, its line, and what a comment before it says."""

    language: str
    text: str
    line: int
    cluster: str | None


def blocks(path: Path, language: str) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    fence = r"^(?:<!-- cluster: ([\w-]+) -->\n)?```(\w*)\n(.*?)^```$"
    found = []
    for match in re.finditer(fence, text, re.DOTALL | re.MULTILINE):
        cluster, kind, inside = match.groups()
        line = text[: match.start(3)].count("\n")
        found.append(Block(kind, inside, line, cluster))
    return [block for block in found if block.language == language]


def run(path: Path, block: Block, names: dict) -> None:
    """Errors name the page and its line."""
    exec(compile("\n" * block.line + block.text, str(path), "exec"), names)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(DOCS / page, "python")])
def test_the_code_of_a_page_runs_and_prints_what_it_says(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, names = DOCS / page, {"__name__": "__main__"}
    promised = {block.line: block.text for block in blocks(path, "text")}
    for block in blocks(path, "python"):
        if block.cluster is None:
            run(path, block, names)
            said = capsys.readouterr().out
            after = block.line + block.text.count("\n") + 3  # the line of a block right after it
            assert promised.get(after, said) == said
    if page == "batches.md":
        assert len(names["opt"].trials) == 11
    if page == "studies.md":
        assert len(names["study"].trials) == 20
        assert "GaussianProcess" in names["why"]["chosen"]


class SLURMCluster:
    """Stands in for that of dask_jobqueue: its jobs are processes of this machine."""

    def __new__(cls, queue: str, cores: int, memory: str, walltime: str):
        import distributed

        settings = {"n_workers": 0, "threads_per_worker": cores, "dashboard_address": None}
        cluster = distributed.LocalCluster(**settings, protocol="tcp", host="127.0.0.1")
        cluster.scale, scale = lambda jobs: scale(min(jobs, 2)), cluster.scale
        return cluster


@pytest.mark.skipif(not HERE, reason="augury.executors has no clusters")
@pytest.mark.filterwarnings("ignore")
def test_the_code_for_clusters_runs_on_small_ones(tmp_path, monkeypatch):
    import ray

    monkeypatch.chdir(tmp_path)
    stand_in = types.ModuleType("dask_jobqueue")
    stand_in.SLURMCluster = SLURMCluster  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dask_jobqueue", stand_in)
    path, names = DOCS / "machines.md", {"__name__": "__main__"}
    there = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=there)
    try:
        for block in blocks(path, "python"):
            run(path, block, names)
            assert len(names["result"].trials) == 8
        assert names["best"].metrics["loss"] < 50
    finally:
        ray.shutdown()
        if "cluster" in names:
            names["cluster"].close()


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


def test_the_reference_has_every_public_name():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^::: augury[\w.]*\.(\w+)$", text, re.MULTILINE))
    names = {*augury.__all__, *surrogates.__all__, *policies.__all__, *maximizers.__all__}
    assert names - {"Domain"} <= listed  # that is Space | Pool
    for module in (surrogates, policies, maximizers):
        assert module.__name__ in text


def test_there_are_answers_to_at_least_twenty_questions():
    text = (DOCS / "faq.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^### .*\?$", text, re.MULTILINE)) >= 20
