"""`mnemogate shard`: shows a store of several processes, makes one, and asks for a new holder."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from proxy.cli.api_commands import show
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import refuse_unless_openable, settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.failures import opening
from proxy.cli.terminal import inert
from proxy.settings.table import Settings

if TYPE_CHECKING:
    from storage.shard import ShardMember, ShardStatus


class _Create(msgspec.Struct, frozen=True, kw_only=True):
    source: str


@contextmanager
def shard_member(
    settings: Settings, *, source: Path | None = None, joins: bool = False
) -> Generator[ShardMember]:
    """The configured shard, to be looked at while the block runs, or with `joins` as a member.

    `source` is the state directory of which it is made.

    Raises:
        CommandFailed: There is no such shard, it cannot be reached, or the block failed.
    """
    # The import is local, because it loads LMDB, which `--help` does not need.
    from proxy.compose.membership import join  # noqa: PLC0415 - see above

    if settings.shard is None:
        raise CommandFailed(
            Exit.USAGE, "the settings have no [shard] table", then="name their file with --config"
        )
    with (
        opening(source or settings.state, shard=settings.shard),
        closing(join(settings.shard, joins=joins)) as member,
    ):
        yield member


def _status(context: Context) -> Exit:
    with shard_member(settings_of(context)) as member:
        found = member.status()
    show(context, found, _told)
    whole = found.unreadable is None and not any(one.missing for one in found.streams)
    return Exit.OK if found.holder is not None and whole else Exit.FAILED


def _told(context: Context, found: ShardStatus) -> None:
    context.terminal.pairs(list(_rows(found)))


def _rows(found: ShardStatus) -> Iterator[tuple[str, str]]:
    yield "shard", found.name
    lease = found.lease
    if lease is None:
        yield "holder", "NO ONE, and no one ever was"
    else:
        still = f"{lease.address}, for {lease.remaining_s:.1f} s unless it renews its lease"
        yield "holder", still if found.holder else f"NO ONE; the last one was {lease.address}"
        yield "format", str(lease.format)
    for one in found.streams:
        lost = f"; {one.missing} OF THEM MISSING" if one.missing else ""
        span = f"rows {one.begins} to {one.seq}, {one.bytes} bytes, epoch {one.epoch}{lost}"
        yield one.stream.value, span if one.seq else f"no row, epoch {one.epoch}"
    yield "keys", "the last row opens" if found.unreadable is None else f"NO: {found.unreadable}"
    for remark in found.remarks:
        yield "notice", remark


def _create(context: Context) -> Exit:
    settings, source = settings_of(context), Path(context.arguments(_Create).source).absolute()
    refuse_unless_openable(source)
    with shard_member(settings, source=source, joins=True) as member:
        member.create(source)
        member.release()
        made = member.status()
    show(context, made, _told)
    context.terminal.say(
        f"made of {inert(str(source))}. Start members with state directories of their own, and\n"
        "with the checkpoint copy of that one. Start no gate on it: what either writes, the other\n"
        "never has. What waits for a person there is refused."
    )
    return Exit.OK


def _step_down(context: Context) -> Exit:
    with shard_member(settings_of(context)) as member:
        asked = member.journal.step_down()
    if not asked:
        raise CommandFailed(Exit.FAILED, "no member holds the shard", then="`mnemogate run`")
    context.terminal.say(
        "asked: within some seconds another member holds the shard, if there is one"
    )
    return Exit.OK


COMMANDS = (
    Command(
        words=("shard", "status"),
        summary="show who holds the shard, and what its journal has; 1 where no one holds it",
        act=_status,
    ),
    Command(
        words=("shard", "create"),
        summary="make the configured shard of a stopped state directory",
        act=_create,
        options=(
            option(
                "--from",
                "the state directory; the shard has its secrets",
                field="source",
                metavar="STATE",
                required=True,
            ),
        ),
        form=_Create,
    ),
    Command(
        words=("shard", "step-down"),
        summary="ask the holder to let another member hold the shard",
        act=_step_down,
    ),
)
