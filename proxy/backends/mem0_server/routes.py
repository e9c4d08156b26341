"""The routes of Mem0's self-hosted server, and what each does with memories.

The table has every route of the server's OpenAPI document, and a test compares the two. A path that
is not in the table is refused, and so is one that administers the server.
"""

from __future__ import annotations

import re
from typing import Final

from proxy.backends.http_backend import RouteTable
from proxy.seams.faults import MalformedRequest
from proxy.seams.http_backend import Does, RoutedRequest
from proxy.seams.operation import HttpRequest, segment_of

SEGMENTS: Final = frozenset(
    {
        "api-keys",
        "auth",
        "configure",
        "entities",
        "generate-instructions",
        "memories",
        "requests",
        "reset",
        "search",
    }
)
MEMORIES: Final = "/memories"

# The answer to every read is rebuilt, because the gate's mark is removed from it.
ADD: Final = RoutedRequest(does=Does.WRITE, operation="add", singly=True)
UPDATE: Final = RoutedRequest(does=Does.WRITE, operation="update", changes_only=True)
DELETE: Final = RoutedRequest(does=Does.REMOVE, operation="delete", singly=True)
DELETE_ALL: Final = RoutedRequest(does=Does.REMOVE, operation="delete_all", singly=True)
DELETE_ENTITY: Final = RoutedRequest(does=Does.REMOVE, operation="delete_entity", singly=True)
SEARCH: Final = RoutedRequest(does=Does.READ, operation="search", remade=True)
LIST: Final = RoutedRequest(does=Does.READ, operation="list", remade=True)
GET: Final = RoutedRequest(does=Does.READ, operation="get", remade=True)
HISTORY: Final = RoutedRequest(does=Does.READ, operation="history", remade=True)
# Without an id the server lists the memories of all users, to an administrator only.
LIST_ALL: Final = RoutedRequest(does=Does.READ, operation="list_all", remade=True, whole=True)
# The server counts the memories of all users, hidden ones too, so the answer is built from a list.
ENTITIES: Final = RoutedRequest(does=Does.READ, operation="entities", remade=True, whole=True)
_ADMIN: Final = RoutedRequest(does=Does.ADMIN, operation="admin")

# A star matches one segment of a path.
_ROWS: Final = {
    ("POST", "memories"): ADD,
    ("GET", "memories"): LIST,
    ("DELETE", "memories"): DELETE_ALL,
    ("GET", "memories/*"): GET,
    ("PUT", "memories/*"): UPDATE,
    ("DELETE", "memories/*"): DELETE,
    ("GET", "memories/*/history"): HISTORY,
    ("POST", "search"): SEARCH,
    ("GET", "entities"): ENTITIES,
    ("DELETE", "entities/*/*"): DELETE_ENTITY,
    # The configuration names the vector store, so that a new one would replace the store.
    ("GET", "configure"): _ADMIN,
    ("POST", "configure"): _ADMIN,
    ("GET", "configure/providers"): _ADMIN,
    ("POST", "reset"): _ADMIN,
    ("POST", "generate-instructions"): _ADMIN,
    ("GET", "requests"): _ADMIN,
    ("GET", "api-keys"): _ADMIN,
    ("POST", "api-keys"): _ADMIN,
    ("DELETE", "api-keys/*"): _ADMIN,
    ("GET", "auth/setup-status"): _ADMIN,
    ("POST", "auth/register"): _ADMIN,
    ("POST", "auth/login"): _ADMIN,
    ("POST", "auth/refresh"): _ADMIN,
    ("GET", "auth/me"): _ADMIN,
    ("PATCH", "auth/me"): _ADMIN,
    ("POST", "auth/change-password"): _ADMIN,
    ("POST", "auth/onboarding-complete"): _ADMIN,
}
TABLE: Final = RouteTable(_ROWS)
ENTITY_FIELDS: Final = {"user": "user_id", "agent": "agent_id", "run": "run_id"}
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def route_of(request: HttpRequest) -> RoutedRequest | None:
    """The row of the table; `LIST_ALL` for a list without an id, None for an unknown route."""
    routed = TABLE.route_of(request)
    names_one = any(name in ENTITY_FIELDS.values() and text for name, text in request.query)
    return LIST_ALL if routed is LIST and not names_one else routed


def memory_id_of(path: str) -> str:
    """The id of the memory in a path.

    Raises:
        MalformedRequest: The path has no id in the server's own spelling. PostgreSQL accepts a UUID
            in other spellings, but each memory must have exactly one key here.
    """
    segments = path.split("/")
    memory_id = segments[2] if len(segments) > 2 else ""  # noqa: PLR2004 - "", "memories", the id
    return known_id(memory_id)


def known_id(memory_id: str) -> str:
    """The id of a memory, checked to be spelled as the server does.

    Raises:
        MalformedRequest: The id has another form.
    """
    if not is_known_id(memory_id):
        raise MalformedRequest("memory_id: not the id of a memory", status=400)
    return memory_id


def is_known_id(memory_id: str) -> bool:
    """Whether a string is an id of a memory, spelled as the server does."""
    return _ID.fullmatch(memory_id) is not None


def entity_of(path: str) -> tuple[str, str]:
    """The field and the id of the entity in a path of `/entities`.

    Raises:
        MalformedRequest: There is no such kind of entity.
    """
    _, _, kind, entity_id = path.split("/")
    if kind not in ENTITY_FIELDS:
        raise MalformedRequest("entity_type: user, agent or run")
    return ENTITY_FIELDS[kind], segment_of(entity_id)
