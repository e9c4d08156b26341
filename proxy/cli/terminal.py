"""Prints tables, JSON lines and progress, with hostile text made inert.

Memory content may be an attacker's. Printed raw it could move the cursor, set the title, forge a
table row or reorder the line with bidi controls, and so make a reviewer release a text that was
never visible. Untrusted text is printed through `inert`, and each row of a quoted text begins with
a margin, so that it cannot pass for a row of a command.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
import unicodedata
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Final, TextIO

import msgspec

from policy.text.skeleton import is_hidden
from proxy.cli.exits import CommandFailed, Exit
from proxy.seams.waits import beside

_BYTE_MAX: Final = 0xFF
_BMP_MAX: Final = 0xFFFF
# The most combining marks on one letter; more of them would paint over the lines above and below.
_MARKS_MAX: Final = 2
_MARKS: Final = frozenset({"Mn", "Me"})
_COLUMN_WIDTH_MAX: Final = 60
_WIDTH: Final = 80
_WIDTH_MIN: Final = 20
_MARGIN: Final = "  | "
_PROGRESS_INTERVAL_S: Final = 0.1
NOTHING: Final = "nothing to list"


def inert(text: str) -> str:
    r"""The text on one line, with control and invisible characters as escapes such as `\x1b`.

    A backslash in the text is doubled, so that no text can look like an escaped one.
    """
    shown: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in _MARKS else 0
        if character == "\\":
            shown.append("\\\\")
        elif is_hidden(character) or character in "\n\t" or marks > _MARKS_MAX:
            shown.append(_spelled(character))
        else:
            shown.append(character)
    return "".join(shown)


def block(text: str, width: int | None = None) -> str:
    """Untrusted text in rows, each after a margin, so that no row can pass for a command's output.

    Args:
        text: The text.
        width: The number of the terminal's columns. A longer row would be continued by the terminal
            without a margin. None (unknown) counts as 80.
    """
    room = max(width or _WIDTH, _WIDTH_MIN) - len(_MARGIN)
    return "\n".join(_MARGIN + row for line in text.split("\n") for row in _rows(inert(line), room))


def iso(at_ms: int | None) -> str:
    """Unix milliseconds as ISO 8601 in UTC, seconds precise; "-" for None."""
    if at_ms is None:
        return "-"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(option: str, text: str, also: str = "") -> int:
    """The Unix milliseconds of a date or time given to an option; in UTC if it names no zone.

    Args:
        option: The option's name, for the message.
        text: The date or the time.
        also: Other values that the option takes, for the message.

    Raises:
        CommandFailed: The text is neither a date nor a time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CommandFailed(
            Exit.USAGE,
            f"{option}: {also}a date or a time, like 2030-01-31 or 2030-01-31T12:00:00Z",
        ) from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def now_ms() -> int:
    """The present time of this machine, in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def age(since_ms: int, now_ms: int) -> str:
    """The time since `since_ms` in minutes, in hours (from 1 hour) or in days (from 2 days)."""
    minutes = max(0, now_ms - since_ms) // 60_000
    if minutes < 60:  # noqa: PLR2004 - minutes of an hour
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 48 else f"{hours // 24} d"  # noqa: PLR2004 - two days


def counted(count: int, one: str, many: str) -> str:
    """A count with its noun, such as "1 memory" and "0 memories"."""
    return f"{count} {one if count == 1 else many}"


def waiting(count: int, since_ms: int | None, now_ms: int) -> str:
    """A sentence on how many candidates wait for a person; "" if none waits."""
    if not count:
        return ""
    oldest = "" if since_ms is None else f", the oldest for {age(since_ms, now_ms)}"
    return f"{counted(count, 'waits', 'wait')} for a person{oldest}: mnemogate review list"


def width_of(text: str) -> int:
    """The number of terminal cells that an inert text takes."""
    cells = 0
    for character in text:
        if unicodedata.category(character) in _MARKS:
            continue
        cells += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return cells


def _rows(text: str, room: int, *, at_blanks: bool = False) -> list[str]:
    """An inert text cut into rows of at most `room` cells; at least one row.

    With `at_blanks` a row ends after its last blank, if it has one, so that no word is cut.
    """
    rows: list[str] = []
    begin = cells = 0
    for at, character in enumerate(text):
        cells += _wide(character)
        if cells > room:
            blank = text.rfind(" ", begin, at) + 1 if at_blanks else 0
            end = blank if blank > begin else at
            rows.append(text[begin:end])
            begin = end
            cells = sum(map(_wide, text[begin : at + 1]))
    return [*rows, text[begin:]]


def _wide(character: str) -> int:
    """The cells of a character; the larger number, if its width differs between terminals."""
    return 2 if unicodedata.east_asian_width(character) in "WFA" else 1


class Terminal:
    """Prints the output of a command. In JSON mode only `data` prints on stdout."""

    def __init__(self, out: TextIO, err: TextIO, *, as_json: bool, progress: bool = False) -> None:
        self.as_json = as_json
        self._out = out
        self._err = err
        self._width = _columns(out)
        self.shows_progress = progress or err.isatty()

    def data(self, value: object) -> None:
        """Print one JSON line on stdout, in printable ASCII, so that no terminal acts on it."""
        self._write(self._out, _json_line(value))

    def answer(self, value: object) -> None:
        """Print the answer of a command as one JSON line in JSON mode; else print nothing."""
        if self.as_json:
            self.data(value)

    def fault(self, value: object) -> None:
        """Print one JSON line on stderr with the error that ended a command in JSON mode."""
        self._whisper(_json_line(value))

    def say(self, text: str = "") -> None:
        """Print text for a person on stdout; prints nothing in JSON mode.

        Untrusted text in it must already be inert.
        """
        if not self.as_json:
            self._write(self._out, text + "\n")

    def quote(self, text: str) -> None:
        """Print untrusted text in the form of `block`, as wide as the terminal."""
        self.say(block(text, self._width))

    def copy(self, text: str) -> None:
        """Print untrusted text unchanged, for a file or another program.

        On a terminal the text is printed by `quote` instead.
        """
        self.say(text if self._width is None else block(text, self._width))

    def note(self, text: str) -> None:
        """Print text for a person on stderr, in JSON mode too."""
        self._whisper(text + "\n")

    def table(
        self, heads: Sequence[str], rows: Sequence[Sequence[str]], *, nothing: str = NOTHING
    ) -> None:
        """Print rows in padded columns, with inert cells; the widest are cut to fit a terminal.

        If there are no rows, `nothing` is printed instead of the heads, because heads alone would
        look as if the command had failed.
        """
        if not rows:
            self.say(nothing)
            return
        cells = [[inert(cell) for cell in row] for row in rows]
        widths = [
            max([width_of(head), *(width_of(row[column]) for row in cells)])
            for column, head in enumerate(heads)
        ]
        if self._width is not None:
            widths = _fitted(widths, self._width)
        for row in [list(heads), *cells]:
            line = "  ".join(_padded(cell, width) for cell, width in zip(row, widths, strict=True))
            self.say(line.rstrip())

    def pairs(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print names and values in two columns; values are made inert, and never cut.

        On a terminal, a value that does not fit is continued below its beginning, unless it
        contains no blank, as a link does.
        """
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            shown = [inert(value)]
            if self._width is not None and any(map(str.isspace, value)):
                room = max(self._width, width + 2 + _WIDTH_MIN) - width - 2
                shown = _rows(shown[0], room, at_blanks=True)
            for number, row in enumerate(shown):
                self.say(f"{('' if number else name).ljust(width)}  {row}".rstrip())

    def progress(self, label: str) -> Callable[[int, int], None]:
        """A callback `(done, total)` for long work; it prints on stderr, if progress is wanted."""
        if not self.shows_progress:
            return _silent
        drawn_at_s = 0.0
        tty = self._err.isatty()

        def draw(done: int, total: int) -> None:
            nonlocal drawn_at_s
            now_s = time.monotonic()
            finished = done >= total
            if not finished and now_s - drawn_at_s < _PROGRESS_INTERVAL_S:
                return
            drawn_at_s = now_s
            share = 100 if total == 0 else done * 100 // total
            line = f"{label}: {done}/{total} ({share}%)"
            ending = "\n" if finished or not tty else ""
            self._whisper(f"\r{line}{ending}" if tty else f"{line}\n")

        return draw

    def _write(self, stream: TextIO, text: str) -> None:
        # A character that the stream's encoding lacks is written as an escape, because the write
        # would raise otherwise.
        encoding = stream.encoding or "utf-8"
        with answering():
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()

    def _whisper(self, text: str) -> None:
        """Write to stderr; an error of stderr does not end the command."""
        try:
            self._write(self._err, text)
        except (CommandFailed, BrokenPipeError):
            silence(self._err)


