"""The routes of LangGraph's server, and what each does with memories.

The table has every route of the server's OpenAPI; a test holds it against one. A path that is not
here is refused, and so is one that administers the server.
"""

from __future__ import annotations

from typing import Final

from proxy.backends.http_backend import RouteTable
from proxy.seams.http_backend import Does, RoutedRequest

SEGMENTS: Final = frozenset({"assistants", "info", "ok", "runs", "store", "threads"})

PUT: Final = RoutedRequest(does=Does.WRITE, operation="put")
DELETE: Final = RoutedRequest(does=Does.REMOVE, operation="delete")
GET: Final = RoutedRequest(does=Does.READ, operation="get")
SEARCH: Final = RoutedRequest(does=Does.READ, operation="search")
NAMESPACES: Final = RoutedRequest(does=Does.READ, operation="namespaces")
# What a run or a thread answers is text that may have come out of the store. It is one whole: it
# is shown, or refused.
TOLD: Final = RoutedRequest(does=Does.READ, operation="told", whole=True)
# It answers with the thread, and that may be one which is there already.
NEW_THREAD: Final = RoutedRequest(does=Does.READ, operation="new_thread", whole=True)
# A run begins. Its body has no member that changes a thread by hand, or calls somebody else.
RUN: Final = RoutedRequest(does=Does.READ, operation="run", whole=True)
_OTHER: Final = RoutedRequest(does=Does.OTHER, operation="other")
_SHARED: Final = RoutedRequest(does=Does.OTHER, operation="other", whole=True)
_ADMIN: Final = RoutedRequest(does=Does.ADMIN, operation="admin")

# A star stands for one segment.
_ROWS: Final = {
    ("PUT", "store/items"): PUT,
    ("DELETE", "store/items"): DELETE,
    ("GET", "store/items"): GET,
    ("POST", "store/items/search"): SEARCH,
    ("POST", "store/namespaces"): NAMESPACES,
    ("GET", "ok"): _OTHER,
    ("GET", "info"): _OTHER,
    # Runs. A run may write to the store inside the server; nobody outside sees that.
    ("POST", "runs"): RUN,
    ("POST", "runs/wait"): RUN,
    ("POST", "runs/stream"): RUN,
    ("POST", "runs/batch"): RUN,
    ("POST", "runs/cancel"): _ADMIN,
    ("POST", "threads/*/runs"): RUN,
    ("POST", "threads/*/runs/wait"): RUN,
    ("POST", "threads/*/runs/stream"): RUN,
    ("GET", "threads/*/runs"): TOLD,
    ("GET", "threads/*/runs/*"): TOLD,
    ("GET", "threads/*/runs/*/join"): TOLD,
    ("GET", "threads/*/runs/*/stream"): TOLD,
    ("POST", "threads/*/runs/*/cancel"): _SHARED,
    ("DELETE", "threads/*/runs/*"): _ADMIN,
    # Threads: what they say is read. Changing their state by hand is administration.
    ("GET", "threads/*"): TOLD,
    ("POST", "threads/search"): TOLD,
    ("POST", "threads/count"): _ADMIN,
    ("GET", "threads/*/state"): TOLD,
    ("GET", "threads/*/state/*"): TOLD,
    ("POST", "threads/*/state/checkpoint"): TOLD,
    ("GET", "threads/*/history"): TOLD,
    ("POST", "threads/*/history"): TOLD,
    ("GET", "threads/*/stream"): TOLD,
    ("POST", "threads/*/stream/events"): TOLD,
    ("GET", "threads/*/storage"): TOLD,
    ("POST", "threads/*/commands"): _ADMIN,
    # A client begins a conversation with it. A state that the thread would begin with is refused.
    ("POST", "threads"): NEW_THREAD,
    # Whose a thread is, the server does not say, so nobody changes or deletes one.
    ("POST", "threads/prune"): _ADMIN,
    ("PATCH", "threads/*"): _ADMIN,
    ("DELETE", "threads/*"): _ADMIN,
    ("POST", "threads/*/state"): _ADMIN,
    ("POST", "threads/*/copy"): _ADMIN,
    # Assistants and schedules configure what runs.
    ("POST", "assistants/search"): TOLD,
    ("POST", "assistants/count"): _SHARED,
    ("GET", "assistants/*"): TOLD,
    ("GET", "assistants/*/graph"): TOLD,
    ("GET", "assistants/*/schemas"): TOLD,
    ("GET", "assistants/*/subgraphs"): TOLD,
    ("GET", "assistants/*/subgraphs/*"): TOLD,
    ("POST", "assistants/*/versions"): TOLD,
    ("POST", "assistants"): _ADMIN,
    ("PATCH", "assistants/*"): _ADMIN,
    ("DELETE", "assistants/*"): _ADMIN,
    ("POST", "assistants/*/latest"): _ADMIN,
    ("POST", "runs/crons"): _ADMIN,
    ("POST", "runs/crons/search"): TOLD,
    ("POST", "runs/crons/count"): _ADMIN,
    ("GET", "runs/crons/*"): TOLD,
    ("PATCH", "runs/crons/*"): _ADMIN,
    ("DELETE", "runs/crons/*"): _ADMIN,
    ("POST", "threads/*/runs/crons"): _ADMIN,
}
TABLE: Final = RouteTable(_ROWS)
route_of: Final = TABLE.route_of
