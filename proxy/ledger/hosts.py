"""The hosts that a call names in its arguments, so that what was read there is counted together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from policy.labels.seen import HOST

HOSTS_MAX: Final = 8
"""So many hosts of one call are named; a call that reads more hosts is rare."""
_LEN_MAX: Final = 2_048
# A scheme, two slashes, a user name at most, then the host (RFC 3986, 3.2).
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://(?:[^\s/?#@]{0,256}@)?([^\s/?#@:\"'<>]+)")


def hosts_in(strings: Iterable[str]) -> tuple[str, ...]:
    """The hosts of the URLs in a call's strings, each as `//name`, the first ones first.

    A longer string is a text that the call writes and no address that it reads.
    """
    return tuple(islice(dict.fromkeys(_hosts(strings)), HOSTS_MAX))


def _hosts(strings: Iterable[str]) -> Iterator[str]:
    for text in strings:
        for found in _URL.finditer(text) if len(text) <= _LEN_MAX else ():
            yield HOST + found[1].rstrip(".").casefold()
