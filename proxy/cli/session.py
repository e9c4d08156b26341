"""`mnemogate session`: which texts entered an agent's context, and which writes followed."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.provenance import SESSION, SESSIONS
from proxy.cli.api_commands import Columns, asking, pairs, show, table
from proxy.cli.client import whole_id
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import Terminal, inert, iso
from proxy.ledger.wire import (
    CallView,
    OriginView,
    SegmentView,
    SessionList,
    SessionView,
    SessionWriteView,
)

_NEWEST: Final = "last"
_NO_SESSION: Final = "point the agent's model URL at a [[model]] table of this sidecar"


class _One(msgspec.Struct, frozen=True, kw_only=True):
    session: str = _NEWEST


def _list(context: Context, found: SessionList) -> None:
    terminal = context.terminal
    _SESSIONS(context, found)
    if found.total > len(found.sessions):
        terminal.say(f"{found.total - len(found.sessions)} older ones: --limit shows more")
    if found.unplaced:
        terminal.say()
        terminal.say("Writes that no session is known to have made:")
        _UNPLACED(context, found)
    _warn(terminal, found.lost_until_ms)


async def _show(context: Context) -> Exit:
    session = context.arguments(_One).session
    async with operator(context) as api:
        if session == _NEWEST:
            newest = await api.ask(SESSIONS, limit=1)
            if not newest.sessions:
                raise CommandFailed(Exit.NOT_FOUND, "no session was seen yet", then=_NO_SESSION)
            session = newest.sessions[0].session
        else:
            session = await whole_id(api, IdKind.SESSION, session)
        show(context, await api.ask(SESSION, session), _tell)
    return Exit.OK


def _tell(context: Context, view: SessionView) -> None:
    terminal = context.terminal
    _SESSION(context, view)
    _warn(terminal, view.lost_until_ms)
    terminal.say()
    terminal.say("What entered it, oldest first (no text is kept):")
    if view.segments_left_out:
        terminal.say(f"{view.segments_left_out} older ones are left out.")
    _SEGMENTS(context, view)
    if view.open_calls:
        terminal.say()
        calls = ", ".join(map(_source, view.open_calls))
        terminal.say(f"Calls without a result: {inert(calls)}")
    terminal.say()
    if not view.writes:
        terminal.say("It wrote nothing.")
        return
    terminal.say("What it wrote:")
    table("writes", _writes(""))(context, view)
    for one in view.writes:
        terminal.say(f"  {one.candidate_id}: {inert(_because(one))}")


def _read(view: SessionView) -> str:
    if not view.has_read:
        return "no foreign text"
    return f"foreign text of {', '.join(view.read_origins) or 'an unknown source'}"


def _source(one: SegmentView | OriginView | CallView) -> str:
    tool = "/".join(name for name in (one.server, one.tool) if name)
    if not isinstance(one, CallView) and one.memory_id:
        return f"memory {one.memory_id}"
    return f"{tool} {one.call_id}".strip()


def _origin(one: OriginView) -> str:
    return f"{one.kind.value} {_source(one)}".strip()


def _foreign(one: SegmentView) -> str:
    return "yes" if one.reads else ""


def _characters(one: SegmentView) -> int | None:
    return one.characters or None


def _writes(path: str) -> Columns:
    """The columns of a table of writes, each of which is at this path of its row."""
    return {
        "when": f"{path}at_ms",
        "class": f"{path}memory_class",
        "label": f"{path}source",
        "by": f"{path}basis",
        "verdict": f"{path}decision",
        "because": f"{path}reason",
        "candidate": f"{path}candidate_id",
    }


def _because(one: SessionWriteView) -> str:
    parts = ["the id of its call is known here" if one.called else "no session explains it"]
    if one.after_reading:
        parts.append("the session had read foreign text")
    if one.derived_from:
        parts.append("made of " + ", ".join(_origin(origin) for origin in one.derived_from))
    else:
        parts.append("found in nothing that entered")
    return "; ".join(parts)


def _warn(terminal: Terminal, until_ms: int | None) -> None:
    if until_ms is not None:
        terminal.say(
            f"History was lost: until {iso(until_ms)} a write that no session explains counts as "
            "written after reading."
        )


_SESSIONS: Final = table(
    "sessions",
    {
        "session": "session",
        "principal": "principal",
        "has read": "has_read",
        "turns": "turns",
        "segments": "segments",
        "writes": "writes",
        "open calls": "open_calls",
        "last used": "used_at_ms",
    },
    nothing="no session: they are seen where an agent asks its model through a [[model]] table",
)
_UNPLACED: Final = table("unplaced", {"principal": "principal", **_writes("write.")})
_SESSION: Final = pairs(
    {
        "session": "session",
        "principal": "principal",
        "has read": _read,
        "began under": "began_under",
        "began": "began_at_ms",
        "last used": "used_at_ms",
        "turns": "turns",
    }
)
_SEGMENTS: Final = table(
    "segments",
    {
        "turn": "turn",
        "channel": "channel",
        "foreign": _foreign,
        "from": _source,
        "characters": _characters,
    },
)
COMMANDS = (
    asking(
        "session list",
        "list the sessions of agents whose model calls pass here",
        SESSIONS,
        _list,
        options=(option("--limit", "how many at most (20)", metavar="N", default=20),),
    ),
    Command(
        words=("session", "show"),
        summary="show what entered a session, whether it had read, and what each write came from",
        act=_show,
        options=(
            option(
                "session",
                "its id, or the beginning of it; left out: the one used last",
                metavar="SESSION",
            ),
        ),
        form=_One,
    ),
)
