"""From `sys.argv` to an exit code: parse, act, and turn every failure into one line."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from policy.verdict import InvariantBroken
from proxy.cli.command import Context
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.parser import build_parser
from proxy.cli.terminal import Terminal, inert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.cli.command import Command


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Never raises for what a person or the system did wrong."""
    known, unknown = build_parser().parse_known_args(argv)
    asked = vars(known)
    command: Command = asked.pop("command")
    terminal = Terminal(
        sys.stdout,
        sys.stderr,
        as_json=asked.pop("json"),
        progress=asked.pop("progress"),
    )
    try:
        _refuse(command, unknown)
        return _done(command, Context(known, terminal))
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
        # Whoever read our output has enough (`| head`). Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def _refuse(command: Command, unknown: Sequence[str]) -> None:
    """What argparse would say of them is the usage of `mnemogate`, not of the command."""
    if unknown:
        words = " ".join(("mnemogate", *command.words))
        raise CommandFailed(
            Exit.USAGE, f"{words} takes no {unknown[0]}", then=f"see {words} --help"
        )


def _done(command: Command, context: Context) -> int:
    done = command.act(context)
    return done if isinstance(done, Exit) else asyncio.run(done)


def _explain(terminal: Terminal, failure: CommandFailed) -> None:
    if terminal.as_json:
        terminal.fault({"error": failure.what, "next": failure.then, "code": int(failure.code)})
        return
    then = f"; {failure.then}" if failure.then else ""
    terminal.note(f"mnemogate: {inert(failure.what)}{then}")
