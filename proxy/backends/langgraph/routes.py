"""The routes of LangGraph's server, and what each does with memories.

The table has every route of the server's OpenAPI document, and a test compares the two. A path that
is not in the table is refused, and so is one that administers the server.
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
# The answer of a run or a thread may contain text out of the store. It is shown or refused as a
# whole.
TOLD: Final = RoutedRequest(does=Does.READ, operation="told", whole=True)
# A read, because the answer contains the thread, which may exist already.
NEW_THREAD: Final = RoutedRequest(does=Does.READ, operation="new_thread", whole=True)
# The beginning of a run; its body may not edit a thread's state or name a webhook.
RUN: Final = RoutedRequest(does=Does.READ, operation="run", whole=True)
_OTHER: Final = RoutedRequest(does=Does.OTHER, operation="other")
_SHARED: Final = RoutedRequest(does=Does.OTHER, operation="other", whole=True)
_ADMIN: Final = RoutedRequest(does=Does.ADMIN, operation="admin")

# A star matches one segment of a path.
_ROWS: Final = {
    ("PUT", "store/items"): PUT,
    ("DELETE", "store/items"): DELETE,
    ("GET", "store/items"): GET,
    ("POST", "store/items/search"): SEARCH,
    ("POST", "store/namespaces"): NAMESPACES,
    ("GET", "ok"): _OTHER,
    ("GET", "info"): _OTHER,
    # Runs. A run may write to the store inside the server, unseen by this gate.
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
    # Threads: reading them is allowed; editing their state by hand is administration.
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
    # A client begins a conversation with this route. An initial state in the body is refused.
    ("POST", "threads"): NEW_THREAD,
    # The server does not report who owns a thread, so no agent may change or delete one.
    ("POST", "threads/prune"): _ADMIN,
    ("PATCH", "threads/*"): _ADMIN,
    ("DELETE", "threads/*"): _ADMIN,
    ("POST", "threads/*/state"): _ADMIN,
    ("POST", "threads/*/copy"): _ADMIN,
    # Assistants and schedules are configuration: agents may read them only.
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
