"""The interface by which rooms outside the store report how a write turned out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from policy.trust.outcomes import Reported


class TakesOutcomes(Protocol):
    """The one intake of outcomes; `policy.trust.outcomes` has the closed list.

    What the store sees itself (denials, refusals, quarantines, releases that stood) it takes in
    with the act. Whoever sees something else reports it here: bursts today, incidents and recalls
    when something tells of them.
    """

    async def record_outcome(self, reported: Reported) -> bool:
        """Take it into trust, with a leaf; whether it counted.

        Raises:
            StorageError: As for a write; nothing was counted, and it may be reported again.
        """
        ...
