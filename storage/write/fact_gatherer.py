"""The facts for one decision, read inside the write transaction that would commit it."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from policy.bounded import Bounded
from policy.canonical import digest_of
from policy.facts import Approval, Facts, NonceState, TargetState, TokenState
from policy.labels.derive import read_beside, read_text
from policy.labels.effect import keeps_half, text_after
from policy.labels.forwarded_call import call_of
from policy.model import (
    Candidate,
    ChangeKind,
    MemoryId,
    MemoryStatus,
    Reading,
    SourceKind,
    meet,
)
from policy.trust.score import TrustState
from storage.tables.change import Change
from storage.tables.codec import FirstOutcome
from storage.tables.keys import KeyedNames, named_incarnation
from storage.tables.names import NONCES, TOKENS
from storage.tables.rows import expiry_ms, is_expired, memory_of, read_id, read_row, text_of
from storage.tables.usage import Usage
from storage.values import Row, Submission
from storage.write.candidate_case import CandidateCase
from storage.write.keyed_text import NOTHING_THERE, KeyedText, read_thing, state_of
from storage.write.line_decisions import PersonDecisions
from storage.write.trust_intake import TrustIntake

_FLAGS_MAX: Final = 4_096


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The store's facts about the principal and the nonce before this candidate."""

    nonce_state: NonceState
    trust: TrustState
    said: PersonDecisions
    approval: Approval | None


class _Target(msgspec.Struct, frozen=True, kw_only=True):
    """The stored memory at which a change is aimed, and the facts about it for the gate."""

    row: Row
    state: TargetState


class FactGatherer:
    """Reads the facts for the gate. Writer thread only."""

    def __init__(self, names: KeyedNames, usage: Usage, intake: TrustIntake) -> None:
        self._names = names
        self._intake = intake
        self._usage = usage
        # A cache of readings, keyed by the digest of the text; it contains no text.
        self._flags = Bounded[bytes, Reading](_FLAGS_MAX)

    def nonce_state(
        self, change: Change, case: CandidateCase
    ) -> tuple[NonceState, FirstOutcome | None]:
        """(5) The state of the nonce, and the recorded outcome if an equal request spent it."""
        if case.held is not None:
            return NonceState.OWN, None
        candidate = case.submission.candidate
        incarnation = named_incarnation(candidate.nonce)
        if incarnation is None and change.header.restores > 0:
            # A restored backup lacks the nonces that were spent after it was made, so a nonce that
            # names no incarnation may be a replay.
            return NonceState.FOREIGN_INCARNATION, None
        if incarnation is not None and incarnation != change.header.incarnation_name:
            return NonceState.FOREIGN_INCARNATION, None
        record = change.draft.read(NONCES, case.arrived.nonce_key)
        if record is None:
            return NonceState.FRESH, None
        if record.binding == case.arrived.binding:
            return NonceState.SPENT, record.outcome
        return NonceState.SPENT, None

    def facts(
        self,
        change: Change,
        case: CandidateCase,
        candidate: Candidate,
        known: Known,
    ) -> Facts:
        """All facts for the verdict on one candidate, as of this transaction."""
        submission = case.submission
        guarded_key = submission.guarded_key
        thing = NOTHING_THERE
        target: _Target | None = None
        if guarded_key is not None:
            thing = self._thing(change, candidate, guarded_key)
            target = _guarded_target(candidate, thing)
        elif candidate.memory_id is not None:
            target = self._target(change, candidate, candidate.memory_id, submission.seen_version)
        reading = submission.reading
        if target is not None:
            reading = self._with_inherited(reading, candidate, target)
        if thing.text is not None:
            reading = _with_the_rest(reading, submission, candidate, thing.text)
        provenance = submission.provenance
        origin = self._intake.origin_of(candidate, provenance)
        # The fields that an update leaves out come from the stored row, and the shadow search saw
        # them only if that row is unchanged.
        unmoved = candidate.change is not ChangeKind.UPDATE or _is_seen(submission, target)
        return Facts(
            candidate_id=submission.candidate_id,
            now_ms=change.now_ms,
            staged_digest=None if case.staged is None else digest_of(case.staged),
            intercept=case.arrived.intercept,
            provenance=provenance,
            reading=reading,
            trust=known.trust,
            origin_trust=None
            if origin is None
            else self._intake.origin_trust(change.draft, origin),
            nonce=known.nonce_state,
            token=self._valid_token(change, submission, target)
            if submission.token is TokenState.VALID
            else submission.token,
            shadow=submission.shadow if not submission.shadow or unmoved else None,
            budget=self._usage.measured(submission.budget, candidate, change),
            stored=None if target is None else target.state,
            lineage=self._lineage(change, candidate) if candidate.derived_from else None,
            approval=known.approval,
            denied=known.said.denied,
            denied_today=known.said.denied_today,
            repeats_hidden=submission.repeats_hidden,
            guarded=guarded_key is not None,
            overdue=submission.due is not None and not submission.due.begin(),
        )

    def _valid_token(
        self, change: Change, submission: Submission, target: _Target | None
    ) -> TokenState:
        """The state of a token that was valid when the candidate was intercepted."""
        # (6) A token can be used once: it is marked as used in this store, in the same transaction
        # as the commit that uses it.
        if submission.token_key is None or change.draft.has(
            TOKENS, self._names.token(submission.token_key)
        ):
            return TokenState.SPENT
        # The token is for the memory as the operator saw it, because fields that an update leaves
        # out get the token's class too.
        return submission.token if _is_seen(submission, target) else TokenState.EXPIRED

    def _target(
        self, change: Change, candidate: Candidate, memory_id: MemoryId, seen_version: int
    ) -> _Target | None:
        known = read_id(change.draft, self._names.memory(candidate.tenant, memory_id))
        if known is None or known.status is MemoryStatus.DELETED:
            # A deleted memory can still be purged, because its text is in the history until then.
            if known is None or candidate.change is not ChangeKind.PURGE:
                return None
            if read_row(change.draft, known.ordinal).erased:
                return None
        row = read_row(change.draft, known.ordinal)
        state = TargetState(
            source=row.source,
            memory_class=row.memory_class,
            status=known.status,
            version=row.version,
            # An agent that was shown the expired memory, as Mem0's are by its id, may change it.
            expired=is_expired(row, change.now_ms) and seen_version != row.version,
            remains=row.source if _stays(row, candidate) else None,
            removes=_removes(row, candidate),
            unread=row.was_unread or not row.after_reading,
        )
        return _Target(row=row, state=state)

    def _thing(self, change: Change, candidate: Candidate, key: str) -> KeyedText:
        """The memory that an upstream server has under the candidate's key, if one is known."""
        call = call_of(candidate) if candidate.change is ChangeKind.CREATE else None
        made_new = candidate.change is ChangeKind.CREATE and (call is None or call.effect is None)
        # Memories without a key all have the empty key, so a change without a key names none.
        if not key or made_new:
            return NOTHING_THERE
        return read_thing(
            change.draft,
            self._names,
            candidate.tenant,
            candidate.target,
            key,
        )

    def _with_inherited(self, reading: Reading, candidate: Candidate, target: _Target) -> Reading:
        """The reading of a memory as it would be after an update, unchanged parts included.

        Otherwise an update that names a class and no text could move a directive that was stored as
        policy to a lower class.
        """
        if candidate.change is not ChangeKind.UPDATE:
            return reading
        if target.row.keyed:
            # A call to an upstream server contains its whole text, so no part is inherited.
            return reading
        text, metadata_json, _ = text_of(target.row)
        left_text = text if candidate.text is None else None
        left_metadata = metadata_json if candidate.metadata_json is None else None
        if left_text is None and left_metadata is None:
            return reading
        left = self._left_reading(left_text, left_metadata)
        return msgspec.structs.replace(
            reading,
            directive=reading.directive or left.directive,
            injection=reading.injection or left.injection,
            at_stake=reading.at_stake or left.at_stake,
        )

    def _left_reading(self, text: str | None, metadata_json: str | None) -> Reading:
        """The reading of the parts of a memory that an update does not change, without skeleton.

        The reading is cached, because many updates in a row may leave the same text unchanged.
        """
        name = sha256(msgspec.json.encode((text, metadata_json))).digest()
        flags = self._flags.get(name)
        if flags is None:
            left = read_text(text, metadata_json)
            flags = self._flags[name] = msgspec.structs.replace(left, skeleton="")
        return flags

    def _lineage(self, change: Change, candidate: Candidate) -> SourceKind | None:
        lowest: SourceKind | None = None
        for memory_id in dict.fromkeys(candidate.derived_from):
            known = read_id(change.draft, self._names.memory(candidate.tenant, memory_id))
            # A parent that cannot be found may have been purged, so its trust is unknown.
            source = SourceKind.UNKNOWN
            if known is not None and known.status is MemoryStatus.LIVE:
                row = read_row(change.draft, known.ordinal)
                source = source if is_expired(row, change.now_ms) else row.source
            lowest = source if lowest is None else meet(lowest, source)
        return lowest


def _is_seen(submission: Submission, target: _Target | None) -> bool:
    """Whether the memory to change still has the version that the evidence is about."""
    # In guard mode the memory is on an upstream server, and its version is not known here.
    if submission.candidate.change is ChangeKind.CREATE or submission.guarded_key is not None:
        return True
    return (0 if target is None else target.row.version) == submission.seen_version


def _guarded_target(candidate: Candidate, thing: KeyedText) -> _Target | None:
    """The stored memory on which a change at an upstream server is judged; None if new."""
    state, row = state_of(thing, candidate), thing.newest
    if state is None or row is None:
        return None
    # A creation over an existing file counts as new, unless it replaces a protected memory.
    met = state.memory_class
    raised = met is not None and met.power > candidate.memory_class.power
    guarded = raised or state.source.proven or (state.removes and state.unread)
    if candidate.change is ChangeKind.CREATE and not guarded:
        return None
    return _Target(row=row, state=state)


def _stays(row: Row, candidate: Candidate) -> bool:
    """Whether some words of this row remain visible to readers after the change.

    A role or actor of one alphanumeric word only files a memory; a longer one could contain
    another principal's words.
    """
    if candidate.change is not ChangeKind.UPDATE or candidate.text is None:
        return True
    before = memory_of(row, MemoryStatus.LIVE)
    left = [
        was
        for was, brought in ((before.role, candidate.role), (before.actor, candidate.actor))
        if was is not None and not was.isalnum() and brought is None
    ]
    kept = before.metadata_json if candidate.metadata_json is None else None
    return kept is not None or bool(left)


def _removes(row: Row, candidate: Candidate) -> bool:
    """Whether a change removes this memory or most of its text, or makes it expire sooner.

    A creation under an id that the client chose replaces the memory with that id.
    """
    if candidate.change not in {ChangeKind.CREATE, ChangeKind.UPDATE}:
        return True
    if candidate.expires_at is not None and (
        row.expires_at is None or expiry_ms(candidate.expires_at) < expiry_ms(row.expires_at)
    ):
        return True
    return candidate.text is not None and not keeps_half(text_of(row)[0] or "", candidate.text)


def _with_the_rest(
    reading: Reading, submission: Submission, candidate: Candidate, before: str
) -> Reading:
    """The reading of the whole text on an upstream server after an edit of the text `before`.

    Otherwise a directive could be put together from harmless edits.
    """
    call = call_of(candidate)
    after = None if call is None else text_after(before, call.pieces, call.effect)
    if after is None or submission.text_after == after:
        # The text after the edit is unknown, or has been read already together with the edit.
        return reading
    return read_beside(reading, after)
