"""Where studies are kept: SQLite files, databases by URL, and journal files."""

import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DataError, NotSupportedError, ProgrammingError, SQLAlchemyError

from augury._errors import AuguryError, StorageError

Storage = str | os.PathLike[str] | BaseStorage
BUSY_SECONDS = 60  # that a process waits for others to release an SQLite file
JOURNAL = "journal:///"
SECRET = re.compile(  # also where a slash is missing, or a user's name has an @
    r":/+[^:/]*:(.+)@|[?&][^=&]*passw(?:or)?d=([^&]+)", re.IGNORECASE
)
FOR_GOOD = re.compile(  # in what databases say of errors that do not pass
    "no such (table|column)|readonly|unable to open|not a database|malformed|password|authentication|"
    "permission denied|access denied|does not exist|pg_hba",
    re.IGNORECASE,
)
ATTEMPTS = 5  # to create tables, which other processes may be creating at the same time


def open_storage(storage: Storage, *, only_read: bool = False) -> BaseStorage:
    """A storage of Optuna's: from a path, a URL, or as it is.

    A path is that of an SQLite file, which several processes may use at once (write-ahead logging, and
    patience while it is locked); `journal:///path` is a journal file, which also works on network file
    systems; every other URL is SQLAlchemy's. What is only read may be what we cannot write.
    """
    if isinstance(storage, BaseStorage):
        return storage
    if not isinstance(storage, str | os.PathLike) or not str(storage):
        raise StorageError(
            f"storage must be a path, a URL or a storage of Optuna's; got {storage!r}. "
            'Write storage="study.db", for example.'
        )
    text = os.fspath(storage)
    if text.startswith(JOURNAL):
        path = Path(text.removeprefix(JOURNAL))
        with explained(text):
            if not only_read:
                _writable(path)
            return _journal(path)
    url = _url(text)
    if find_spec("psycopg") is not None:  # older versions of SQLAlchemy would take another driver
        url = re.sub(r"^postgresql://", "postgresql+psycopg://", url)
    with explained(url):
        return _database(url, only_read)


def close_storage(storage: BaseStorage) -> None:
    """Close the connections to a database; they are made anew if it is used again."""
    database = getattr(storage, "_backend", storage)  # Optuna's cache has another one behind it
    if isinstance(database, RDBStorage):
        database.scoped_session.remove()
        database.engine.dispose()


def _url(text: str) -> str:
    return text if re.match(r"[a-z][a-z0-9+]*://", text) else f"sqlite:///{text}"


def file_of(storage: Storage) -> Path | None:
    """The SQLite or journal file of a storage; None of another one."""
    if not isinstance(storage, str | os.PathLike):
        return None
    text = os.fspath(storage)
    if text.startswith(JOURNAL):
        return Path(text.removeprefix(JOURNAL))
    with explained(text):
        parsed = make_url(_url(text))
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database
    return Path(str(parsed.database)).absolute() if is_file else None


def remove_unused(storage: BaseStorage, path: Path) -> None:
    """Close a storage, and remove its file if that has no studies and no other process uses it."""
    empty = not storage.get_all_studies()
    close_storage(storage)
    if not empty:
        return
    if isinstance(storage, JournalStorage):
        path.unlink(missing_ok=True)
        return
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=0.0)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # an error unless we are the only ones
        path.unlink(missing_ok=True)


def _journal(path: Path) -> BaseStorage:
    try:
        return JournalStorage(JournalFileBackend(str(path)))
    except (LookupError, TypeError, AttributeError, AssertionError):  # on which its replay stumbles
        raise ValueError("it is no journal of Optuna's") from None


def _database(url: str, only_read: bool) -> BaseStorage:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":  # a connection that broke is made anew
        return _created(url, {"pool_pre_ping": True}, skip_table_creation=only_read)
    if parsed.database in (None, "", ":memory:") or parsed.query.get("mode") == "memory":
        raise StorageError(
            f"the storage {url} must be one that every connection sees; got a database in memory. "
            "Give the path of a file, or no storage."
        )
    path = Path(str(parsed.database)).absolute()
    if only_read:
        return _looked_at(url, path)
    _writable(path)
    storage = _created(url, {"connect_args": {"timeout": BUSY_SECONDS}}, kind=SQLiteStorage)
    event.listen(storage.engine, "connect", _faster)
    event.listen(storage.engine, "begin", _locked_from_the_start)
    storage.engine.dispose()  # connections made so far
    with storage.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")  # of the file, from now on
    return storage


