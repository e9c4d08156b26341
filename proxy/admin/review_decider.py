"""Records for telemetry what ends a hold: a person's release or denial, or its expiry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from policy.model import CandidateId, PrincipalId
from proxy.intercept.verdict_events import VerdictPlace, decided_event
from proxy.seams.environment import Environment
from proxy.seams.observations import Way, way_of
from proxy.withhold.withholding import Withholding
from storage.interfaces import MemoryReader, MemoryWriter
from storage.values import Denial, HeldCandidate, Outcome
from telemetry.events import TraceContext

REVIEW = "review"
PAGE = "confirm"
EXPIRY = "expiry"


class ReviewVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A person's verdict on a candidate, and what its agent may be shown from now on."""

    outcome: Outcome
    # Ids of candidates denied earlier whose text equals the released one; this text is withheld no
    # longer.
    lifted: tuple[str, ...]
    # Whether the agent that proposed the text is kept from seeing it from now on.
    withheld: bool
    # Who writes the text if it was let in.
    way: Way
    # The principal that proposed the text; "" where that is unknown.
    principal_id: str


class ReviewDecider(msgspec.Struct, frozen=True, kw_only=True):
    """Releases and denies held candidates, on the event loop.

    Each verdict is recorded for telemetry here; without that, a person's verdict would leave no
    span, no count and no log line.
    """

    reader: MemoryReader
    writer: MemoryWriter
    surroundings: Environment
    # The part that takes refused texts out of model requests; None where no model front is
    # configured.
    withholding: Withholding | None = None

    async def release(self, candidate_id: CandidateId, by: PrincipalId, way: str) -> ReviewVerdict:
        """Judge a candidate again with this person's approval.

        Raises:
            UnknownCandidate: Nothing of that id is held.
            StorageError: The candidate could not be decided.
        """
        held, started_ns = self._before(candidate_id)
        outcome = await self.writer.release(candidate_id, by)
        return self._ruled(held, self._told(held, outcome, way, started_ns))

    async def deny(self, candidate_id: CandidateId, by: PrincipalId, way: str) -> ReviewVerdict:
        """Refuse a candidate; its content is destroyed.

        Raises:
            UnknownCandidate: Nothing of that id is held.
            StorageError: The candidate could not be decided.
        """
        held, started_ns = self._before(candidate_id)
        outcome = await self.writer.deny(candidate_id, by)
        return self._ruled(held, self._told(held, outcome, way, started_ns))

    def _ruled(self, held: HeldCandidate | None, outcome: Outcome) -> ReviewVerdict:
        candidate = None if held is None else held.candidate
        way = way_of("" if candidate is None else candidate.target)
        principal_id = "" if held is None else held.principal_id
        withholding = self.withholding
        lifted: tuple[str, ...] = ()
        withheld = False
        if withholding is not None:
            lifted = withholding.heard(outcome)
            withheld = outcome.candidate_id in withholding.refused()
        return ReviewVerdict(
            outcome=outcome, lifted=lifted, withheld=withheld, way=way, principal_id=principal_id
        )

    def _before(self, candidate_id: CandidateId) -> tuple[HeldCandidate | None, int]:
        # The candidate's texts are read before the decision: a decided candidate can no longer be
        # decrypted.
        return self.reader.held_candidate(candidate_id), self.surroundings.clock_ns()

    async def deny_many(
        self, candidate_ids: Sequence[CandidateId], by: PrincipalId, way: str, denial: Denial
    ) -> dict[CandidateId, bool]:
        """Refuse as many held candidates as one transaction has time for.

        For each, True if it was held.

        Candidates missing in the answer were not reached: pass them again.

        Raises:
            StorageError: No candidate could be decided, or a key could not be erased.
        """
        before = await asyncio.to_thread(
            lambda: {one: self.reader.held_candidate(one) for one in candidate_ids}
        )
        started_ns = self.surroundings.clock_ns()
        decided = await self.writer.deny_many(candidate_ids, by, denial)
        for candidate_id, outcome in decided.items():
            if outcome is None:
                continue
            self._told(before[candidate_id], outcome, way, started_ns)
            if self.withholding is not None:
                self.withholding.heard(outcome, in_part=denial.struck is not None)
        return {candidate_id: outcome is not None for candidate_id, outcome in decided.items()}

    def expired(self, held: HeldCandidate, outcome: Outcome) -> None:
        """Record that a candidate expired undecided. Any thread."""
        self._told(held, outcome, EXPIRY, self.surroundings.clock_ns())

    def _told(
        self, held: HeldCandidate | None, outcome: Outcome, way: str, started_ns: int
    ) -> Outcome:
        if held is not None:
            out = self.surroundings
            span = VerdictPlace(
                # The decision is reported in the trace of the original write, so that a reader of
                # the trace sees the outcome.
                context=TraceContext(
                    trace_id=held.trace_id or out.random_hex(16), span_id=out.random_hex(8)
                ),
                dialect=way,
                started_ns=started_ns,
                ended_ns=out.clock_ns(),
                epoch=self.reader.status().epoch,
            )
            out.record(decided_event(held, outcome, span))
        return outcome
