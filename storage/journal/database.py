"""Connections to a PostgreSQL database, and the refusal of one that would not keep its promises.

All statements run on one event loop, on a thread of its own. No statement leaves a state in its
session: none is prepared under a name, sets a variable, listens, or locks beyond its transaction.
So a pooler that gives each transaction another session changes nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from ipaddress import ip_address
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none

from storage.ground.errors import StorageError, StoreUnavailable, TransactionFailed

T = TypeVar("T")

_driver: Final[Any] = asyncpg
AlreadyThere: Final[type[Exception]] = _driver.UniqueViolationError
_FAILURES: Final[tuple[type[Exception], ...]] = (
    *(_driver.PostgresError, _driver.InterfaceError),
    *(OSError, OverflowError, ValueError),
)

CONNECT_S: Final = 5.0
ANSWER_S: Final = 8.0
"""How long a statement may take, unless its caller gives it longer."""
_VERSION_MIN: Final = 140_000
_SERVER: Final = """
select current_setting('server_version_num')::int as version,
  current_setting('fsync') as fsync, current_setting('synchronous_commit') as commits,
  current_setting('transaction_read_only') as read_only,
  current_setting('synchronous_standby_names') as standbys
"""
NO_STANDBY: Final = (
    "the database confirms a commit without a synchronous standby: if its disk is lost, so are "
    "memories that were acknowledged"
)


class UnfitDatabase(StorageError):  # noqa: N818 - as its siblings: named for what it is
    """The error for a database that would not keep what it confirms, or a URL that is unsafe."""


class Session:
    """A connection of asyncpg, which has no types: what a journal uses of it."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - see above
        self.execute: Callable[[str], Awaitable[object]] = connection.execute
        self.transaction: Callable[[], AbstractAsyncContextManager[object]] = connection.transaction
        self.is_closed: Callable[[], bool] = connection.is_closed
        self.terminate: Callable[[], None] = connection.terminate
        self._prepare = connection.prepare
        self._described: dict[str, Callable[..., Awaitable[list[object]]]] = {}

    async def fetch(self, statement: str, *given: object) -> list[Any]:
        """The rows that a statement returns, by names of columns.

        What types a statement takes and returns is asked once. It has no name in the session, so
        that its text is sent each time; then one round trip does all.
        """
        if statement not in self._described:
            self._described[statement] = (await self._prepare(statement)).fetch
        return await self._described[statement](*given)


class Database:
    """Connections to one database, one for each `line`, which does one thing at a time. Any thread.

    Errors name the reason, and never the URL, which may contain a password.
    """

    def __init__(self, url: str) -> None:
        """Start the thread; connections are made when they are needed.

        Raises:
            UnfitDatabase: The URL names no database, or one whose identity is not verified.
        """
        refuse_unverified(url)
        self._url = url
        self._sessions: dict[str, Session] = {}
        self._busy: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="mnemogate-journal", daemon=True
        )
        self._thread.start()

    def run(
        self, line: str, work: Callable[[Session], Awaitable[T]], limit_s: float = ANSWER_S
    ) -> T:
        """Do some work with the connection of a line; return its result. Blocks.

        Raises:
            StoreUnavailable: There is no connection; nothing was sent.
            TransactionFailed: The work failed, or took longer; what it did last may be durable.
        """
        return asyncio.run_coroutine_threadsafe(self._run(line, work, limit_s), self._loop).result()

    def rows(
        self, line: str, statement: str, *given: object, limit_s: float = ANSWER_S
    ) -> list[Any]:
        """The rows that one statement returns, which is a transaction by itself (`run`)."""

        async def fetch(connection: Session) -> list[Any]:
            return await connection.fetch(statement, *given)

        return self.run(line, fetch, limit_s)

    async def _run(self, name: str, work: Callable[[Session], Awaitable[T]], limit_s: float) -> T:
        async with self._busy[name]:
            session = self._sessions.get(name)
            if session is None or session.is_closed():
                session = self._sessions[name] = await self._connected()
            try:
                async with asyncio.timeout(limit_s):
                    return await work(session)
            except _FAILURES as error:
                # Whatever is still under way in this session must not be waited for.
                session.terminate()
                raise TransactionFailed(f"the database: {_why(error)}") from None

    async def _connected(self) -> Session:
        try:
            # Without a cache no statement has a name.
            connection = await _driver.connect(self._url, timeout=CONNECT_S, statement_cache_size=0)
        except _FAILURES as error:
            raise StoreUnavailable(f"no connection to the database: {_why(error)}") from None
        return Session(connection)

    def close(self) -> None:
        """Close all connections and end the thread. Idempotent; call nothing after it."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join()
        self._loop.close()

    def _end(self) -> None:
        for session in self._sessions.values():
            session.terminate()
        # The transports close in the turn of the loop that `stop` still lets run.
        self._loop.call_soon(self._loop.stop)


def refuse_unverified(url: str) -> None:
    """Refuse a URL of a database on another machine whose certificate is not verified.

    Raises:
        UnfitDatabase: The URL is none of a PostgreSQL database, or needs `sslmode=verify-full`.
    """
    try:
        parts = urlsplit(url)
        asked = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise UnfitDatabase("the URL of the database is none") from None
    named = parts.netloc.rpartition("@")[2]
    hosts = [unquote(one) for one in named.split(",") if one] + asked.get("host", [])
    if parts.scheme not in {"postgresql", "postgres"} or not hosts:
        raise UnfitDatabase("the URL of the database must be postgresql://USER@HOST:PORT/NAME")
    if asked.get("sslmode") != ["verify-full"] and not all(map(_is_local, hosts)):
        raise UnfitDatabase(
            "the database is on another machine: without sslmode=verify-full in its URL, whoever "
            "is between could be the database"
        )


def _is_local(host: str) -> bool:
    """Whether a host of a URL, with or without a port, is a Unix socket or this machine."""
    if host.startswith("/"):
        return True
    bare = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        return ip_address(bare).is_loopback
    except ValueError:
        return bare == "localhost"


async def check_server(connection: Session) -> tuple[str, ...]:
    """Refuse a server that would not keep what it confirms; return remarks about it.

    Raises:
        UnfitDatabase: The server is too old, read-only, or confirms what is not on its disk.
    """
    [found] = await connection.fetch(_SERVER)
    if found["version"] < _VERSION_MIN:
        raise UnfitDatabase("the database is PostgreSQL before 14: a journal needs 14 or later")
    for setting, value in (("fsync", found["fsync"]), ("synchronous_commit", found["commits"])):
        if value == "off":
            raise UnfitDatabase(f"the database has {setting} = off: it confirms what it can lose")
    if found["read_only"] == "on":
        raise UnfitDatabase("the database is read-only: name the primary, not a replica of it")
    return () if found["standbys"] and found["commits"] != "local" else (NO_STANDBY,)


def _why(error: Exception) -> str:
    """The reason of an error in words, without the URL."""
    if isinstance(error, _driver.PostgresError):
        return str(error).partition("\n")[0]
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    # A message about a URL may quote it.
    return type(error).__name__
