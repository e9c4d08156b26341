"""What the status of an answer tells of a write: the same for every server that speaks HTTP."""

from __future__ import annotations

from typing import Final

from policy.model import Forwarded

_DONE: Final = range(200, 300)
_REFUSED: Final = range(400, 500)
# Request Timeout, Conflict, Too Early, Too Many Requests (RFC 9110, 8470, 6585), and a client that
# closed its request (nginx): something between may say so of a write that the server has done.
_SAYS_NOTHING: Final = frozenset({408, 409, 425, 429, 499})


def state_of(status: int) -> Forwarded:
    """Done or failed by the server's word; unknown where its status does not say."""
    if status in _DONE:
        return Forwarded.DONE
    if status in _REFUSED and status not in _SAYS_NOTHING:
        return Forwarded.FAILED
    return Forwarded.UNKNOWN
