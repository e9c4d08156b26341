"""RFC 9457 problem details, for failures of requests whose API has no error format of its own."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.seams.operation import EncodingContext, HttpReply, Refusal

PROBLEM_TYPE: Final = "application/problem+json"
PROBLEM_BASE: Final = "urn:mnemogate:problem:"
_UNAUTHORIZED: Final = 401


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Problem details of a failure that is not a verdict."""

    type: str
    title: str
    status: int
    detail: str
    trace_id: str


def problem(refusal: Refusal, answering: EncodingContext) -> HttpReply:
    """The HTTP reply with problem details for a failure, and with the failure's headers."""
    code = refusal.title.lower().replace(" ", "_")
    body = msgspec.json.encode(
        Problem(
            type=PROBLEM_BASE + code,
            title=refusal.title,
            status=refusal.status,
            detail=refusal.detail,
            trace_id=answering.trace_id,
        )
    )
    headers = refusal_headers(refusal)
    return HttpReply(status=refusal.status, body=body, content_type=PROBLEM_TYPE, headers=headers)


def refusal_headers(refusal: Refusal) -> tuple[tuple[str, str], ...]:
    """The headers that HTTP defines for a failure: `Retry-After`, `Allow`, `WWW-Authenticate`."""
    headers: tuple[tuple[str, str], ...] = ()
    if refusal.retry_after_s is not None:
        headers += (("Retry-After", str(refusal.retry_after_s)),)
    if refusal.allowed:
        headers += (("Allow", ", ".join(refusal.allowed)),)
    if refusal.status == _UNAUTHORIZED:  # RFC 9110 demands this header with status 401
        headers += (("WWW-Authenticate", 'Bearer realm="mnemogate"'),)
    return headers
