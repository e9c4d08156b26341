"""`mnemogate memory` and `mnemogate check`: what is stored."""

from __future__ import annotations

import argparse
import sys
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.store import (
    CheckView,
    HistoryView,
    MemoryPage,
    MemoryView,
    PurgeRequest,
    PurgeView,
    StatusView,
)
from proxy.admin.wire.upkeep import ObservedList, QuarantinedList, UsageList
from proxy.cli.client import PATIENT_S, part
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.progress import working
from proxy.cli.short_ids import whole_id
from proxy.cli.terminal import inert, iso, now_ms, waiting
from proxy.seams.tenants import DEFAULT_TENANT

_LINE_LEN = 80
_View = TypeVar("_View")


class _MemoryList(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT
    offset: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    user_id: str | None = None
    would_refuse: bool = False
    quarantined: bool = False


class _OneMemory(msgspec.Struct, frozen=True, kw_only=True):
    memory_id: str
    tenant: str = DEFAULT_TENANT


class _Purge(msgspec.Struct, frozen=True, kw_only=True):
    memory_id: str
    tenant: str = DEFAULT_TENANT
    yes: bool = False
    no_compact: bool = False


async def _list(context: Context) -> Exit:
    asked = context.arguments(_MemoryList)
    if asked.would_refuse:
        return await _list_objected(context, asked.tenant)
    if asked.quarantined:
        return await _list_quarantined(context, asked.tenant)
    async with operator(context) as api:
        page = await api.get(
            "/memories",
            MemoryPage,
            tenant=asked.tenant,
            offset=asked.offset,
            limit=asked.limit,
            user_id=asked.user_id,
        )
        status = await api.get("/status", StatusView)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(page)
        return Exit.OK
    terminal.table(
        ("id", "class", "source", "updated", "text"),
        [
            (
                memory.memory_id,
                memory.memory_class.value,
                memory.source.value,
                iso(memory.updated_at_ms),
                _in_one_line(memory.text),
            )
            for memory in page.memories
        ],
    )
    until = page.offset + len(page.memories)
    more = f"; next: --offset {until}" if until < page.total else ""
    terminal.say(f"{len(page.memories)} of {page.total} in tenant {inert(asked.tenant)}{more}")
    # If a memory seems to be missing in the list, it may wait for a decision, so the number of
    # waiting ones is shown.
    if told := waiting(status.held_count, status.held_since_ms, now_ms()):
        terminal.say(told)
    return Exit.OK


async def _list_quarantined(context: Context, tenant: str) -> Exit:
    terminal = context.terminal
    async with operator(context) as api, working(terminal, "reading every memory"):
        found = await api.get("/quarantined", QuarantinedList, timeout_s=PATIENT_S, tenant=tenant)
    if terminal.as_json:
        terminal.data(found)
        return Exit.OK
    terminal.table(
        ("id", "class", "source", "written by", "text"),
        [
            (
                memory.memory_id,
                memory.memory_class.value,
                memory.source.value,
                memory.principal,
                _in_one_line(memory.text),
            )
            for memory in found.memories
        ],
    )
    terminal.say(f"{len(found.memories)} under quarantine in tenant {inert(tenant)}")
    return Exit.OK


async def _list_objected(context: Context, tenant: str) -> Exit:
    terminal = context.terminal
    async with operator(context) as api, working(terminal, "reading every memory"):
        found = await api.get("/observed", ObservedList, timeout_s=PATIENT_S, tenant=tenant)
    if terminal.as_json:
        terminal.data(found)
        return Exit.OK
    terminal.table(
        ("id", "class", "would be", "reason", "leaf", "text"),
        [
            (
                one.memory.memory_id,
                one.memory.memory_class.value,
                one.decision,
                one.reason or "-",
                str(one.leaf_index),
                _in_one_line(one.memory.text),
            )
            for one in found.observed
        ],
    )
    count = len(found.observed)
    terminal.say(f"{count} that observe mode let in, in tenant {inert(tenant)}")
    return Exit.OK


async def _found(context: Context, view: type[_View], below: str = "") -> _View:
    """The memory that was named on the command line, with its state."""
    asked = context.arguments(_OneMemory)
    async with operator(context) as api:
        memory_id = await whole_id(api, IdKind.MEMORY, asked.memory_id, asked.tenant)
        path = f"/memories/{part(memory_id)}{below}"
        return await api.get(path, view, tenant=asked.tenant)


async def _show(context: Context) -> Exit:
    memory = await _found(context, MemoryView)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(memory)
        return Exit.OK
    scope = {"user": memory.user_id, "agent": memory.agent_id, "run": memory.run_id}
    terminal.pairs(
        [
            ("id", memory.memory_id),
            ("tenant", memory.tenant),
            ("class", memory.memory_class.value),
            ("source", f"{memory.source.value} (by {memory.basis.value})"),
            ("written by", memory.principal),
            ("filed under", ", ".join(f"{k}={v}" for k, v in scope.items() if v) or "-"),
            ("target", memory.target),
            ("created", iso(memory.created_at_ms)),
            ("updated", iso(memory.updated_at_ms)),
            ("status", memory.status),
            ("version", str(memory.version)),
            ("candidate", memory.candidate_id),
            ("metadata", memory.metadata_json or "-"),
        ]
    )
    if memory.status != "quarantined":
        terminal.say("text, as the agent is given it:")
        terminal.quote(memory.text)
        return Exit.OK
    terminal.say("quarantined: no agent is given it")
    for one in memory.hidden:
        why = inert(one.why) or "no reason given"
        terminal.say(f"  hidden {iso(one.at_ms)} by {inert(one.by)}: {why}")
    of = "" if memory.tenant == DEFAULT_TENANT else f" --tenant {inert(memory.tenant)}"
    terminal.say(f"let it back with: mnemogate memory parole {inert(memory.memory_id)}{of}")
    for incident_id in dict.fromkeys(one.incident_id for one in memory.hidden if one.incident_id):
        terminal.say(
            f"all that incident {inert(incident_id)} hid: mnemogate isolate --undo "
            f"{inert(incident_id)}"
        )
    terminal.say("text:")
    terminal.quote(memory.text)
    return Exit.OK


async def _history(context: Context) -> Exit:
    history = await _found(context, HistoryView, "/history")
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(history)
        return Exit.OK
    terminal.table(
        ("version", "when", "change", "class", "source", "new text"),
        [
            (
                str(step.version),
                iso(step.at_ms),
                step.change.value,
                step.memory_class.value,
                step.source.value,
                _in_one_line(step.new_text or ""),
            )
            for step in history.steps
        ],
    )
    return Exit.OK


async def _purge(context: Context) -> Exit:
    asked = context.arguments(_Purge)
    terminal = context.terminal
    nobody = CommandFailed(
        Exit.USAGE, "a purge cannot be undone, and nobody confirmed it", then="pass --yes"
    )
    if not asked.yes and (terminal.as_json or not sys.stdin.isatty()):
        raise nobody
    request = PurgeRequest(tenant=asked.tenant, compact=not asked.no_compact)
    async with operator(context) as api:
        memory_id = await whole_id(api, IdKind.MEMORY, asked.memory_id, asked.tenant)
        if not asked.yes and not _confirmed(context, memory_id):
            raise nobody
        async with working(terminal, "purging and rewriting the store"):
            done = await api.post(
                f"/memories/{part(memory_id)}/purge", PurgeView, request, timeout_s=PATIENT_S
            )
    if terminal.as_json:
        terminal.data(done)
    if done.decision != "admit":
        raise CommandFailed(
            Exit.REFUSED,
            f"the gate did not allow the purge: {done.reason}",
            then="`mnemogate policy explain` shows the rules",
        )
    saved = "files not rewritten" if done.bytes_saved is None else f"{done.bytes_saved} bytes freed"
    terminal.say(f"purged {inert(done.memory_id)}: {saved}, audit leaf {done.leaf_index}")
    return Exit.OK


async def _check(context: Context) -> Exit:
    terminal = context.terminal
    async with operator(context) as api, working(terminal, "checking the whole store"):
        report = await api.post("/check", CheckView, timeout_s=PATIENT_S)
    if terminal.as_json:
        terminal.data(report)
    else:
        terminal.say(
            f"{report.rows} rows, {report.vectors} vectors, {report.leaves} leaves, "
            f"version {report.version}: "
            + ("sound" if not report.problems else f"{len(report.problems)} problems")
        )
        for problem in report.problems:
            terminal.say("  " + inert(problem))
        for orphan in report.orphans:
            terminal.say(
                f"  {inert(orphan.memory_id)} of tenant {inert(orphan.tenant)} was said of "
                f"{inert(orphan.entity_name)}, which is gone: it is shown under that name"
            )
    return Exit.FAILED if report.problems else Exit.OK


def _confirmed(context: Context, memory_id: str) -> bool:
    context.terminal.note(f"purge {inert(memory_id)} for good? type yes")
    return sys.stdin.readline().strip() == "yes"


def _in_one_line(text: str) -> str:
    """The beginning of a text on one line; for a memory file, its name comes first."""
    line = " / ".join(one for one in text.split("\n") if one.strip())
    return line if len(line) <= _LINE_LEN else line[:_LINE_LEN] + "…"


def _tenant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help=f"whose memories (default: {DEFAULT_TENANT})")


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    _tenant(parser)
    parser.add_argument("--offset", type=int, help="how many to leave out (default: 0)")
    parser.add_argument("--limit", type=int, help="how many to show, up to 1000 (default: 50)")
    parser.add_argument("--user-id", help="only those filed under this user")
    parser.add_argument(
        "--would-refuse",
        action="store_true",
        help="only, and all of, what observe mode let in and an enforcing gate would not have",
    )
    parser.add_argument(
        "--quarantined", action="store_true", help="only, and all of, what no reader is shown"
    )


