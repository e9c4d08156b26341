"""Answers of a memory server that were looked through before.

An agent reads its whole memory again and again, and mostly nothing has changed since. An answer
that is the same to the byte, to the same question, is not looked through again while whatever hides
memories stands as it stood.
"""

from __future__ import annotations

from collections import OrderedDict
from sys import getsizeof
from typing import Final

import msgspec

from policy.model import Principal
from proxy.seams.operation import HttpReply, HttpRequest

KEPT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes that the answers of one server take in memory, those of all readers together."""
_ENTRY_SIZE: Final = 1_024
"""What an entry takes beside its strings."""


class LookedThrough(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the server as the agent gets it.

    `texts` are the strings of memories in it. `is_whole` False: a wider read has to take its place.
    """

    reply: HttpReply
    texts: tuple[str, ...]
    is_whole: bool = True


_Asked = tuple[object, ...]


def asked(
    principal: Principal, request: HttpRequest, count: int | None, reply: HttpReply
) -> _Asked:
    """All that the finding about an answer depends on, beside what hides memories.

    `count` is for how many memories the server was asked.
    """
    reader = (principal.tenant, principal.reads)
    said = (reply.status, reply.content_type, reply.headers, reply.body)
    return (*reader, request.method, request.path, request.query, request.body, count, *said)


class AnswersBefore:
    """Bounded; the answer that was asked for last is kept longest. Event loop only.

    All that is kept is dropped at the first question after something changed. So a purged text is
    here no longer than until the next read of its server.
    """

    def __init__(self) -> None:
        self._standing: object = None
        self._kept: OrderedDict[_Asked, LookedThrough] = OrderedDict()
        self._bytes = 0

    def find(self, standing: object, key: _Asked) -> LookedThrough | None:
        """What was found in this answer, if nothing that hides memories has changed since."""
        if standing != self._standing:
            self._standing = standing
            self._kept.clear()
            self._bytes = 0
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, standing: object, key: _Asked, found: LookedThrough) -> None:
        """Keep a finding; `standing` is how things stood before the answer was looked through."""
        size = _size(key, found)
        if standing != self._standing or size > KEPT_BYTES_MAX or key in self._kept:
            return
        self._kept[key] = found
        self._bytes += size
        while self._bytes > KEPT_BYTES_MAX:
            self._bytes -= _size(*self._kept.popitem(last=False))


def _size(key: _Asked, found: LookedThrough) -> int:
    """What one entry takes in memory, however little the server answered."""
    named = (pair for part in key if isinstance(part, tuple) for pair in part)
    words = (word for pair in named for word in pair)
    kept = (key, *key, *words, found.reply.body, *found.texts)
    return _ENTRY_SIZE + sum(map(getsizeof, kept))
