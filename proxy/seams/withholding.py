"""Who is told of every candidate around its verdict: the seam beside the interceptor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from storage.errors import StorageError
    from storage.values import Outcome, Submission


class Watches(Protocol):
    """Who is told of every candidate around its verdict: `Withholding`, in `proxy.withhold`."""

    async def begun(self, submissions: list[Submission]) -> list[Submission]:
        """They were intercepted; the same ones as they may be judged, or that very list.

        Raises:
            StoreUnavailable: None of them may be.
        """
        ...

    def ended(self, submission: Submission, result: Outcome | StorageError | None) -> None:
        """It was decided, or could not be; None where nobody waits for the answer any more."""
        ...


class Unwatched:
    """No model front: nobody sends what a candidate says."""

    async def begun(self, submissions: list[Submission]) -> list[Submission]:
        """As they are: the same list, so that nobody makes new ones of them."""
        return submissions

    def ended(self, submission: Submission, result: Outcome | StorageError | None) -> None:
        """Nobody listens."""
        del submission, result
