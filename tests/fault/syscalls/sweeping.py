"""The sweep: in the scripted life of a store, every n-th write, sync or rename fails in every way.

Runs under the shim: `python -m tests.fault.syscalls` starts it. Each case is a child process that
goes through the script with one fault armed, in a directory of its own. It believes what the store
says: after "nothing was written" it looks, and asks again; after "unknown" it stops. Then another
process opens what is left, and holds it against everything that was answered.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import errno
import os
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, cast

import msgspec

import storage.write.writer
from policy.verdict import InvariantBroken
from storage.ground.errors import OutcomeUnknown, StorageError, StoreUnavailable
from tests.fault.crashstates.checking import Checker, Journal
from tests.fault.crashstates.disk import Said
from tests.fault.crashstates.searching import CANARY
from tests.fault.crashstates.workload import Answer, Line, Picture, Run, Script, Step, picture_of
from tests.fault.syscalls.preloading import FOR_EVER, KILLED, Call, How, Shim

_PATIENCE: Final = 4
# Steps to take after the store told of a fault, before the process ends without a word.
_STEPS_AFTER: Final = 2


class Case(msgspec.Struct, frozen=True):
    """One fault: from the `first` call of a class on, for `length` calls."""

    call: Call
    first: int
    how: How
    error: int = errno.EIO
    length: int = 1

    def __str__(self) -> str:
        length = "" if self.length == 1 else f" and {self.length - 1} more"
        name = errno.errorcode.get(self.error, "")
        return f"{self.call.name.lower()} {self.first}{length}: {self.how.name.lower()} {name}"


WAYS: Final = (
    (How.NOT_DONE, errno.EIO, 1),
    (How.DONE, errno.EIO, 1),
    # The call and then its repair fail as well: nobody knows what is on the disk.
    (How.DONE, errno.EIO, 2),
    (How.SHORT, errno.ENOSPC, 2),
    (How.NOT_DONE, errno.EIO, FOR_EVER),
    (How.KILL_HALF_WAY, 0, 1),
    (How.KILL_AFTER, 0, 1),
)


class Finding(msgspec.Struct, frozen=True):
    case: str
    problem: str


class Swept(msgspec.Struct, kw_only=True):
    """The result of a sweep. `told` counts the store's answers to the steps that a fault hit."""

    calls: dict[str, int]
    cases: int = 0
    told: dict[str, int] = {}
    findings: list[Finding] = []


class Report(msgspec.Struct, frozen=True, kw_only=True):
    line: Line | None = None
    told: str = ""
    problem: str = ""
    calls: dict[str, int] = {}


_REPORT = msgspec.json.Decoder(Report)


class Sweep:
    """All cases of one script, below one directory."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._root = base / "run"
        self._script = Script(CANARY)
        self._shim = Shim()
        reports, status = self._in_child(self._clean)
        if status != 0:
            raise RuntimeError("the script fails without any fault")
        said = [Said(msgspec.json.encode(one.line)) for one in reports if one.line is not None]
        self.journal = Journal(said, self._script)
        self.calls = reports[-1].calls

    def _clean(self, send: Callable[[Report], None]) -> None:
        _Life(self._root, self._script, self._shim, send).live({})
        send(Report(calls={call.name: self._shim.count(call) for call in Call}))

    def cases(self) -> Iterator[Case]:
        """Every call of every class, in every way."""
        for call in Call:
            for first in range(1, self.calls[call.name] + 1):
                for how, error, length in WAYS:
                    yield Case(call, first, how, error, length)

    def sweep(self, cases: Iterable[Case]) -> Swept:
        swept, count = Swept(calls=self.calls), Counter[str]()
        for case in cases:
            told, problems = self.attempt(case)
            swept.cases += 1
            count.update(told)
            swept.findings.extend(Finding(str(case), problem) for problem in problems)
        swept.told = dict(count)
        return swept

    def attempt(self, case: Case) -> tuple[list[str], list[str]]:
        """The store's answer to one fault, and the promises that it broke."""
        shutil.rmtree(self._root, ignore_errors=True)
        pictures = self.journal.pictures

        def live(send: Callable[[Report], None]) -> None:
            _Life(self._root, self._script, self._shim, send).live(pictures, case)

        reports, status = self._in_child(live)
        killed = case.how in {How.KILL_HALF_WAY, How.KILL_AFTER}
        problems = [one.problem for one in reports if one.problem]
        if status not in {0, KILLED if killed else 0}:
            problems.append(f"the process ended with {status}")
        told = [one.told for one in reports if one.told]
        if status == KILLED:
            told.append("killed")
        lines = [one.line for one in reports if one.line is not None]
        problems.extend(self._left_behind(lines))
        return told or ["nothing, and went on"], problems

    def _left_behind(self, lines: list[Line]) -> Iterator[str]:
        """The state of the directory as another process finds it afterwards."""
        for line in lines:
            if line.picture is not None and line.picture != self.journal.pictures[line.step]:
                yield f"step {line.step} ended in another state than without the fault"
                return
        promised = self.journal.after(lines)

        def look(send: Callable[[Report], None]) -> None:
            checker = Checker(self._root, self._script, self.journal)
            for problem in checker.problems_here(promised):
                send(Report(problem=problem))

        found, status = self._in_child(look)
        yield from (one.problem for one in found)
        if status != 0:
            yield f"the process that opened it ended with {status}"

    @staticmethod
    def _in_child(work: Callable[[Callable[[Report], None]], None]) -> tuple[list[Report], int]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(reading)
                work(lambda report: _send(writing, report))
                code = 0
            finally:
                if code:
                    _send(writing, Report(problem=traceback.format_exc(limit=-4)))
                # Without a word to anybody: as if the machine had stopped here.
                os._exit(code)
        os.close(writing)
        with os.fdopen(reading, "rb") as inward:
            reports = [_REPORT.decode(line) for line in inward]
        status = os.waitpid(child, 0)[1]
        return reports, os.waitstatus_to_exitcode(status)


