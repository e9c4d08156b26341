"""A compressed body: content within its limit or a refusal, the same however its bytes arrive."""

from __future__ import annotations

from proxy.seams.faults import MalformedRequest
from proxy.transport.codings import FREE_BYTES, Opener, codings_of, plain_body
from tests.fuzz.choices import withholds

WORDS = (
    b"gzip\n",
    b"deflate\n",
    b"br\n",
    b"zstd\n",
    b"gzip, zstd\n",
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
    b"\x78\x9c",
    b"\x28\xb5\x2f\xfd",
    b"\x50\x2a\x4d\x18\x00\x00\x00\x00",
    b"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00",
)


def check(data: bytes) -> None:
    header, _, body = data.partition(b"\n")
    try:
        codings = codings_of(header.decode("latin-1"))
    except MalformedRequest as refused:
        withholds(refused.detail)
        return
    content = _whole(codings, body)
    assert content is None or len(content) <= FREE_BYTES or not codings
    if len(codings) == 1:
        assert _in_pieces(codings[0], body) == content


def _whole(codings: tuple[str, ...], body: bytes) -> bytes | None:
    try:
        return plain_body(body, codings, FREE_BYTES)
    except MalformedRequest as refused:
        withholds(refused.detail)
        return None


def _in_pieces(coding: str, body: bytes) -> bytes | None:
    opener, content = Opener(coding, FREE_BYTES), b""
    try:
        for at in range(0, len(body), 7):
            content += opener.feed(body[at : at + 7])
        opener.finish()
    except MalformedRequest:
        return None
    return content
