"""Defines a command: its words, its options, and the function that carries it out."""

from __future__ import annotations

import argparse
import enum
import os
import sys
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from types import UnionType
from typing import IO, Annotated, TypedDict, TypeVar, Union, get_args, get_origin

import msgspec

from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import Terminal, inert
from storage.ground import trusted_files
from storage.ground.trusted_files import Trust, UnfitFile

# The function of a command. It returns an `Exit`; only `mnemogate mcp`, which runs another program,
# returns the exit code of that program.
Act = Callable[["Context"], "Exit | Coroutine[None, None, int]"]
Arguments = Callable[[argparse.ArgumentParser], None]


_Form = TypeVar("_Form", bound=msgspec.Struct)


class Context:
    """One invocation of a command: its parsed command line, and the terminal for its output."""

    def __init__(self, asked: argparse.Namespace, terminal: Terminal) -> None:
        self._asked = vars(asked)
        self.terminal = terminal

    def arguments(self, form: type[_Form]) -> _Form:
        """The command line as a struct; options that were not given have the struct's defaults.

        Raises:
            CommandFailed: A value is outside the bounds that the struct declares.
        """
        asked = ((name, self._asked.get(name)) for name in form.__struct_fields__)
        given = {name: value for name, value in asked if value is not None}
        try:
            return msgspec.convert(given, type=form)
        except msgspec.ValidationError as error:
            raise CommandFailed(Exit.USAGE, str(error), then="see --help") from error

    def value(self, name: str) -> object:
        """The value that argparse parsed for one option; None if the option was not given."""
        return self._asked.get(name)

    def agreed(self, question: str) -> bool:
        """Whether a person answers the question with yes; False if stdin is no terminal."""
        if self.terminal.as_json or not sys.stdin.isatty():
            return False
        self.terminal.note(f"{question}? type yes")
        return sys.stdin.readline().strip() == "yes"

    def given(self, name: str) -> str | None:
        """The value of one option as text; None if the option was not given."""
        value = self._asked.get(name)
        return None if value is None else str(value)


Options = tuple["Option", ...]


class _Parsed(TypedDict, total=False):
    """The keyword arguments of argparse's `add_argument` for one option."""

    help: str | None
    metavar: str | tuple[str, ...] | None
    choices: Iterable[str]
    action: str
    nargs: int | str
    type: type[int | float]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option or argument of a command, and the struct's field that its value fills."""

    flag: str
    help: str
    field: str
    metavar: str | tuple[str, ...] | None = None
    choices: tuple[str, ...] | None = None
    required: bool = False
    # The value if the option is not given, and a function that parses the flag's typed text.
    default: object = None
    read: Callable[[str, str], object] | None = None

    def add(self, parser: argparse.ArgumentParser, form: type[msgspec.Struct]) -> None:
        """Add the option to a parser; the type of its values is that of its field in `form`."""
        fields = {one.encode_name: one for one in msgspec.structs.fields(form)}
        # An option without a field in `form` fills the name or id in the request's path.
        field = fields.get(self.field)
        kind, many = (str, False) if field is None or self.read else _kind(field.type)
        required = field is None or field.required
        is_flag = self.flag.startswith("-")
        more: _Parsed = {"help": self.help or None, "metavar": self.metavar}
        if self.choices is not None:
            more["choices"] = self.choices
        elif issubclass(kind, enum.Enum):
            more["choices"] = [one.value for one in kind]
        if kind is bool:
            del more["metavar"]
            more["action"] = "store_true"
        elif isinstance(self.metavar, tuple):
            more["nargs"] = len(self.metavar)
        elif many and is_flag:
            more["action"] = "append"
        elif many:
            more["nargs"] = "+" if required else "*"
        elif not is_flag and not required:
            more["nargs"] = "?"
        if kind in {int, float}:
            more["type"] = kind
        if is_flag:
            parser.add_argument(self.flag, dest=self.field, required=self.required, **more)
        else:
            parser.add_argument(self.field, **more)


def option(
    flag: str,
    text: str = "",
    *,
    field: str | None = None,
    metavar: str | tuple[str, ...] | None = None,
    choices: Iterable[str] | None = None,
    required: bool = False,
    default: object = None,
    read: Callable[[str, str], object] | None = None,
) -> Option:
    """An option (`--tenant`) or an argument (`name`); it fills `field`, by default its namesake."""
    return Option(
        flag=flag,
        help=text,
        field=field or flag.lstrip("-").replace("-", "_"),
        metavar=metavar,
        choices=None if choices is None else tuple(choices),
        required=required,
        default=default,
        read=read,
    )


def _kind(annotation: object) -> tuple[type, bool]:
    """The type of a single value of a field, and whether the field takes several values."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated or origin in {Union, UnionType}:
        return _kind(inner[0])
    if origin in {tuple, list}:
        return _kind(inner[0])[0], True
    return annotation if isinstance(annotation, type) else str, False


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command: its `words` as typed ("memory", "list"), and its function `act`."""

    words: tuple[str, ...]
    summary: str
    act: Act
    arguments: Arguments | None = None
    # The options whose values are fields of `form`.
    options: Options = ()
    form: type[msgspec.Struct] = msgspec.Struct
    # Words that may follow the command and that `act` itself parses, each with a description of its
    # effect.
    below: tuple[tuple[str, str], ...] = ()


def read_file(path: Path, what: str, len_max: int, trust: Trust = Trust.ANYBODYS) -> bytes:
    """Read a file that was named on the command line; `what` names it in messages.

    Raises:
        CommandFailed: The file cannot be read, is longer than `len_max`, or does not meet `trust`.
    """
    try:
        return trusted_files.read_file(path, len_max, trust)
    except OSError as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"cannot read {what}, {trusted_files.reason(error)}",
            then="check the path and who may read it",
        ) from error
    except UnfitFile as error:
        raise CommandFailed(Exit.USAGE, f"{what} must be {error}") from error


def read_text(path: Path, what: str, len_max: int) -> str:
    """Read a text file that was named on the command line; `what` names it in messages.

    Raises:
        CommandFailed: The file cannot be read, is longer than `len_max` bytes, or is not UTF-8.
    """
    try:
        return read_file(path, what, len_max).decode()
    except UnicodeDecodeError as error:
        raise CommandFailed(Exit.USAGE, f"{what} is not UTF-8") from error


@contextmanager
def new_file(to: str | None, named: str, *, empty: bool = False) -> Generator[IO[bytes] | None]:
    """A new file that only its owner may read, durable at the end; None if none was asked for.

    The file is removed if an exception ends the block, or if it is empty and may not be so.
    `named` is the option that names the file.

    Raises:
        CommandFailed: The file is there already, or cannot be made.
    """
    if to is None:
        yield None
        return
    try:
        made = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except (OSError, ValueError) as error:
        raise CommandFailed(
            Exit.USAGE,
            f"{named} {inert(to)}: {trusted_files.reason(error)}",
            then="name a file that is not there yet, in a directory that is",
        ) from error
    whole = False
    try:
        with os.fdopen(made, "wb") as file:
            yield file
            file.flush()
            os.fsync(made)
            whole = empty or file.tell() > 0
    except OSError as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"{named} {inert(to)} cannot be written: {trusted_files.reason(error)}",
            then="name a file elsewhere, and give the same command again",
        ) from error
    finally:
        if not whole:
            Path(to).unlink()
