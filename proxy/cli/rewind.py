"""`mnemogate rewind`: memories as they were at a version or a time, by new commits."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from proxy.admin.wire.incidents import RewindRequest, RewindView
from proxy.cli.client import PATIENT_S
from proxy.cli.command import Command
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.isolate import NOBODY, reach_arguments, whole_session
from proxy.cli.progress import working
from proxy.cli.terminal import inert, moment
from proxy.seams.tenants import DEFAULT_TENANT
from storage.values import QUARANTINE_REASON_LEN_MAX

if TYPE_CHECKING:
    import argparse

    from proxy.cli.command import Context
    from proxy.cli.terminal import Terminal

_DIGITS_MAX = 15


class _Rewind(msgspec.Struct, frozen=True, kw_only=True):
    to: str
    tenant: str = DEFAULT_TENANT
    principal: str | None = None
    origin: str | None = None
    session: str | None = None
    under: str | None = None
    dry_run: bool = False
    reason: Annotated[str, Meta(max_length=QUARANTINE_REASON_LEN_MAX)] = ""


async def _rewind(context: Context) -> Exit:
    asked = context.arguments(_Rewind)
    terminal = context.terminal
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
        _show(terminal, done, asked)
    return Exit.OK if done.reached else Exit.NOT_FOUND


def _show(terminal: Terminal, done: RewindView, asked: _Rewind) -> None:
    terminal.pairs(
        [
            ("state of", f"version {done.version}"),
            ("put back", f"{done.put_back} have the text that they had"),
            ("hidden", f"{done.hidden} were written later, or hidden then"),
            ("shown", f"{done.shown} had been hidden by an earlier rewind"),
            ("behind", f"{done.behind} stay as they are: another server has their text"),
            ("moved", f"{done.moved} were changed meanwhile, and left alone"),
            ("lost", f"{done.lost_count} are purged, and do not come back"),
        ]
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
        again = shlex.join(("mnemogate", "rewind", "--to", str(done.newest), *_whose(asked)))
        terminal.say(f"take it back with: {inert(again)}")


def _whose(asked: _Rewind) -> list[str]:
    """The options that mean the same memories again."""
    given = {
        "--tenant": None if asked.tenant == DEFAULT_TENANT else asked.tenant,
        "--principal": asked.principal,
        "--origin": asked.origin,
        "--session": asked.session,
        "--under": asked.under,
    }
    return [part for name, value in given.items() if value is not None for part in (name, value)]


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        metavar="VERSION|TIME",
        required=True,
        help="the version right after whose commit it was so, or a date or time",
    )
    reach_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="count, and change nothing")
    parser.add_argument("--reason", metavar="TEXT", help="why, for the audit log; kept for good")


COMMANDS = (
    Command(
        words=("rewind",),
        summary="put memories back into the state of a version or a time, by new commits",
        act=_rewind,
        arguments=_arguments,
    ),
)
