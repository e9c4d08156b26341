"""`mnemogate memory quarantine` and `parole`: hide stored memories, and show them again."""

from __future__ import annotations

import argparse
from typing import Annotated

import msgspec
from msgspec import Meta

from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.upkeep import (
    ObservedList,
    ParoleRequest,
    ParoleView,
    QuarantineRequest,
    StandingView,
    TrialView,
)
from proxy.cli.client import PATIENT_S, Operator, part
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.isolate import REASON_HELP
from proxy.cli.progress import working
from proxy.cli.short_ids import whole_id
from proxy.cli.terminal import inert
from proxy.seams.tenants import DEFAULT_TENANT
from storage.values import QUARANTINE_REASON_LEN_MAX


class _QuarantineArguments(msgspec.Struct, frozen=True, kw_only=True):
    memory_ids: list[str] = []
    tenant: str = DEFAULT_TENANT
    reason: Annotated[str, Meta(max_length=QUARANTINE_REASON_LEN_MAX)] = ""
    would_refuse: bool = False
    with_descendants: bool = False


class _ParoleArguments(msgspec.Struct, frozen=True, kw_only=True):
    memory_ids: list[str] = []
    tenant: str = DEFAULT_TENANT
    reason: Annotated[str, Meta(max_length=QUARANTINE_REASON_LEN_MAX)] = ""
    without_trial: bool = False


class ParoleList(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a parole for several memories, one for each."""

    paroles: tuple[ParoleView, ...]


class StandingList(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a command for several memories, one for each."""

    standings: tuple[StandingView, ...]


async def _quarantine(context: Context) -> Exit:
    asked = context.arguments(_QuarantineArguments)
    if bool(asked.memory_ids) is asked.would_refuse:
        raise CommandFailed(Exit.USAGE, "name memories, or --would-refuse, and not both")
    async with operator(context) as api, working(context.terminal, "quarantining"):
        ids = asked.memory_ids
        if asked.would_refuse:
            found = await api.get(
                "/observed", ObservedList, timeout_s=PATIENT_S, tenant=asked.tenant
            )
            ids = [one.memory.memory_id for one in found.observed if one.memory.status == "live"]
        request = QuarantineRequest(
            tenant=asked.tenant, reason=asked.reason, with_descendants=asked.with_descendants
        )
        return await _each(context, api, request, ids)


async def _parole(context: Context) -> Exit:
    asked = context.arguments(_ParoleArguments)
    if asked.without_trial is not bool(asked.reason):
        raise CommandFailed(Exit.USAGE, "--without-trial needs --reason, and a trial takes none")
    request = ParoleRequest(
        tenant=asked.tenant, reason=asked.reason, without_trial=asked.without_trial
    )
    async with operator(context) as api, working(context.terminal, "trying again"):
        done = [
            await api.post(
                f"{await _path(api, given, asked.tenant)}/parole",
                ParoleView,
                request,
                timeout_s=PATIENT_S,
            )
            for given in asked.memory_ids
        ]
    terminal = context.terminal
    refused = sum(one.trial is not None and not one.trial.passed for one in done)
    if terminal.as_json:
        terminal.data(ParoleList(paroles=tuple(done)))
        return Exit.FAILED if refused else Exit.OK
    terminal.table(
        ("id", "status", "changed", "leaf", "trial"),
        [
            (
                inert(one.memory_id),
                one.status,
                "yes" if one.changed else "no",
                "-" if one.leaf_index is None else str(one.leaf_index),
                _tried(one.trial),
            )
            for one in done
        ],
    )
    terminal.say(f"{sum(one.changed for one in done)} of {len(done)} changed")
    return Exit.FAILED if refused else Exit.OK


def _tried(trial: TrialView | None) -> str:
    if trial is None:
        return "-"
    steps = ", ".join(f"{one.step} {one.count}" for one in trial.steps)
    return f"{'passed' if trial.passed else trial.against} ({steps})"


async def _path(api: Operator, given: str, tenant: str) -> str:
    return f"/memories/{part(await whole_id(api, IdKind.MEMORY, given, tenant))}"


async def _each(
    context: Context,
    api: Operator,
    request: QuarantineRequest,
    memory_ids: list[str],
) -> Exit:
    """Run the command for each memory in turn, until one fails; those before it stay done.

    The command may be repeated: a memory that was done already stays as it is.
    """
    done = [
        await api.post(
            f"{await _path(api, given, request.tenant)}/quarantine", StandingView, request
        )
        for given in memory_ids
    ]
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(StandingList(standings=tuple(done)))
        return Exit.OK
    terminal.table(
        ("id", "status", "changed", "leaf"),
        [
            (
                inert(one.memory_id),
                one.status,
                "yes" if one.changed else "no",
                "-" if one.leaf_index is None else str(one.leaf_index),
            )
            for one in done
        ],
    )
    terminal.say(f"{sum(one.changed for one in done)} of {len(done)} changed")
    if request.with_descendants:
        terminal.say(f"{sum(one.descendants for one in done)} derived from them hidden as well")
    return Exit.OK


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help=f"whose memories (default: {DEFAULT_TENANT})")
    parser.add_argument("--reason", metavar="TEXT", help=REASON_HELP)


def _quarantine_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("memory_ids", metavar="ID", nargs="*", help="or the beginning of one")
    parser.add_argument(
        "--would-refuse",
        action="store_true",
        help="all that observe mode let in and an enforcing gate would not have",
    )
    parser.add_argument(
        "--with-descendants",
        action="store_true",
        help="also what was derived from one of them, and from that, to the end",
    )
    _common(parser)


def _parole_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("memory_ids", metavar="ID", nargs="+", help="or the beginning of one")
    parser.add_argument(
        "--without-trial", action="store_true", help="show them as they are; needs --reason"
    )
    _common(parser)


COMMANDS = (
    Command(
        words=("memory", "quarantine"),
        summary="hide memories from every reader, and keep them",
        act=_quarantine,
        arguments=_quarantine_arguments,
    ),
    Command(
        words=("memory", "parole"),
        summary="show hidden memories again, each after a trial",
        act=_parole,
        arguments=_parole_arguments,
    ),
)
