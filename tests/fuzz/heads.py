"""A request as our intake gets it from aiohttp, built from text that a fuzzer can change.

The text is a request as one would write it down: `POST /v1/memories?x=1`, headers, an empty line,
the body.
"""

from __future__ import annotations

from typing import cast

import msgspec
from multidict import CIMultiDict, CIMultiDictProxy

from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest
from proxy.transport.head import METHODS, head_of
from proxy.transport.request import ReceivedRequest


class SentHead(msgspec.Struct, frozen=True):
    """The parts of a parsed request that `head_of` reads."""

    method: str
    raw_path: str
    headers: CIMultiDictProxy[str]
    framed: bool = True


def taken(method: str, raw_path: str, headers: CIMultiDict[str]) -> HttpRequest:
    """The request head that the intake builds.

    Raises:
        MalformedRequest: It refuses it.
    """
    sent = SentHead(method, raw_path, CIMultiDictProxy(headers))
    return head_of(cast("ReceivedRequest", sent))


def written_down(data: bytes) -> HttpRequest | None:
    """The request that a text describes; None where the intake does not let it through.

    Everything behind the intake may rely on what the intake promises, so it stands in front here
    as it does in the process.
    """
    head, _, body = data.partition(b"\n\n")
    first, *rest = head.decode("utf-8", "replace").split("\n")
    method, _, target = first.partition(" ")
    headers: CIMultiDict[str] = CIMultiDict()
    for line in rest[:16]:
        name, _, value = line.partition(":")
        headers.add(name, value)
    try:
        asked = taken(method, target, headers)
    except MalformedRequest:
        return None
    if asked.method not in METHODS:
        raise AssertionError(f"the intake let {method!r} through")
    return msgspec.structs.replace(asked, body=body)
