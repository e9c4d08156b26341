"""What persons decided on lines of a place (`policy.lines`): let in once, or denied for good.

Kept are keyed hashes, ids and times, in the store itself: a decision is in every backup, and no
text. Writer thread only.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple

import msgspec

from policy.labels.forwarded_call import place_of
from policy.lines import ACTS_OF_DENIAL_MAX, lines_of
from policy.model import Candidate, CandidateId, PrincipalId
from storage.tables.change import Change
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import RecordTable, View
from storage.tables.rows import GROUP_LEN
from storage.values import Denial

LET_IN_DAYS_MAX: Final = 30
"""What was let in and never asked for again is forgotten after so many days."""
_DAY_MS: Final = 86_400_000
_LET_IN: Final = b"a"
_DENIED: Final = b"d"
_ACTS: Final = b"n"


class LineRecord(msgspec.Struct, frozen=True, array_like=True):
    """A person's decision on a line of a place: let in, until it is carried out once, or denied."""

    by: PrincipalId
    candidate_id: CandidateId
    at_ms: int
    restores: int  # how often the store had been restored
    # Let in: the version of the memory to change that was shown; 0 where there was none.
    target_version: int = 0


class DeniedRecord(msgspec.Struct, frozen=True, array_like=True):
    """How many acts of denial a group had on its latest day with one, and the latest of them."""

    day: int
    count: int
    act: str


# One table: what a key is of tells which of the two records is under it.
LINES: Final = RecordTable(b"lines", LineRecord)
_DENIALS: Final = RecordTable(b"lines", DeniedRecord)


class PersonDecisions(NamedTuple):
    """What persons decided that concerns one candidate."""

    denied: bool = False
    denied_today: bool = False
    # One record for each line, if a person let all of them in; else ().
    let_in: tuple[LineRecord, ...] = ()


class LineDecisions:
    """Reads and records decisions on lines, inside a transaction."""

    def __init__(self, names: KeyedNames) -> None:
        self._names = names

    def said(self, change: Change, candidate: Candidate) -> PersonDecisions:
        """What persons decided on the lines of a candidate."""
        group = self._group(candidate)
        # Most groups have no decision, and then no text is read.
        if not next(change.draft.keys(LINES, group), b"").startswith(group):
            return PersonDecisions()
        denied = any(change.draft.has(LINES, one) for one in self._keys(candidate, _DENIED))
        acts = self._acts(change, group)
        often = acts.day == change.now_ms // _DAY_MS and acts.count >= ACTS_OF_DENIAL_MAX
        return PersonDecisions(denied, often, self._let_in(change, candidate))

    def _let_in(self, change: Change, candidate: Candidate) -> tuple[LineRecord, ...]:
        oldest_ms = change.now_ms - LET_IN_DAYS_MAX * _DAY_MS
        found = [change.draft.read(LINES, key) for key in self.keys(candidate)]
        records = tuple(one for one in found if one is not None)
        # After a backup was made, a line may have been carried out of which its copy tells nothing.
        valid = all(
            one.at_ms >= oldest_ms and one.restores == change.header.restores for one in records
        )
        return records if valid and len(records) == len(found) else ()

    def is_let_in(self, change: Change, candidate: Candidate) -> bool:
        """Whether no call had a line of a released candidate since its release."""
        return bool(self._let_in(change, candidate))

    def let_in(
        self,
        change: Change,
        candidate: Candidate,
        record: LineRecord,
        without: Container[bytes] = (),
    ) -> set[CandidateId]:
        """Let the lines of a candidate in once, and forgive them: this is the later decision.

        Returns the candidates that were to bring one of these lines before.
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
        """Note that the lines of a candidate are on their way: no other call may have them."""
        for key in self.keys(candidate):
            change.draft.delete(LINES, key)

    def deny(
        self,
        change: Change,
        candidate: Candidate,
        record: LineRecord,
        denial: Denial,
    ) -> None:
        """Deny the lines of a candidate, as a person decided."""
        struck = denial.struck
        if struck is None:
            self._count(change, self._group(candidate), denial.act)
        elif not denial.applied:
            self.let_in(change, candidate, record, struck)
        for key, name in zip(self.keys(candidate), self._keys(candidate, _DENIED), strict=True):
            if struck is None or key in struck:
                change.draft.write(LINES, name, record)

    def _count(self, change: Change, group: bytes, act: str) -> None:
        """Count an act of denial once, however many candidates it is about."""
        before, day = self._acts(change, group), change.now_ms // _DAY_MS
        if before.act != act:
            count = before.count + 1 if before.day == day else 1
            key = self._names.line(group, _ACTS, b"")
            change.draft.write(_DENIALS, key, DeniedRecord(day, count, act))

    def keys(self, candidate: Candidate) -> tuple[bytes, ...]:
        """The keys under which the lines of a candidate are let in."""
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


def denied_lines(view: View, candidate_id: CandidateId | None = None) -> dict[bytes, CandidateId]:
    """Denied lines by key, each with its candidate; where one is given, only that candidate's."""
    found = {
        key: LINES.decoded(payload).candidate_id
        for key, payload in view.scan(LINES)
        if key[GROUP_LEN : GROUP_LEN + 1] == _DENIED
    }
    return {key: one for key, one in found.items() if candidate_id in {None, one}}
