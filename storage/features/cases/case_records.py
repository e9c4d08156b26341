"""Orders to the writer about one wrong answer; each moves the case one step, with a leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from policy.after.closure import BLAST_MAX, NAMED_MAX, Act, CaseStep, ForPerson, Relation
from policy.model import MemoryId, MemoryStatus, PrincipalId
from storage.audit import IncidentLeaf
from storage.features.cases import (
    CASES,
    Case,
    CaseBeginning,
    CaseMemory,
    ConvictedMemory,
    Opening,
    Progress,
    may_follow,
)
from storage.features.cases.case_facts import CaseFacts, enforce, named
from storage.features.parole import end_probation, parole_record
from storage.features.quarantine.hiding import OPERATOR, Quarantine, hidden_by, log_standing, place
from storage.ground.errors import UnknownIncident
from storage.ground.randomness import random_bytes
from storage.tables.change import Change
from storage.tables.codec import IdRecord
from storage.tables.lmdb_store import View
from storage.tables.rows import id_key, read_id, read_row
from storage.write.trust_intake import TrustIntake

_ID_LEN: Final = 8
_BYTES: Final = 2_048
"""The bytes of a tenant's share that are charged for the record of a case and its leaves."""
_FOR_PERSON: Final = frozenset(one.value for one in ForPerson)


class OpenCase(msgspec.Struct, frozen=True):
    """An order to the writer: record a new case durably, before a memory is changed for it."""

    opening: Opening

    def carry_out(self, change: Change) -> Case:
        """Record the case, hide the memories on probation that it is about, and return the case."""
        opening, case_id = self.opening, random_bytes(_ID_LEN).hex()
        case = Case(
            case_id=case_id,
            **{name: getattr(opening, name) for name in CaseBeginning.__struct_fields__},
            step=CaseStep.OPENED,
            opened_at_ms=change.now_ms,
            at_ms=change.now_ms,
            culprits=self._implicated(change, case_id),
        )
        change.charges[case.tenant] += _BYTES
        return _stepped(change, case, opening.by)

    def _implicated(self, change: Change, case_id: str) -> tuple[CaseMemory, ...]:
        """Hide the memories on probation that a new case is about; return the case's entries."""
        opening = self.opening
        named_: list[CaseMemory] = []
        detail = f"{opening.tenant}: incident {case_id}"
        for memory_id in opening.implicated[:NAMED_MAX]:
            name = change.names.memory(opening.tenant, memory_id)
            record = parole_record(change.draft, name)
            known = read_id(change.draft, name)
            on_probation = record.until_ms > change.now_ms
            if known is None or known.status is not MemoryStatus.LIVE or not on_probation:
                continue
            row = read_row(change.draft, known.ordinal)
            place(change, name, known, row, hidden_by(change.draft, name, known) | {case_id})
            log_standing(change, memory_id, row, opening.by, detail, hidden=True)
            end_probation(change, name, record)
            named_.append(named(change.draft, row, Relation.PAROLED, Act.QUARANTINE))
        return tuple(named_)


class MoveCase(msgspec.Struct, frozen=True):
    """An order to the writer: move a case to `step`, unless `step` may not follow its step.

    A case whose derived memories wait for a person moves to `NEEDS_PERSON` instead of `HEALED`.
    """

    case_id: str
    step: CaseStep
    by: PrincipalId
    progress: Progress | None = None

    def carry_out(self, change: Change) -> Case:
        """Move the case, if it may be moved, and return it.

        Raises:
            UnknownIncident: No case has that id.
        """
        case = read_case(change.draft, self.case_id)
        step = self.step
        if step is CaseStep.HEALED and case.why in _FOR_PERSON:
            step = CaseStep.NEEDS_PERSON
        if not may_follow(step, case.step):
            return case
        return _stepped(change, _grown(case, step, self.progress), self.by)


