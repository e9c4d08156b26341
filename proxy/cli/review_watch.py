"""`mnemogate review watch`: prints held candidates, then each new one."""

from __future__ import annotations

import argparse
import asyncio
from typing import Annotated

from msgspec import Meta

from proxy.admin.wire.review_queue import ReviewPage
from proxy.admin.wire.store import HeldView, StatusView
from proxy.cli.client import Operator
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.review_many import QueueFilter, filter_arguments, filtered, row
from proxy.cli.terminal import inert

_PAGE_LEN = 1_000


class _Watch(QueueFilter, frozen=True, kw_only=True):
    every: Annotated[float, Meta(ge=0.1, le=3_600)] = 2.0


async def _watch(context: Context) -> Exit:
    asked = context.arguments(_Watch)
    terminal = context.terminal
    async with operator(context, opens=False) as api:
        query = filtered(asked)
        coming = _Coming(api, query)
        while True:
            for one in await coming.next():
                if terminal.as_json:
                    terminal.data(one)
                else:
                    terminal.say("  ".join(inert(cell) for cell in row(one)))
            await asyncio.sleep(asked.every)


class _Coming:
    """Keeps track of held candidates, so that each is printed only once."""

    def __init__(self, api: Operator, query: dict[str, str | int | None]) -> None:
        self._api = api
        self._query = query
        self._leaf_count = -1
        # The ids of the newest printed candidates: more of them may begin to wait in the same
        # millisecond.
        self._at_ms = 0
        self._seen: set[str] = set()

    async def next(self) -> list[HeldView]:
        """The candidates that were not returned before.

        Nothing is requested if the log has not grown.
        """
        status = await self._api.get("/status", StatusView)
        if status.leaf_count == self._leaf_count:
            return []
        found: list[HeldView] = []
        more = True
        while more:
            since_ms = max(self._at_ms, int(self._query.get("since_ms") or 0))
            asked = self._query | {"since_ms": since_ms, "limit": _PAGE_LEN}
            page = await self._api.list("/review", ReviewPage, asked)
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


def _arguments(parser: argparse.ArgumentParser) -> None:
    filter_arguments(parser)
    parser.add_argument(
        "--every", type=float, metavar="SECONDS", help="how often to look (default: 2)"
    )


COMMANDS = (
    Command(
        words=("review", "watch"),
        summary="show what waits, then each candidate as it comes to wait",
        act=_watch,
        arguments=_arguments,
    ),
)
