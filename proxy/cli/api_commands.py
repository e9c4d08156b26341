"""Builds commands that send one request to the operator API and print the answer.

Such a command is declared by its words, its row of the API's routing table, its options and what to
print. This module completes ids, shows progress, prints `--json` and sets the exit code.
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
"""A mapping of headings to cells: a field's name, a format string of the row `{0}`, a function."""
LABEL = "{0.source.value} (by {0.basis.value})"
"""A column of a memory's or candidate's label (its source), and the basis of the label."""
NO_IDS: Mapping[str, IdKind] = MappingProxyType({})
OF_TENANT = f"whose memories (default: {DEFAULT_TENANT})"

REASON_HELP = (
    "why, for the audit log; kept for good (default: none, the log then says who and when alone)"
)


def is_done(_answer: object) -> Exit:
    """The exit code (0) of a command that succeeds whatever its answer contains."""
    return Exit.OK


def all_fit(_asked: Asked) -> None:
    """Accept any combination of options."""


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
    """A command that sends one request by a row of the operator API, and prints the answer.

    Args:
        words: The command as typed, such as "key list".
        summary: One line for its help.
        row: The row of the API. The option named like the variable segment of its path fills that
            segment, the other options its query or body.
        shows: Prints the answer for a person.
        options: The command's options and arguments.
        names: A mapping of an option that takes an id, or the beginning of one, to the kind of the
            id.
        label: The words that the progress display shows while the command waits.
        check: Raises `CommandFailed` for options that exclude each other.
        ends: The exit code for an answer.
        form: A struct with the fields of all options, if some are not sent but concern the
            printing.
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
    """A mapping of each given option's field to its value."""
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
    """A printer of one field of an answer as a table; with "", of the answer itself as one row."""

    def shows(context: Context, answer: object) -> None:
        found = getattr(answer, name) if name else answer
        rows = cast("Sequence[object]", found if isinstance(found, tuple) else (found,))
        cells = [[cell(row, column) for column in columns.values()] for row in rows]
        context.terminal.table(tuple(columns), cells, nothing=nothing)

    return shows


def pairs(columns: Columns) -> Shows:
    """A printer of an answer's fields, one on each line with its heading."""

    def shows(context: Context, answer: object) -> None:
        context.terminal.pairs([(name, cell(answer, one)) for name, one in columns.items()])

    return shows


def lines(told: Callable[[Any], Iterable[str]]) -> Shows:
    """A printer of the lines that a function makes of an answer; each line must be inert."""

    def shows(context: Context, answer: object) -> None:
        for line in told(answer):
            context.terminal.say(line)

    return shows


def blank(context: Context, _answer: object) -> None:
    """Print an empty line."""
    context.terminal.say()


def together(*parts: Shows) -> Shows:
    """A printer that runs several printers on one answer."""

    def shows(context: Context, answer: object) -> None:
        for part in parts:
            part(context, answer)

    return shows


def cell(row: object, column: str | Callable[[Any], object]) -> str:
    """The text of one cell of a table, "-" if it is empty; `column` is a value of `Columns`."""
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
    """A value as text for a person; "-" for None or an empty value."""
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
    """A column for a field with several texts, which are joined with `by` between them."""

    def text(row: object) -> str:
        return by.join(getattr(row, name))

    return text
