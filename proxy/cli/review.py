"""`mnemogate review`: held candidates. Everything shown here may be an attack."""

from __future__ import annotations

import argparse
import sys

import msgspec
from msgspec import UNSET

from policy.model import ChangeKind, MemoryClass
from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.review_queue import GroupView
from proxy.admin.wire.store import HeldView, MemoryView
from proxy.admin.wire.upkeep import (
    ForgivenView,
    SettleRequest,
    StandingView,
    UnsettledList,
    VouchRequest,
)
from proxy.cli.client import part
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.memory import StandingList
from proxy.cli.review_many import held_id, in_words, is_group, show_group
from proxy.cli.short_ids import whole_id
from proxy.cli.terminal import inert, iso
from proxy.seams.observations import CLASS_WORDS, whose_words
from proxy.seams.tenants import DEFAULT_TENANT


class _HeldList(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str | None = None


class _Settle(msgspec.Struct, frozen=True, kw_only=True):
    candidate_id: str
    result: str


class _Vouch(msgspec.Struct, frozen=True, kw_only=True):
    memory_ids: list[str]
    tenant: str = DEFAULT_TENANT
    yes: bool = False


class _OneHeld(msgspec.Struct, frozen=True, kw_only=True):
    candidate_id: str


async def _show(context: Context) -> Exit:
    asked = context.arguments(_OneHeld)
    async with operator(context) as api:
        if is_group(asked.candidate_id):
            group = await api.get(f"/groups/{part(asked.candidate_id)}", GroupView)
            if context.terminal.as_json:
                context.terminal.data(group)
            else:
                show_group(context.terminal, group)
            return Exit.OK
        candidate_id = await held_id(api, asked.candidate_id)
        held = await api.get(f"/review/{part(candidate_id)}", HeldView)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(held)
        return Exit.OK
    claimed = "-" if held.claimed_source is None else held.claimed_source.value
    terminal.pairs(
        [
            ("candidate", held.candidate_id),
            ("group", held.group),
            ("had read", "yes" if held.after_reading else "no"),
            ("held since", iso(held.held_at_ms)),
            ("because", f"{in_words(held.reason)}, at step {held.step} of the gate"),
            *([] if held.fired is None else [("words that fired", held.fired)]),
            *([] if held.anchors is UNSET else [("against anchors", ", ".join(held.anchors))]),
            ("principal", held.principal),
            ("tenant", held.tenant),
            ("held as", _class(held.memory_class)),
            ("released as", "-" if held.becomes is None else _class(held.becomes)),
            ("source", f"{held.source.value} (by {held.basis.value})"),
            ("claimed source", claimed),
            ("change", "-" if held.change is None else held.change.value),
            ("target", held.target or "-"),
            *([] if held.filed_under is UNSET else [("filed under", held.filed_under)]),
            ("memory", held.memory_id or "-"),
            ("metadata", held.metadata_json or "-"),
        ]
    )
    words = whose_words(held.source, held.had_read)
    if words is not None:
        terminal.say(inert(words))
    if held.stored is not None:
        terminal.say("stored now, and changed or removed by this:")
        terminal.quote(held.stored)
    if held.text is not None:
        terminal.say(f"text, as written ({held.source.value}):")
        terminal.quote(held.text)
    terminal.say("then one of:")
    for verb in ("release", "deny"):
        terminal.say(f"  mnemogate review {verb} {inert(held.candidate_id)}")
    if held.change is ChangeKind.DELETE:
        terminal.say("a release removes what it names, a denial keeps it")
    else:
        terminal.say("a release says that the whole of it is so: it counts as your own words then")
    return Exit.OK


def _class(memory_class: MemoryClass) -> str:
    return f"{memory_class.value} ({CLASS_WORDS[memory_class]})"


async def _vouch(context: Context) -> Exit:
    asked = context.arguments(_Vouch)
    terminal = context.terminal
    done: list[StandingView] = []
    async with operator(context) as api:
        for given in asked.memory_ids:
            memory_id = await whole_id(api, IdKind.MEMORY, given, asked.tenant)
            path = f"/memories/{part(memory_id)}"
            memory = await api.get(path, MemoryView, tenant=asked.tenant)
            _show_whole(context, memory)
            if not asked.yes and not _agreed(context, memory_id):
                raise CommandFailed(
                    Exit.USAGE,
                    f"nobody vouched for {inert(memory_id)}; {len(done)} before it are done",
                    then="read it, and pass --yes",
                )
            request = VouchRequest(tenant=asked.tenant, version=memory.version)
            done.append(await api.post(f"{path}/vouch", StandingView, request))
    if terminal.as_json:
        terminal.data(StandingList(standings=tuple(done)))
        return Exit.OK
    for one in done:
        leaf = "was so before" if one.leaf_index is None else f"audit leaf {one.leaf_index}"
        terminal.say(f"{inert(one.memory_id)}: your own words from here on ({leaf})")
    return Exit.OK


def _show_whole(context: Context, memory: MemoryView) -> None:
    """Show the whole candidate, before anybody confirms it."""
    terminal = context.terminal
    if terminal.as_json:
        return
    filed = [memory.target, memory.user_id, memory.agent_id, memory.run_id, memory.app_id]
    terminal.pairs(
        [
            ("memory", memory.memory_id),
            ("class", memory.memory_class.value),
            ("source", f"{memory.source.value} (by {memory.basis.value})"),
            ("written by", memory.principal),
            ("filed under", ", ".join(one for one in filed if one)),
            ("role", memory.role or "-"),
            ("speaker", memory.actor or "-"),
            ("metadata", memory.metadata_json or "-"),
        ]
    )
    words = whose_words(memory.source, memory.had_read)
    if words is not None:
        terminal.say(inert(words))
    terminal.quote(memory.text)


def _agreed(context: Context, memory_id: str) -> bool:
    if context.terminal.as_json or not sys.stdin.isatty():
        return False
    context.terminal.note(f"is all of {inert(memory_id)} so, in your own words? type yes")
    return sys.stdin.readline().strip() == "yes"


async def _forgive(context: Context) -> Exit:
    asked = context.arguments(_OneHeld)
    async with operator(context) as api:
        given = asked.candidate_id
        refused = await whole_id(api, IdKind.REFUSED, given)
        done = await api.post(f"/review/{part(refused)}/forgive", ForgivenView)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(done)
        return Exit.OK
    same = "" if done.candidates == 1 else f", with {done.candidates - 1} more that say the same"
    terminal.say(f"{inert(done.candidate_id)}: forgiven{same}, audit leaf {done.leaf_index}")
    terminal.say("its agent sees the text again; proposed again, it is judged anew")
    return Exit.OK


async def _unsettled(context: Context) -> Exit:
    asked = context.arguments(_HeldList)
    async with operator(context) as api:
        listed = await api.get("/unsettled", UnsettledList, tenant=asked.tenant)
    return _show_unsettled(context, listed)


async def _settle(context: Context) -> Exit:
    asked = context.arguments(_Settle)
    async with operator(context) as api:
        candidate_id = await whole_id(api, IdKind.UNSETTLED, asked.candidate_id)
        path = f"/unsettled/{part(candidate_id)}"
        left = await api.post(path, UnsettledList, SettleRequest(done=asked.result == "done"))
    return _show_unsettled(context, left)


def _show_unsettled(context: Context, listed: UnsettledList) -> Exit:
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(listed)
        return Exit.OK
    terminal.table(
        ("candidate", "tenant", "server", "change", "state"),
        [
            (one.candidate_id, one.tenant, one.target, one.change, one.state)
            for one in listed.unsettled
        ],
    )
    terminal.say(f"{len(listed.unsettled)} not settled")
    return Exit.OK


def _settle_arguments(parser: argparse.ArgumentParser) -> None:
    _one_arguments(parser)
    parser.add_argument(
        "result", choices=("done", "failed"), help="whether the server behind has the change"
    )


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help="only this tenant's (default: all)")


def _vouch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("memory_ids", metavar="ID", nargs="+", help="or the beginning of one")
    parser.add_argument("--tenant", help=f"whose memories (default: {DEFAULT_TENANT})")
    parser.add_argument("--yes", action="store_true", help="you have read them; do not ask")


def _one_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate_id", metavar="CANDIDATE_ID", help="or the beginning of it")


COMMANDS = (
    Command(
        words=("review", "show"),
        summary="show one held candidate with its content, or the lines of a group",
        act=_show,
        arguments=_one_arguments,
    ),
    Command(
        words=("review", "vouch"),
        summary="say that stored memories are so, as your own words, after reading them",
        act=_vouch,
        arguments=_vouch_arguments,
    ),
    Command(
        words=("review", "forgive"),
        summary="forget a denial, and let the agent see again what a refused candidate says",
        act=_forgive,
        arguments=_one_arguments,
    ),
    Command(
        words=("review", "unsettled"),
        summary="list admitted changes that a server behind does not have for sure",
        act=_unsettled,
        arguments=_list_arguments,
    ),
    Command(
        words=("review", "settle"),
        summary="say whether a server behind has such a change",
        act=_settle,
        arguments=_settle_arguments,
    ),
)