@contextmanager
def answering() -> Generator[None]:
    """Convert an error of writing to stdout in the block to a `CommandFailed`.

    Raises:
        CommandFailed: The output could not be written, for example to a full disk.
        BrokenPipeError: The reader closed the pipe.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"the answer cannot be written: {error.strerror or type(error).__name__}",
            then="what was asked for may be done: look before asking again",
        ) from error


def silence(stream: TextIO) -> None:
    """Discard the stream's buffer, because at its exit Python would report the same error again."""
    with contextlib.suppress(OSError, ValueError):
        number = os.open(os.devnull, os.O_WRONLY)
        os.dup2(number, stream.fileno())
        os.close(number)


def _json_line(value: object) -> str:
    line = json.dumps(msgspec.to_builtins(value), ensure_ascii=True)
    # JSON does not escape the DEL character, and a terminal would act on DEL.
    return line.replace("\x7f", "\\u007f") + "\n"


def _spelled(character: str) -> str:
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    if named is not None:
        return named
    point = ord(character)
    if point <= _BYTE_MAX:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= _BMP_MAX else f"\\U{point:08x}"


def _silent(_done: int, _total: int) -> None:
    return


def _columns(stream: TextIO) -> int | None:
    """The width of the stream's terminal; None if the stream is no terminal: nothing is cut."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def _fitted(widths: list[int], columns: int) -> list[int]:
    """Shrink the widest columns, cell by cell, until a row fits; none gets below 8 cells."""
    fitted = [min(width, max(_COLUMN_WIDTH_MAX, columns // 2)) for width in widths]
    while sum(fitted) + 2 * (len(fitted) - 1) > columns:
        widest = max(range(len(fitted)), key=fitted.__getitem__)
        if fitted[widest] <= 8:  # noqa: PLR2004 - a column below this says nothing any more
            break
        fitted[widest] -= 1
    return fitted


def _padded(cell: str, width: int) -> str:
    if width_of(cell) > width:
        kept = ""
        for character in cell:
            if width_of(kept + character) > width - 1:
                break
            kept += character
        cell = kept + "…"
    return cell + " " * (width - width_of(cell))


_INTERVAL_S: Final = 1.0


@asynccontextmanager
async def working(terminal: Terminal, label: str | Callable[[], str]) -> AsyncGenerator[None]:
    """Print `label` and the seconds so far once a second while the block runs, if that is wanted.

    `label` is asked for each time where it is a function.
    """
    if not terminal.shows_progress:
        yield
        return
    try:
        async with beside(_tick(terminal, label)):
            yield
    except ExceptionGroup as wrapped:
        # The group's only exception is that of the block, because the printing task raises none.
        raise wrapped.exceptions[0] from None


async def _tick(terminal: Terminal, label: str | Callable[[], str]) -> None:
    began_s = time.monotonic()
    while True:
        said = label if isinstance(label, str) else label()
        terminal.note(f"{said}: {time.monotonic() - began_s:.0f} s")
        await asyncio.sleep(_INTERVAL_S)
