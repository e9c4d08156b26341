"""Long synchronous work in slices: the work itself calls `rest` where it can be interrupted.

The work runs on a thread of its own, but only while the event loop waits for it: the two never run
at once, so what the work reads and changes needs no lock. Only a pure function of one long text
runs beside the loop (`apart`). `proxy.seams.pace.Pace.in_turn` drives the slices.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar, TypeVarTuple

LARGE: Final = 4_096
"""Characters or bytes: a shorter text is processed on the spot, as a thread would cost more."""
STEPS: Final = 16
"""Sentences, numbers or lines between two checks of the clock."""

_R = TypeVar("_R")
_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class RunsAside(Protocol):
    """Computes pure functions of long texts beside the event loop (`proxy.seams.pace.Pace`)."""

    async def aside(self, owner: str, size: int, call: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Compute a pure function of a text of `size` characters, for the principal `owner`."""
        ...


class SliceState(Enum):
    """The reason why a piece of work has given control back to the event loop."""

    RESTS = "its slice is used up"
    APART = "it reads a long text beside the loop, and says when it is ready"
    OVER = "its outcome is there"


class SlicedWork(Generic[_T]):
    """One piece of work.

    The event loop alone calls `resume`, and never while the work runs `apart`.
    """

    def __init__(
        self,
        call: Callable[[], _T],
        *,
        used_up: Callable[[], bool],
        ready: Callable[[], None],
    ) -> None:
        """`used_up` returns whether the time slice is over.

        `ready` is called on the work's own thread when a function that ran `apart` has returned.
        """
        self.outcome: Future[_T] = Future()
        self._call = call
        self._used_up = used_up
        self._ready = ready
        self._state = SliceState.RESTS
        self.begun = False  # whether the work has run at all, so that it must be finished
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)

    def resume(self) -> SliceState:
        """Let the work run until its slice is used up, it runs a function apart, or it ends."""
        if not self.begun:
            self.begun = True
            # The thread is a daemon, so that a process that ends does not wait for a slice that
            # the stopped loop never gives.
            threading.Thread(target=self._run, name="mnemogate-sliced", daemon=True).start()
        self._go.release()
        self._back.acquire()
        return self._state

    def _run(self) -> None:
        self._go.acquire()
        _HERE.work = self
        try:
            self.outcome.set_result(self._call())
        except BaseException as error:  # noqa: BLE001 - raised again where the outcome is asked for
            self.outcome.set_exception(error)
        self._state = SliceState.OVER
        self._back.release()

    def rest(self) -> None:
        """Give control back to the event loop if the slice is used up."""
        if self._used_up():
            self._state = SliceState.RESTS
            self._back.release()
            self._go.acquire()

    def apart(self, call: Callable[[str], _R], text: str) -> _R:
        """Compute a pure function while the event loop runs; return its value."""
        self._state = SliceState.APART
        self._back.release()
        try:
            # One function at a time runs apart, because two would take the interpreter from the
            # loop twice as often.
            with _APART:
                return call(text)
        finally:
            self._ready()
            self._go.acquire()


class _Here(threading.local):
    """Stores, for each thread, the sliced work that runs on it; None on every other thread."""

    work: SlicedWork[Any] | None = None


_HERE: Final = _Here()
_APART: Final = threading.Lock()


def rest() -> None:
    """Pause sliced work if its time slice is used up; outside of sliced work, do nothing.

    Shared data must be consistent where this is called, and may have changed when it returns.
    """
    work = _HERE.work
    if work is not None:
        work.rest()


def resting(items: Iterable[_R]) -> Iterable[_R]:
    """The same items; before every few of them, sliced work pauses if its slice is used up."""
    return items if _HERE.work is None else _resting(items)


def _resting(items: Iterable[_R]) -> Iterator[_R]:
    for at, one in enumerate(items):
        if not at % STEPS:
            rest()
        yield one


def apart(call: Callable[[str], _R], text: str) -> _R:
    """Compute a pure function of one text, beside the event loop if the text is long."""
    work = _HERE.work
    return call(text) if work is None or len(text) <= LARGE else work.apart(call, text)