def _one_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("memory_id", metavar="ID", help="or the beginning of it")
    _tenant(parser)


def _purge_arguments(parser: argparse.ArgumentParser) -> None:
    _one_arguments(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--no-compact",
        action="store_true",
        help="leave the rewrite of the files to a later purge; bytes stay until then",
    )


async def _usage(context: Context) -> Exit:
    async with operator(context) as api:
        found = await api.get("/usage", UsageList)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(found)
        return Exit.OK
    terminal.table(
        ("tenant", "bytes", "may take"),
        [(one.tenant, str(one.bytes_used), str(one.bytes_quota)) for one in found.tenants],
    )
    return Exit.OK


COMMANDS = (
    Command(
        words=("memory", "list"),
        summary="list stored memories, newest first",
        act=_list,
        arguments=_list_arguments,
    ),
    Command(
        words=("memory", "show"), summary="show one memory", act=_show, arguments=_one_arguments
    ),
    Command(
        words=("memory", "history"),
        summary="show every committed step of one memory",
        act=_history,
        arguments=_one_arguments,
    ),
    Command(
        words=("memory", "purge"),
        summary="erase one memory and its bytes, for good",
        act=_purge,
        arguments=_purge_arguments,
    ),
    Command(
        words=("memory", "usage"), summary="how much of the store each tenant takes", act=_usage
    ),
    Command(words=("check",), summary="walk the whole store for contradictions", act=_check),
)