def _looked_at(url: str, path: Path) -> BaseStorage:
    """An SQLite file that may be on a medium, or another one's; nothing is written to it."""

    def connected(how: str) -> sqlite3.Connection:
        place = f"file:{quote(str(path))}?{how}"
        return sqlite3.connect(place, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)

    try:
        return _created(url, {"creator": lambda: connected("mode=rw")}, skip_table_creation=True)
    except (SQLAlchemyError, StorageInternalError):
        if Path(f"{path}-wal").exists():  # parts of it are there
            raise
        # of a folder that we cannot write; what has no log, nobody is writing
        return _created(url, {"creator": lambda: connected("immutable=1")}, skip_table_creation=True)


def _faster(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA synchronous=NORMAL")  # as safe as the default, with write-ahead logging


class SQLiteStorage(RDBStorage):
    """Optuna's storage in an SQLite file, where of two processes that begin or end a trial one succeeds.

    Optuna reads the state of a trial by SELECT … FOR UPDATE, which SQLite takes for a plain SELECT: two
    processes could both find a trial waiting, and both evaluate it. Here the file is locked before.
    """

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """Whether this call changed the state."""
        _lock_first.wanted = True
        try:
            return bool(super().set_trial_state_values(trial_id, state, values))
        finally:
            _lock_first.wanted = False


_lock_first = threading.local()  # whether this thread's transactions lock the file when they begin


def _locked_from_the_start(connection: Any) -> None:
    if getattr(_lock_first, "wanted", False):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _created(
    url: str, settings: dict[str, Any], *, kind: type[RDBStorage] = RDBStorage, **more: Any
) -> RDBStorage:
    for attempt in range(ATTEMPTS):
        try:
            return kind(url, engine_kwargs=settings, **more)
        except (SQLAlchemyError, StorageInternalError) as error:
            others = any(word in str(error).lower() for word in ("exists", "locked", "unique"))
            if not others or attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.2 * 2**attempt)
        except RuntimeError as error:
            raise _unusable(
                url,
                "its tables are of another version of Optuna",
                "Update Optuna if they are newer, else run optuna storage upgrade --storage URL",
            ) from error
    raise AssertionError


def _writable(path: Path) -> None:
    """An error of the operating system, if a file can not be written; a new one is not made."""
    if path.exists():
        with path.open("r+b"):
            return
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"the folder {path.parent} cannot be written")


def may_pass(error: Exception) -> bool:
    """Whether an error of a storage may pass by itself: it is away, or others are using it."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
    if isinstance(cause, OSError):
        return not isinstance(cause, PermissionError | FileNotFoundError | IsADirectoryError)
    if isinstance(cause, ProgrammingError | NotSupportedError | DataError):
        return False
    return not FOR_GOOD.search(str(getattr(cause, "orig", None) or cause))


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Errors of a database in one sentence, without its password."""
    try:
        yield
    except AuguryError:
        raise
    except ArgumentError as error:
        raise _unusable(
            url, "it is no URL", "Write a path, or a URL such as sqlite:///study.db"
        ) from error
    except ImportError as error:
        what = f"the package {_missing(error)} is not installed"
        remedy = "Install the driver of the database"
        if url.startswith("postgresql://"):
            remedy += ', here with pip install "augury[postgresql]"'
        raise _unusable(url, what, remedy) from None
    except (SQLAlchemyError, StorageInternalError, OSError, ValueError) as error:
        cause = error.__cause__ or error
        text = str(getattr(cause, "orig", None) or cause).strip().splitlines()
        what = text[0] if text else type(cause).__name__
        raise _unusable(url, what, "Correct the address, or use a backup") from None


def _missing(error: ImportError) -> str:
    """The name of the package that was not found."""
    cause = error.__cause__
    return error.name or (isinstance(cause, ImportError) and cause.name) or "of its driver"


def _unusable(url: str, what: str, remedy: str) -> StorageError:
    return StorageError(
        f"the storage {without_password(url)} must be usable; got: {hidden(url, what).rstrip('.')}. "
        f"{remedy}."
    )


def without_password(url: str) -> str:
    """A URL for logs and errors."""
    return re.sub(SECRET, lambda found: found.group().replace(found[1] or found[2], "***"), url)


def hidden(url: str, text: str) -> str:
    """A text without the password of a URL."""
    for found in re.finditer(SECRET, url):
        secret = found[1] or found[2]
        # as it stands in the URL, as it was meant, and the parts of one that has an unquoted @
        for word in sorted({secret, unquote(secret), *secret.split("@")}, key=len, reverse=True):
            text = text.replace(word, "***") if word else text
    return text
