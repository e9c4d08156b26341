"""Where a walk continues in a list that changes while it is read page by page.

A page is asked for by the number of its first entry. Where entries before it were deleted since the
page before was read, the rest has moved towards the beginning, and a page that begins behind the
last one misses what moved over. So each page begins with an entry that is known from the pages
before: then nothing stands between them. Where it begins with another one, the walk goes back.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from proxy.seams.faults import UpstreamError
from proxy.seams.http_backend import ListPart

IDLE_MAX: Final = 16
"""Pages in a row that bring nothing new, after which a list counts as endless."""
NAMES_MAX: Final = 5_000_000
"""Entries of one list, each of which takes a hundred bytes here."""
_BACK: Final = 32
_NAME_BYTES: Final = 8
_ENDLESS: Final = "it gives page after page, and nothing new is in them"


class ListTrail:
    """What a walk has read of one list."""

    def __init__(self) -> None:
        self.begin: int | None = 0
        """The number of the entry that the next page begins with; None at the end of the list."""
        # Keyed hashes, because the names are somebody's words: nobody can make two of one hash.
        self._salt = secrets.token_bytes(16)
        self._known: set[bytes] = set()
        self._idle = 0
        self._back = _BACK

    def take(self, part: ListPart) -> tuple[str, ...]:
        """The names in the page that are new; none where the page may have others before it.

        Raises:
            UpstreamError: The list has no end.
        """
        at = self.begin or 0
        new: dict[bytes, str] = {}
        if at and not self._joins(part):
            # Each time twice as far, because much may be gone.
            self.begin = max(0, at - self._back)
            self._back *= 2
        else:
            new = {self._hash(one): one for one in part.names}
            for known in self._known & new.keys():
                del new[known]
            self._known.update(new)
            self._back = _BACK
            self.begin = at + max(1, len(part.names) - 1) if part.is_full else None
        self._idle = 0 if new else self._idle + 1
        if self._idle > IDLE_MAX:
            raise UpstreamError(_ENDLESS)
        if len(self._known) > NAMES_MAX:
            raise UpstreamError(f"it has a list of more than {NAMES_MAX} entries")
        return tuple(new.values())

    def _joins(self, part: ListPart) -> bool:
        return bool(part.names) and self._hash(part.names[0]) in self._known

    def _hash(self, name: str) -> bytes:
        named = name.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(named, digest_size=_NAME_BYTES, key=self._salt).digest()
