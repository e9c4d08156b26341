"""`mnemogate status`: what serves and what is wrong; `version`: the program's version."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from proxy.admin.wire.incidents import INCIDENTS
from proxy.admin.wire.store import STATUS, StatusView
from proxy.cli.api_commands import show
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.terminal import counted, now_ms, waiting
from proxy.seams.readiness import UpstreamState
from proxy.version import version


class StatusReport(StatusView, frozen=True, kw_only=True):
    """The output of `status --json`."""

    # The number of incidents of wrong answers that are neither healed nor closed.
    open_incidents: int
    # What does not work, each with its cause; () if everything works.
    down: tuple[str, ...]


class VersionView(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `version --json`."""

    version: str


async def _status(context: Context) -> Exit:
    async with operator(context, opens=False) as api, asyncio.TaskGroup() as group:
        status = group.create_task(api.ask(STATUS))
        listed = group.create_task(api.ask(INCIDENTS))
    cases = listed.result().wrong_answers
    report = StatusReport(
        **msgspec.structs.asdict(status.result()),
        open_incidents=sum(one.step.value not in {"closed", "healed"} for one in cases),
        down=tuple(_down(status.result())),
    )
    show(context, report, _told)
    return Exit.FAILED if report.down else Exit.OK


def _down(status: StatusView) -> Iterator[str]:
    if not status.writable:
        yield f"gate: no writes are accepted: {status.reason or 'no cause is known'}"
    for one in status.upstreams:
        if one.cause:
            yield f"{one.table}: {_cause(one)}"


def _cause(one: UpstreamState) -> str:
    return one.cause.removeprefix(f"{one.table} ")


def _told(context: Context, report: StatusReport) -> None:
    gate = "OBSERVES ONLY: refuses nothing" if report.observing else "enforces"
    held = waiting(report.held_count, report.held_since_ms, now_ms())
    incidents = f"{report.open_incidents} open"
    rows = [
        ("version", report.program),
        ("gate", gate if report.writable else "DOWN: no writes are accepted"),
        *([("notice", report.reason)] if report.reason else []),
        *(("wider", one) for one in report.wider),
        *(("behind", f"steps of incidents wait for {one}") for one in report.receivers_behind),
        *report.listeners.items(),
        *(
            (one.table, f"{one.url} {f'DOWN: {_cause(one)}' if one.cause else 'no trouble known'}")
            for one in report.upstreams
        ),
        ("held", held or "nothing waits"),
        ("incidents", f"{incidents}: mnemogate incident list" if report.open_incidents else "none"),
        ("memories", f"{report.live_count}, at version {report.version}"),
        ("store", f"{report.bytes_used} of {report.bytes_quota} bytes"),
        ("audit log", counted(report.leaf_count, "leaf", "leaves")),
    ]
    context.terminal.pairs(rows)


def _version(context: Context) -> Exit:
    context.terminal.answer(VersionView(version=version()))
    context.terminal.say(f"mnemogate {version()}")
    return Exit.OK


COMMANDS = (
    Command(
        words=("status",),
        summary="show what serves, what waits and what is wrong; 1 where something is down",
        act=_status,
    ),
    Command(words=("version",), summary="print the program's version", act=_version),
)
