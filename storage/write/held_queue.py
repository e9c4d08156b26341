"""The queue of held candidates, by principal and origin, as of the last commit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from policy.model import CandidateId, PrincipalId
from storage.audit import culprit_of
from storage.tables.change import Change
from storage.tables.codec import HeldRow
from storage.values import HeldCandidate, Outcome, StagedContents, Submission

HELD_PER_PRINCIPAL_MAX: Final = 256
"""How many candidates of one principal may be held: all principals share one staging."""
HELD_DAYS_MAX: Final = 30
_DAY_MS: Final = 86_400_000


class QueueChanges(msgspec.Struct):
    """The candidates that one transaction judged, and those that it held, decided or expired.

    The keys of the candidates in `gone` are destroyed with the commit.
    """

    judged: tuple[CandidateId, ...] = ()
    # New held candidates: their rows, and the content of each for staging.
    came: dict[CandidateId, HeldRow] = {}
    kept: dict[CandidateId, StagedContents] = {}
    gone: set[CandidateId] = set()
    # Whether the caller erases the key files of decided candidates before it is answered.
    asker_erases: bool = False
    # Held candidates that are refused because no person decided in time, with their outcomes.
    expired: list[tuple[HeldCandidate, Outcome]] = []


class _Waits(NamedTuple):
    # The index of the interception leaf, which gives the order in which candidates came.
    leaf_index: int
    since_ms: int
    origin: str
    lines: tuple[bytes, ...]


class HeldQueue:
    """The held candidates, in memory, so that one origin cannot take all places. Writer thread.

    A method with a parameter `change` also counts the holds that this transaction adds or ends.
    """

    def __init__(self) -> None:
        self._of: dict[PrincipalId, dict[CandidateId, _Waits]] = {}
        self._since_ms: OrderedDict[CandidateId, int] = OrderedDict()
        self._same: dict[tuple[bytes, ...], CandidateId] = {}
        # Since when the oldest candidate waits (Unix ms), for other threads; None if none waits.
        self.oldest_ms: int | None = None

    def adopt(
        self, came: Iterable[tuple[CandidateId, HeldRow]], gone: Iterable[CandidateId]
    ) -> None:
        """Apply the holds that a commit, or a start, found durable, and remove the decided ones."""
        # The store's clock never goes back, so later holds come after earlier ones.
        for candidate_id, row in sorted(came, key=lambda one: one[1].held_at_ms):
            self._since_ms[candidate_id] = row.held_at_ms
            waits = _Waits(row.intercepted_index, row.held_at_ms, origin_of_row(row), row.lines)
            self._of.setdefault(row.principal_id, {})[candidate_id] = waits
            self._same[row.lines] = candidate_id
        for candidate_id in gone:
            self._since_ms.pop(candidate_id, None)
            for held in self._of.values():
                if candidate_id in held:
                    self._same.pop(held.pop(candidate_id).lines, None)
        self.oldest_ms = next(iter(self._since_ms.values()), None)

    def same(self, change: Change, lines: tuple[bytes, ...]) -> CandidateId | None:
        """The candidate with exactly these lines that was held last; it may be decided by now."""
        came = (one for one, row in change.of(QueueChanges).came.items() if row.lines == lines)
        return next(came, self._same.get(lines))

    def is_full(self, change: Change, principal_id: PrincipalId) -> bool:
        """Whether the principal has as many held candidates as it may have."""
        came = sum(
            row.principal_id == principal_id for row in change.of(QueueChanges).came.values()
        )
        return len(self._committed(change, principal_id)) + came >= HELD_PER_PRINCIPAL_MAX

    def crowding(
        self, change: Change, principal_id: PrincipalId, origin: str
    ) -> CandidateId | None:
        """The oldest hold of the origin with the most holds, to make room for a new candidate.

        The new candidate counts for its own origin. None if all holds came in this transaction,
        because their keys are not on disk yet.
        """
        held = self._committed(change, principal_id)
        counts = {origin: 1}
        for waits in held.values():
            counts[waits.origin] = counts.get(waits.origin, 0) + 1
        for row in change.of(QueueChanges).came.values():
            if row.principal_id == principal_id:
                of_row = origin_of_row(row)
                counts[of_row] = counts.get(of_row, 0) + 1
        ranked = sorted(held, key=lambda one: (-counts[held[one].origin], held[one].leaf_index))
        return ranked[0] if ranked else None

    def overdue(self, now_ms: int) -> list[CandidateId]:
        """Holds that no person decided within thirty days, oldest first."""
        before_ms = now_ms - HELD_DAYS_MAX * _DAY_MS
        old = (
            (waits.leaf_index, candidate_id)
            for held in self._of.values()
            for candidate_id, waits in held.items()
            if waits.since_ms <= before_ms
        )
        return [candidate_id for _, candidate_id in sorted(old)]

    def _committed(self, change: Change, principal_id: PrincipalId) -> dict[CandidateId, _Waits]:
        held = self._of.get(principal_id, {})
        return {
            one: waits for one, waits in held.items() if one not in change.of(QueueChanges).gone
        }


def origin_of(submission: Submission) -> str:
    """A candidate's origin in the coarse form that its leaf has: a label, or server and tool.

    A web page cannot invent many origins, and an origin contains no content.
    """
    provenance = submission.provenance
    culprit = culprit_of(provenance.culprits, submission.candidate)
    if culprit is None:
        return provenance.source.value
    return f"{culprit.kind.value} {culprit.server} {culprit.tool}"


def origin_of_row(row: HeldRow) -> str:
    """The origin of a held candidate, or its label if the row has no origin."""
    return row.origin or row.source.value
