"""`mnemogate recall`: which memories a read showed, and which a model saw before a reply."""

from __future__ import annotations

import argparse
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.admin.wire.recalled import RecallList, RecallView, ReplyView
from proxy.cli.client import PATIENT_S, part
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import Terminal, iso
from proxy.seams.tenants import DEFAULT_TENANT

_PURGED: Final = "(purged)"


class _RecallsAsked(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT
    session: str | None = None
    memory: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 20


class _RecallAsked(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT
    recall: str | None = None
    reply: str | None = None


async def _list(context: Context) -> Exit:
    asked = context.arguments(_RecallsAsked)
    if asked.session is not None and asked.memory is not None:
        raise CommandFailed(Exit.USAGE, "name at most one of --session and --memory")
    # A search among all records reads every one of them.
    async with operator(context) as api:
        found = await api.get(
            "/recalls",
            RecallList,
            timeout_s=PATIENT_S,
            tenant=asked.tenant,
            session=asked.session,
            memory_id=asked.memory,
            limit=asked.limit,
        )
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(found)
        return Exit.OK
    terminal.table(
        ("recall", "when", "principal", "front", "operation", "session", "memories", "first"),
        [
            (
                one.recall_id,
                iso(one.at_ms),
                one.principal,
                one.front,
                one.operation,
                one.session or "-",
                str(len(one.hits)),
                _named(one.hits[0].memory_id) if one.hits else "-",
            )
            for one in found.recalls
        ],
        nothing=f"no read; what is kept begins at {iso(found.kept_since_ms)}",
    )
    if len(found.recalls) == asked.limit:
        terminal.say("there may be older ones: --limit shows more")
    return Exit.OK


async def _show(context: Context) -> Exit:
    asked = context.arguments(_RecallAsked)
    if (asked.recall is None) is (asked.reply is None):
        raise CommandFailed(Exit.USAGE, "name either a recall or a reply (--reply)")
    terminal = context.terminal
    async with operator(context) as api:
        if asked.recall is not None:
            recall = await api.get(f"/recalls/{part(asked.recall)}", RecallView)
            _tell_recall(terminal, recall)
        else:
            path = f"/replies/{part(asked.reply or '')}"
            reply = await api.get(path, ReplyView, tenant=asked.tenant)
            _tell_reply(terminal, reply)
    return Exit.OK


def _tell_recall(terminal: Terminal, found: RecallView) -> None:
    if terminal.as_json:
        terminal.data(found)
        return
    terminal.pairs(
        [
            ("recall", found.recall_id),
            ("when", iso(found.at_ms)),
            ("tenant", found.tenant),
            ("principal", found.principal),
            ("front", found.front),
            ("operation", found.operation),
            ("session", found.session or "-"),
            ("store version", str(found.version)),
            ("question", "not kept" if found.query is None else found.query),
            ("can be replayed", "yes" if found.replayable else "no"),
        ]
    )
    terminal.say()
    terminal.table(
        ("memory", "row", "score"),
        [
            (
                _named(one.memory_id),
                str(one.ordinal),
                "-" if one.score is None else f"{one.score:.3f}",
            )
            for one in found.hits
        ],
        nothing="it showed no memory",
    )


def _tell_reply(terminal: Terminal, found: ReplyView) -> None:
    if terminal.as_json:
        terminal.data(found)
        return
    terminal.pairs(
        [
            ("reply", found.reply_id),
            ("when", iso(found.at_ms)),
            ("tenant", found.tenant),
            ("principal", found.principal),
            ("model", found.model),
            ("session", found.session or "-"),
            ("turns", str(found.turn)),
            ("called", ", ".join(found.calls) or "-"),
            ("complete", "no: a read is not kept" if found.incomplete else "yes"),
        ]
    )
    terminal.say()
    terminal.table(
        ("memory", "row", "recall"),
        [(_named(one.memory_id), str(one.ordinal), one.recall_id or "-") for one in found.memories],
        nothing="no served memory stood in its request",
    )


def _named(memory_id: str | None) -> str:
    return _PURGED if memory_id is None else memory_id


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help=f"whose memories (default: {DEFAULT_TENANT})")
    parser.add_argument("--session", metavar="SESSION", help="only reads of this session")
    parser.add_argument("--memory", metavar="ID", help="only reads that showed this memory")
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many (default: 20)")


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recall", nargs="?", metavar="RECALL", help="the id of a recall")
    parser.add_argument("--reply", metavar="ID", help="a model's reply, by the API's own id")
    parser.add_argument("--tenant", help=f"whose reply (default: {DEFAULT_TENANT})")


COMMANDS = (
    Command(
        words=("recall", "list"),
        summary="list which memories reads showed, newest first",
        act=_list,
        arguments=_list_arguments,
    ),
    Command(
        words=("recall", "show"),
        summary="show one read, or what stood in the request behind one reply of a model",
        act=_show,
        arguments=_show_arguments,
    ),
)
