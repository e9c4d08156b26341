"""The interface through which withholding hears of every candidate before and after its verdict."""

from __future__ import annotations

from typing import Protocol

from storage.ground.errors import StorageError
from storage.values import Outcome, Submission


class Watches(Protocol):
    """Hears of every candidate before and after its verdict.

    `Withholding`, in `proxy.withhold`, implements it.
    """

    async def begun(self, submissions: list[Submission]) -> list[Submission]:
        """Note candidates before their verdict.

        Returns the list to be judged, perhaps a changed one.

        Raises:
            StoreUnavailable: None of them may be judged.
        """
        ...

    def ended(self, submission: Submission, result: Outcome | StorageError | None) -> None:
        """Note that a candidate was decided, or could not be decided.

        `result` is None if nobody waits for the answer any more.
        """
        ...
