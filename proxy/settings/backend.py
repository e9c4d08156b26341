"""The `[[backend]]` tables: upstream memory servers that agents reach only through the gate."""

from __future__ import annotations

import enum
from functools import cached_property
from typing import Annotated, ClassVar

from msgspec import Meta
from msgspec.structs import force_setattr

from policy.model import Hiding, Reads
from proxy.settings.egress import Egress
from proxy.settings.servers import Name, Principals, Text, check_url, headers_from


class Before(enum.Enum):
    """Whether memories are shown that no verdict admitted, such as those from before the gate."""

    SHOW = "show"
    HIDE = "hide"


class Collections(enum.Enum):
    """Who may create a collection: an operator alone, or agents too."""

    EXISTING = "existing"
    CREATE = "create"


class BackendServer(Egress, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[backend]]` table. `url` has no slash at its end."""

    KIND: ClassVar = "backend"

    name: Annotated[
        Name,
        Meta(
            description="The server's name in leaves and commands; its memories are filed under it."
        ),
    ]
    adapter: Annotated[
        Name,
        Meta(
            description="What kind of server it is ([backends.md](backends.md)). It is served "
            "at the paths of its own API."
        ),
    ]
    url: Annotated[Text, Meta(description="Where it is: this one place, whatever a client says.")]
    headers_file: Annotated[
        Text | None,
        Meta(
            description="File with `Name: value` lines, closed to others: the credential that only "
            "the sidecar has. The agent's own is never forwarded."
        ),
    ] = None
    before: Annotated[
        Before,
        Meta(
            description="`show` or `hide` memories that no verdict of this gate let in, such as "
            "those from before it; all tenants see them."
        ),
    ] = Before.SHOW
    quarantine: Annotated[
        Hiding,
        Meta(
            description="How a quarantined memory is hidden: `sift` leaves it out of answers here; "
            "besides, `tag` puts a field into the server's item and a filter into every read, "
            "`remove` deletes the item there and keeps it here."
        ),
    ] = Hiding.SIFT
    collections: Annotated[
        Collections,
        Meta(
            description="`existing`: collections are made by an operator on the server; `create`: "
            "by agents too, below the path of their own tenant. For `chroma`."
        ),
    ] = Collections.EXISTING
    tenant: Annotated[
        Text | None,
        Meta(
            description="The one tenant that may use it. Unset: all may, and then runs and threads "
            "of LangGraph's server, and the whole list and the entities of Mem0's, are refused, "
            "because they show what every tenant has there."
        ),
    ] = None
    principals: Annotated[
        Principals | None, Meta(description="Ids of the principals that may use it; unset: all.")
    ] = None
    reads: Annotated[
        Reads,
        Meta(
            description="`all`, `user_input` or `operator`: the floor for reads; the stricter of "
            "key and table counts. With a floor nothing is created here, and runs and threads of "
            "LangGraph's server are refused. Not for `mem0_server`, which lists 1,000 memories at "
            "most."
        ),
    ] = Reads.ALL
    answer_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=3_600,
            description="Seconds the server has for the beginning of an answer, and again for the "
            "rest of it.",
        ),
    ] = 30.0

    def __post_init__(self) -> None:
        """Refuse a URL that names no single server, and a file of headers that cannot be used."""
        check_url(self.url, has_credential=bool(self.headers))
        force_setattr(self, "url", self.url.rstrip("/"))
        super().__post_init__()

    @cached_property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers in `headers_file`, which every forwarded request gets."""
        return headers_from(self.headers_file)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The settings that some kinds of server cannot have, as keys of `ServerRoutes.unable`."""
        return (
            f'quarantine = "{self.quarantine.value}"',
            f'collections = "{self.collections.value}"',
            *([] if self.reads is Reads.ALL else ["reads"]),
        )

    @property
    def shows_whole(self) -> bool:
        """Whether every principal that may use the server may be shown all of its memories."""
        return self.tenant is not None and self.before is Before.SHOW
