"""Replies of a model that come back on a route that asks none: results of batches, lists.

Their calls are judged like those of any other reply. What was asked for them is not known here, so
what they write comes from nobody known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.dialects.model.api import ANTHROPIC, CHAT, RESPONSES
from proxy.dialects.model.body import read_json, write_body
from proxy.dialects.model.reading import list_of
from proxy.dialects.operation import MalformedRequest
from proxy.model.deciding import Deciding
from proxy.upstream import UpstreamError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.dialects.model.api import ModelApi
    from proxy.dialects.model.body import Json
    from proxy.model.coupling import Asked, Coupling, Prepared

# No call is spelled without one of these, unless its letters are escaped.
_MARKS: Final = (b"tool_", b"function_call", b"\\u00")
_OBJECT: Final = (b'{"', b'[{"')


class Fetched:
    """The replies in one answer. Its methods are called by one task."""

    def __init__(
        self, coupling: Coupling, halt: Callable[[], None], asked: Callable[[ModelApi], Asked]
    ) -> None:
        """`asked` makes the request of an API that holds nothing."""
        self._coupling = coupling
        self._deciding = Deciding(coupling, halt)
        self._asked = asked
        self._prepared: dict[str, Prepared] = {}

    async def edited(self, raw: bytes) -> bytes:
        """The answer without calls that are refused; the same bytes where none is."""
        if not any(mark in raw for mark in _MARKS):
            return raw
        try:
            value = read_json(raw)
            made = await self._walked(value)
            return raw if made is value else write_body(made)
        except MalformedRequest:
            lines = raw.splitlines(keepends=True)
        return b"".join([await self._line(line) for line in lines])

    async def _line(self, line: bytes) -> bytes:
        """One line of JSON Lines; what others may be able to read as one, and we cannot, is none.

        Raises:
            UpstreamError: It may hold a call that nobody can judge.
        """
        try:
            value = read_json(line)
        except MalformedRequest:
            if line.lstrip().startswith(_OBJECT) and any(mark in line for mark in _MARKS):
                raise UpstreamError("the server behind sent a reply that is not JSON") from None
            return line
        made = await self._walked(value)
        return line if made is value else write_body(made) + b"\n"

    async def _walked(self, value: Json) -> Json:
        if isinstance(value, list):
            parts = [await self._walked(part) for part in value]
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
        if not isinstance(value, dict):
            return value
        api = _api_of(value)
        if api is not None:
            return await self._reply(api, value)
        made = {key: await self._walked(part) for key, part in value.items()}
        return value if all(made[key] is part for key, part in value.items()) else made

    async def _reply(self, api: ModelApi, body: dict[str, Json]) -> dict[str, Json]:
        reply = api.whole()
        waiting = reply.feed(body)
        if not waiting:
            return body
        prepared = self._prepared.get(api.name)
        if prepared is None:
            prepared = await self._coupling.prepare(self._asked(api))
            self._prepared[api.name] = prepared
        for one in await self._deciding.decide(prepared, waiting, reply.said()):
            reply.decide(one)
        return reply.edited()


def _api_of(value: dict[str, Json]) -> ModelApi | None:
    """The API whose reply an object is."""
    if value.get("type") == "message" and value.get("role") == "assistant":
        return ANTHROPIC
    if list_of(value.get("choices")):
        return CHAT
    return RESPONSES if list_of(value.get("output")) else None
