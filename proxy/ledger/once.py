"""A cache of the sentences and readings of long texts, for as long as one request is read. Pure.

Each string of a request is examined several times: who said its sentences before, which of them are
a person's own, what others of the tenant are told, and where it is found again. Cutting the string
takes most of the time, and gives the same result each time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from proxy.ledger.texts import all_readings, sentences_between
from proxy.seams.slices import apart

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

LONG: Final = 1_024
"""Characters: what is shorter is cut again, which costs less than to remember it."""
KEPT_MAX: Final = 16
"""Results; the oldest makes room. One string has a few spellings, and then comes the next one."""

_Found = TypeVar("_Found")


class Once(threading.local):
    """A context manager with a cache: while it is open, no long text is cut into sentences twice.

    Each thread has a cache of its own. The contexts do not nest.

    Several requests may be read in slices; a slice may end between any two calls of this cache.
    """

    def __init__(self) -> None:
        """While no request is being read, nothing is cached: no text outlives its request."""
        self._known: dict[tuple[Callable[[str], Any], str], Any] | None = None

    def __enter__(self) -> Self:
        """Begin to keep results."""
        self._known = {}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Forget all results."""
        self._known = None

    def sentences(self, text: str) -> tuple[str, ...]:
        """The sentences of a text, cut once per context."""
        return self._of(sentences_between, text)

    def readings(self, text: str) -> tuple[str, ...]:
        """A text in all its readings, itself first, computed once per context."""
        return self._of(all_readings, text)

    def _of(self, call: Callable[[str], _Found], text: str) -> _Found:
        """The result of a pure function for a text, from the cache if it is there."""
        if self._known is None or len(text) < LONG:
            return apart(call, text)
        if (call, text) in self._known:
            known: _Found = self._known[call, text]
            return known
        found = apart(call, text)
        if len(self._known) >= KEPT_MAX:
            del self._known[next(iter(self._known))]
        self._known[call, text] = found
        return found
