"""The `[[judge]]` tables: programs and servers of the caller that say whether an answer fails."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from proxy.settings.review_webhook import Network, network_of
from proxy.settings.servers import NAME_PATTERN, Text, check_url
from proxy.settings.values import BadValue, table_of
from storage.ground.trusted_files import UnfitFile, reason, refuse_replaceable


class _JudgeTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[judge]]` table, as it stands in the file."""

    name: Annotated[str, Meta(pattern=NAME_PATTERN)]
    command: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=64)] | None = None
    url: Text | None = None
    allow: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    deterministic: bool = False


MEANINGS: Final[dict[str, str]] = {
    "name": "What the judge is called; lower-case letters, digits, `.`, `_`, `-`.",
    "command": "Its program by an absolute path, with arguments. It is run for each question in a "
    "process group of its own, without environment; the question is its standard input.",
    "url": "Or its URL: a POST for each question, `https://`, or `http://` to what `allow` has. "
    "Redirects are not followed.",
    "allow": "Ranges of addresses that the POST may go to although they are not public.",
    "deterministic": "Whether it answers the same each time, so that one answer counts "
    "(`mnemogate judge test` asks twice). It has 30 seconds; a later answer is none.",
}


class JudgeTable(msgspec.Struct, frozen=True, kw_only=True):
    """One `[[judge]]` table, checked: it has either a command or a URL."""

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    allow: tuple[Network, ...] = ()
    deterministic: bool = False


def judge_tables(tables: list[object]) -> tuple[JudgeTable, ...]:
    """The judges of these tables, in order.

    Raises:
        BadValue: The message names the table and key, and what is allowed.
    """
    found: list[JudgeTable] = []
    for position, table in enumerate(tables, 1):
        try:
            judge = _checked(table_of(table, _JudgeTable))
        except BadValue as error:
            raise BadValue(f"judge, table {position}: {error}") from None
        if any(one.name == judge.name for one in found):
            raise BadValue(f"judge, table {position}: name: is taken by another table")
        found.append(judge)
    return tuple(found)


def _checked(given: _JudgeTable) -> JudgeTable:
    if (given.command is None) == (given.url is None):
        raise BadValue("give exactly one of command and url")
    allow = tuple(map(network_of, given.allow))
    if given.url is not None:
        check_url(given.url, has_credential=False)
        if urlsplit(given.url).scheme != "https" and not allow:
            raise BadValue("url: must be https://, or http:// to addresses that `allow` lists")
    elif allow:
        raise BadValue("allow: is for a url")
    if given.command is not None:
        _check_program(Path(given.command[0]))
    return JudgeTable(
        name=given.name,
        command=given.command or (),
        url=given.url or "",
        allow=allow,
        deterministic=given.deterministic,
    )


def _check_program(program: Path) -> None:
    if not program.is_absolute():
        raise BadValue("command: a program by its absolute path: it has no PATH to be found in")
    try:
        refuse_replaceable(program)
        if not program.is_file():
            raise BadValue(f"command: there is no program {program}")
    except UnfitFile as error:
        # The program runs as the gate's user: whoever can replace it can do what the gate can.
        raise BadValue(f"command: must be {error}") from None
    except OSError as error:
        raise BadValue(f"command: cannot be looked at ({reason(error)})") from None
