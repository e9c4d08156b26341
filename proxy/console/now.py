"""The page Now: verdicts as they come, and what an operator should know at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from hashlib import blake2b
from typing import Final

import msgspec

from policy.model import OperatorScope
from proxy.admin.wire.incidents import INCIDENTS
from proxy.admin.wire.provenance import VERDICTS, VerdictList, VerdictRow
from proxy.admin.wire.store import STATUS, StatusView
from proxy.console.drawing import because, visible
from proxy.console.page import Page, PageCall, Shown
from proxy.seams.observations import CLASS_WORDS
from storage.values import Decision

EVENTS: Final = "/now/events"
ROWS_AT_ONCE: Final = 10
ROWS_SHOWN: Final = 50
_EVERY_S: Final = 1.0
_WORDS: Final = {
    Decision.ADMIT: "stored",
    Decision.HOLD: "held",
    Decision.REJECT: "refused",
}


class NowRow(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict in the words of the page; `decision` has the stable word, for filters.

    Names are as a person may see them (`visible`), because the script writes them as they are.
    """

    at: str
    at_ms: int
    decision: str
    word: str
    kind: str
    why: str
    where: str
    principal: str
    candidate: str  # the id of the candidate where it waits for a person; else ""


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """What the stream sends each second: new rows, counts, and how many rows were left out."""

    rows: tuple[NowRow, ...]
    left_out: int
    counts: dict[str, int]
    held: int
    # Changes where the rest of the page is no longer true, so that the page is read again.
    state: str


def troubles(status: StatusView) -> list[str]:
    """What is degraded, and why, in sentences."""
    found: list[str] = []
    if not status.writable:
        found.append(f"Nothing is written: {status.reason or 'the store takes no writes'}.")
    elif status.reason is not None:
        found.append(f"{status.reason[:1].upper()}{status.reason[1:]}.")
    if status.observing:
        found.append("Observe mode: everything is let in, and only marked.")
    if status.mismatched:
        found.append(f"{status.mismatched} stored values were changed without the gate.")
    if status.unmapped_tools:
        names = ", ".join(one.tool for one in status.unmapped_tools)
        found.append(f"Tools that speak of memory and that no map describes: {names}.")
    if status.unread_places:
        found.append(f"{status.unread_places} files in model requests were read in part.")
    found += (f"Wider than as shipped: {one}." for one in status.wider)
    if status.receivers_behind:
        named = ", ".join(status.receivers_behind)
        found.append(f"Steps of incidents wait to be sent to receivers: {named}.")
    return found


def row_of(verdict: VerdictRow) -> NowRow:
    """A verdict in the words of the page."""
    seconds = verdict.at_ms // 1_000 % 86_400
    return NowRow(
        at=f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}",
        at_ms=verdict.at_ms,
        decision=verdict.decision.value,
        word=_WORDS[verdict.decision],
        kind=f"{verdict.memory_class.value}, {CLASS_WORDS[verdict.memory_class].split(':')[0]}",
        why="" if verdict.reason is None else because(verdict.reason),
        where=visible(" ".join(filter(None, (verdict.tool, verdict.server)))),
        principal=visible(verdict.principal),
        candidate=verdict.candidate_id if verdict.decision is Decision.HOLD else "",
    )


def _state(status: StatusView) -> str:
    said = f"{troubles(status)}{status.incarnation}"
    return blake2b(said.encode(), digest_size=8).hexdigest()


async def now(call: PageCall) -> Shown:
    """The page Now."""
    status = await call.ask(STATUS)
    newest = await call.ask(VERDICTS, limit=ROWS_SHOWN)
    open_incidents = 0
    if call.by.may.includes(OperatorScope.REVIEW):
        listed = await call.ask(INCIDENTS)
        open_incidents = sum(one.under_way or bool(one.why) for one in listed.wrong_answers)
    wanted = call.query.get("decision", "")
    rows = [row_of(one) for one in newest.verdicts]
    return Shown(
        "now.html",
        {
            "status": status,
            "troubles": troubles(status),
            "rows": [one for one in rows if wanted in {"", one.decision}],
            "wanted": wanted,
            "words": {decision.value: word for decision, word in _WORDS.items()},
            "counts": newest.decisions,
            "leaf_count": newest.leaf_count,
            "state": _state(status),
            "open_incidents": open_incidents,
        },
    )


class Feed:
    """The stream of one reader of Now: a tick each second. Event loop only.

    A tick has at most `ROWS_AT_ONCE` rows, however many verdicts there were; the counts have all.
    A reader that was away gets the newest rows, and the number of those left out.
    """

    def __init__(
        self, call: PageCall, since: int, wait: Callable[[float], Awaitable[None]]
    ) -> None:
        self._call = call
        self._since = since
        self._wait = wait

    async def ticks(self, lives: Callable[[], bool]) -> AsyncGenerator[bytes]:
        """The events, for as long as the visitor's session lives."""
        before: dict[str, int] | None = None
        while lives():
            status = await self._call.ask(STATUS)
            newest = await self._call.ask(VERDICTS, since=self._since, limit=ROWS_AT_ONCE)
            yield self._event(status, newest, before)
            self._since, before = newest.leaf_count, newest.decisions
            await self._wait(_EVERY_S)

    def _event(
        self, status: StatusView, newest: VerdictList, before: dict[str, int] | None
    ) -> bytes:
        came = 0 if before is None else sum(newest.decisions.values()) - sum(before.values())
        tick = Tick(
            rows=tuple(map(row_of, newest.verdicts)),
            left_out=max(0, came - len(newest.verdicts)),
            counts=newest.decisions,
            held=status.held_count,
            state=_state(status),
        )
        return b"id: %d\ndata: %s\n\n" % (newest.leaf_count, msgspec.json.encode(tick))


PAGES: Final = (
    Page(
        template="/now",
        nav="Now",
        least=OperatorScope.VIEW,
        handler=now,
        twins=(STATUS, VERDICTS, INCIDENTS),
        commands=("status", "log", "incident list"),
    ),
)
