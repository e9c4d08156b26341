"""What a command is: its words, its arguments, and the function that does it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import msgspec

from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import Terminal
from storage import trusted_files
from storage.trusted_files import Trust, UnfitFile

# The function of a command. It returns an `Exit`; `mnemogate mcp`, which wraps a program,
# returns that program's exit code.
Act = Callable[["Context"], "Exit | Coroutine[None, None, int]"]
Arguments = Callable[[argparse.ArgumentParser], None]


_Form = TypeVar("_Form")


class Context:
    """One invocation: what was asked on the command line, and where to answer."""

    def __init__(self, asked: argparse.Namespace, terminal: Terminal) -> None:
        self._asked = vars(asked)
        self.terminal = terminal

    def arguments(self, form: type[_Form]) -> _Form:
        """The command line as a struct. Options that were not given take the struct's defaults.

        Raises:
            CommandFailed: A value is out of the bounds the struct sets.
        """
        given = {name: value for name, value in self._asked.items() if value is not None}
        try:
            return msgspec.convert(given, type=form)
        except msgspec.ValidationError as error:
            raise CommandFailed(Exit.USAGE, str(error), then="see --help") from error

    def given(self, name: str) -> str | None:
        """The value of one option as text; None if the option was not given."""
        value = self._asked.get(name)
        return None if value is None else str(value)


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command: `words` as typed ("memory", "list"), and what it does."""

    words: tuple[str, ...]
    summary: str
    act: Act
    arguments: Arguments | None = None
    # Words that may follow the command and that its own function reads, each with the effect that
    # it has.
    below: tuple[tuple[str, str], ...] = ()


def read_file(path: Path, what: str, len_max: int, trust: Trust = Trust.ANYBODYS) -> bytes:
    """The bytes of a file that was named on the command line.

    Raises:
        CommandFailed: The file cannot be read, is too long, or does not fulfil `trust`.
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
