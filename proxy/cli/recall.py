"""`mnemogate recall`: which memories a read showed, and which a model saw before a reply."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.recalled import (
    RECALL,
    RECALLS,
    REPLY,
    RecallList,
    RecallView,
    ReplyView,
)
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
from proxy.cli.terminal import iso
from proxy.seams.tenants import DEFAULT_TENANT
from storage.features.recalls import RecalledMemory, SeenMemory

_DEFAULT_LEN: Final = 20


class _RecallAsked(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT
    recall: str | None = None
    reply: str | None = None


def _one_filter(asked: Asked) -> None:
    if "session" in asked and "memory_id" in asked:
        raise CommandFailed(Exit.USAGE, "name at most one of --session and --memory")


def _list(context: Context, found: RecallList) -> None:
    nothing = f"no read; what is kept begins at {iso(found.kept_since_ms)}"
    table("recalls", _RECALLS, nothing=nothing)(context, found)
    if len(found.recalls) == (context.value("limit") or _DEFAULT_LEN):
        context.terminal.say("there may be older ones: --limit shows more")


async def _show(context: Context) -> Exit:
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
COMMANDS = (
    asking(
        "recall list",
        "list which memories reads showed, newest first",
        RECALLS,
        _list,
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
        act=_show,
        options=(
            option("recall", "the id of a recall, or the beginning of it", metavar="RECALL"),
            option("--reply", "a model's reply, by the API's own id", metavar="ID"),
            option("--tenant", f"whose (default: {DEFAULT_TENANT})"),
        ),
        form=_RecallAsked,
    ),
)
