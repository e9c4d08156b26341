"""`mnemogate log`: prints verdicts of the audit log, a line each, and each new one as it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import ChangeKind
from proxy.admin.wire.provenance import VERDICTS, VERDICTS_MAX, VerdictRow
from proxy.admin.wire.store import STATUS
from proxy.cli.client import Operator
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.terminal import NOTHING
from proxy.cli.verdict_line import DECISIONS, VerdictLine
from storage.audit import OBSERVED_HOLD

_BY_WORD: Final = {word: decision for decision, word in DECISIONS.items() if decision != "error"}
# The beginning of the approver of what observe mode admitted; the gate's decision follows.
_OBSERVES: Final = OBSERVED_HOLD.removesuffix("hold")


class _Log(msgspec.Struct, frozen=True, kw_only=True):
    follow: bool = False
    decision: str | None = None
    principal: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] = 50
    every: Annotated[float, Meta(ge=0.1, le=3_600)] = 1.0

    def fits(self, one: VerdictRow) -> bool:
        """Whether a verdict is to be printed."""
        wanted = None if self.decision is None else _BY_WORD[self.decision]
        return wanted in {None, one.decision.value} and self.principal in {None, one.principal}


async def _log(context: Context) -> Exit:
    asked = context.arguments(_Log)
    async with operator(context, opens=not asked.follow) as api:
        at = (await api.ask(STATUS)).leaf_count
        found: list[VerdictRow] = []
        async for one in _newest_first(api, 0, at):
            if asked.fits(one):
                found.append(one)
            if len(found) == asked.limit:
                break
        _print(context, found)
        if not found and not asked.follow:
            context.terminal.say(NOTHING)
        while asked.follow:
            await asyncio.sleep(asked.every)
            size = (await api.ask(STATUS)).leaf_count
            _print(context, [one async for one in _newest_first(api, at, size) if asked.fits(one)])
            at = size
    return Exit.OK


async def _newest_first(api: Operator, since: int, until: int) -> AsyncIterator[VerdictRow]:
    """The verdicts among the leaves from `since` to `until`, read page by page."""
    while until > since:
        page = await api.ask(VERDICTS, since=since, until=until, limit=VERDICTS_MAX)
        for one in page.verdicts:
            yield one
        until = page.begin


def _print(context: Context, newest_first: list[VerdictRow]) -> None:
    for one in reversed(newest_first):
        context.terminal.answer(one)
        context.terminal.say(_line(one))


def _line(one: VerdictRow) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at_ms / 1_000))
    return str(
        VerdictLine(
            at=at,
            decision=one.decision.value,
            reason="" if one.reason is None else one.reason.value,
            memory_class=one.memory_class.value,
            change="" if one.change is ChangeKind.CREATE else one.change.value,
            principal=one.principal,
            tool=one.tool,
            resource=one.server,
            candidate_id=one.candidate_id,
            observed=(one.approved_by or "").partition(_OBSERVES)[2],
        )
    )


COMMANDS = (
    Command(
        words=("log",),
        summary="print the newest verdicts of the audit log, a line each, without content",
        act=_log,
        options=(
            option("--follow", "then each verdict as it comes"),
            option("--decision", "only these verdicts", choices=_BY_WORD),
            option("--principal", "only on what this principal wrote"),
            option("--limit", "how many of the newest to print first (default: 50)"),
            option("--every", "how often to look (default: 1)", metavar="SECONDS"),
        ),
        form=_Log,
    ),
)
