"""Failures, each with an answer of its own. The class says whose fault it is.

`transport.responses` turns each of them into an answer.
"""

from __future__ import annotations

from typing import Final


class MalformedRequest(Exception):
    """The peer sent something this dialect does not allow; nothing was staged.

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
    """A mutating route no dialect knows: it counts as a write and is refused.

    `hint` is a fixed text: what the path serves instead.
    """

    def __init__(self, hint: str = "") -> None:
        super().__init__(hint)
        self.hint = hint


class Unauthenticated(Exception):
    """No principal stands behind the request. One answer for every cause, so it is no oracle."""

    def __init__(self, *, throttled: bool = False) -> None:
        super().__init__("unauthenticated")
        self.throttled = throttled


class NotOperator(Exception):
    """The principal is known, and is not an operator."""


class RateLimited(Exception):
    """The principal asked too much lately; nothing of the request was staged or logged.

    `detail` is shown to the peer: it says of what there was too much.
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
    """Too many requests are under way, of this principal or of all; this one was not begun."""


OF_DATA: Final = "this listener speaks"
"""Begins what the data listener says of itself wherever nobody claims a path.

A command that was led there by mistake tells by it where it is.
"""


class NotFound(Exception):
    """The thing that was asked for does not exist; `detail` is a fixed text."""

    def __init__(self, detail: str = "there is nothing here") -> None:
        super().__init__(detail)
        self.detail = detail


class RulesetRefused(Exception):
    """New rules were refused; the old ones stay in force. The message says what is wrong."""


class UpstreamError(Exception):
    """The server behind did not answer, or not in a form that can be passed on.

    The text is a fixed one. `sent` is False where the server cannot have seen the request. `why` is
    what the connection failed with, for the sidecar's operator and never for a peer.
    """

    def __init__(self, detail: str, *, sent: bool = True, why: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.sent = sent
        self.why = why

    @property
    def told_operator(self) -> str:
        """The text for the sidecar's operator."""
        return f"{self.detail} ({self.why})" if self.why else self.detail


class CannotListen(OSError):
    """A listener's address cannot be bound; `setting` names the setting that changes it."""

    def __init__(self, error: OSError, setting: str) -> None:
        super().__init__(error.errno, error.strerror or type(error).__name__)
        self.setting = setting
