"""The `[[backend]]` tables: memory servers that stay, with the gate in front of them."""

from __future__ import annotations

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from policy.model import Hiding, Reads
from proxy.settings.servers import NAME_PATTERN, Text, check_url, headers_from
from proxy.settings.values import BadValue, table_of


class Before(enum.Enum):
    """What becomes of memories that the server had before the gate."""

    SHOW = "show"
    HIDE = "hide"


class Collections(enum.Enum):
    """Whose act it is to make a collection."""

    EXISTING = "existing"
    CREATE = "create"


class BackendTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[backend]]` table, as it stands in the file."""

    name: Annotated[str, Meta(pattern=NAME_PATTERN)]
    adapter: Annotated[str, Meta(pattern=NAME_PATTERN)]
    url: Text
    headers_file: Text | None = None
    before: Before = Before.SHOW
    quarantine: Hiding = Hiding.SIFT
    collections: Collections = Collections.EXISTING
    tenant: Text | None = None
    principals: Annotated[frozenset[Text], Meta(min_length=1, max_length=256)] | None = None
    reads: Reads = Reads.ALL
    answer_seconds: Annotated[float, Meta(ge=1, le=3_600)] = 30.0


MEANINGS: Final[dict[str, str]] = {
    "name": "The server's name in leaves and commands; its memories are filed under it.",
    "adapter": "What kind of server it is: `chroma`, `langgraph` or `mem0_server`. It is served at "
    "the paths of its own API.",
    "url": "Where it is: this one place, whatever a client says.",
    "headers_file": "File with `Name: value` lines, closed to others: the credential that only the "
    "sidecar has. The agent's own is never forwarded.",
    "before": "`show` or `hide` memories that no verdict of this gate let in, such as those from "
    "before it; all tenants see them.",
    "quarantine": "How a quarantined memory is hidden: `sift` leaves it out of answers here; "
    "besides, `tag` puts a field into the server's item and a filter into every read, `remove` "
    "deletes the item there and keeps it here.",
    "collections": "`existing`: collections are made by an operator on the server; `create`: by "
    "agents too, below the path of their own tenant. For `chroma`.",
    "tenant": "The one tenant that may use it. Unset: all may, and then runs and threads of "
    "LangGraph's server, and the whole list and the entities of Mem0's, are refused, because they "
    "show what every tenant has there.",
    "principals": "Ids of the principals that may use it; unset: all.",
    "reads": "`all`, `user_input` or `operator`: the floor for reads; the stricter of key and "
    "table counts. With a floor nothing is created here, and runs and threads of LangGraph's "
    "server are refused. Not for `mem0_server`, which lists 1,000 memories at most.",
    "answer_seconds": "Seconds the server has for the beginning of an answer, and again for the "
    "rest of it.",
}


class BackendServer(BackendTable, frozen=True, kw_only=True):
    """One memory server, checked. `url` has no slash at its end."""

    headers: tuple[tuple[str, str], ...]

    @property
    def chosen(self) -> tuple[str, ...]:
        """The settings that not every kind of server can have, as they stand in a table."""
        return (
            f'quarantine = "{self.quarantine.value}"',
            f'collections = "{self.collections.value}"',
            *([] if self.reads is Reads.ALL else ["reads"]),
        )

    @property
    def shows_whole(self) -> bool:
        """Whether all that the server has may be shown to whoever may use it."""
        return self.tenant is not None and self.before is Before.SHOW


def backend_servers(tables: list[object]) -> tuple[BackendServer, ...]:
    """The memory servers of these tables.

    Raises:
        BadValue: Names the table and the error, and no secret.
    """
    found: list[BackendServer] = []
    for position, table in enumerate(tables, 1):
        try:
            found.append(_server(table_of(table, BackendTable)))
        except BadValue as error:
            raise BadValue(f"backend, table {position}: {error}") from None
    for what in ("name", "adapter"):
        said = [getattr(one, what) for one in found]
        if len(set(said)) != len(said):
            raise BadValue(f"backend: two tables have the same {what}")
    return tuple(found)


def _server(given: BackendTable) -> BackendServer:
    headers = headers_from(given.headers_file)
    check_url(given.url, has_credential=bool(headers))
    found = BackendServer(**asdict(given), headers=headers)
    return msgspec.structs.replace(found, url=given.url.rstrip("/"))
