"""Commands that ask one row of the operator API and print its answer: the machinery of all.

Such a command is one row itself: its words, the row of the API, its options, what to print. Ids by
their beginnings, waiting, `--json` and exit codes are here, once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec

from proxy.admin.wire.route import IdKind, Route
from proxy.cli.client import whole_ids
from proxy.cli.command import Command, Context, Option, Options
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.terminal import NOTHING, iso, working
from proxy.dialects.described import ARGUMENT
from proxy.seams.tenants import DEFAULT_TENANT

_Answer = TypeVar("_Answer", bound=msgspec.Struct)
Asked = Mapping[str, object]
Shows = Callable[[Context, Any], None]
Columns = Mapping[str, str | Callable[[Any], object]]
"""By its heading: the name of a field, a text with fields of the row `{0}`, or a function of it."""
LABEL = "{0.source.value} (by {0.basis.value})"
"""A column of the label of a memory or a candidate, and what it rests on."""
NO_IDS: Mapping[str, IdKind] = MappingProxyType({})
OF_TENANT = f"whose memories (default: {DEFAULT_TENANT})"

REASON_HELP = (
    "why, for the audit log; kept for good (default: none, the log then says who and when alone)"
)


def is_done(_answer: object) -> Exit:
    """The exit code of a command that succeeds whatever its answer contains."""
    return Exit.OK


def all_fit(_asked: Asked) -> None:
    """The check of a command whose options may all be given together."""


def asking(
    words: str,
    summary: str,
    row: Route[Any, _Answer],
    shows: Shows,
    *,
    options: Options = (),
    names: Mapping[str, IdKind] = NO_IDS,
    label: str = "",
    check: Callable[[Asked], None] = all_fit,
    ends: Callable[[_Answer], Exit] = is_done,
    form: type[msgspec.Struct] | None = None,
) -> Command:
    """The command that asks this row of the API.

    Args:
        words: The command as typed, such as "key list".
        summary: One line for its help.
        row: The row of the API. An option with the name of its variable segment goes there, the
            others into its query or body.
        shows: Prints the answer for a person.
        options: The command's options and arguments.
        names: The options that take an id of this kind, or the beginning of one.
        label: What is done meanwhile, for a command that shows progress.
        check: Refuses options that do not go together.
        ends: The exit code for an answer.
        form: Where some options are about the printing alone: a struct with their fields, too.
    """
    fields = {one.encode_name for one in msgspec.structs.fields(row.asked)}
    segment = "".join(ARGUMENT.findall(row.template))

    async def act(context: Context) -> Exit:
        asked = given(context, options)
        check(asked)
        async with operator(context) as api, working(context.terminal, label):
            asked = await whole_ids(api, asked, names)
            argument = str(asked.pop(segment, ""))
            sent = {name: one for name, one in asked.items() if name in fields}
            answer = await api.ask(row, argument, **sent)
        show(context, answer, shows)
        return ends(answer)

    return Command(
        words=tuple(words.split()),
        summary=summary,
        act=act,
        options=options,
        form=form or row.asked,
    )


def given(context: Context, options: Iterable[Option]) -> dict[str, object]:
    """The options of the command line, by the names of the fields that they fill."""
    found: dict[str, object] = {}
    for option in options:
        value = context.value(option.field)
        value = option.default if value is None else value
        if value is not None:
            read = option.read
            found[option.field] = value if read is None else read(option.flag, str(value))
    return found


def show(context: Context, answer: msgspec.Struct, shows: Shows) -> None:
    """Print an answer, as JSON or for a person."""
    if context.terminal.as_json:
        context.terminal.data(answer)
    else:
        shows(context, answer)


def table(name: str, columns: Columns, *, nothing: str = NOTHING) -> Shows:
    """Prints one field of an answer as a table; with "" the answer itself, as its only row."""

    def shows(context: Context, answer: object) -> None:
        found = getattr(answer, name) if name else answer
        rows = cast("Sequence[object]", found if isinstance(found, tuple) else (found,))
        cells = [[cell(row, column) for column in columns.values()] for row in rows]
        context.terminal.table(tuple(columns), cells, nothing=nothing)

    return shows


def pairs(columns: Columns) -> Shows:
    """Prints fields of an answer one below the other."""

    def shows(context: Context, answer: object) -> None:
        context.terminal.pairs([(name, cell(answer, one)) for name, one in columns.items()])

    return shows


def lines(told: Callable[[Any], Iterable[str]]) -> Shows:
    """Prints the lines that a function makes of the answer; each must be inert."""

    def shows(context: Context, answer: object) -> None:
        for line in told(answer):
            context.terminal.say(line)

    return shows


def blank(context: Context, _answer: object) -> None:
    """Prints an empty line."""
    context.terminal.say()


def together(*parts: Shows) -> Shows:
    """Prints an answer in several parts."""

    def shows(context: Context, answer: object) -> None:
        for part in parts:
            part(context, answer)

    return shows


def cell(row: object, column: str | Callable[[Any], object]) -> str:
    """One value as a person reads it; "-" where there is none."""
    value: object
    if not isinstance(column, str):
        value = column(row)
    elif "{" in column:
        value = column.format(row)
    else:
        value = attrgetter(column)(row)
        value = iso(value) if column.endswith("_ms") and isinstance(value, int) else value
    return plain(value)


def plain(value: object) -> str:
    """A value as a person reads it; "-" where there is none."""
    match value:
        case None | "" | () | msgspec.UnsetType():
            return "-"
        case bool():
            return "yes" if value else "no"
        case enum.Enum():
            return str(value.value)
        case tuple():
            return ", ".join(map(str, cast("Sequence[object]", value)))
        case _:
            return str(value)


def joined(name: str, by: str) -> Callable[[object], str]:
    """A column of a field with several texts, with `by` between them."""

    def text(row: object) -> str:
        return by.join(getattr(row, name))

    return text
