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


def test_the_first_example_has_at_most_eight_lines_of_code():
    first = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    assert len([line for line in first.splitlines() if line.strip()]) <= 8


def test_the_readme_lists_every_algorithm():
    import augury

    for name in augury.algorithms():
        assert f"`{name}`" in README


def test_import_brings_no_heavy_library():
    heavy = {"jax", "scipy", "numpy", "optuna", "plotly"}
    code = f"import sys, augury; print(sorted({heavy} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
