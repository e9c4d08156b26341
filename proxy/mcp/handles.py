"""Handles in place of those strings of a server that its client only has to send back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from policy.model import PrincipalId

HANDLES_MAX: Final = 1_024
CHARS_MAX: Final = 4 * 1024 * 1024
PRINCIPALS_MAX: Final = 1_024
_ID_BYTES: Final = 16


class Handles:
    """The handles of one server, by principal; the least recently used are dropped.

    Event loop only. While a string is known it keeps its handle, so that equal pages look equal.
    """

    def __init__(self) -> None:
        self._of: OrderedDict[PrincipalId, _OfOne] = OrderedDict()

    def give(self, principal_id: PrincipalId, text: str, random_hex: Callable[[int], str]) -> str:
        """The handle that a client gets in place of a server's string."""
        one = self._of.setdefault(principal_id, _OfOne())
        self._of.move_to_end(principal_id)
        if len(self._of) > PRINCIPALS_MAX:
            self._of.popitem(last=False)
        return one.give(text, random_hex)

    def find(self, principal_id: PrincipalId, handle: str) -> str | None:
        """The string behind a handle, if this principal got it and it is still known."""
        one = self._of.get(principal_id)
        return None if one is None else one.texts.get(handle)


class _OfOne:
    def __init__(self) -> None:
        self.texts: OrderedDict[str, str] = OrderedDict()
        self._handles: dict[str, str] = {}
        self._chars = 0

    def give(self, text: str, random_hex: Callable[[int], str]) -> str:
        handle = self._handles.get(text)
        if handle is not None:
            self.texts.move_to_end(handle)
            return handle
        handle = self._handles[text] = random_hex(_ID_BYTES)
        self.texts[handle] = text
        self._chars += len(text)
        while len(self.texts) > 1 and (len(self.texts) > HANDLES_MAX or self._chars > CHARS_MAX):
            _, oldest = self.texts.popitem(last=False)
            del self._handles[oldest]
            self._chars -= len(oldest)
        return handle
