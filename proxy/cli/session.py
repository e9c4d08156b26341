"""`mnemogate session`: which texts entered an agent's context, and which writes followed."""

from __future__ import annotations

import argparse
from typing import Annotated

import msgspec
from msgspec import Meta

from proxy.admin.wire.ids import IdKind
from proxy.cli.client import part
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.short_ids import whole_id
from proxy.cli.terminal import Terminal, inert, iso
from proxy.ledger.wire import (
    CallView,
    OriginView,
    SegmentView,
    SessionList,
    SessionView,
    SessionWriteView,
)

# The headings of the table of `session list`, and of the two that `session show` prints.
_SESSIONS = (
    *("session", "principal", "has read", "turns", "segments", "writes", "open calls"),
    "last used",
)
_SEGMENTS = ("turn", "channel", "foreign", "from", "characters")
_WRITES = ("when", "class", "label", "by", "verdict", "candidate")
_NEWEST = "last"


class _List(msgspec.Struct, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 20


class _One(msgspec.Struct, frozen=True, kw_only=True):
    session: str = _NEWEST


async def _list(context: Context) -> Exit:
    asked = context.arguments(_List)
    async with operator(context) as api:
        found = await api.get("/sessions", SessionList, limit=str(asked.limit))
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(found)
        return Exit.OK
    terminal.table(
        (
            "session",
            "principal",
            "has read",
            "turns",
            "segments",
            "writes",
            "open calls",
            "last used",
        ),
        [
            (
                one.session,
                one.principal,
                "yes" if one.has_read else "no",
                str(one.turns),
                str(one.segments),
                str(one.writes),
                str(one.open_calls),
                iso(one.used_at_ms),
            )
            for one in found.sessions
        ],
        nothing="no session: they are seen where an agent asks its model through a [[model]] table",
    )
    if found.total > len(found.sessions):
        terminal.say(f"{found.total - len(found.sessions)} older ones: --limit shows more")
    if found.unplaced:
        terminal.say()
        terminal.say("Writes that no session is known to have made:")
        rows = [(one.principal, *_written(one.write)) for one in found.unplaced]
        terminal.table(("principal", *_WRITES), rows)
    _warn(terminal, found.lost_until_ms)
    return Exit.OK


async def _show(context: Context) -> Exit:
    asked = context.arguments(_One)
    async with operator(context) as api:
        session = asked.session
        if session == _NEWEST:
            newest = await api.get("/sessions", SessionList, limit="1")
            if not newest.sessions:
                raise CommandFailed(Exit.NOT_FOUND, "no session was seen yet", then=_NO_SESSION)
            session = newest.sessions[0].session
        else:
            session = await whole_id(api, IdKind.SESSION, session)
        view = await api.get(f"/sessions/{part(session)}", SessionView)
    if context.terminal.as_json:
        context.terminal.data(view)
    else:
        _tell(context.terminal, view)
    return Exit.OK


_NO_SESSION = "point the agent's model URL at a [[model]] table of this sidecar"


def _tell(terminal: Terminal, view: SessionView) -> None:
    terminal.pairs(
        [
            ("session", view.session),
            ("principal", view.principal),
            ("has read", _read(view)),
            *([("began under", view.began_under)] if view.began_under else []),
            ("began", iso(view.began_at_ms)),
            ("last used", iso(view.used_at_ms)),
            ("turns", str(view.turns)),
        ]
    )
    _warn(terminal, view.lost_until_ms)
    terminal.say()
    terminal.say("What entered it, oldest first (no text is kept):")
    if view.segments_left_out:
        terminal.say(f"{view.segments_left_out} older ones are left out.")
    terminal.table(_SEGMENTS, [_row(one) for one in view.segments])
    if view.open_calls:
        terminal.say()
        calls = ", ".join(map(_source, view.open_calls))
        terminal.say(f"Calls without a result: {inert(calls)}")
    terminal.say()
    if not view.writes:
        terminal.say("It wrote nothing.")
        return
    terminal.say("What it wrote:")
    terminal.table(_WRITES, [_written(one) for one in view.writes])
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
    if one.call_id:
        return f"{tool} {one.call_id}".strip()
    return tool or "-"


def _origin(one: OriginView) -> str:
    source = _source(one)
    return one.kind.value if source == "-" else f"{one.kind.value} {source}"


def _row(one: SegmentView) -> tuple[str, ...]:
    return (
        str(one.turn),
        one.channel,
        "yes" if one.reads else "-",
        _source(one),
        str(one.characters) if one.characters else "-",
    )


def _written(one: SessionWriteView) -> tuple[str, ...]:
    verdict = one.decision if one.reason is None else f"{one.decision} ({one.reason})"
    return (
        iso(one.at_ms),
        one.memory_class.value,
        one.source.value,
        one.basis.value,
        verdict,
        one.candidate_id,
    )


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


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", metavar="N", type=int, help="how many at most (20)")


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="?",
        help="its id, or the beginning of it; left out: the one used last",
    )


COMMANDS = (
    Command(
        words=("session", "list"),
        summary="list the sessions of agents whose model calls pass here",
        act=_list,
        arguments=_list_arguments,
    ),
    Command(
        words=("session", "show"),
        summary="show what entered a session, whether it had read, and what each write came from",
        act=_show,
        arguments=_show_arguments,
    ),
)
