"""Refusals in each API's error format, so that the API's SDK raises a familiar exception."""

from __future__ import annotations

from typing import Final

from proxy.dialects.strict_json.tolerant import Json, write_body
from proxy.seams.operation import EncodingContext, HttpReply, Refusal

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_STATUSES: Final = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_FAULT: Final = 500
_NO_CREDENTIAL: Final = 401
# For each API, the status after which its hosts ask no second time and show the reason: Codex asks
# six times after 403, 409 and 422, Claude Code twice after 404, for which it names another reason.
_FOR_GOOD: Final = {"anthropic": 403, "responses": 400}
# The refusals that a later attempt may not meet: of a credential that is renewed, of a rate, and of
# a body, which Claude Code makes smaller.
_PASSING: Final = {
    "anthropic": frozenset({400, 401, 413, 429}),
    "responses": frozenset({401, 429}),
}


def status_of_turn(status: int, api: str) -> int:
    """The status that refuses a turn of this API, so that a refusal that stays is asked once."""
    if api not in _FOR_GOOD or status >= _FAULT or status in _PASSING[api]:
        return status
    return _FOR_GOOD[api]


def refused(refusal: Refusal, answering: EncodingContext, api: str) -> HttpReply:
    """A refusal in the error format of one provider, which quotes nothing of the request.

    `api` is "anthropic", "gemini" or "openai".
    """
    status = refusal.status
    kind = _TYPES.get(status, "invalid_request_error" if status < _FAULT else "api_error")
    message = f"Mnemogate: {refusal.detail}"
    if api == "anthropic":
        error: dict[str, Json] = {"type": kind, "message": message}
        body: dict[str, Json] = {
            "type": "error",
            "error": error,
            "request_id": answering.request_id,
        }
    elif api == "gemini":
        word = _STATUSES.get(status, "INVALID_ARGUMENT" if status < _FAULT else "INTERNAL")
        body = {"error": {"code": status, "message": message, "status": word}}
    else:
        code = refusal.title.lower().replace(" ", "_")
        kind = kind if status >= _FAULT else "invalid_request_error"
        body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    headers: list[tuple[str, str]] = []
    # Claude Code asks for minutes after a 401, and shows nothing, unless this header ends that.
    if status == _NO_CREDENTIAL:
        headers.append(("X-Should-Retry", "false"))
    if refusal.retry_after_s is not None:
        headers.append(("Retry-After", str(refusal.retry_after_s)))
    return HttpReply(status=status, body=write_body(body), headers=tuple(headers))


def no_threads(answering: EncodingContext) -> HttpReply:
    """The error for message threads, after which the SDK sends the whole history."""
    details: dict[str, Json] = {
        "error_code": "thread_unsupported_request",
        "unsupported": ["thread"],
    }
    error: dict[str, Json] = {
        "type": "invalid_request_error",
        "message": "Mnemogate: message threads are not served here; send the whole history",
        "details": details,
    }
    body: dict[str, Json] = {"type": "error", "error": error, "request_id": answering.request_id}
    return HttpReply(status=400, body=write_body(body))


def no_previous(param: str) -> HttpReply:
    """The error for an unknown previous response, after which a client sends the whole history."""
    error: dict[str, Json] = {
        "message": "Mnemogate: what came before is not known here; send the whole history",
        "type": "invalid_request_error",
        "param": param,
        "code": "previous_response_not_found",
    }
    return HttpReply(status=400, body=write_body({"error": error}))
