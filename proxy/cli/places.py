"""`mnemogate places`: the files that hosts put into model requests, and their lines that wait."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from proxy.admin.wire.injected_places import ACCEPT_LINES, PLACES, PlaceList
from proxy.cli.api_commands import OF_TENANT, asking, show, table
from proxy.cli.command import Command, Context, option, read_text
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import inert
from proxy.seams.tenants import DEFAULT_TENANT
from storage.features.kept_places import LET_IN_LEN_MAX


class _PlaceAsked(msgspec.Struct, frozen=True, kw_only=True):
    path: str = ""
    files: tuple[str, ...] = ()
    tenant: str = DEFAULT_TENANT
    yes: bool = False


def _named(context: Context, found: PlaceList) -> PlaceList:
    """The files whose path is the one that was typed, or ends so; all if none was typed."""
    path = context.arguments(_PlaceAsked).path.lstrip("/").lower()
    end = path and f"/{path}"
    return PlaceList(
        places=tuple(one for one in found.places if f"/{one.path}".lower().endswith(end))
    )


def _lines(context: Context, found: PlaceList) -> None:
    """Print files, and the lines that wait if a file was named."""
    named = _named(context, found)
    _TABLE(context, named)
    for place in named.places if context.given("path") else ():
        for text, principals in place.waiting.items():
            context.terminal.say(f"  {inert(text)}   ({', '.join(map(inert, principals))})")


async def _accept(context: Context) -> Exit:
    asked = context.arguments(_PlaceAsked)
    async with operator(context) as api:
        found = await api.ask(PLACES, tenant=asked.tenant)
        named = _named(context, found)
        waiting = tuple(one for one in named.places if one.waiting)
        if len(waiting) != 1:
            said = "more than one file is so named" if waiting else "no line of such a file waits"
            if found.full and not waiting:
                said += "; lines of a further file are not kept, because the table is full"
            raise CommandFailed(
                Exit.NOT_FOUND, said, then="mnemogate places list, or places import FILE"
            )
        _lines(context, PlaceList(places=waiting))
        if not (asked.yes or context.agreed("let these lines into every prompt")):
            raise CommandFailed(Exit.USAGE, "no line was let in", then="type yes, or --yes")
        (place,) = waiting
        text = "\n".join(place.waiting)
        done = await api.ask(ACCEPT_LINES, tenant=asked.tenant, path=place.path, text=text)
    show(context, PlaceList(places=(done,)), _TABLE)
    return Exit.OK


def _read(name: str) -> tuple[str, str]:
    """The absolute path of a file, and its text."""
    return str(Path(name).absolute()), read_text(Path(name), inert(name), LET_IN_LEN_MAX)


async def _import(context: Context) -> Exit:
    asked = context.arguments(_PlaceAsked)
    texts = [_read(one) for one in asked.files]
    async with operator(context) as api:
        done = [
            await api.ask(ACCEPT_LINES, tenant=asked.tenant, path=path, text=text)
            for path, text in texts
        ]
    show(context, PlaceList(places=tuple(done)), _TABLE)
    return Exit.OK


_TENANT: Final = option("--tenant", OF_TENANT)
_PATH: Final = option("path", "the file's path, or the end of it", metavar="PATH")
_TABLE: Final = table(
    "places",
    {
        "file": "path",
        "lines": "lines",
        "gone": "gone",
        "waiting": lambda one: len(one.waiting),
        "unread": "unread",
    },
    nothing="no model request had a file between marks that are known",
)
COMMANDS = (
    asking(
        "places list",
        "list the files that hosts put into model requests, or the lines of one that wait",
        PLACES,
        _lines,
        options=(_PATH, _TENANT),
        form=_PlaceAsked,
    ),
    Command(
        words=("places", "accept"),
        summary="let the lines of a file in that wait, for all principals",
        act=_accept,
        options=(_PATH, _TENANT, option("--yes", "let the lines in without a question")),
        form=_PlaceAsked,
    ),
    Command(
        words=("places", "import"),
        summary="let all lines of files in, before a request has them",
        act=_import,
        options=(option("files", "the files", metavar="FILE"), _TENANT),
        form=_PlaceAsked,
    ),
)
