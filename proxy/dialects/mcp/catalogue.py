"""Digests of a server's tools, to be pinned: a tool whose definition changes needs approval."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from policy.model import NAME_LEN_MAX
from proxy.dialects.strict_json.strict import JsonValue, canonical_json
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import TOOLS_MAX, PinnedTool

# The members of a tool's definition that its digest covers. Together with `PINNED_IF_GIVEN` these
# are all members that a client gets.
PINNED: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
PINNED_IF_GIVEN: Final = ("icons", "execution", "_meta")
# Values with which a member of `PINNED_IF_GIVEN` counts as absent.
_NOTHING: Final[tuple[JsonValue, ...]] = (None, [], {}, {"taskSupport": "forbidden"})


def pinned_tools(pages: Iterable[JsonValue]) -> tuple[PinnedTool, ...]:
    """The tools of a whole list (one result per page), sorted by name, each with its digest.

    The digest is SHA-256 over the canonical JSON (RFC 8785) of a tool's pinned members; null counts
    like an absent member.

    Raises:
        MalformedRequest: A result has no list of tools, a tool has no name, two tools have the same
            name, or there are too many tools.
    """
    found: dict[str, PinnedTool] = {}
    for page in pages:
        for tool in _tools(page):
            pinned = _pinned(tool)
            if pinned.name in found:
                raise MalformedRequest("tools: two of them have the same name")
            found[pinned.name] = pinned
            if len(found) > TOOLS_MAX:
                raise MalformedRequest(f"tools: more than {TOOLS_MAX}")
    return tuple(found[name] for name in sorted(found))


def next_cursor(page: JsonValue) -> str | None:
    """The cursor at which the next page of a list begins; None on the last page."""
    cursor = page.get("nextCursor") if isinstance(page, dict) else None
    return cursor if isinstance(cursor, str) else None


def _tools(page: JsonValue) -> list[JsonValue]:
    tools = page.get("tools") if isinstance(page, dict) else None
    if not isinstance(tools, list):
        raise MalformedRequest("tools: the result holds no list of them")
    return tools


def _pinned(tool: JsonValue) -> PinnedTool:
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or not isinstance(name, str) or not 0 < len(name) <= NAME_LEN_MAX:
        raise MalformedRequest("tools: one of them has no name, or a very long one")
    said: dict[str, JsonValue] = {
        member: tool[member] for member in PINNED if tool.get(member) is not None
    }
    more = {member: tool.get(member) for member in PINNED_IF_GIVEN}
    said |= {member: value for member, value in more.items() if value not in _NOTHING}
    digest = hashlib.sha256(canonical_json(said).encode("utf-8")).hexdigest()
    return PinnedTool(name=name, digest=digest)
