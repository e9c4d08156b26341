"""Fixed answers for requests that were not read, or are too large.

aiohttp's own answers would quote the request, and reveal aiohttp's version to any peer.
"""

from __future__ import annotations

from typing import Final

from proxy.dialects.problem import PROBLEM_TYPE


def _fixed(status: str, body: bytes) -> bytes:
    """A fixed answer to a request, after which the connection is closed."""
    head = (
        f"HTTP/1.0 {status}\r\nContent-Type: {PROBLEM_TYPE}\r\nContent-Length: {len(body)}\r\n"
        "Server: mnemogate\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


MALFORMED: Final = _fixed(
    "400 Bad Request",
    b'{"type":"urn:mnemogate:problem:bad_request","title":"Bad Request","status":400,'
    b'"detail":"not a well-formed HTTP/1.1 request"}',
)
HEAD_TOO_LARGE: Final = _fixed(
    "431 Request Header Fields Too Large",
    b'{"type":"urn:mnemogate:problem:request_header_fields_too_large",'
    b'"title":"Request Header Fields Too Large","status":431,"detail":"headers: too large"}',
)
TARGET_TOO_LONG: Final = _fixed(
    "414 URI Too Long",
    b'{"type":"urn:mnemogate:problem:uri_too_long","title":"URI Too Long","status":414,'
    b'"detail":"path: too long"}',
)
INTERNAL: Final = _fixed(
    "500 Internal Server Error",
    b'{"type":"urn:mnemogate:problem:internal_server_error","title":"Internal Server Error",'
    b'"status":500,"detail":"cannot_decide: an internal failure; nothing was admitted"}',
)
LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    b"Connection: close\r\n\r\n"
)
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
