"""The interface that is told of every candidate before and after its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from storage.errors import StorageError
    from storage.values import Outcome, Submission


class Watches(Protocol):
    """Is told of every candidate before and after its verdict.

    `Withholding`, in `proxy.withhold`.
    """

    async def begun(self, submissions: list[Submission]) -> list[Submission]:
        """These candidates were intercepted. Returns the list to be judged, perhaps the same.

        Raises:
            StoreUnavailable: None of them may be judged.
        """
        ...

    def ended(self, submission: Submission, result: Outcome | StorageError | None) -> None:
        """The candidate was decided, or could not be.

        None where nobody waits for the answer any more.
        """
        ...


class Unwatched:
    """For a sidecar without a model front: no request shows candidates, so nothing is withheld."""

    async def begun(self, submissions: list[Submission]) -> list[Submission]:
        """The same list, unchanged and not copied."""
        return submissions

    def ended(self, submission: Submission, result: Outcome | StorageError | None) -> None:
        """Ignores the verdict."""
        del submission, result
