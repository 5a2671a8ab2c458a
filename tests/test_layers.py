"""The layers of docs/architecture.md, read from the imports of every file."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "augury"
FILES = sorted(SOURCE.rglob("*.py"))

# From the bottom up. Names in one row may import each other (without a cycle) and all rows below;
# rows joined in a tuple are siblings, which do not import each other.
LAYERS: list[set[str] | tuple[set[str], ...]] = [
    {"_errors", "_types", "_checks"},
    {"core"},
    ({"space"}, {"surrogates"}, {"theory"}),
    ({"policies"}, {"maximizers"}, {"locality"}),
    {"algorithm"},
    {"trial", "history", "design", "state"},
    {"model"},
    {"optimizer"},
    {"ledger"},
    ({"progress"}, {"studies"}, {"executors"}, {"adapters"}),
    {"run"},
    {"replaying"},
    ({"bench"}, {"plots"}),
    {"cli", "__main__"},
]
# Narrower than their layer allows; names that start with an underscore are always allowed.
NARROW = {
    "policies": ("core", "surrogates.base", "theory", "policies"),
    "maximizers": ("core", "space", "maximizers"),
}
QUIET = ("core", "space", "surrogates", "policies", "maximizers", "model", "optimizer", "theory")
NEVER = {"logging", "subprocess", "multiprocessing", "concurrent", "socket", "shutil", "tempfile"}
FILE_SYSTEM = {"os", "pathlib", "io"}
FILE_CALLS = {"open", "read_text", "write_text", "read_bytes", "write_bytes"}


def module_of(file: Path) -> str:
    """The module's name below `augury`; empty for the package itself."""
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file): file for file in FILES}


def imports(file: Path) -> set[str]:
    """Everything a file imports, also inside functions and under TYPE_CHECKING; ours without `augury.`.

    `from augury.space import Float` imports `space`, `from augury import theory` imports `theory`.
    """
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            base = node.module or ""
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full.removeprefix("augury.") in MODULES else base)
    return found


def ours(file: Path) -> set[str]:
    return {name.removeprefix("augury.") for name in imports(file) if name.startswith("augury.")}


def rank(part: str) -> tuple[int, int]:
    for level, row in enumerate(LAYERS):
        for place, siblings in enumerate(row if isinstance(row, tuple) else (row,)):
            if part in siblings:
                return level, place
    pytest.fail(f"{part!r} has no layer: add it to LAYERS and to docs/architecture.md")


def top(module: str) -> str:
    return module.split(".")[0]


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_a_module_imports_only_what_lies_below_it(module):
    level, place = rank(top(module))
    for other in ours(MODULES[module]):
        other_level, other_place = rank(top(other))
        below = other_level < level or (other_level, other_place) == (level, place)
        assert below, f"augury.{module} imports augury.{other}, which lies beside or above it"


@pytest.mark.parametrize("part", NARROW)
def test_policies_and_maximizers_see_little(part):
    for module, file in MODULES.items():
        if top(module) != part:
            continue
        for other in ours(file):
            allowed = any(other == name or other.startswith(f"{name}.") for name in NARROW[part])
            assert allowed or other.startswith("_"), f"augury.{module} imports augury.{other}"


def test_there_is_no_cycle():
    waiting = {module: ours(file) for module, file in MODULES.items() if module}
    while waiting:
        free = {m for m, needs in waiting.items() if not (needs - {m}) & waiting.keys()}
        assert free, f"these import each other in a circle: {sorted(waiting)}"
        waiting = {m: needs for m, needs in waiting.items() if m not in free}


@pytest.mark.parametrize("module", [name for name in MODULES if top(name) in QUIET])
def test_up_to_the_optimizer_nothing_knows_a_file_a_process_or_a_logger(module):
    file = MODULES[module]
    names = {top(name) for name in imports(file)}
    if module == "core.precision":  # names the folder of compiled programs, and threads
        assert names & NEVER == {"concurrent"}
        assert "ProcessPoolExecutor" not in file.read_text(encoding="utf-8")
        return
    assert not names & NEVER
    assert not names & FILE_SYSTEM
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            assert name not in FILE_CALLS, f"augury.{module} calls {name} in line {node.lineno}"


def test_the_rules_are_not_vacuous():
    assert "surrogates.base" in ours(MODULES["policies.ucb"])
    assert "theory" in ours(MODULES["policies.schedules"])
    assert ours(MODULES["optimizer"]) >= {"algorithm", "core.precision", "state"}
    assert rank("space")[0] == rank("theory")[0]
    assert rank("space") != rank("theory")
