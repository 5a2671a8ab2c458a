"""`augury run` and `augury show`."""

import contextlib
import csv
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import optuna
import pytest

import chromium
from augury.cli import main
from augury.cli.command import Command, NoNumberError, value_of
from augury.studies import leases
from augury.studies.storages import close_storage, open_storage, remove_unused

ROOT = Path(__file__).parents[1]
SPEC = """
budget = 4
storage = "study.db"
algorithm = "sobol"
seed = 0

[space]
x = { type = "float", low = 0.0, high = 1.0 }
kind = { type = "choice", options = ["a b", "c"] }

[objective]
"""
INT = "{ type = 'int', low = 1, high = 3 }"
INTS = "type = 'int'\nlow = 1\nhigh = 3\n"
ENVIRONMENT = "[objective]\ncommand = ['true']\nparameters = 'environment'"
PROGRAM = """
import json, os, sys
mode = sys.argv[1]
if mode == "stdin":
    p = json.load(sys.stdin)
elif mode == "environment":
    p = {"x": float(os.environ["AUGURY_X"]), "kind": os.environ["AUGURY_KIND"]}
else:
    names = sys.argv[2::2]
    p = dict(zip([name.lstrip("-") for name in names], sys.argv[3::2]))
    p["x"] = float(p["x"])
assert p["kind"] in ("a b", "c")
print("working")
print(json.dumps({"value": p["x"] + 1.0, "more": [1]}) if p["kind"] == "c" else p["x"])
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


def write(objective, spec=SPEC):
    Path("spec.toml").write_text(spec + textwrap.dedent(objective), encoding="utf-8")


def trials(folder=".", name="augury"):
    return optuna.load_study(storage=f"sqlite:///{folder}/study.db", study_name=name).trials


@pytest.mark.parametrize("mode", ["arguments", "stdin", "environment", "placeholders"])
def test_a_program_receives_the_parameters_and_prints_the_value(here, capsys, mode):
    command = [sys.executable, "program.py", mode]
    if mode == "placeholders":
        command += ["--kind", "{kind}", "--x", "{x}"]
    write(f"""
        command = {json.dumps(command)}
        parameters = "{"arguments" if mode == "placeholders" else mode}"
    """)
    assert main(["run", "spec.toml"]) == 0
    printed = capsys.readouterr().out
    assert "4 of 4 evaluations, 0 failed; the budget of 4 evaluations is spent." in printed
    assert "study       'augury' in study.db" in printed
    for trial in trials():
        expected = trial.params["x"] + (trial.params["kind"] == "c")
        assert trial.value == pytest.approx(expected)
    assert main(["run", "spec.toml"]) == 0  # nothing is left
    assert len(trials()) == 4


def test_a_function_is_imported_from_here(here, capsys, monkeypatch):
    Path("mine.py").write_text("def f(p):\n    return -p['x']\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    write('function = "mine:f"', SPEC.replace("seed = 0", 'direction = "maximize"\nworkers = 2'))
    assert main(["run", "spec.toml"]) == 0
    best = max(trial.value for trial in trials())
    assert f"best value  {best!r}" in capsys.readouterr().out


def test_a_script_that_ends_its_process_when_it_is_imported_is_said(here, capsys, monkeypatch):
    Path("ending.py").write_text("import sys\ndef f(p): return 1.0\nsys.exit(0)\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    write('function = "ending:f"')
    assert main(["run", "spec.toml"]) == 2
    assert "line 12: objective.function must be one that can be imp" in capsys.readouterr().err


def test_what_cannot_be_sent_to_a_process_leaves_no_study(here, capsys, monkeypatch):
    lines = ["import threading", "class F:", "    def __init__(self): self.lock = threading.Lock()"]
    lines += ["    def __call__(self, p): return p['x']", "f = F()"]
    Path("unsendable.py").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    write('function = "unsendable:f"')
    assert main(["run", "spec.toml"]) == 2
    assert "must be one that cloudpickle can send" in capsys.readouterr().err
    write('function = "os:getpid"', SPEC.replace("seed = 0", "trial_timeout = -1"))
    assert main(["run", "spec.toml"]) == 2
    assert "line 5: trial_timeout" in capsys.readouterr().err
    assert not Path("study.db").exists()


def test_failures_are_counted_and_nothing_else_happens(here, capsys):
    code = "import sys; print('oh no', file=sys.stderr); sys.exit(3)"
    write(f"command = {json.dumps([sys.executable, '-c', code])}")
    with pytest.warns(UserWarning, match="the last said: RuntimeError: exit code 3: oh no"):
        assert main(["run", "spec.toml"]) == 1
    said = capsys.readouterr()
    assert "4 of 4 evaluations, 4 failed" in said.out
    assert "augury: trial 3 failed: RuntimeError: exit code 3: oh no\n" in said.err


@pytest.mark.parametrize(("change", "words"), [
    (("budget = 4", "budgte = 4"), r"spec\.toml, line 2: budgte must be one of .*; got an unknown key"),
    (("budget = 4", 'budget = "4"'), r"line 2: budget must be a whole number; got '4'"),
    (("budget = 4", "budget = 0"), "line 2: budget must be at least 1; got 0"),
    (("budget = 4", "budget = true"), "line 2: budget must be a whole number; got True"),
    (("budget = 4", ""), "budget must be given; got none"),
    (("budget = 4", "budget = "), "must be valid TOML; got: Invalid value"),
    (('storage = "study.db"', ""), "storage must be given"),
    (("low = 0.0, high", "low = 2.0, high"), r"line 8: space\.x: Float must satisfy low <= high"),
    (("low = 0.0, ", "lwo = 0.0, "), r"line 8: space\.x must have low, high, and .*; got no low"),
    (("low = 0.0, ", "low = 0.0, lgo = true, "), r"line 8: space\.x must have .*; got 'lgo'"),
    (('"float"', '"flaot"'), r"line 8: space\.x must have a type, one of .*; got 'flaot'"),
    (('kind = {', "kind = 3 #"), r"line 9: space\.kind must be a table"),
    (("seed = 0", 'direction = "up"'), "line 5: direction must be"),
    (("[objective]", "[objective]\nfunction = 'json:nothing'\n[more]"), "line 13: more must be one of"),
    (("[objective]", "[objective]\nfunction = 'nomodule:f'"), "line 12: objective.function must be"),
    (("[objective]", "[objective]\nfunction = 'json'"), r"line 12: objective\.function must be .module:"),
    (("[objective]", "[objective]\ncommand = 'ls'"), r"line 12: objective\.command must be a list"),
    (("[objective]", "[objective]\ncommand = [1]"), r"line 12: objective\.command must be a list of"),
    (("[objective]", "[objective]\ncommand = ['x']\nparameters = 'no'"), r"line 13: objective\.parame"),
    (("[objective]", "[objective]"), "objective must have either a function or a command; got none"),
    (("[objective]", "[objective]\ncommand = ['no-such-program']"), r"objective\.command must begin"),
    (("[objective]", "[objective]\ncommand = ['./spec.toml']"), r"objective\.command must begin"),
    (("[objective]", "[objective]\ncommand = ['true']\nfolder = 'none'"), r"objective\.folder must"),
    (('algorithm = "sobol"', 'algorithm = "best"'), "line 4: algorithm must be"),
    (("seed = 0", "seed = -1"), "line 5: seed must be an int"),
    (("seed = 0", "retries = -1"), "line 5: retries must be a whole number"),
    (("seed = 0", "target = nan"), "line 5: target must be a number"),
    (("seed = 0", "max_seconds = nan"), "line 5: max_seconds must be a number"),
    (("seed = 0", "trial_timeout = -1"), "line 5: trial_timeout must be a positive number"),
    (("seed = 0", "duplicates = 'x'"), "line 5: duplicates must be"),
    (("seed = 0", "name = ''"), "line 5: name must have at least one character"),
    (('"float"', '["float"]'), r"line 8: space\.x must have a type"),
    (("x = {", '"" = {'), "line 7: space: Names must be non-empty"),
    (("[space]", "[[space]]"), "line 7: space must be a table"),
    (("[objective]", '[space."a.b"]\ntype = "int"\n[objective]'), r"line 11: space\.a\.b must have low"),
    (("[objective]", '[space.y]\nlog = true\ntype = "in"\n[objective]'), r"line 13: space\.y must hav"),
    (("[objective]", f"[space.y]\n{INTS}step = 0\n[objective]"), r"line 15: space\.y: Int must satisfy"),
    (("[objective]", f"[space.y]\n{INTS}lgo = 0\n[objective]"), r"line 15: space\.y must .*; got 'lgo'"),
    (('kind = {', "y.type = 'int'\ny.high = 'a'\ny.low = 1 #"), r"line 10: space\.y: Int high must"),
    (("[objective]", "[objective]\ncommand = ['ls', '{x}']"), r"line 12: objective\.comma.*for kind"),
    (("[objective]", f"X = {INT}\n{ENVIRONMENT}"), r"line 11: space\.X must .*; got AUGURY_X, as of x"),
    (("[objective]", f"'a=b' = {INT}\n{ENVIRONMENT}"), r"line 11: space\.a=b must .*; got AUGURY_A=B"),
])  # fmt: skip
def test_what_is_wrong_in_a_file_is_one_sentence_with_its_line(here, capsys, change, words):
    spec = SPEC.replace(*change)
    if spec.endswith("[objective]\n") and "objective must have" not in words:
        spec += "command = ['true']\n"
    Path("spec.toml").write_text(spec, encoding="utf-8")
    assert main(["run", "spec.toml"]) == 2
    said = capsys.readouterr().err
    assert re.search(words, said), said
    assert said.count("\n") == 1
    assert not Path("study.db").exists()


def test_a_file_that_cannot_be_read_is_said(here, capsys):
    assert main(["run", "none.toml"]) == 2
    assert "none.toml must be a file that can be read; got: No such file" in capsys.readouterr().err
    Path("latin.toml").write_bytes(b"name = '\xe9'")
    assert main(["run", "latin.toml"]) == 2
    assert "must be UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(("printed", "value"), [
    ("7", 7.0), ("a\n 1e-3 \n\n", 1e-3), ('{"value": 2}', 2.0), ("nan", float("nan")), ("x\n.5", 0.5),
])  # fmt: skip
def test_the_last_line_is_the_value(printed, value):
    assert value_of(printed) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize("printed", ["", "done", '{"loss": 1}', "[1]", '{"value": "1"}', "true"])
def test_a_program_that_prints_no_number_is_a_sentence(printed):
    with pytest.raises(NoNumberError, match="must print its value last"):
        value_of(printed)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_program_that_never_printed_a_number_ends_the_run_and_leaves_no_study(here, capsys, workers):
    optuna.create_study(storage="sqlite:///study.db", study_name="another")
    code = "import os; open(f'pid{os.getpid()}', 'w').close(); print('done')"
    settings = SPEC.replace("budget = 4", "budget = 40\nretries = 2").replace(
        "seed = 0", f"workers = {workers}"
    )
    write(f"command = {json.dumps([sys.executable, '-c', code])}", settings)
    assert main(["run", "spec.toml"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("augury: NoNumberError: a program must print its value last")
    assert "; got 'done'. Print" in said
    assert said.count("\n") == 1
    assert len(list(here.glob("pid*"))) <= workers
    assert optuna.get_all_study_names("sqlite:///study.db") == ["another"]


@pytest.mark.parametrize("storage", ["study.db", "sqlite:///study.db", "journal:///study.journal"])
def test_a_run_that_ends_with_a_mistake_leaves_no_file_that_was_not_there(here, capsys, storage):
    write("command = ['true']", SPEC.replace("study.db", storage))
    before = sorted(here.iterdir())
    assert main(["run", "spec.toml"]) == 2
    assert sorted(here.iterdir()) == before


def test_a_new_file_that_another_process_uses_stays(here, capsys):
    optuna.create_study(storage="sqlite:///study.db", study_name="another")
    unused = open_storage("study.db")
    optuna.delete_study(storage=unused, study_name="another")
    remove_unused(unused, Path("study.db"))
    assert not list(here.glob("study.db*"))
    storages = [open_storage("study.db") for _ in range(2)]
    assert storages[1].get_all_studies() == []
    remove_unused(storages[0], Path("study.db"))
    assert Path("study.db").exists()
    close_storage(storages[1])


def test_a_program_that_prints_no_number_later_has_failed_then(here, capsys):
    code = "import os; print('done' if os.path.exists('once') else 1.0); open('once', 'w').close()"
    write(f"command = {json.dumps([sys.executable, '-c', code])}")
    assert main(["run", "spec.toml"]) == 0
    assert "4 of 4 evaluations, 3 failed" in capsys.readouterr().out


def test_a_study_that_was_there_is_kept_when_a_program_prints_no_number(here, capsys):
    optuna.create_study(storage="sqlite:///study.db", study_name="augury")
    write(f"command = {json.dumps([sys.executable, '-c', 'print()'])}")
    assert main(["run", "spec.toml"]) == 2
    assert [trial.state.name for trial in trials()] == ["FAIL", "WAITING"]  # it will be repeated


def test_a_program_may_print_what_is_no_text():
    code = "import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n' + sys.argv[1].encode())"
    assert Command((sys.executable, "-c", code, "{x}"))({"x": 0.5}) == 0.5
    with pytest.raises(NoNumberError, match="must print its value last"):
        Command((sys.executable, "-c", code, "\\"))({"x": 0.5})


def test_braces_that_name_no_parameter_stay():
    echo = "import sys; print(len(sys.argv[1]) + float(sys.argv[2]))"
    assert Command((sys.executable, "-c", echo, "{y}{", "{x}"))({"x": 0.5}) == 4.5


def test_an_interrupted_run_says_how_to_go_on_and_its_programs_end(here):
    code = "import os, time; open(f'pid{os.getpid()}', 'w').close(); time.sleep(60)"
    write(f"command = {json.dumps([sys.executable, '-c', code])}")
    command = [sys.executable, "-m", "augury", "run", "spec.toml"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60.0
    while not list(here.glob("pid*")) and time.monotonic() < until and child.poll() is None:
        time.sleep(0.1)
    (program,) = (int(path.name[3:]) for path in here.glob("pid*"))
    child.send_signal(signal.SIGINT)
    time.sleep(1.5)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=30)[1]
    assert child.returncode == 130
    assert "augury: interrupted: 1 evaluations are finished first\n" in said
    assert "go on with  augury run spec.toml" in said
    until = time.monotonic() + 10.0
    while leases.started(program) is not None and time.monotonic() < until:
        time.sleep(0.1)
    assert leases.started(program) is None
    states = [trial.state.name for trial in trials(here)]
    assert states == ["FAIL", "WAITING"]  # it will be repeated


def test_a_study_is_shown_and_exported(here, capsys):
    write(f"command = {json.dumps([sys.executable, 'program.py', 'stdin'])}\nparameters = 'stdin'")
    main(["run", "spec.toml"])
    capsys.readouterr()
    assert main(["show", "study.db", "--last", "2"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "study 'augury': 4 complete"
    assert shown[1].startswith("best value  0.")
    assert [line.split()[0] for line in shown[-2:]] == ["2", "3"]
    assert main(["show", "study.db", "--export", "all.csv"]) == 0
    with Path("all.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["value"]) for row in rows] == [trial.value for trial in trials()]
    assert {row["params_kind"] for row in rows} <= {"a b", "c"}
    assert main(["show", "study.db", "--export", "all.json"]) == 0
    exported = json.loads(Path("all.json").read_text(encoding="utf-8"))
    assert [row["params"] for row in exported] == [trial.params for trial in trials()]
    capsys.readouterr()
    optuna.create_study(storage="sqlite:///study.db", study_name="empty")
    for arguments, words in (
        (["show", "none.db"], "must be a file with studies"),
        (["show", "postgresql:/bob:s3cret@host/db"], "postgresql:/bob:***@host/db must be a file"),
        (["show", "study.db"], "must have one study, or --name says which; got 2: augury, empty"),
        (["show", "study.db", "--name", "x"], "must have the study; got 'x', of augury, empty"),
        (["show", "study.db", "--export", "x.xls"], "must end in .csv or .json"),
        (["show", "study.db", "--name", "augury", "--export", "none/x.csv"], "must be writable"),
    ):
        assert main(arguments) == 2
        assert words in capsys.readouterr().err
    assert main(["show", "study.db", "--name", "empty"]) == 0
    assert capsys.readouterr().out == "study 'empty': no trials\n"


def test_a_reason_of_several_lines_is_one_line_of_the_table(here, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("long.py").write_text("def f(p):\n    raise ValueError('one\\n  two')\n", encoding="utf-8")
    write('function = "long:f"', SPEC.replace("budget = 4", "budget = 1"))
    with pytest.warns(UserWarning, match="none of 1 evaluations succeeded"):
        main(["run", "spec.toml"])
    capsys.readouterr()
    assert main(["show", "study.db"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("ValueError: one two")


def test_parameters_may_have_the_names_of_columns(here):
    study = optuna.create_study(storage="sqlite:///study.db")
    study.optimize(lambda t: t.suggest_float("value", 5.0, 6.0) + t.suggest_int("number", 9, 9), 2)
    assert main(["show", "study.db", "--export", "all.csv"]) == 0
    with Path("all.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["number"] for row in rows] == ["0", "1"]
    assert [row["params_number"] for row in rows] == ["9", "9"]
    assert [float(row["params_value"]) for row in rows] == [t.params["value"] for t in study.trials]


def test_an_export_is_strict_json(here):
    study = optuna.create_study(storage="sqlite:///study.db", directions=["minimize", "maximize"])
    study.add_trial(optuna.create_trial(values=[float("inf"), float("-inf")]))
    options = [float("inf"), float("nan")]
    known = {"kind": optuna.distributions.CategoricalDistribution(options)}
    for one in options:
        params = {"kind": one}
        study.add_trial(optuna.create_trial(values=[1.0, 2.0], params=params, distributions=known))
    assert main(["show", "study.db", "--export", "all.json"]) == 0

    def refused(word):
        raise AssertionError(word)

    rows = json.loads(Path("all.json").read_text(encoding="utf-8"), parse_constant=refused)
    assert rows[0]["value"] == ["inf", "-inf"]
    assert [row["params"] for row in rows[1:]] == [{"kind": "inf"}, {"kind": None}]


@pytest.mark.parametrize("log", [False, True], ids=["closed", "with a log"])
def test_what_can_only_be_read_is_shown(monkeypatch, capsys, log):
    with tempfile.TemporaryDirectory() as name:  # of which others may see the inside
        monkeypatch.chdir(name)
        storage = open_storage("a study%.db")
        study = optuna.create_study(storage=storage, study_name="tuning")
        study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), 2)
        journal = open_storage("journal:///study.journal")
        optuna.create_study(storage=journal, study_name="tuning")
        assert main(["show", "journal:///study.journal"]) == 0  # imports what others may not read
        if not log:
            close_storage(storage)
        assert Path("a study%.db-wal").exists() == log
        before = sorted(Path().iterdir())
        for path in before:
            path.chmod(0o444)
        Path().chmod(0o555)
        with unprivileged():
            assert main(["show", "a study%.db"]) == 0
            assert main(["show", "journal:///study.journal"]) == 0
        assert sorted(Path().iterdir()) == before
        Path().chmod(0o755)
        assert "study 'tuning': 2 complete" in capsys.readouterr().out
        monkeypatch.chdir("/")
        close_storage(storage)


@contextlib.contextmanager
def unprivileged():
    """As somebody who must obey the modes of files, which root need not."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_database_of_something_else_is_left_as_it_is(here, capsys):
    with contextlib.closing(sqlite3.connect("other.db")) as connection:
        connection.execute("CREATE TABLE mine (x)")
    before = Path("other.db").read_bytes()
    assert main(["show", "other.db"]) == 2
    assert "must be usable; got: no such table" in capsys.readouterr().err
    assert Path("other.db").read_bytes() == before


