"""The interface by which rooms outside the store report how a write turned out."""

from __future__ import annotations

from typing import Protocol

from policy.trust.outcomes import Reported


class TakesOutcomes(Protocol):
    """The one intake of outcomes; `policy.trust.outcomes` has the closed list.

    The store counts outcomes that it sees itself (denials, refusals, quarantines, releases that
    held) in the transaction of the act. Other rooms report here what they see, such as bursts of
    writes.
    """

    async def record_outcome(self, reported: Reported) -> bool:
        """Count an outcome for or against trust, with a leaf; True if it counted.

        Raises:
            StorageError: The store cannot write now. Nothing was counted; the outcome may be
                reported again.
        """
        ...
