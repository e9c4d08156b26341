"""`mnemogate session` and `recall`: show what entered an agent's context, and what reads showed."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.provenance import (
    RECALL,
    RECALLS,
    REPLY,
    SESSION,
    SESSIONS,
    RecallList,
    RecallView,
    ReplyView,
)
from proxy.admin.wire.route import IdKind
from proxy.cli.api_commands import (
    OF_TENANT,
    Asked,
    Columns,
    asking,
    blank,
    pairs,
    show,
    table,
    together,
)
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
from proxy.seams.tenants import DEFAULT_TENANT
from storage.features.recalls import RecalledMemory, SeenMemory

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
    """The columns of a table of writes; `path` is the attribute path of the write in its row."""
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
_SESSION_COMMANDS = (
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


_DEFAULT_LEN: Final = 20


class _RecallAsked(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT
    recall: str | None = None
    reply: str | None = None


def _one_filter(asked: Asked) -> None:
    if "session" in asked and "memory_id" in asked:
        raise CommandFailed(Exit.USAGE, "name at most one of --session and --memory")


def _list_recalls(context: Context, found: RecallList) -> None:
    nothing = f"no read; what is kept begins at {iso(found.kept_since_ms)}"
    table("recalls", _RECALLS, nothing=nothing)(context, found)
    if len(found.recalls) == (context.value("limit") or _DEFAULT_LEN):
        context.terminal.say("there may be older ones: --limit shows more")


async def _show_recall(context: Context) -> Exit:
    asked = context.arguments(_RecallAsked)
    if (asked.recall is None) is (asked.reply is None):
        raise CommandFailed(Exit.USAGE, "name either a recall or a reply (--reply)")
    async with operator(context) as api:
        if asked.recall is not None:
            recall = await whole_id(api, IdKind.RECALL, asked.recall, asked.tenant)
            show(context, await api.ask(RECALL, recall), _RECALL)
        else:
            reply = await api.ask(REPLY, asked.reply or "", tenant=asked.tenant)
            show(context, reply, _REPLY)
    return Exit.OK


def _named(one: RecalledMemory | SeenMemory) -> str:
    return "(purged)" if one.memory_id is None else one.memory_id


def _hits(recall: RecallView) -> str:
    return str(len(recall.hits))


def _first(recall: RecallView) -> str:
    return _named(recall.hits[0]) if recall.hits else ""


def _score(one: RecalledMemory) -> str | None:
    return None if one.score is None else f"{one.score:.3f}"


def _question(recall: RecallView) -> str:
    return "not kept" if recall.query is None else recall.query


def _complete(reply: ReplyView) -> str:
    return "no: a read is not kept" if reply.incomplete else "yes"


_BEGIN: Final[Columns] = {"when": "at_ms", "tenant": "tenant", "principal": "principal_id"}
_RECALLS: Final[Columns] = {
    "recall": "recall_id",
    "when": "at_ms",
    "principal": "principal_id",
    "front": "front",
    "operation": "operation",
    "session": "session",
    "memories": _hits,
    "first": _first,
}
_RECALL: Final = together(
    pairs(
        {
            "recall": "recall_id",
            **_BEGIN,
            "front": "front",
            "operation": "operation",
            "session": "session",
            "store version": "version",
            "question": _question,
            "can be replayed": "replayable",
        }
    ),
    blank,
    table(
        "hits",
        {"memory": _named, "row": "ordinal", "score": _score},
        nothing="it showed no memory",
    ),
)
_REPLY: Final = together(
    pairs(
        {
            "reply": "reply_id",
            **_BEGIN,
            "model": "model",
            "session": "session",
            "turns": "turn",
            "called": "calls",
            "complete": _complete,
        }
    ),
    blank,
    table(
        "memories",
        {"memory": _named, "row": "ordinal", "recall": "recall_id"},
        nothing="no served memory stood in its request",
    ),
)
_RECALL_COMMANDS = (
    asking(
        "recall list",
        "list which memories reads showed, newest first",
        RECALLS,
        _list_recalls,
        options=(
            option("--tenant", OF_TENANT),
            option("--session", "only reads of this session", metavar="SESSION"),
            option(
                "--memory", "only reads that showed this memory", field="memory_id", metavar="ID"
            ),
            option("--limit", "at most so many (default: 20)", metavar="N", default=_DEFAULT_LEN),
        ),
        names={"memory_id": IdKind.MEMORY, "session": IdKind.SESSION},
        check=_one_filter,
    ),
    Command(
        words=("recall", "show"),
        summary="show one read, or what stood in the request behind one reply of a model",
        act=_show_recall,
        options=(
            option("recall", "the id of a recall, or the beginning of it", metavar="RECALL"),
            option("--reply", "a model's reply, by the API's own id", metavar="ID"),
            option("--tenant", f"whose (default: {DEFAULT_TENANT})"),
        ),
        form=_RecallAsked,
    ),
)
COMMANDS = (*_SESSION_COMMANDS, *_RECALL_COMMANDS)
