"""Which tools a live relay serves: their calls are judged there, when they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.dialects.model.memory_tools import folded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.model import Principal, Tenant

_Place = tuple["Tenant", str, str]
# A peer of the gate's socket that nobody bound to a principal: whose agent it stands beside is not
# known, so it stands beside every one of its tenant.
_UNBOUND: Final = "uid:"
_ANYONE: Final = ""


class Relays:
    """Servers behind relays, and the tools that each of them pinned. Event loop only.

    A relay in this process lives as long as it does. One in another is known by the name that it
    gave itself, until its connection ends.
    """

    def __init__(self) -> None:
        self._here: dict[_Place, frozenset[str]] = {}
        self._elsewhere: dict[str, dict[_Place, frozenset[str]]] = {}

    def pinned(
        self, principal: Principal, server: str, tools: Iterable[str], relay: str | None = None
    ) -> None:
        """A relay of this principal's agent is about to serve these tools of a server."""
        known = self._here if relay is None else self._elsewhere.setdefault(relay, {})
        name: str = principal.principal_id
        owner = _ANYONE if name.startswith(_UNBOUND) else name
        known[principal.tenant, owner, folded(server)] = frozenset(map(folded, tools))

    def left(self, relay: str) -> None:
        """A relay of another process is gone."""
        self._elsewhere.pop(relay, None)

    def serves(self, principal: Principal, server: str, tool: str) -> bool:
        """Whether a call of this tool, of the server that its host calls so, crosses a relay.

        Another agent's relay is not on this one's way, whatever its server is called.
        """
        name, wanted = folded(server), folded(tool)
        places = tuple(
            (principal.tenant, owner, name) for owner in (principal.principal_id, _ANYONE)
        )
        return any(
            wanted in known.get(place, ())
            for known in (self._here, *self._elsewhere.values())
            for place in places
        )
