"""Arrays that take long to compute, kept in the user's cache folder."""

import contextlib
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]


def folder() -> Path:
    """Where they are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "augury" / "bench"


def kept(name: str, compute: Callable[[], Mapping[str, npt.NDArray[Any]]]) -> Arrays:
    """The arrays kept under `name`, or else computed and, where the folder can be written, kept.

    The name must say everything that the arrays depend on: a file of that name is never computed again.
    """
    try:
        with open(folder() / f"{name}.npz", "rb") as raw, np.load(raw) as file:
            return {key: file[key] for key in file.files}
    except (OSError, RuntimeError, ValueError, zipfile.BadZipFile):
        arrays = dict(compute())  # not there, not readable, or cut short
    with contextlib.suppress(OSError, RuntimeError):  # no home, or a read-only one, costs time only
        _write(folder() / f"{name}.npz", arrays)
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    """Write beside, then rename, so that nobody ever reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, beside = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
