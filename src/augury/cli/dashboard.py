"""`augury dashboard`: Optuna's dashboard of a storage, in a browser."""

import errno
import ipaddress
import socketserver
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from augury._errors import StorageError, UnsupportedError
from augury.cli.show import open_known


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True  # a page that waits does not hold up the end


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def dashboard(url: str, host: str, port: int) -> None:
    """Serve the studies of a storage until an interrupt."""
    try:
        from optuna_dashboard import wsgi
    except ImportError:
        raise UnsupportedError(
            "a dashboard needs the package optuna-dashboard; got none. "
            'Install it with pip install "augury[dashboard]".'
        ) from None
    application = wsgi(open_known(url))
    try:
        server = make_server(host, port, application, _Server, _Quiet)
    except (OSError, OverflowError) as error:
        why = str(getattr(error, "strerror", None) or error).rstrip(".")
        ports = (None, errno.EADDRINUSE, errno.EACCES)  # where that is what is wrong
        option = "--port" if getattr(error, "errno", None) in ports else "--host"
        raise StorageError(
            f"the dashboard must have an address of its own; got {host}:{port}: {why}. "
            f"Choose another {option}."
        ) from error
    with server:
        print(f"dashboard at http://{host}:{server.server_port}/  (Ctrl-C ends it)", flush=True)
        if not _loopback(str(server.server_address[0])):
            print("whoever reaches this address can read and delete the studies", flush=True)
        server.serve_forever()


def _loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback
