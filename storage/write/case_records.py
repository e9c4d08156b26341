"""The record of one wrong answer: each step is one transaction, with its leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from policy.after.closure import BLAST_MAX, Act, Relation
from policy.model import MemoryStatus, PrincipalId
from storage.audit import IncidentLeaf
from storage.cases import NAMED_MAX, Accused, Case, CaseStep, Named, Opening, Progress, may_follow
from storage.errors import UnknownIncident
from storage.ground.randomness import random_bytes
from storage.tables.change import Change
from storage.tables.codec import decode_case, encode
from storage.tables.lmdb_store import CASES, View
from storage.tables.rows import read_id, read_row
from storage.write.engine import Engine
from storage.write.following import Enforcing, Following, named
from storage.write.hands import hidden_by
from storage.write.paroling import end_probation, parole_record
from storage.write.quarantine import log_standing, place
from storage.write.rewinding import Rewinding

_ID_LEN: Final = 8
_BYTES: Final = 2_048
"""How many bytes of a tenant's share the record of a case and its leaves take."""


class CaseRecords:
    """The records of the cases of one store. Writer thread only; each call is one transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rewinding = Rewinding(engine)

    def open(self, opening: Opening) -> Case:
        """Record a new case."""
        case_id = random_bytes(_ID_LEN).hex()

        def work(change: Change) -> Case:
            case = Case(
                case_id=case_id,
                tenant=opening.tenant,
                signal=opening.signal,
                step=CaseStep.OPENED,
                opened_at_ms=change.now_ms,
                at_ms=change.now_ms,
                by=opening.by,
                failure_id=opening.failure_id,
                recall_id=opening.recall_id,
                reply_id=opening.reply_id,
                anchor_id=opening.anchor_id,
                judge=opening.judge,
                own_words=opening.own_words,
                culprits=self._implicated(change, case_id, opening),
            )
            change.charges[case.tenant] += _BYTES
            return self._stepped(change, case, opening.by)

        return self._engine.transact(work)

    def _implicated(self, change: Change, case_id: str, opening: Opening) -> tuple[Named, ...]:
        """Hide the memories on probation that a new case is about, and name them."""
        named_: list[Named] = []
        detail = f"{opening.tenant}: incident {case_id}"
        for memory_id in opening.implicated[:NAMED_MAX]:
            name = self._engine.parts.names.memory(opening.tenant, memory_id)
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

    def move(
        self, case_id: str, step: CaseStep, by: PrincipalId, progress: Progress | None = None
    ) -> Case:
        """Set the step that a case has reached.

        Changes nothing if it cannot follow the present step.
        """

        def work(change: Change) -> Case:
            case = read_case(change.draft, case_id)
            if not may_follow(step, case.step):
                return case
            return self._stepped(change, _grown(case, step, progress), by)

        return self._engine.transact(work)

    def convict(
        self,
        case_id: str,
        accused: Sequence[Accused],
        by: PrincipalId,
        progress: Progress,
        *,
        proposes: bool = False,
        blast_max: int = BLAST_MAX,
    ) -> Case:
        """Hide accused memories and what was derived from them, or leave all of it to a person."""

        def work(change: Change) -> Case:
            case = read_case(change.draft, case_id)
            if not may_follow(CaseStep.CONVICTED, case.step):
                return case
            names = self._engine.parts.names
            following = Following(change.draft, names, case.tenant, change.now_ms)
            # The bound is for the whole case: all of its rounds together hide no more memories than
            # one may.
            hidden = sum(one.act is not Act.NOTHING for one in case.culprits)
            closure = following.closure(
                accused, proposes=proposes, blast_max=max(0, blast_max - hidden)
            )
            said = tuple(map(following.named, closure.consequences))
            enforcing = Enforcing(change, names, self._rewinding, case.tenant)
            detail = f"{case.tenant}: incident {case.case_id}"
            for found in closure.consequences:
                leaf_index = enforcing.enforce(found, case.case_id, by, detail)
                guilty = found.relation is Relation.CULPRIT and found.act is not Act.EXPIRE
                if leaf_index is not None and guilty:
                    self._engine.parts.judge.intake.convicted(
                        change,
                        read_row(change.draft, found.fact.step),
                        case.case_id,
                        self._engine.ruleset,
                        leaf_index,
                    )
            step = CaseStep.CONVICTED
            if closure.for_person is not None:
                step = CaseStep.NEEDS_PERSON
                progress_now = msgspec.structs.replace(progress, why=closure.for_person.value)
            else:
                progress_now = progress
            case = _grown(case, step, progress_now)
            case = msgspec.structs.replace(case, culprits=(*case.culprits, *said)[:NAMED_MAX])
            return self._stepped(change, case, by)

        return self._engine.transact(work)

    def name_related(self, case_id: str, related: Sequence[Named]) -> Case:
        """Store the first of these memories with the case, and how many there are."""

        def work(change: Change) -> Case:
            case = msgspec.structs.replace(
                read_case(change.draft, case_id),
                listed=tuple(related)[:NAMED_MAX],
                listed_count=len(related),
            )
            change.draft.put(CASES, bytes.fromhex(case_id), encode(case))
            return case

        return self._engine.transact(work)

    @staticmethod
    def _stepped(change: Change, case: Case, by: PrincipalId) -> Case:
        """Store the case in its present state, with the leaf of its latest step."""
        case = msgspec.structs.replace(case, at_ms=change.now_ms)
        change.draft.put(CASES, bytes.fromhex(case.case_id), encode(case))
        change.log(
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
        return case


def read_case(view: View, case_id: str) -> Case:
    """One case by its id.

    Raises:
        UnknownIncident: No case has that id.
    """
    try:
        key = bytes.fromhex(case_id)
    except ValueError:
        key = b""
    payload = view.get(CASES, key) if len(key) == _ID_LEN else None
    if payload is None:
        raise UnknownIncident("there is no incident of that id")
    return decode_case(payload)


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
