"""Which tools a live relay serves: their calls are judged there, when they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.dialects.model.memory_tools import folded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.model import Tenant

_Place = tuple["Tenant", str]


class Relays:
    """Servers behind relays, and the tools that each of them pinned. Event loop only.

    A relay in this process lives as long as it does. One in another is known by the name that it
    gave itself, until its connection ends.
    """

    def __init__(self) -> None:
        self._here: dict[_Place, frozenset[str]] = {}
        self._elsewhere: dict[str, dict[_Place, frozenset[str]]] = {}

    def pinned(
        self, tenant: Tenant, server: str, tools: Iterable[str], relay: str | None = None
    ) -> None:
        """A relay is about to serve these tools of a server."""
        known = self._here if relay is None else self._elsewhere.setdefault(relay, {})
        known[tenant, folded(server)] = frozenset(map(folded, tools))

    def left(self, relay: str) -> None:
        """A relay of another process is gone."""
        self._elsewhere.pop(relay, None)

    def serves(self, tenant: Tenant, server: str, tool: str) -> bool:
        """Whether a call of this tool, of the server that its host calls so, crosses a relay."""
        place, wanted = (tenant, folded(server)), folded(tool)
        return any(
            wanted in known.get(place, ()) for known in (self._here, *self._elsewhere.values())
        )
