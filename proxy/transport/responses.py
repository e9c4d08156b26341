"""The mapping of exceptions to refusals, and the only function that catches all exceptions.

For every failure the answer is *no*. The answer names the kind of failure and contains nothing from
the peer or the store: no exception text, no traceback, no content.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from policy.verdict import InvariantBroken
from proxy.dialects.problem import PROBLEM_TYPE, problem
from proxy.seams.faults import (
    Busy,
    MalformedRequest,
    MethodNotAllowed,
    NotFound,
    NotOperator,
    RateLimited,
    RulesetRefused,
    ScopeMissing,
    Unauthenticated,
    UnknownWrite,
    UpstreamError,
)
from proxy.seams.observations import observation_for
from proxy.seams.operation import Refusal
from storage.ground.errors import (
    CredentialEnded,
    MemoryMoved,
    NoSuchPast,
    OutcomeUnknown,
    QuotaReached,
    StorageError,
    StoreUnavailable,
    UnknownCandidate,
    UnknownIncident,
    UnknownLeaf,
    UnknownMemory,
    UnknownPins,
)

__all__ = [
    "PROBLEM_TYPE",
    "AnswerFailure",
    "NotFound",
    "attempt",
    "observation_for",
    "problem",
    "refusal_for",
    "refuse",
]

_LOG: Final = logging.getLogger("mnemogate.responses")
RETRY_S: Final = 1
THROTTLE_S: Final = 60

_TITLES: Final[dict[int, str]] = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    417: "Expectation Failed",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    426: "Upgrade Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    507: "Insufficient Storage",
}

_T = TypeVar("_T")


class AnswerFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure of `attempt`: the refusal that answers it, and the name of the exception's type."""

    refusal: Refusal
    error_type: str


def refuse(
    status: int,
    detail: str,
    *,
    retry_after_s: int | None = None,
    title: str | None = None,
    allowed: tuple[str, ...] = (),
) -> Refusal:
    """The refusal with a status, whose title is the status's own unless one is given."""
    return Refusal(
        status=status,
        title=title or _TITLES.get(status, "Refused"),
        detail=detail,
        retry_after_s=retry_after_s,
        allowed=allowed,
    )


_REFUSALS: Final[dict[type[Exception], Refusal]] = {
    Busy: refuse(503, "busy: too many requests at once", retry_after_s=RETRY_S),
    NotOperator: refuse(403, "not_operator: this needs an operator's credential"),
    UnknownCandidate: refuse(404, "no candidate of that id is held"),
    UnknownMemory: refuse(404, "there is no such memory in this tenant"),
    MemoryMoved: refuse(409, "memory_moved: it was changed since it was shown; look at it again"),
    UnknownIncident: refuse(404, "no incident of that id and kind"),
    UnknownPins: refuse(404, "no such server, or its tools are others by now"),
    UnknownLeaf: refuse(404, "the log has no leaf of that index"),
    QuotaReached: refuse(
        507,
        "quota_exceeded: no room is left in the store, or in this tenant's share of it; "
        "nothing was written. Purge memories, or ask the operator",
    ),
    CredentialEnded: refuse(401, "a valid credential is required: this one ended before the write"),
    StoreUnavailable: refuse(
        503, "store_unavailable: nothing was written; try again", retry_after_s=RETRY_S
    ),
    OutcomeUnknown: refuse(
        503,
        "outcome_unknown: ask again with the same nonce to learn what became of it",
        retry_after_s=RETRY_S,
    ),
    StorageError: refuse(503, "cannot_decide: the store failed; nothing was admitted"),
    Exception: refuse(500, "cannot_decide: an internal failure; nothing was admitted"),
}
"""A mapping of exceptions to answers whose text is fixed; the most derived class counts."""


def refusal_for(error: Exception) -> Refusal:  # noqa: C901, PLR0911, PLR0912 - a table
    """The refusal for an exception, without anything that the peer sent or the store contains."""
    match error:
        case MethodNotAllowed():
            return refuse(error.status, error.detail, allowed=error.allowed)
        case MalformedRequest():
            return refuse(error.status, error.detail)
        case UnknownWrite():
            return refuse(
                403, f"unknown_write: this route would change memory and is not known{error.hint}"
            )
        case RateLimited():
            return refuse(429, f"rate_limited: {error.detail}", retry_after_s=error.retry_after_s)
        case Unauthenticated(throttled=True):
            return refuse(429, "too many failed attempts", retry_after_s=THROTTLE_S)
        case Unauthenticated():
            return refuse(401, "a valid credential is required")
        case ScopeMissing():
            needs = error.needs.value
            return refuse(403, f"scope: this needs an operator's key of scope {needs}")
        case NotFound():
            return refuse(404, error.detail)
        case RulesetRefused():
            # The message names lines and keys of a file; only its operator can get the answer.
            return refuse(409, f"ruleset_refused: {error}")
        case NoSuchPast():
            return refuse(422, f"no_such_past: {error}; nothing was changed")
        case UpstreamError(sent=False):
            return refuse(503, f"upstream: {error.detail}", retry_after_s=RETRY_S)
        case UpstreamError():
            return refuse(502, f"upstream: {error.detail}")
        case _:
            return next(_REFUSALS[kind] for kind in type(error).__mro__ if kind in _REFUSALS)


async def attempt(
    work: Awaitable[_T], halt: Callable[[], None], *, event: str = "request failed"
) -> _T | AnswerFailure:
    """Await the work; return its result, or the answer for its failure.

    Cancellation passes through. A broken invariant is answered like any other failure, and then
    `halt` stops the process, whose state cannot be relied on. `event` names a failure in the log.
    """
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - the one broad catch: it answers no
        name = type(error).__name__
        refusal = refusal_for(error)
        # Only a failure of the sidecar is logged, not a peer's mistake or an excess of requests.
        if refusal.status >= 500 and not isinstance(error, Busy):  # noqa: PLR2004
            # Only the type is logged: an exception's message and frames may contain what the peer
            # sent.
            _LOG.error(event, extra={"error_type": name})
        if isinstance(error, InvariantBroken):
            _LOG.critical("invariant broken, stopping", extra={"error_type": name})
            halt()
        return AnswerFailure(refusal=refusal, error_type=name)
