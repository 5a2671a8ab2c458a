"""Drives the system's headless Chromium by the DevTools protocol, over a pair of pipes."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # Chromium refuses root otherwise, and containers its sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)
SECONDS = 60.0
START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]  # away from 3 and 4
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


def executable() -> str:
    """The browser; its absence is a failure, not a reason to skip."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    raise RuntimeError("these tests need Chromium; none is on PATH. Run make chromium.")


class Page:
    """One tab, and everything that happened in it."""

    def __init__(self, to: int, answers: int) -> None:
        self._to, self._answers, self._number, self._text = to, answers, 0, b""
        self.events: list[dict[str, Any]] = []
        target = self._send("Target.createTarget", {"url": "about:blank"})["targetId"]
        attach = {"targetId": target, "flatten": True}
        self._session = self._send("Target.attachToTarget", attach)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A command to the tab, and its result."""
        return self._send(method, params, self._session)

    def _send(self, method: str, params: dict[str, Any], session: str = "") -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._text:
            ready, _, _ = select.select([self._answers], [], [], SECONDS)
            assert ready, f"Chromium has said nothing for {SECONDS:g} seconds"
            more = os.read(self._answers, 1 << 16)
            assert more, "Chromium has ended"
            self._text += more
        first, _, self._text = self._text.partition(b"\0")
        message = json.loads(first)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, url: str) -> None:
        """Load a page, and wait until everything in it is there."""
        self.events.clear()
        self.send("Page.navigate", url=url)
        deadline = time.monotonic() + SECONDS
        while not self.named("Page.loadEventFired"):
            assert time.monotonic() < deadline, f"{url} did not load"
            self._read()
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")

    def named(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all events of one kind."""
        return [event["params"] for event in self.events if event["method"] == method]

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def view(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window and the colour scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    @property
    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        return [event["request"]["url"] for event in self.named("Network.requestWillBeSent")]

    @property
    def complaints(self) -> list[str]:
        """Script errors, console warnings and errors, and what the browser logs as either."""
        found = [event["exceptionDetails"]["text"] for event in self.named("Runtime.exceptionThrown")]
        found += [
            str(event["args"])
            for event in self.named("Runtime.consoleAPICalled")
            if event["type"] in ("error", "warning", "assert")
        ]
        found += [
            event["entry"]["text"]
            for event in self.named("Log.entryAdded")
            if event["entry"]["level"] in ("error", "warning")
        ]
        return found


@contextmanager
def browser() -> Iterator[Page]:
    """A tab of a browser with a profile of its own."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    profile = Path(tempfile.mkdtemp())
    command = [executable(), *FLAGS, f"--user-data-dir={profile}"]
    # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
    start = [sys.executable, "-S", "-c", START, str(to_read), str(from_write), *command]
    process = subprocess.Popen(start, pass_fds=(to_read, from_write), stderr=subprocess.DEVNULL)
    os.close(to_read)
    os.close(from_write)
    try:
        yield Page(to_write, from_read)
    finally:
        os.close(to_write)
        os.close(from_read)
        process.terminate()
        process.wait(SECONDS)
        shutil.rmtree(profile, ignore_errors=True)
