"""Which places of a memory server have items with the sidecar's tag.

Agents are shown no tagged item in any mode. A store that was begun anew does not know what was
quarantined, and an answer may leave out the metadata by which a tag is seen, so the server is asked
for items without the tag. Its filter is slow (at 100,000 records 200 ms instead of 3): it is sent
where a tag stands, or may be set at any moment.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from policy.model import Hiding
from proxy.fronts.backend_behind import BackendBehind
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest

AGAIN_S: Final = 30.0
"""How long a place without a tag counts as one; a server may be begun anew from a backup."""
_PLACES_MAX: Final = 4_096
_ANSWERED: Final = range(200, 300)


class TaggedPlaces:
    """The places of one server. Event loop only."""

    def __init__(self, behind: BackendBehind) -> None:
        self._behind = behind
        # By the question about a place: until when it counts as a place without a tag.
        self._without: OrderedDict[str, float] = OrderedDict()

    async def untagged(self, outgoing: HttpRequest) -> HttpRequest:
        """A read that is forwarded, with the filter where a tagged item may stand.

        Raises:
            UpstreamError: The server does not answer.
            Busy: Too many requests to it are under way.
        """
        hiding = self._behind.adapter.hiding
        question = None if hiding is None else hiding.tagged(outgoing)
        if hiding is None or question is None:
            return outgoing
        tags = self._behind.settings.quarantine is Hiding.TAG
        return hiding.untagged(outgoing) if tags or await self._has_tag(question) else outgoing

    async def _has_tag(self, question: HttpRequest) -> bool:
        now_s = self._behind.now_s()
        if now_s < self._without.get(question.path, 0.0):
            return False
        reply = await self._behind.ask(question)
        try:
            none = reply.status in _ANSWERED and not self._behind.adapter.shown(question, reply)
        except MalformedRequest:
            none = False
        if none:
            self._without[question.path] = now_s + AGAIN_S
            self._without.move_to_end(question.path)
            if len(self._without) > _PLACES_MAX:
                self._without.popitem(last=False)
        return not none
