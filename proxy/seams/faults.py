"""The exceptions that `transport.responses` turns into answers; each names whose fault it is."""

from __future__ import annotations

import ssl
from typing import Final

from policy.model import OperatorScope


class MalformedRequest(Exception):
    """The peer sent a request that its dialect does not allow; nothing was staged.

    `detail` is shown to the peer: it names the field and the rule, never the value.
    """

    def __init__(self, detail: str, *, status: int = 422) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status


class MethodNotAllowed(MalformedRequest):
    """The route does not take this method; `allowed` are the methods that it takes."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(f"method: this route takes {', '.join(allowed)}", status=405)
        self.allowed = allowed


class UnknownWrite(Exception):
    """A mutating route that no dialect has: the request counts as a write and is refused.

    `hint` is a fixed text that names what the path serves instead.
    """

    def __init__(self, hint: str = "") -> None:
        super().__init__(hint)
        self.hint = hint


class Unauthenticated(Exception):
    """The request has no principal. All causes have one answer, so that no one can probe keys."""

    def __init__(self, *, throttled: bool = False) -> None:
        super().__init__("unauthenticated")
        self.throttled = throttled


class NotOperator(Exception):
    """The principal is known, and is not an operator."""


class ScopeMissing(NotOperator):
    """The principal is an operator whose key does not reach as far as the scope `needs`."""

    def __init__(self, needs: OperatorScope) -> None:
        super().__init__(needs.value)
        self.needs = needs


class RateLimited(Exception):
    """The principal is above a rate limit; nothing of the request was staged or logged.

    `detail` is shown to the peer: it names what there was too much of.
    """

    def __init__(
        self,
        retry_after_s: int,
        detail: str = "too many writes in a short time; nothing was staged",
    ) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s
        self.detail = detail


class Busy(Exception):
    """Too many requests of one principal, or of all, are in progress; this one was not begun."""


OF_DATA: Final = "this listener speaks"
"""The beginning of the data listener's answer to a path that no dialect or front claims.

By it, a command that was pointed at the data listener by mistake recognises the mistake.
"""


class NotFound(Exception):
    """The thing that was asked for does not exist; `detail` is a fixed text."""

    def __init__(self, detail: str = "there is nothing here") -> None:
        super().__init__(detail)
        self.detail = detail


class RulesetRefused(Exception):
    """New rules were refused; the old ones stay in force. The message names what is wrong."""


class UpstreamError(Exception):
    """The upstream server did not answer, or not in a form that can be forwarded.

    `detail` is a fixed text. `sent` is False where the server cannot have seen the request. `why`
    is the connection's own error, shown to the sidecar's operator and never to a peer.
    """

    def __init__(self, detail: str, *, sent: bool = True, why: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.sent = sent
        self.why = why

    @property
    def told_operator(self) -> str:
        """The detail with the connection's own error, for the sidecar's operator only."""
        return f"{self.detail} ({self.why})" if self.why else self.detail


class CannotListen(OSError):
    """A listener's address cannot be bound; `setting` names the setting that changes it.

    `port` is None for a Unix socket.
    """

    def __init__(self, error: OSError, setting: str, port: int | None) -> None:
        super().__init__(error.errno, error.strerror or type(error).__name__)
        self.setting = setting
        self.port = port


def why_unreached(error: BaseException) -> str:
    """The reason why no answer was received, for an operator, without any text of the peer."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted here: {error.verify_message}"
        case ssl.SSLError():
            return "no TLS is spoken there"
        case OSError():
            return error.strerror or str(error) or "no connection in time"
        case ValueError():
            return "this is no URL"
        case _:
            return f"no HTTP is spoken there; {type(error).__name__}"
