"""`mnemogate erase`: erases all traces of one person, and stores the signed receipt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from proxy.admin.wire.erasures import ERASE, NOT_REACHED, EraseRequest, ErasureView
from proxy.cli.api_commands import OF_TENANT, given, lines, show
from proxy.cli.command import Command, Context, Options, option
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import inert, working

_WHOSE: Final[Options] = (
    option("--tenant", OF_TENANT),
    option("--user-id", "the user under whose id memories are filed", metavar="ID"),
    option("--principal", "the principal that wrote, with all its sessions", metavar="P"),
    option("--under", "what is stored in this target, or below it: mcp/SERVER", metavar="PATH"),
    option("--dry-run", "count what there is, and erase nothing"),
)


class _Erase(EraseRequest, frozen=True, kw_only=True):
    receipt: str | None = None


async def _erase(context: Context) -> Exit:
    target = context.given("receipt")
    if target is not None:
        _check_free(Path(target))
    async with operator(context) as api, working(context.terminal, "erasing"):
        done = await api.ask(ERASE, **given(context, _WHOSE))
    if target is not None and done.receipt:
        _store(Path(target), done.receipt)
    show(context, done, lines(_told))
    return Exit.UNREACHABLE if done.waiting else Exit.OK


def _check_free(target: Path) -> None:
    if target.exists() or not target.parent.is_dir():
        raise CommandFailed(
            Exit.USAGE, f"{target} is there already, or its folder is not", then="name another file"
        )


def _store(target: Path, receipt: str) -> None:
    try:
        target.write_text(receipt, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"all is erased, and the receipt cannot be stored: {error.strerror}",
            then="the same command gives it once more: name another file",
        ) from error


def _told(done: ErasureView) -> Iterator[str]:
    yield "found: " + ", ".join(f"{count} {name}" for name, count in done.found.items())
    if done.receipt:
        yield f"erasure {inert(done.erasure_id)} is done"
        yield from (inert(line) for line in done.receipt.splitlines()[1:2])
        yield "not reached: " + "; ".join(NOT_REACHED)
    elif done.erasure_id:
        yield f"erasure {inert(done.erasure_id)} is open; the sidecar goes on by itself"
    else:
        yield "nothing was erased"
    for target, count in done.waiting.items():
        yield f"  waiting in {inert(target)}: {count}; the same command asks again"


COMMANDS = (
    Command(
        words=("erase",),
        summary="erase all traces of one person, here and on servers that can be asked",
        act=_erase,
        options=(
            *_WHOSE,
            option("--receipt", "store the signed receipt here", metavar="FILE"),
        ),
        form=_Erase,
    ),
)
