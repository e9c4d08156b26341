"""Runs the program: parses `sys.argv`, runs the command, and reports a failure in one line."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from policy.verdict import InvariantBroken
from proxy.cli.command import Command, Context
from proxy.cli.exits import CommandFailed, Exit, leaf_of
from proxy.cli.parser import build_parser
from proxy.cli.terminal import Terminal, inert, silence
from proxy.settings.values import successor_of


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. Bad input or a failing system raises no exception."""
    _open_streams()
    words = sys.argv[1:] if argv is None else argv
    # Words after `--` belong to another program.
    own = words[: words.index("--")] if "--" in words else words
    terminal = Terminal(
        sys.stdout, sys.stderr, as_json="--json" in own, progress="--progress" in own
    )
    try:
        asked, unknown = build_parser(*own).parse_known_args(words)
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command: Command = vars(asked).pop("command")
        _refuse(command, unknown)
        return _done(command, Context(asked, terminal))
    except CommandFailed as failure:
        _explain(terminal, failure)
        return failure.code
    except InvariantBroken as broken:
        _explain(
            terminal,
            CommandFailed(Exit.FAILED, f"a promise the code relies on does not hold: {broken}"),
        )
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed the pipe (`| head`). Exit code 0 would be wrong,
        # because a check whose result was not printed to its end has confirmed nothing.
        return Exit.CUT_SHORT
    finally:
        _end()


def _open_streams() -> None:
    """Open /dev/null in place of a closed standard stream.

    Otherwise the next opened file, perhaps the store, would get the stream's number, and a
    library's message on stderr would be written into that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # open() takes the lowest free number, which is that of the closed stream.
            os.open(os.devnull, os.O_RDWR)
    # Python sets a closed stream to None, which its declared type excludes.
    streams: tuple[object, ...] = (sys.stdin, sys.stdout, sys.stderr)
    if streams[0] is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if streams[1] is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if streams[2] is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _end() -> None:
    """Flush the standard streams now, because at its exit Python would print an error itself."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            silence(stream)


def _refuse(command: Command, unknown: Sequence[str]) -> None:
    """Refuse unknown options, and name the command whose help lists the known ones.

    Argparse itself would print the usage of the whole program.
    """
    if unknown:
        words = " ".join(("mnemogate", *command.words))
        # A value may be a secret, so only the option's name is printed.
        option = unknown[0].partition("=")[0]
        name = option.removeprefix("--").replace("-", "_")
        raise CommandFailed(
            Exit.USAGE,
            f"{words} takes no {option}{successor_of(name)}",
            then=f"see {words} --help",
        )


def _done(command: Command, context: Context) -> int:
    try:
        done = command.act(context)
        return done if isinstance(done, Exit) else asyncio.run(done)
    except ExceptionGroup as wrapped:
        raise leaf_of(wrapped) from wrapped


def _explain(terminal: Terminal, failure: CommandFailed) -> None:
    if terminal.as_json:
        terminal.fault({"error": failure.what, "next": failure.then, "code": int(failure.code)})
        return
    then = f"; {failure.then}" if failure.then else ""
    terminal.note(f"mnemogate: {inert(failure.what)}{then}")
