"""`mnemogate review watch`: prints the held candidates, and then each candidate newly held."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta

from proxy.admin.wire.review_queue import WAITING, ReviewFilter
from proxy.admin.wire.store import (
    STATUS,
    HeldView,
)
from proxy.cli.api_commands import cell, given
from proxy.cli.client import Operator
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.review import HELD_COLUMNS, HELD_FILTER
from proxy.cli.terminal import inert

_PAGE_LEN: Final = 1_000


class _Watch(ReviewFilter, frozen=True, kw_only=True):
    every: Annotated[float, Meta(ge=0.1, le=3_600)] = 2.0


async def _watch(context: Context) -> Exit:
    every = context.arguments(_Watch).every
    terminal = context.terminal
    async with operator(context, opens=False) as api:
        coming = _Coming(api, given(context, HELD_FILTER))
        while True:
            for one in await coming.next():
                terminal.answer(one)
                row = [cell(one, column) for column in HELD_COLUMNS.values()]
                terminal.say("  ".join(map(inert, row)))
            await asyncio.sleep(every)


class _Coming:
    """Fetches held candidates, and tracks which were printed, so that each is printed only once."""

    def __init__(self, api: Operator, query: Mapping[str, object]) -> None:
        self._api = api
        self._query = query
        self._leaf_count = -1
        # The hold time of the newest printed candidate, and the ids of those printed with this
        # time, because further candidates may be held in the same millisecond.
        self._at_ms = 0
        self._seen: set[str] = set()

    async def next(self) -> list[HeldView]:
        """Fetch the held candidates that were not returned before.

        Candidates are requested only if the audit log has grown since the last call.
        """
        status = await self._api.ask(STATUS)
        if status.leaf_count == self._leaf_count:
            return []
        found: list[HeldView] = []
        more = True
        while more:
            since_ms = max(self._at_ms, int(str(self._query.get("since_ms", 0))))
            asked = {**self._query, "since_ms": since_ms, "limit": _PAGE_LEN}
            page = await self._api.ask(WAITING, **asked)
            fresh = [one for one in page.held if one.candidate_id not in self._seen]
            found += fresh
            if fresh:
                self._at_ms = fresh[-1].held_at_ms
                self._seen = {
                    one.candidate_id for one in page.held if one.held_at_ms == self._at_ms
                }
            more = bool(fresh) and page.total > len(page.held)
        self._leaf_count = status.leaf_count
        return found


COMMANDS = (
    Command(
        words=("review", "watch"),
        summary="show what waits, then each candidate as it comes to wait",
        act=_watch,
        options=(
            *HELD_FILTER,
            option("--every", "how often to look (default: 2)", metavar="SECONDS"),
        ),
        form=_Watch,
    ),
)