def test_the_example_of_the_page_runs(here, capsys):
    (spec,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "cli.md").read_text(), re.DOTALL)
    python = json.dumps(sys.executable)
    Path("spec.toml").write_text(spec.replace('"python"', python).replace("= 20 ", "= 3 "), "utf-8")
    Path("train.py").write_text("import sys\nprint(float(sys.argv[2]))\n", encoding="utf-8")
    assert main(["run", "spec.toml"]) == 0
    assert "3 of 3 evaluations, 0 failed" in capsys.readouterr().out


def test_the_dashboard_shows_a_study_in_a_browser(here):
    write('command = ["{python}", "program.py", "arguments"]'.replace("{python}", sys.executable))
    assert main(["run", "spec.toml"]) == 0
    command = [sys.executable, "-m", "augury", "dashboard", "study.db", "--port", "0"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        chromium.browser() as page,
    ):
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline()).group()
            page.open(f"{address}dashboard/studies/1")
            until = time.monotonic() + 60
            while "Best Trial" not in page.evaluate("document.body.innerText"):
                assert time.monotonic() < until, page.complaints
                time.sleep(0.1)
            assert not page.complaints
            elsewhere = [one for one in page.requests if not one.startswith((address, "data:"))]
            assert not elsewhere
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_a_dashboard_that_cannot_be_is_one_sentence(here, capsys):
    assert main(["dashboard", "none.db"]) == 2
    assert main(["dashboard", "sqlite:///none.db"]) == 2
    assert not list(here.glob("*.db"))
    write('function = "nothing:here"')
    optuna.create_study(storage="sqlite:///study.db")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["dashboard", "study.db", "--port", str(taken.getsockname()[1])]) == 2
    assert main(["dashboard", "study.db", "--port", "70000"]) == 2
    assert main(["dashboard", "study.db", "--host", "::1"]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 5
    assert "Choose another --port." in said[2]
    assert said[3].endswith("0-65535. Choose another --port.")
    assert said[4].endswith("supported. Choose another --host.")
