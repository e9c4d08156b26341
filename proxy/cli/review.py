"""`mnemogate review`: what waits for a person. Everything shown here may be an attack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.admin.wire.store import HeldView, OutcomeView, ReviewList
from proxy.admin.wire.upkeep import SettleRequest, UnsettledList
from proxy.cli.client import part
from proxy.cli.command import Command
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import block, inert, iso

if TYPE_CHECKING:
    import argparse

    from proxy.cli.command import Context


class _HeldList(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str | None = None


class _Settle(msgspec.Struct, frozen=True, kw_only=True):
    candidate_id: str
    result: str


class _OneHeld(msgspec.Struct, frozen=True, kw_only=True):
    candidate_id: str


async def _list(context: Context) -> Exit:
    asked = context.arguments(_HeldList)
    async with operator(context) as api:
        review = await api.get("/review", ReviewList, tenant=asked.tenant)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(review)
        return Exit.OK
    terminal.table(
        ("candidate", "tenant", "principal", "class", "source", "ceiling", "held since", "reason"),
        [
            (
                held.candidate_id,
                held.tenant,
                held.principal,
                held.memory_class.value,
                held.source.value,
                held.ceiling.value,
                iso(held.held_at_ms),
                f"{held.reason} (step {held.step})",
            )
            for held in review.held
        ],
    )
    terminal.say(f"{len(review.held)} waiting")
    return Exit.OK


async def _show(context: Context) -> Exit:
    asked = context.arguments(_OneHeld)
    async with operator(context) as api:
        held = await api.get(f"/review/{part(asked.candidate_id)}", HeldView)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(held)
        return Exit.OK
    claimed = "-" if held.claimed_source is None else held.claimed_source.value
    terminal.pairs(
        [
            ("candidate", held.candidate_id),
            ("held since", iso(held.held_at_ms)),
            ("because", f"{held.reason} (step {held.step})"),
            ("principal", held.principal),
            ("tenant", held.tenant),
            ("class", held.memory_class.value),
            ("source", f"{held.source.value} (by {held.basis.value})"),
            ("ceiling", held.ceiling.value),
            ("claimed source", claimed),
            ("change", "-" if held.change is None else held.change.value),
            ("target", held.target or "-"),
            ("memory", held.memory_id or "-"),
            ("metadata", held.metadata_json or "-"),
        ]
    )
    terminal.say("text, as written by an untrusted source:")
    terminal.say(block(held.text or ""))
    terminal.say(f"then: mnemogate review release {inert(held.candidate_id)}, or review deny")
    return Exit.OK


async def _release(context: Context) -> Exit:
    return await _decide(context, "release", "admit")


async def _deny(context: Context) -> Exit:
    return await _decide(context, "deny", "reject")


async def _decide(context: Context, word: str, wanted: str) -> Exit:
    asked = context.arguments(_OneHeld)
    async with operator(context) as api:
        outcome = await api.post(f"/review/{part(asked.candidate_id)}/{word}", OutcomeView)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(outcome)
    if outcome.decision != wanted:
        raise CommandFailed(
            Exit.FAILED,
            f"the gate still answers {outcome.decision}: {outcome.reason} (step {outcome.step})",
            then="a person's word passes a hold, not a refusal",
        )
    became = "" if outcome.memory_id is None else f", memory {inert(outcome.memory_id)}"
    terminal.say(
        f"{inert(outcome.candidate_id)}: {outcome.decision}{became}, "
        f"version {outcome.version}, audit leaf {outcome.leaf_index}"
    )
    return Exit.OK


async def _unsettled(context: Context) -> Exit:
    asked = context.arguments(_HeldList)
    async with operator(context) as api:
        listed = await api.get("/unsettled", UnsettledList, tenant=asked.tenant)
    return _show_unsettled(context, listed)


async def _settle(context: Context) -> Exit:
    asked = context.arguments(_Settle)
    async with operator(context) as api:
        path = f"/unsettled/{part(asked.candidate_id)}"
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


def _one_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate_id", metavar="CANDIDATE_ID")


COMMANDS = (
    Command(
        words=("review", "list"),
        summary="list held candidates, oldest first",
        act=_list,
        arguments=_list_arguments,
    ),
    Command(
        words=("review", "show"),
        summary="show one held candidate with its content",
        act=_show,
        arguments=_one_arguments,
    ),
    Command(
        words=("review", "release"),
        summary="let a held candidate in, if nothing else refuses it",
        act=_release,
        arguments=_one_arguments,
    ),
    Command(
        words=("review", "deny"),
        summary="refuse a held candidate; its content is destroyed",
        act=_deny,
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
