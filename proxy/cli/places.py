"""`mnemogate places`: the files that hosts put into model requests, and their lines that wait."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from proxy.admin.wire.injected_places import ACCEPT_LINES, IMPORT_LINES, PLACES, PlaceList
from proxy.cli.api_commands import OF_TENANT, asking, show, table
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import inert
from proxy.seams.tenants import DEFAULT_TENANT
from storage.features.kept_places import KeptPlace


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    path: str = ""
    files: tuple[str, ...] = ()
    tenant: str = DEFAULT_TENANT
    yes: bool = False


def _named(context: Context, found: PlaceList) -> list[KeptPlace]:
    """The files whose path is the one that was typed, or ends so."""
    end = f"/{context.arguments(_Asked).path.lstrip('/')}".lower()
    return [one for one in found.places if f"/{one.path}".lower().endswith(end)]


def _lines(context: Context, found: PlaceList) -> None:
    for place in _named(context, found):
        context.terminal.say(f"{inert(place.path)}: {len(place.waiting)} new lines wait")
        for one in place.waiting:
            whose = ", ".join(map(inert, one.principals))
            context.terminal.say(f"  {inert(one.text)}   ({whose})")


async def _accept(context: Context) -> Exit:
    asked = context.arguments(_Asked)
    async with operator(context) as api:
        found = await api.ask(PLACES, tenant=asked.tenant)
        waiting = [one for one in _named(context, found) if one.waiting]
        if len(waiting) != 1:
            said = "more than one file is so named" if waiting else "no line of such a file waits"
            raise CommandFailed(Exit.NOT_FOUND, said, then="mnemogate places list")
        (place,) = waiting
        _lines(context, PlaceList(places=(place,)))
        if not (asked.yes or context.agreed("let these lines into every prompt")):
            raise CommandFailed(Exit.USAGE, "no line was let in", then="type yes, or --yes")
        lines = [one.digest for one in place.waiting]
        done = await api.ask(ACCEPT_LINES, tenant=asked.tenant, path=place.path, lines=lines)
    show(context, PlaceList(places=(done,)), _LIST)
    return Exit.OK


def _read(name: str) -> tuple[Path, str]:
    """The absolute path of a file, and its text."""
    try:
        return Path(name).absolute(), Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(Exit.USAGE, f"{inert(name)}: cannot be read: {error}") from None


async def _import(context: Context) -> Exit:
    asked = context.arguments(_Asked)
    texts = [_read(one) for one in asked.files]
    async with operator(context) as api:
        done = [
            await api.ask(IMPORT_LINES, tenant=asked.tenant, path=str(path), text=text)
            for path, text in texts
        ]
    show(context, PlaceList(places=tuple(done)), _LIST)
    return Exit.OK


def _waiting(one: KeptPlace) -> int:
    return len(one.waiting)


_TENANT: Final = option("--tenant", OF_TENANT)
_PATH: Final = option("path", "the file's path, or the end of it", metavar="PATH")
_LIST: Final = table(
    "places",
    {"file": "path", "lines": "lines", "gone": "gone", "waiting": _waiting, "unread": "unread"},
    nothing="no model request had a file between marks that are known",
)
COMMANDS = (
    asking(
        "places list",
        "list the files that hosts put into model requests",
        PLACES,
        _LIST,
        options=(_TENANT,),
    ),
    asking(
        "places show",
        "show the lines of a file that wait",
        PLACES,
        _lines,
        options=(_PATH, _TENANT),
        form=_Asked,
    ),
    Command(
        words=("places", "accept"),
        summary="let the lines of a file in that wait, for all principals",
        act=_accept,
        options=(_PATH, _TENANT, option("--yes", "let the lines in without a question")),
        form=_Asked,
    ),
    Command(
        words=("places", "import"),
        summary="let all lines of files in, before a request has them",
        act=_import,
        options=(option("files", "the files", metavar="FILE"), _TENANT),
        form=_Asked,
    ),
)
