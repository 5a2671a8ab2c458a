"""The files of an experiment: a journal per unfinished run, one line per finished run.

A journal is appended to after every ask and every evaluation, line by line, so that a run killed at
any moment continues after its last finished evaluation. A torn last line is dropped.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from augury._errors import DataError

Line = dict[str, Any]


def read_lines(path: Path) -> Iterator[Line]:
    """The whole lines of a file; a last line without its end was torn by a kill, and is dropped."""
    if not path.exists():
        return
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(
                f"every line of {path} must be JSON; line {number} is not ({error}). "
                "Delete that line, or restore the file."
            ) from error
        yield item


class Journal:
    """A file that lines are appended to, each written out before the call returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.lines = list(read_lines(path))
        if path.exists():
            _cut_torn_line(path)
        self._file = path.open("a", encoding="utf-8")

    def append(self, line: Mapping[str, Any]) -> None:
        """One more line, in the hands of the operating system when this returns."""
        self._file.write(json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n")
        self._file.flush()
        self.lines.append(dict(line))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _cut_torn_line(path: Path) -> None:
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        with path.open("r+b") as file:
            file.truncate(end)


def finite(value: float) -> float | None:
    """A value as JSON holds it: None if it is not a number."""
    return value if math.isfinite(value) else None
