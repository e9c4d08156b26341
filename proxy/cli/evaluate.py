"""`mnemogate evaluate`: prints which command measures the promises, in a clone of the source."""

from __future__ import annotations

from proxy.cli.command import Command, Context
from proxy.cli.exits import CommandFailed, Exit


def _evaluate(_context: Context) -> Exit:
    raise CommandFailed(
        Exit.USAGE,
        "the evaluation is not installed with the program",
        then="from a clone of its source: make evaluate ARGS=--help",
    )


COMMANDS = (
    Command(
        words=("evaluate",),
        summary="say how to measure, from a clone (make evaluate), what the promises are worth",
        act=_evaluate,
    ),
)
