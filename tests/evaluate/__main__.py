"""`make evaluate`: the paper's measurements on this very system, and further ones.

It works in temporary directories, and touches no running sidecar and no state.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from contextlib import ExitStack, chdir, suppress
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import msgspec
from msgspec import Meta

from proxy.cli.command import Context
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import Terminal, inert, silence, working
from storage.ground.errors import StorageError
from storage.ground.trusted_files import reason
from tests.evaluate.attacks import Broken
from tests.evaluate.book import Book
from tests.evaluate.report import report
from tests.evaluate.sections import EXPERIMENTS, document, evaluate
from tests.evaluate.shown import show
from tests.evaluate.tables import as_json


class _EvaluateArguments(msgspec.Struct, frozen=True, kw_only=True):
    trials: Annotated[int, Meta(ge=1, le=100_000)] = 30
    seed: Annotated[int, Meta(ge=0, le=2**31)] = 1
    json_file: str | None = None
    html: str | None = None
    trials_out: str | None = None
    only: tuple[str, ...] = ()


def _written(stack: ExitStack, name: str | None) -> BinaryIO | None:
    """Open a file for results before the work, which takes minutes."""
    if name is None:
        return None
    try:
        file = Path(name).open("wb")  # noqa: SIM115 - the stack closes it
    except OSError as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"cannot write {name}: {error.strerror}",
            then="name a file that you may write",
        ) from error
    stack.callback(_closed, file)
    return file


def _closed(file: BinaryIO) -> None:
    # An error of the last write was reported already, so one at closing is ignored.
    with suppress(OSError):
        file.close()


def _put(file: BinaryIO | None, data: bytes = b"") -> None:
    """Write the last part of a result file.

    Raises:
        CommandFailed: The disk refused the write.
    """
    if file is None:
        return
    try:
        file.write(data)
        file.flush()
    except OSError as error:
        raise CommandFailed(
            Exit.UNREACHABLE, f"cannot write {file.name}: {error.strerror}", then="make room"
        ) from error


def _failed(error: Exception) -> Exception:
    """The failure in one line, where it is known; the first of those that task groups collected."""
    leaf = error
    while isinstance(leaf, ExceptionGroup):
        leaf = cast("ExceptionGroup[Exception]", leaf).exceptions[0]
    if isinstance(leaf, Broken):
        return CommandFailed(Exit.FAILED, f"the pipeline does not work: {leaf}")
    if isinstance(leaf, StorageError):
        # The disk is full or the machine too busy, which says nothing about the measured figures.
        return CommandFailed(
            Exit.UNREACHABLE,
            f"a store of the evaluation does not answer: {leaf}",
            then="mend that, or try when the machine is less busy",
        )
    if isinstance(leaf, OSError):
        return CommandFailed(
            Exit.UNREACHABLE, f"the evaluation cannot go on: {reason(leaf)}", then="mend that"
        )
    return error


async def _evaluate(context: Context) -> Exit:
    asked = context.arguments(_EvaluateArguments)
    terminal = context.terminal
    with ExitStack() as stack:
        out = _written(stack, asked.trials_out)
        into = _written(stack, asked.json_file)
        page = _written(stack, asked.html)
        book = Book(trials=asked.trials, seed=asked.seed, progress=terminal.progress, out=out)
        # A sidecar refuses a state directory inside its working directory.
        stack.enter_context(chdir(Path.cwd().anchor))
        # The evaluation makes disks fail on purpose: log lines about them would look like real
        # trouble.
        logging.disable(logging.CRITICAL)
        try:
            async with working(terminal, "evaluating"):
                await evaluate(book, asked.only)
        except (Broken, StorageError, OSError, ExceptionGroup) as error:
            raise _failed(error) from error
        finally:
            logging.disable(logging.NOTSET)
        found = document(book)
        try:
            _put(out)
            _put(into, as_json(found))
            _put(page, b"" if page is None else report(found).encode())
        finally:
            # The tables are printed even if a file cannot be written, because they took minutes.
            show(terminal, book)
    return Exit.OK if book.sound else Exit.FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make evaluate", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--trials", type=int, metavar="N", help="trials of each attack on each system (30)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of everything that is drawn (1)")
    parser.add_argument(
        "--json", dest="json_file", metavar="FILE", help="write every figure, with its interval"
    )
    parser.add_argument("--html", metavar="FILE", help="write a report that needs nothing else")
    parser.add_argument("--trials-out", metavar="FILE", help="write one JSON line for each trial")
    parser.add_argument(
        "--only",
        action="append",
        choices=tuple(EXPERIMENTS),
        help="one experiment; may be given again (default: all but the long ones)",
    )
    parser.add_argument(
        "--mutants",
        dest="only",
        action="append_const",
        const="mutants",
        help="put each fault of the conformance suite into a copy of this code: it must be noticed",
    )
    parser.add_argument(
        "--progress", action="store_true", help="show progress although stderr is no terminal"
    )
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Make the experiments that the words name; the exit code, after one line for a failure."""
    asked = _parser().parse_args(words)
    terminal = Terminal(sys.stdout, sys.stderr, as_json=False, progress=asked.progress)
    try:
        return asyncio.run(_evaluate(Context(asked, terminal)))
    except CommandFailed as failure:
        then = f"; {failure.then}" if failure.then else ""
        terminal.note(f"evaluate: {inert(failure.what)}{then}")
        return failure.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        silence(sys.stdout)
        return Exit.CUT_SHORT


if __name__ == "__main__":
    raise SystemExit(main())
