"""What the gate may answer: `Admit(permit) | Hold(reason) | Reject(reason)`.

A refusal is a value. Ignoring one is harmless, because the only thing `storage.write.commit` takes
is a `Permit`, and only the gate can make one.
"""

from __future__ import annotations

from typing import Final, NoReturn

import msgspec

from policy.model import Basis, CandidateId, Digest, MemoryClass, SourceKind, Word


class InvariantBroken(Exception):  # noqa: N818 - names a state of the process, not a mistake
    """A promise that the code relies on does not hold; the process must stop."""


class Reason(Word):
    """Why a candidate was not admitted. Closed list; values are stable and content-free."""

    # Step 0: the gate could not decide.
    GATE_UNAVAILABLE = "gate_unavailable"
    # Step 1: this source may not write this class.
    SOURCE_CLASS_FORBIDDEN = "source_class_forbidden"
    CLASS_FLOOR = "class_floor"
    SOURCE_BELOW_STORED = "source_below_stored"
    TARGET_MISSING = "target_missing"
    PERSON_REQUIRED = "person_required"
    INSTRUCTION_PLACE = "instruction_place"
    ADDRESS_AT_STAKE = "address_at_stake"
    REMOVAL_AFTER_READING = "removal_after_reading"
    # Step 2: the text gives orders to an agent, or attacks it.
    DIRECTIVE_LANGUAGE = "directive_language"
    INJECTION_LANGUAGE = "injection_language"
    # Step 3: the principal is not trusted enough.
    TRUST_INSUFFICIENT = "trust_insufficient"
    TRUST_SOFT_SCORE = "trust_soft_score"
    TRUST_LATCHED = "trust_latched"
    # Step 4: the bytes differ from those intercepted.
    DIGEST_MISMATCH = "digest_mismatch"
    # Step 5: the nonce was used before.
    NONCE_REPLAYED = "nonce_replayed"
    NONCE_INCARNATION = "nonce_incarnation"
    # Step 6: a promotion token is needed, or does not hold.
    PROMOTION_TOKEN_MISSING = "promotion_token_missing"  # noqa: S105 - a reason
    PROMOTION_TOKEN_INVALID = "promotion_token_invalid"  # noqa: S105 - a reason
    PROMOTION_TOKEN_EXPIRED = "promotion_token_expired"  # noqa: S105 - a reason
    PROMOTION_TOKEN_SPENT = "promotion_token_spent"  # noqa: S105 - a reason
    # Step 7: the interceptor did not record this candidate.
    NOT_INTERCEPTED = "not_intercepted"
    AUDIT_MISMATCH = "audit_mismatch"
    # Step 8: the candidate would displace an anchor in a search.
    CONTRADICTS_ANCHOR = "contradicts_anchor"
    OUTRANKS_ANCHOR = "outranks_anchor"
    # Step 8: the candidate repeats a sentence of a memory that was hidden.
    REPEATS_HIDDEN = "repeats_hidden"
    # Step 9: a budget is used up.
    OVERSIZE = "oversize"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXCEEDED = "quota_exceeded"
    # A person refused a held candidate, or the candidate was dropped before its verdict.
    DENIED_BY_PERSON = "denied_by_person"
    # A person denied this principal three times on one day in this place, and the session had read
    # foreign text: no person is asked again on that day.
    DENIED_TODAY = "denied_today"
    # No person decided on a held candidate in time.
    HOLD_EXPIRED = "hold_expired"
    # Refused before the gate: a call that is never forwarded to an upstream server.
    UNKNOWN_TOOL = "unknown_tool"
    ADMIN_TOOL = "admin_tool"
    TOOLS_CHANGED = "tools_changed"
    CALL_MALFORMED = "call_malformed"
    # Refused before the gate: a character that no stored text may have.
    CHARACTER_REFUSED = "character_refused"


_SEAL: Final = object()


class Permit:
    """Single-use right to commit one candidate; made only by `policy.gate`.

    It names what was judged (candidate, digest, class, labels), under which epoch, and which steps
    passed. `spend` may be called once.
    """

    __slots__ = (
        *("_spent", "candidate_id", "digest", "epoch", "memory_class", "passed"),
        *("basis", "source"),
    )

    def __init__(
        self,
        seal: object,
        *,
        candidate_id: CandidateId,
        digest: Digest,
        epoch: int,
        memory_class: MemoryClass,
        source: SourceKind,
        basis: Basis,
        passed: frozenset[int],
    ) -> None:
        if seal is not _SEAL:
            raise InvariantBroken("a permit can only be made by the gate")
        self.candidate_id = candidate_id
        self.digest = digest
        self.epoch = epoch
        self.memory_class = memory_class
        self.source = source
        self.basis = basis
        self.passed = passed
        self._spent = False

    def __init_subclass__(cls, **_kwargs: object) -> NoReturn:
        raise InvariantBroken("Permit is final")

    def __reduce__(self) -> NoReturn:
        raise InvariantBroken("a permit does not leave the process")

    def __copy__(self) -> NoReturn:
        raise InvariantBroken("a permit is single-use and cannot be copied")

    def __deepcopy__(self, _memo: object) -> NoReturn:
        raise InvariantBroken("a permit is single-use and cannot be copied")

    def spend(self) -> None:
        """Mark the permit as used, so that it commits nothing more.

        Raises:
            InvariantBroken: The permit was spent before.
        """
        if self._spent:
            raise InvariantBroken("permit spent twice")
        self._spent = True


class Admit(msgspec.Struct, frozen=True, kw_only=True, tag="admit"):
    """The candidate may become a memory, under the class and label the permit names.

    `objection` is what an enforcing gate would have answered; only an observing gate (observe mode)
    admits in spite of it.
    """

    permit: Permit
    objection: Hold | Reject | None = None


class Hold(msgspec.Struct, frozen=True, kw_only=True, tag="hold"):
    """The candidate is not admitted yet: it waits in staging until a person decides."""

    reason: Reason
    step: int
    memory_class: MemoryClass
    passed: tuple[int, ...] = ()


class Reject(msgspec.Struct, frozen=True, kw_only=True, tag="reject"):
    """The candidate is refused.

    `structural` marks a violation that only the sender's program can cause, and no model.
    """

    reason: Reason
    step: int
    memory_class: MemoryClass
    structural: bool = False
    passed: tuple[int, ...] = ()


Verdict = Admit | Hold | Reject
