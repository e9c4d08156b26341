"""The decisions of people on lines of a place (`policy.lines`): released once, or denied for good.

The store records keyed hashes, ids and times, so that every backup contains the decisions and no
text. Writer thread only.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple

import msgspec

from policy.labels.forwarded_call import place_of
from policy.lines import ACTS_OF_DENIAL_MAX, lines_of
from policy.model import Candidate, CandidateId, PrincipalId, Tenant
from storage.tables.change import Change
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.names import RecordTable
from storage.tables.rows import GROUP_LEN
from storage.values import Denial

LET_IN_DAYS_MAX: Final = 30
"""The days after which a released line that no call asked for again is forgotten."""
_DAY_MS: Final = 86_400_000
_LET_IN: Final = b"a"
_DENIED: Final = b"d"
_ACTS: Final = b"n"


class LineRecord(msgspec.Struct, frozen=True, array_like=True):
    """A person's decision on a line: released, until one call carries it out, or denied."""

    by: PrincipalId
    candidate_id: CandidateId
    at_ms: int
    restores: int  # how often the store had been restored
    # For a release: the version that the person was shown of the memory to change; 0 if none.
    target_version: int = 0
    # For a denial: whose candidate it was.
    tenant: Tenant = Tenant("")
    principal_id: PrincipalId = PrincipalId("")


class DeniedRecord(msgspec.Struct, frozen=True, array_like=True):
    """The number of acts of denial in a group on the latest day with one, and the latest act."""

    day: int
    count: int
    act: str


# Both records are in one table; the kind in a key (`_ACTS` or not) determines the record.
LINES: Final = RecordTable(b"lines", LineRecord)
_DENIALS: Final = RecordTable(b"lines", DeniedRecord)


class PersonDecisions(NamedTuple):
    """The decisions of people that concern one candidate."""

    denied: bool = False
    denied_today: bool = False
    # One record for each line, if a person released all of them; else ().
    let_in: tuple[LineRecord, ...] = ()


NO_DECISIONS: Final = PersonDecisions()


class LineDecisions:
    """Reads and records the decisions on lines, inside a transaction."""

    def __init__(self, names: KeyedNames) -> None:
        self._names = names

    def said(self, change: Change, candidate: Candidate) -> PersonDecisions:
        """The decisions of people on the lines of a candidate."""
        # Most stores have no decision, and most groups none, and then the candidate is not read.
        group = self._group(candidate) if change.draft.count(LINES) else b""
        any_there = next(change.draft.keys(LINES, group), b"") if group else b""
        if not any_there or not any_there.startswith(group):
            return NO_DECISIONS
        denied = any(change.draft.has(LINES, one) for one in self._keys(candidate, _DENIED))
        acts = self._acts(change, group)
        often = acts.day == change.now_ms // _DAY_MS and acts.count >= ACTS_OF_DENIAL_MAX
        return PersonDecisions(denied, often, self._let_in(change, candidate))

    def _let_in(self, change: Change, candidate: Candidate) -> tuple[LineRecord, ...]:
        oldest_ms = change.now_ms - LET_IN_DAYS_MAX * _DAY_MS
        found = [change.draft.read(LINES, key) for key in self.keys(candidate)]
        records = tuple(one for one in found if one is not None)
        # A restored backup may lack the record that a line was carried out after the backup was
        # made, so releases from before a restore are invalid.
        valid = all(
            one.at_ms >= oldest_ms and one.restores == change.header.restores for one in records
        )
        return records if valid and len(records) == len(found) else ()

    def is_let_in(self, change: Change, candidate: Candidate) -> bool:
        """Whether a released candidate may be sent: no other call has carried out a line of it."""
        return bool(self._let_in(change, candidate))

    def let_in(
        self,
        change: Change,
        candidate: Candidate,
        record: LineRecord,
        without: Container[bytes] = (),
    ) -> set[CandidateId]:
        """Release the lines of a candidate for one call, and delete earlier denials of them.

        Lines with a key in `without` are left out. Returns the ids of the candidates whose earlier
        release of one of these lines was replaced.
        """
        before: set[CandidateId] = set()
        denials = self._keys(candidate, _DENIED)
        for key, denial in zip(self.keys(candidate), denials, strict=True):
            if key not in without:
                found = change.draft.read(LINES, key)
                before |= set() if found is None else {found.candidate_id}
                change.draft.write(LINES, key, record)
                change.draft.delete(LINES, denial)
        return before

    def carried_out(self, change: Change, candidate: Candidate) -> None:
        """Delete the releases of a candidate's lines, so that no second call may carry them out."""
        for key in self.keys(candidate):
            change.draft.delete(LINES, key)

    def deny(
        self,
        change: Change,
        candidate: Candidate,
        record: LineRecord,
        denial: Denial,
    ) -> None:
        """Record that a person denied the lines of a candidate, or (`struck`) some of them."""
        struck = denial.struck
        if struck is None:
            self._count(change, self._group(candidate), denial.act)
        elif not denial.applied:
            self.let_in(change, candidate, record, struck)
        for key, name in zip(self.keys(candidate), self._keys(candidate, _DENIED), strict=True):
            if struck is None or key in struck:
                change.draft.write(LINES, name, record)

    def _count(self, change: Change, group: bytes, act: str) -> None:
        """Count one act of denial in a group, once for all candidates of the act."""
        before, day = self._acts(change, group), change.now_ms // _DAY_MS
        if before.act != act:
            count = before.count + 1 if before.day == day else 1
            key = self._names.line(group, _ACTS, b"")
            change.draft.write(_DENIALS, key, DeniedRecord(day, count, act))

    def keys(self, candidate: Candidate) -> tuple[bytes, ...]:
        """The keys under which the lines of a candidate are released."""
        return self._keys(candidate, _LET_IN)

    def _keys(self, candidate: Candidate, kind: bytes) -> tuple[bytes, ...]:
        group, line = self._group(candidate), self._names.line
        exact = kind == _LET_IN
        return tuple(
            line(group, kind, one.exact if exact else one.shape) for one in lines_of(candidate)
        )

    def _group(self, candidate: Candidate) -> bytes:
        return self._names.group(candidate.tenant, candidate.principal_id, place_of(candidate))

    def _acts(self, change: Change, group: bytes) -> DeniedRecord:
        found = change.draft.read(_DENIALS, self._names.line(group, _ACTS, b""))
        return found or DeniedRecord(0, 0, "")


def denied_lines(view: View, candidate_id: CandidateId | None = None) -> dict[bytes, LineRecord]:
    """Map the key of each denied line to its record, of one candidate or (None) of all."""
    found = {
        key: LINES.decoded(payload)
        for key, payload in view.scan(LINES)
        if key[GROUP_LEN : GROUP_LEN + 1] == _DENIED
    }
    return {key: one for key, one in found.items() if candidate_id in {None, one.candidate_id}}