class Convict(msgspec.Struct, frozen=True):
    """An order to the writer: hide accused memories and the memories derived from them.

    With `proposes` the case only names the memories, and a person has to hide them. The same holds
    for derived memories above `blast_max` in all rounds of the case together; the accused ones are
    hidden all the same. An accused memory that is deleted is left out.
    """

    case_id: str
    accused: Sequence[ConvictedMemory]
    by: PrincipalId
    progress: Progress
    proposes: bool = False
    blast_max: int = BLAST_MAX

    def carry_out(self, change: Change) -> Case:
        """Carry out the consequences; return the case at `CONVICTED` or at `NEEDS_PERSON`.

        A case that may not become convicted is returned unchanged. The same transaction contains
        the acts, a leaf for each memory that names the case, and the outcome for each origin. When
        the transaction is durable, no read that begins later shows any of the hidden memories.

        Raises:
            UnknownIncident: No case has that id.
            QuotaReached: There is no room for an earlier text; the store was not changed.
        """
        case = read_case(change.draft, self.case_id)
        if not may_follow(CaseStep.CONVICTED, case.step):
            return case
        following = CaseFacts(change.draft, change.names, case.tenant, change.now_ms)
        # The limit is for the whole case: all its rounds together hide no more memories than one
        # round may.
        closure = following.closure(
            self.accused,
            proposes=self.proposes,
            blast_max=self.blast_max,
            before=case.culprits,
        )
        said = tuple(map(following.named, closure.consequences))
        detail = f"{case.tenant}: incident {case.case_id}"
        for found in closure.consequences:
            leaf_index = enforce(change, case.tenant, found, case.case_id, self.by, detail)
            guilty = found.relation is Relation.CULPRIT and found.act is not Act.EXPIRE
            if leaf_index is not None and guilty:
                row = read_row(change.draft, found.fact.step)
                TrustIntake(change.names).convicted(change, row, case.case_id, leaf_index)
        step, progress = CaseStep.CONVICTED, self.progress
        if closure.for_person is not None:
            # While culprits are still found and hidden, the search continues: their copies rank
            # next. The case ends with a person all the same (`MoveCase`).
            acts = any(one.act is not Act.NOTHING for one in closure.consequences)
            step = CaseStep.CONVICTED if acts else CaseStep.NEEDS_PERSON
            progress = msgspec.structs.replace(progress, why=closure.for_person.value)
        case = _grown(case, step, progress)
        case = msgspec.structs.replace(case, culprits=(*case.culprits, *said)[:NAMED_MAX])
        return _stepped(change, case, self.by)


class AcceptCase(msgspec.Struct, frozen=True):
    """An order to the writer: hide what a case left to a person, as the person's act; close it."""

    case_id: str
    by: PrincipalId

    def carry_out(self, change: Change) -> Case:
        """Hide the memories of the case that are not hidden, a leaf for each; return the case.

        A memory that was deleted since is left out.

        Raises:
            UnknownIncident: No case has that id, or it leaves nothing to a person.
            UnknownMemory: The case does not know the id of a memory, because a client chose it.
        """
        case = read_case(change.draft, self.case_id)
        left = [one for one in case.culprits if one.act is Act.NOTHING]
        if case.step is not CaseStep.NEEDS_PERSON or not left:
            raise UnknownIncident("the incident leaves nothing to a person")
        for one in left:
            memory_id = MemoryId(one.memory)
            known = read_id(change.draft, change.names.memory(case.tenant, memory_id))
            if known is not None and known.status is MemoryStatus.DELETED:
                continue
            detail = f"incident {case.case_id}"
            Quarantine(memory_id, case.tenant, self.by, detail).carry_out(change)
        return MoveCase(case.case_id, CaseStep.CLOSED, self.by).carry_out(change)


class NameRelated(msgspec.Struct, frozen=True):
    """An order to the writer: store related memories with a case, the first of them by name."""

    case_id: str
    related: Sequence[CaseMemory]

    def carry_out(self, change: Change) -> Case:
        """Store the related memories and their number, without a leaf; return the case."""
        case = msgspec.structs.replace(
            read_case(change.draft, self.case_id),
            listed=tuple(self.related)[:NAMED_MAX],
            listed_count=len(self.related),
        )
        change.draft.write(CASES, bytes.fromhex(case.case_id), case)
        return case


def convicted_by(view: View, name: bytes, known: IdRecord) -> tuple[str, ...]:
    """The ids of the rules that hide a memory; () if anything else hides the memory as well."""
    rule_ids: list[str] = []
    for by in sorted(hidden_by(view, name, known)):
        case = None if by == OPERATOR else view.read(CASES, bytes.fromhex(by))
        if case is None or not case.anchor_id:
            return ()
        rule_ids.append(case.anchor_id)
    return tuple(rule_ids)


def _stepped(change: Change, case: Case, by: PrincipalId) -> Case:
    """Store the case with the present time, and a leaf of its step; return the case."""
    leaf_index = change.log(
        IncidentLeaf(
            case_id=case.case_id,
            at_ms=change.now_ms,
            step=case.step,
            signal=case.signal,
            mode=case.mode,
            suspects=case.suspects,
            asks=case.asks,
            culprits=sum(one.relation is Relation.CULPRIT for one in case.culprits),
            by=by,
            why=case.why or None,
        )
    )
    case = msgspec.structs.replace(case, at_ms=change.now_ms, leaf_index=leaf_index)
    change.draft.write(CASES, bytes.fromhex(case.case_id), case)
    return case


def read_case(view: View, case_id: str) -> Case:
    """One case by its id.

    Raises:
        UnknownIncident: No case has that id.
    """
    key = id_key(case_id, _ID_LEN)
    case = None if key is None else view.read(CASES, key)
    if case is None:
        raise UnknownIncident("there is no incident of that id")
    return case


def _grown(case: Case, step: CaseStep, progress: Progress | None) -> Case:
    case = msgspec.structs.replace(case, step=step)
    if progress is None:
        return case
    return msgspec.structs.replace(
        case,
        mode=progress.mode,
        suspects=max(case.suspects, progress.suspects),
        asks=case.asks + progress.asks,
        rounds=case.rounds + progress.rounds,
        controls=progress.controls or case.controls,
        why=progress.why or case.why,
    )
