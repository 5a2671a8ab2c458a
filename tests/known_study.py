"""The spaces and the function of the tests of studies."""

import numpy as np

from augury import Choice, Float, Int, Space

SPACE = Space(
    x=Float(-1.0, 2.0), n=Int(1, 64, log=True), kind=Choice(["a", "b", None]), fixed=Choice([7])
)
LINE = Space(x=Float(0.0, 1.0))


def value(params):
    return (params["x"] - 0.3) ** 2 + 0.1 * np.log(params["n"]) + (params["kind"] == "b")


def storages(tmp_path):
    return [tmp_path / "study.db", f"journal:///{tmp_path / 'study.journal'}"]
