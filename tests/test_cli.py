import subprocess
import sys
from pathlib import Path

import pytest

from augury.cli import main


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom augury.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print('heavy:', sorted({'jax', 'numpy', 'scipy'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "demo" in printed.stdout
    assert "heavy: []" in printed.stdout


def test_algorithms_prints_the_table(capsys):
    assert main(["algorithms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "surrogate", "policy", "reference"]
    assert any(line.split()[:3] == ["gp-ucb-rff", "gp-rff", "ucb"] for line in lines)


def test_demo_prints_the_best_point_and_saves_a_plot(capsys, tmp_path):
    file = tmp_path / "demo.html"
    assert main(["demo", "--budget", "18", "--plot", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "best value" in printed
    assert all(f"x{i}=" in printed for i in range(1, 7))
    assert "Simple regret" in file.read_text(encoding="utf-8")


def test_an_error_is_one_line_on_standard_error(capsys):
    assert main(["demo", "--algorithm", "gpei"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("augury: UnsupportedError: algorithm must be")
    assert captured.err.count("\n") == 1


def test_an_unknown_command_is_refused():
    with pytest.raises(SystemExit) as stopped:
        main(["dem"])
    assert stopped.value.code == 2


def test_experiments_and_problems_are_listed(capsys):
    experiments = str(Path(__file__).parents[1] / "experiments")
    assert main(["bench", "list", "--experiments", experiments]) == 0
    listed = capsys.readouterr().out
    assert "random-grid-synthetic" in listed
    assert "Figures 1 and 2" in listed
    assert "not available: sto-bnts" in listed
    assert main(["bench", "list", "--problems"]) == 0
    assert "lunar-lander" in capsys.readouterr().out


def test_an_experiment_is_run_from_the_command_line(tmp_path, capsys):
    text = """
    paper = "random-grid"
    title = "A test"
    metric = "simple regret"
    repeats = 2
    quick = {}
    tasks = [{ problem = "branin", initial = 2, iterations = 2 }]
    methods = [
        { name = "random", algorithm = "random" },
        { name = "later", algorithm = "sto-bnts", settings = { draws = "frozen" } },
    ]
    """
    (tmp_path / "small.toml").write_text(text, encoding="utf-8")
    where = ["--experiments", str(tmp_path), "--results", str(tmp_path / "results")]
    assert main(["bench", "run", "small", "--workers", "1", *where]) == 0
    assert "small: 2 runs made, 0 were there before." in capsys.readouterr().out
    assert main(["bench", "run", "small", *where]) == 0
    assert "small: 0 runs made, 2 were there before." in capsys.readouterr().out
    (tmp_path / "small.toml").write_text(text.replace("iterations = 2", "iterations = 1"))
    assert main(["bench", "run", "small", "--repeats", "1", "--workers", "1", *where]) == 0
    printed = capsys.readouterr().out
    assert "small: 1 runs made, 0 were there before." in printed
    assert "2 older runs were made with other settings, and do not count" in printed
    assert main(["bench", "run", "small", *where[:3], str(tmp_path / "small.toml")]) == 2
    assert "must be a file that can be written" in capsys.readouterr().err
    for option in ("--workers", "--repeats"):
        for value in ("0", "-1", "x"):
            with pytest.raises(SystemExit) as ended:
                main(["bench", "run", "small", f"{option}={value}", *where])
            assert ended.value.code == 2
            assert "must be a whole number of at least 1" in capsys.readouterr().err
    assert main(["bench", "run", "small", "--methods", "random", "--repeats", "1", *where]) == 0
    assert "later:" not in capsys.readouterr().out
    assert main(["bench", "run", "small", "--methods", "random", "best", *where]) == 2
    assert "must be among random, later; got best" in capsys.readouterr().err
    assert main(["bench", "run", "large", *where]) == 2
    assert "must be one of small; got large" in capsys.readouterr().err
    assert main(["bench", "list", "--experiments", str(tmp_path / "none")]) == 2
