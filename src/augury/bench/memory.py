"""The memory of this process, as far as it belongs to one run."""

import contextlib
import functools
import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


class Meter:
    """Measures the memory of a run, from when it is made.

    A process that has run jobs before still holds some of their memory. The peak is therefore what was
    added since the run began, on top of what the process held before its first run (the interpreter
    and the libraries): in a new process just its peak, less the problem's data; in another one an
    estimate, too small where memory left by earlier runs is used again.
    """

    def __init__(self) -> None:
        self._base = baseline()
        with contextlib.suppress(OSError):  # forget the peak of earlier jobs, where that is allowed
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._start = _mib("VmRSS:")

    def peak_mib(self) -> int:
        """The most memory that the run has occupied so far."""
        return max(0, _mib("VmHWM:") - self._start) + self._base


@functools.cache
def baseline() -> int:
    """What the process holds when this is first called: before its first job."""
    return _mib("VmRSS:")


def _mib(field: str) -> int:
    try:
        kib = int(STATUS.read_text(encoding="ascii").split(field)[1].split()[0])
    except (
        OSError,
        IndexError,
    ):  # not Linux: only the peak is known, elsewhere in KiB, on macOS in bytes
        kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        kib = kib // 2**10 if sys.platform == "darwin" else kib
    return round(kib / 2**10)
