"""A PostgreSQL server of the tests' own, from the wheel `pgserver`; it can be stopped and go on."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

PASSWORD = "s3cret-of-the-tests"
UNPRIVILEGED = 65534  # "nobody": PostgreSQL refuses to run as root
SETTINGS = "-c fsync=off -c max_connections=200 -c listen_addresses=127.0.0.1"


class Server:
    """A server whose files are in a folder.

    Args:
        folder: an empty one.
    """

    def __init__(self, folder: Path) -> None:
        self._data, self._log = folder / "data", folder / "log"
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self._programs = _programs(folder)
        secret = folder / "password"
        secret.write_text(PASSWORD)
        if self._user is not None:
            for path in (folder, secret):
                os.chown(path, self._user, self._user)
        make = ["-U", "augury", "--auth=scram-sha-256", "--no-sync", "--encoding=utf8"]
        self._run("initdb", *make, f"--pwfile={secret}")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self._port = probe.getsockname()[1]

    @property
    def url(self) -> str:
        """The address of its database."""
        return f"postgresql://augury:{PASSWORD}@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = f"{SETTINGS} -c port={self._port} -c unix_socket_directories="
        self._run("pg_ctl", "start", "-w", f"--log={self._log}", "-o", settings)

    def stop(self) -> None:
        """Stop it at once, with all connections."""
        self._run("pg_ctl", "stop", "-w", "-m", "immediate")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), f"--pgdata={self._data}", *arguments]
        done = subprocess.run(
            command,
            cwd=self._data.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # the server inherits it: a pipe would never close
            stderr=subprocess.DEVNULL,
            user=self._user,
            group=self._user,
            timeout=60,
        )
        log = self._log.read_text() if self._log.exists() else ""
        assert done.returncode == 0, f"{program} ended with {done.returncode}: {log[-2000:]}"


def _programs(folder: Path) -> Path:
    """The server's programs, where an unprivileged user may run them."""
    found = find_spec("pgserver")
    assert found is not None, "these tests need PostgreSQL. Run make test, which installs it."
    package = Path(found.origin or "").parent
    if os.geteuid() == 0:  # root's folders may be closed to others
        for name in ("pgserver.libs", "pgserver/pginstall"):
            shutil.copytree(package.parent / name, folder / name, copy_function=_linked)
        package = folder / "pgserver"
    return package / "pginstall" / "bin"


def _linked(source: str, target: str) -> None:
    """A copy without the bytes, where the file system allows it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """A running server, which ends with the block."""
    with tempfile.TemporaryDirectory(prefix="augury-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        one = Server(folder)
        one.start()
        try:
            yield one
        finally:
            one.stop()