def _send(writing: int, report: Report) -> None:
    os.write(writing, msgspec.json.encode(report) + b"\n")


class _Life:
    """One run through the script, in a process of its own."""

    def __init__(
        self, root: Path, script: Script, shim: Shim, send: Callable[[Report], None]
    ) -> None:
        self._root = root
        self._script = script
        self._shim = shim
        self._send = send
        self._told_at: int | None = None

    def live(self, expected: dict[int, Picture], case: Case | None = None) -> None:
        """Take the steps; after a fault that the store told of, two more."""
        storage.write.writer._CHECKPOINT_EVERY_NS = 0  # type: ignore[misc]
        self._root.mkdir(parents=True, exist_ok=True)
        self._shim.watch(self._root)
        if case is not None:
            self._shim.arm(
                case.call, case.first, case.first + case.length - 1, case.how, case.error
            )
        run = Run(self._root, self._script)
        for number, step in enumerate(self._script.steps):
            self._send(Report(line=Line(step=number)))
            answers = self._insist(run, step, number, expected)
            if answers is None:
                return
            picture, keys = picture_of(run.store), run.keys()
            self._send(Report(line=Line(step=number, picture=picture, answers=answers, keys=keys)))
            if self._told_at is not None and number >= self._told_at + _STEPS_AFTER:
                return
        run.close()

    def _insist(  # noqa: PLR0911 - each return is one way in which a step can end
        self, run: Run, step: Step, number: int, expected: dict[int, Picture]
    ) -> dict[str, Answer] | None:
        """The answers of one step, asked for until the store gives them; None where it gives up."""
        for _ in range(_PATIENCE):
            try:
                return run.take(step)
            except (StorageError, ExceptionGroup) as error:
                name = _name(cast("Exception", error))
                self._send(Report(told=name))
                self._told_at = number
                if name == OutcomeUnknown.__name__:
                    return None
                if name != StoreUnavailable.__name__:
                    self._send(Report(problem=f"step {step.name} failed: {error!r}"))
                    return None
            except (OSError, InvariantBroken) as error:
                self._send(Report(problem=f"step {step.name} raised {error!r}"))
                return None
            self._shim.disarm()
            if step.command in {"open", "restart"}:
                continue
            status = run.store.reader.status()
            if not status.writable and not status.retrying:
                self._send(Report(told="stopped writing"))
                run.close()
            now = picture_of(run.store)
            if step.command == "compact" and now == expected[number]:
                return {}  # asked for and logged; the rewriting waits
            if number and now != expected[number - 1]:
                self._send(Report(problem=f"step {step.name} said that nothing was written"))
                return None
        self._send(Report(problem="the disk is well again, and the store is not"))
        return None


def _name(error: Exception) -> str:
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        names = {_name(one) for one in group.exceptions}
        return names.pop() if len(names) == 1 else f"a mixture of {sorted(names)}"
    return type(error).__name__
