"""The history of each response, for clients that continue one without repeating it.

Otherwise the provider would know earlier texts that the sidecar does not: they could be neither
labelled nor withheld. So a request that names an earlier response is sent with its whole history.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from policy.model import PrincipalId
from proxy.dialects.model.reading import list_of, text_of
from proxy.dialects.strict_json.tolerant import Json

BYTES_MAX: Final = 32 * 1024 * 1024
PREVIOUS: Final = "previous_response_id"


class _HistoryStep(msgspec.Struct, frozen=True):
    """The items that one response added to its history."""

    before: str | None
    items: tuple[Json, ...]
    size: int


class Histories:
    """Keeps a bounded number of histories per principal, dropping the least recently used.

    Event loop only.
    """

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: dict[PrincipalId, OrderedDict[str, _HistoryStep]] = {}
        self._sizes: dict[PrincipalId, int] = {}

    def whole(self, principal_id: PrincipalId, body: dict[str, Json]) -> dict[str, Json] | None:
        """The request with its whole history; None if the history is not known."""
        previous = text_of(body.get(PREVIOUS))
        if previous is None:
            return body
        before = self._before(principal_id, previous)
        if before is None:
            return None
        rest = {key: value for key, value in body.items() if key != PREVIOUS}
        longer: list[Json] = [*before, *items_of(body)]
        return {**rest, "input": longer}

    def keep(
        self,
        principal_id: PrincipalId,
        response_id: str,
        body: dict[str, Json],
        output: tuple[Json, ...],
        size: int,
    ) -> None:
        """Keep a response: `body` as the agent sent it, `output` as the agent got it."""
        kept = self._kept.setdefault(principal_id, OrderedDict())
        self._drop(principal_id, response_id)
        before = text_of(body.get(PREVIOUS))
        kept[response_id] = _HistoryStep(before, (*items_of(body), *output), size)
        self._sizes[principal_id] = self._sizes.get(principal_id, 0) + size
        while self._sizes[principal_id] > self._bytes_max:
            self._drop(principal_id, next(iter(kept)))

    def _drop(self, principal_id: PrincipalId, response_id: str) -> None:
        gone = self._kept[principal_id].pop(response_id, None)
        if gone is not None:
            self._sizes[principal_id] -= gone.size

    def _before(self, principal_id: PrincipalId, response_id: str) -> list[Json] | None:
        kept = self._kept.get(principal_id, OrderedDict())
        chain: list[_HistoryStep] = []
        at: str | None = response_id
        while at is not None:
            one = kept.get(at)
            if one is None or len(chain) > len(kept):
                return None
            kept.move_to_end(at)
            chain.append(one)
            at = one.before
        return [item for one in reversed(chain) for item in one.items]


def items_of(body: dict[str, Json]) -> list[Json]:
    """The `input` of a Responses request as a list of items."""
    given = body.get("input")
    if isinstance(given, str):
        message: dict[str, Json] = {"type": "message", "role": "user", "content": given}
        return [message]
    return list_of(given)
