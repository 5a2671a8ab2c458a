"""The files of an experiment: a journal per unfinished run, one line per finished run.

A journal is appended to after every ask and every evaluation, line by line, so that a run killed at
any moment continues after its last finished evaluation. A torn last line is dropped. A file is locked
while it is open for writing: two writers would tear each other's lines.
"""

import errno
import fcntl
import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from augury._errors import DataError, StorageError

Line = dict[str, Any]

RESTORE = "Delete that line, or restore the file."
BEGIN_ANEW = "Delete the file: its run then begins anew."
PAUSE = 0.1  # seconds between two attempts to lock a file
HELD = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)


def read_lines(path: Path, remedy: str = RESTORE) -> Iterator[Line]:
    """The whole lines of a file; a last line without its end was torn by a kill, and is dropped."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, "read", error) from error
    *lines, _ = content.split(b"\n")  # bytes: a line may be torn inside a character
    for number, line in enumerate(lines, start=1):
        try:
            item = json.loads(line.decode("utf-8"))
        except ValueError as error:
            raise DataError(
                f"every line of {path} must be JSON; line {number} is not ({error}). {remedy}"
            ) from error
        if not isinstance(item, dict):
            raise DataError(
                f"every line of {path} must be a JSON object; line {number} is {item!r}. {remedy}"
            )
        yield item


class Journal:
    """A file that lines are appended to, each written out before the call returns.

    Args:
        path: of the file, which is made with its folder if it is not there.
        patience: seconds to wait for another process that has the file open.
        remedy: what to do about a line that cannot be read.
    """

    def __init__(self, path: Path, *, patience: float = 0.0, remedy: str = RESTORE) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = path.open("ab")
        except OSError as error:
            raise _unusable(path, "written", error) from error
        try:
            _lock(self._file, path, patience)
            self.lines = list(read_lines(path, remedy))
            self._file.truncate(path.read_bytes().rfind(b"\n") + 1)  # the torn line
        except BaseException:
            self._file.close()
            raise

    def append(self, line: Mapping[str, Any]) -> None:
        """One more line, in the hands of the operating system when this returns."""
        text = json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n"
        self._file.write(text.encode("utf-8"))
        self._file.flush()
        self.lines.append(dict(line))

    def clear(self) -> None:
        """Begin anew."""
        self._file.truncate(0)
        self.lines = []

    def close(self) -> None:
        """Close the file, and unlock it."""
        self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lock(file: BinaryIO, path: Path, patience: float) -> None:
    """Lock the file for this process; the system unlocks it when the process ends, however it ends."""
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in HELD:
                return  # a file system without locks
        if time.monotonic() >= deadline:
            raise StorageError(
                f"{path} must be written by one process at a time; another process is running this "
                "experiment with this results folder. Wait for it, or name another folder."
            )
        time.sleep(PAUSE)


def _unusable(path: Path, verb: str, error: OSError) -> StorageError:
    return StorageError(
        f"{path} must be a file that can be {verb}; got: {error.strerror or error}. "
        "Name another results folder, or mend this one."
    )


def finite(value: float) -> float | None:
    """A value as JSON holds it: None if it is not a number."""
    return value if math.isfinite(value) else None
