"""`mnemogate rewind`: put memories into the state of a version or a time, by new commits."""

from __future__ import annotations

import argparse
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.admin.wire.incidents import RewindRequest, RewindView
from proxy.cli.client import PATIENT_S
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.isolate import NOBODY, on_incident, reach_arguments, whole_session
from proxy.cli.progress import working
from proxy.cli.terminal import Terminal, inert, moment
from proxy.seams.tenants import DEFAULT_TENANT
from storage.values import QUARANTINE_REASON_LEN_MAX

_DIGITS_MAX = 15
_COUNTS: Final = {
    "put_back": "put back",
    "kept_hidden": "stays hidden",
    "behind": "left alone: another server has it",
    "moved": "left alone: it was changed meanwhile",
}


class _Rewind(msgspec.Struct, frozen=True, kw_only=True):
    to: str | None = None
    undo: str | None = None
    tenant: str = DEFAULT_TENANT
    principal: str | None = None
    origin: str | None = None
    session: str | None = None
    under: str | None = None
    dry_run: bool = False
    reason: Annotated[str, Meta(max_length=QUARANTINE_REASON_LEN_MAX)] = ""

    @property
    def is_narrowed(self) -> bool:
        """Whether the command line names some memories, and not only the state to go back to."""
        return msgspec.structs.replace(self, to=None, undo=None) != _Rewind()


async def _rewind(context: Context) -> Exit:
    asked = context.arguments(_Rewind)
    terminal = context.terminal
    if (asked.to is None) is (asked.undo is None) or (asked.undo is not None and asked.is_narrowed):
        raise CommandFailed(Exit.USAGE, "say --to and which memories, or --undo INCIDENT alone")
    if asked.to is None:
        return await on_incident(context, "undo", asked.undo or "")
    is_version = asked.to.isascii() and asked.to.isdecimal()
    if is_version and len(asked.to) > _DIGITS_MAX:
        raise CommandFailed(Exit.USAGE, "--to: no store has such a version")
    request = RewindRequest(
        tenant=asked.tenant,
        to_version=int(asked.to) if is_version else None,
        to_ms=None if is_version else moment("--to", asked.to, "the number of a version, "),
        principal=asked.principal,
        origin=asked.origin,
        under=asked.under,
        dry_run=asked.dry_run,
        reason=asked.reason,
    )
    async with operator(context) as api, working(terminal, "rewinding"):
        session = await whole_session(api, asked.session)
        request = msgspec.structs.replace(request, session=session)
        done = await api.post("/rewind", RewindView, request, timeout_s=PATIENT_S)
    if terminal.as_json:
        terminal.data(done)
    else:
        _show(terminal, done)
    return Exit.OK if done.reached else Exit.NOT_FOUND


def _show(terminal: Terminal, done: RewindView) -> None:
    terminal.pairs(
        [
            ("state of", f"version {done.version}"),
            ("put back", f"{done.put_back} have the text that they had"),
            ("hidden", f"{done.hidden} were written later, or hidden then"),
            ("shown", f"{done.shown} had been hidden by an earlier rewind"),
            ("kept", f"{done.kept_hidden} stay hidden: a person or an isolation hid them"),
            ("behind", f"{done.behind} stay as they are: another server has their text"),
            ("moved", f"{done.moved} were changed meanwhile, and left alone"),
            ("lost", f"{done.lost_count} are purged, and do not come back"),
        ]
    )
    if done.touched:
        terminal.table(
            ("memory", "what became of it"),
            [(one.memory_id, _in_words(one.became)) for one in done.touched],
        )
    for memory_id in done.lost:
        terminal.say(f"  lost: {inert(memory_id)}")
    if done.incident is None:
        terminal.say("nothing was changed")
    else:
        terminal.say(f"incident {done.incident.incident_id}: {done.incident.stage}")
    if not done.reached:
        terminal.say(NOBODY)
    elif done.incident is not None:
        undo = f"mnemogate rewind --undo {done.incident.incident_id}"
        terminal.say(f"take it back with: {undo}")


def _in_words(became: tuple[str, ...]) -> str:
    return ", ".join(_COUNTS.get(one, one) for one in became)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        metavar="VERSION|TIME",
        help="the version right after whose commit it was so, or a date or time",
    )
    reach_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="name them, and change nothing")
    parser.add_argument(
        "--undo", metavar="INCIDENT", help="put what a rewind meant into the state right before it"
    )
    parser.add_argument("--reason", metavar="TEXT", help="why, for the audit log; kept for good")


COMMANDS = (
    Command(
        words=("rewind",),
        summary="put memories back into the state of a version or a time, by new commits",
        act=_rewind,
        arguments=_arguments,
    ),
)
