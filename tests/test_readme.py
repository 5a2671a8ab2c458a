import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_readme_code_runs_and_prints_what_it_says(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    promised = re.search(r"```text\n(.*?)```", README, re.DOTALL).group(1)
    names: dict = {}
    exec(blocks[0], names)
    assert capsys.readouterr().out == promised
    for block in blocks[1:]:
        exec(block, names)
    assert len(names["opt"].trials) == 6
    assert len(names["result"].trials) == 10


def test_the_code_of_the_page_on_batches_runs():
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "batches.md").read_text(), re.DOTALL)
    names: dict = {}
    exec(block, names)
    assert len(names["opt"].trials) == 11


def test_the_code_of_the_page_on_studies_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    page = (ROOT / "docs" / "studies.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    assert len(names["study"].trials) == 20
    said = capsys.readouterr().out
    assert said.startswith("20 trials\n")
    assert "GaussianProcess" in said


def test_the_code_of_the_page_on_plots_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "plots.md").read_text(), re.DOTALL):
        exec(block, names)
    assert len(list(tmp_path.glob("*.html"))) >= 1


def test_the_first_example_has_at_most_eight_lines_of_code():
    first = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    assert len([line for line in first.splitlines() if line.strip()]) <= 8


def test_documents_link_to_files_that_exist():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_readme_lists_every_algorithm():
    import augury

    for name in augury.algorithms():
        assert f"`{name}`" in README


def test_import_brings_no_heavy_library():
    heavy = {"jax", "scipy", "numpy", "optuna", "plotly"}
    code = f"import sys, augury; print(sorted({heavy} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
