"""The leaves of the audit log, and their bytes.

A leaf contains no content: it names the candidate by a random id and a salted commitment, so that
no one can test guesses of the content against the log once the salt is erased.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from policy.after.closure import CaseMode, CaseSignal, CaseStep
from policy.labels.derive import is_lowered
from policy.model import (
    Basis,
    Candidate,
    CandidateId,
    ChangeKind,
    ForwardStatus,
    MemoryClass,
    MemoryId,
    Origin,
    PrincipalId,
    SourceKind,
    Tenant,
)
from policy.verdict import InvariantBroken, Reason
from storage.ground.errors import StoreCorrupt
from storage.values import CONFIRM, Decision, Row

LEAF_FORMAT: Final = 1
SALT_LEN: Final = 16
_DIGEST_LEN: Final = 32
NO_STEP_BEFORE: Final = 0
"""The previous index of a memory's first version; leaf 0 is about the store itself."""
LEAF_LEN_MAX: Final = 4_096

_Index = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Short = Annotated[str, Meta(max_length=256)]


class Culprit(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The segment from which a candidate's text came, in names that contain no content."""

    kind: SourceKind
    server: _Short
    tool: _Short
    call_id: _Short


class InterceptedLeaf(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True, tag=1
):
    """A candidate was intercepted and is not judged yet. Times are Unix milliseconds."""

    candidate_id: CandidateId
    at_ms: _Index
    principal_id: PrincipalId
    tenant: Tenant
    target: _Short
    change: ChangeKind
    commitment: Annotated[bytes, Meta(min_length=32, max_length=32)]
    nonce_key: Annotated[bytes, Meta(max_length=32)]
    claimed_source: SourceKind | None
    claimed_class: MemoryClass | None
    class_named: bool
    ruleset_digest: Annotated[str, Meta(max_length=64)]  # the first 16 hex digits of the digest
    trace_id: Annotated[str, Meta(max_length=64)]


class VerdictLeaf(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True, tag=2
):
    """The verdict on a candidate, and its label; `version` is the store's version after it."""

    candidate_id: CandidateId
    at_ms: _Index
    intercepted_index: _Index
    decision: Decision
    reason: Reason | None
    step: _Index | None
    memory_class: MemoryClass
    source: SourceKind
    basis: Basis
    version: _Index
    memory_id: MemoryId | None
    approved_by: PrincipalId | None
    ruleset_epoch: _Index
    structural: bool
    trust_level: Annotated[str, Meta(max_length=16)]
    # Kind, server, tool and call of the segment that contains the text; None if no segment has a
    # name.
    culprit: Culprit | None = None
    # The sidecar's id of the session of the candidate (32 hex digits); None if no session is
    # known.
    session: Annotated[str, Meta(max_length=64)] | None = None
    # For an admission: the index of the leaf that admitted the memory's previous version, or
    # NO_STEP_BEFORE.
    previous_index: _Index | None = None

    @property
    def objection(self) -> str | None:
        """The verdict of an enforcing gate, `hold` or `reject`; None if it would have admitted."""
        return _OBJECTIONS.get(self.approved_by) if self.approved_by else None


# The approver of an admission over an objection: observe mode, and not a person. No principal can
# have this name, because a principal's name has no colon, except for the prefix `uid:`.
OBSERVED_HOLD: Final = PrincipalId("observe:hold")
OBSERVED_REJECT: Final = PrincipalId("observe:reject")


class OperatorLeaf(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True, tag=3
):
    """An act of an operator or of the store itself, such as a new key, a new anchor or a purge."""

    at_ms: _Index
    action: Annotated[str, Meta(min_length=1, max_length=64)]
    subject: _Short
    by: PrincipalId
    detail: _Short = ""  # short text about the act, written by the program; never content


class ResultLeaf(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True, tag=4
):
    """The outcome of an admitted change at the upstream server.

    Until such a leaf records `done` or `failed`, the admission counts as an intent.
    """

    candidate_id: CandidateId
    at_ms: _Index
    verdict_index: _Index
    result: ForwardStatus
    by: PrincipalId


class IncidentLeaf(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True, tag=5
):
    """One step in the case of a wrong answer (`storage.features.cases`).

    The counts are the sums of the case so far.
    """

    case_id: Annotated[str, Meta(min_length=1, max_length=32)]
    at_ms: _Index
    step: CaseStep
    signal: CaseSignal
    mode: CaseMode | None
    suspects: _Index
    asks: _Index
    culprits: _Index
    by: PrincipalId
    # The fixed word for why a person is needed (`storage.features.cases.Case.why`).
    why: Annotated[str, Meta(min_length=1, max_length=32)] | None = None


class LastVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The last verdict on one candidate, with the leaf of its interception."""

    verdict: VerdictLeaf
    intercepted: InterceptedLeaf


def class_lowered(intercepted: InterceptedLeaf, verdict: VerdictLeaf) -> bool:
    """Whether, by its leaves, a candidate got a lower class than the one its client named."""
    named = intercepted.claimed_class if intercepted.class_named else None
    return is_lowered(intercepted.change, named, verdict.memory_class)


def wrongly_lowered(intercepted: InterceptedLeaf, verdict: VerdictLeaf) -> bool:
    """Whether a candidate got a lower class than its client named, although no gate may do that.

    Only an unproven text may be lowered, to knowledge; one that is named as policy is refused.
    """
    if verdict.decision is not Decision.ADMIT or not class_lowered(intercepted, verdict):
        return False
    unproven = verdict.source.trust == 0 and verdict.basis is not Basis.VOUCHED
    to_knowledge = verdict.memory_class is MemoryClass.L3
    return not (unproven and to_knowledge) or intercepted.claimed_class is MemoryClass.L1


_OBJECTIONS: Final = {OBSERVED_HOLD: "hold", OBSERVED_REJECT: "reject"}

Leaf = InterceptedLeaf | VerdictLeaf | OperatorLeaf | ResultLeaf | IncidentLeaf

_DECODER: Final = msgspec.msgpack.Decoder(list[Any])
_ENCODER: Final = msgspec.msgpack.Encoder()

# Ids are hex text in memory and raw bytes on disk, in half the size, because most of a leaf is
# ids. The numbers are positions in a leaf, keyed by the tag, which is itself at position 0.
_HEX_AT: Final[dict[int, tuple[int, ...]]] = {1: (1, 12, 13), 2: (1, 17), 3: (), 4: (1,), 5: (1,)}
_RAW: Final = (bytes,)
_NO_LETTER: Final = re.compile(r"[\W_]+")
_RUN_LEN: Final = 8
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/@-]{0,64}")
_FORMAT_BYTE: Final = bytes((LEAF_FORMAT,))
_UUID_AT: Final[dict[int, tuple[int, ...]]] = {1: (), 2: (11,), 3: (), 4: (), 5: ()}
# The position of the first optional field of a leaf, keyed by tag: trailing fields that are None
# are not written. A leaf without optional fields ends before that position.
_APPENDED: Final[dict[int, int]] = {1: 14, 2: 16, 3: 6, 4: 6, 5: 10}


def culprit_of(origins: tuple[Origin, ...], candidate: Candidate) -> Culprit | None:
    """The first segment that has a name, with only the names that are safe to log.

    None if the candidate's own channel is the only origin. A name that shares eight letters in a
    row with the candidate is left out. Otherwise a caller could log a refused text by naming a tool
    or a call after it.
    """
    for named in origins:
        if named.server or named.tool:
            break
    else:
        return None
    said = _said(candidate.text, candidate.metadata_json)
    return Culprit(
        kind=named.kind,
        server=_plain(named.server or "", said),
        tool=_plain(named.tool or "", said),
        call_id=_plain(named.call_id or "", said),
    )


def plain_name(name: str, *texts: str | None) -> str:
    """The name in the form that a leaf may have; "other" if it could spell a part of the texts."""
    return _plain(name, _said(*texts))


def _said(*texts: str | None) -> str:
    return _letters(" ".join(filter(None, texts)))


def _plain(name: str, said: str) -> str:
    letters = _letters(name)
    runs = [letters[at : at + _RUN_LEN] for at in range(len(letters) - _RUN_LEN + 1)]
    if _PLAIN.fullmatch(name) is None or any(map(said.__contains__, runs)):
        return "other"
    return name


def _letters(text: str) -> str:
    return _NO_LETTER.sub("", text.casefold())


def commitment(salt: bytes, digest: bytes) -> bytes:
    """SHA-256(salt || digest): a value by which a leaf names content without revealing it.

    Raises:
        InvariantBroken: The salt or the digest has another length, so that bytes could move from
            one to the other.
    """
    if len(salt) != SALT_LEN or len(digest) != _DIGEST_LEN:
        raise InvariantBroken("a commitment takes a 16-byte salt and a SHA-256 digest")
    return hashlib.sha256(salt + digest).digest()


def veiled_target(target: str, salt: bytes) -> str:
    """A salted hash that replaces a client's target, which must not be readable in the log.

    A target is the client's own text, so that a refused candidate could contain content in it.
    """
    return "salted:" + hashlib.sha256(salt + target.encode()).hexdigest()[:16]


def encode_leaf(leaf: Leaf) -> bytes:
    """The bytes of a leaf as it is stored, and hashed into the tree; each leaf has one form.

    Raises:
        InvariantBroken: The leaf is longer than any leaf may be.
    """
    fields: list[Any] = msgspec.to_builtins(leaf, builtin_types=_RAW)
    tag = fields[0]
    for at in _HEX_AT[tag]:
        if (text := fields[at]) is not None:
            try:
                raw = bytes.fromhex(text)
            except ValueError:
                continue
            # Another spelling of the same bytes stays a text, so that it is read as it was.
            fields[at] = raw if raw and raw.hex() == text else text
    # The last field that is not optional is never None.
    while fields[-1] is None:
        del fields[-1]
    for at in _UUID_AT[tag]:
        if fields[at] is not None:
            fields[at] = _packed_uuid(fields[at])
    data = _FORMAT_BYTE + _ENCODER.encode(fields)
    if len(data) > LEAF_LEN_MAX:
        raise InvariantBroken("an audit leaf is bounded; content has no place in it")
    return data


Field = str | int | float | bool | None


def fields_of(leaf: msgspec.Struct, within: str = "") -> dict[str, Field]:
    """The fields of a leaf by name, for people and for JSON: bytes as hex, enums by their value.

    The names of fields of a nested struct have its name before them, as `culprit.server`.
    """
    named: dict[str, Field] = {}
    for name in leaf.__struct_fields__:
        value: object = getattr(leaf, name)
        plain: object = value.value if isinstance(value, enum.Enum) else value
        if isinstance(plain, msgspec.Struct):
            named |= fields_of(plain, f"{within}{name}.")
        elif isinstance(plain, str | int | float | bool | None):
            named[within + name] = plain
        else:
            named[within + name] = plain.hex() if isinstance(plain, bytes) else str(plain)
    return named


def decode_leaf(data: bytes, *, authentic: bool = False) -> Leaf:
    """Decode the bytes of a leaf; only the one form that `encode_leaf` writes is accepted.

    The form of `authentic` bytes, of which a keyed digest was compared, is not compared again.

    Raises:
        StoreCorrupt: The bytes are no leaf, or another form of one.
    """
    if not data or data[0] != LEAF_FORMAT or len(data) > LEAF_LEN_MAX:
        raise StoreCorrupt("audit leaf of an unknown format")
    try:
        fields = _DECODER.decode(memoryview(data)[1:])
        tag: Any = fields[0] if fields else None
        for at in _HEX_AT.get(tag, ()):
            if at < len(fields) or at < _APPENDED[tag]:
                fields[at] = packed.hex() if isinstance(packed := fields[at], bytes) else packed
        for at in _UUID_AT.get(tag, ()):
            if isinstance(packed := fields[at], bytes):
                fields[at] = _unpacked_uuid(packed)
        leaf: Leaf = msgspec.convert(fields, Leaf, builtin_types=(bytes,))
    except (msgspec.MsgspecError, UnicodeError, IndexError, TypeError) as error:
        raise StoreCorrupt("audit leaf does not decode") from error
    if not authentic and encode_leaf(leaf) != data:
        raise StoreCorrupt("audit leaf is not in its one spelling")
    return leaf


class Results:
    """The results of changes that were sent to upstream servers, collected leaf by leaf."""

    def __init__(self, problem: Callable[[str], None]) -> None:
        self._problem = problem
        # Keyed by the index of the admitting leaf: the final result of each change, and the changes
        # whose answer was lost.
        self.ended: dict[int, ForwardStatus] = {}
        self.lost: set[int] = set()

    def take(self, index: int, leaf: ResultLeaf, verdict: VerdictLeaf | None) -> None:
        """Add one result leaf, together with the admission that it names."""
        if verdict is None or verdict.decision is not Decision.ADMIT:
            self._problem(f"result leaf {index} names no admission")
        elif verdict.candidate_id != leaf.candidate_id:
            self._problem(f"result leaf {index} is of another candidate than its verdict")
        elif leaf.verdict_index in self.ended:
            self._problem(f"result leaf {index} ends what had ended")
        elif leaf.result is not ForwardStatus.UNKNOWN:
            self.ended[leaf.verdict_index] = leaf.result
        elif leaf.verdict_index in self.lost:
            self._problem(f"result leaf {index} repeats that an answer was lost")
        else:
            self.lost.add(leaf.verdict_index)


class Labels:
    """The label that the log gives to each admission: its verdict's, or that of a vouching."""

    def __init__(self) -> None:
        self._vouched: set[str] = set()

    def take(self, leaf: Leaf | None) -> None:
        """Add one leaf of the log; None for an unreadable one."""
        if isinstance(leaf, OperatorLeaf) and leaf.action == CONFIRM:
            self._vouched.add(leaf.subject)

    def fit(self, leaf: VerdictLeaf, row: Row) -> bool:
        """Whether a row's label agrees with the log. Call `fit` after the last `take`."""
        label = (leaf.source, leaf.basis)
        if confirmed_subject(leaf.candidate_id) in self._vouched:
            label = (SourceKind.USER_INPUT, Basis.CONFIRMATION)
        said = (leaf.candidate_id, leaf.memory_class, leaf.version, *label)
        has = (row.candidate_id, row.memory_class, row.version)
        return said == (*has, row.source, row.basis)


def confirmed_subject(candidate_id: CandidateId) -> str:
    """The subject of a vouching leaf: one row of a memory; later versions are not vouched for."""
    return f"candidate {candidate_id}"


def _packed_uuid(text: str) -> bytes | str:
    try:
        raw = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        return text
    return raw if _unpacked_uuid(raw) == text else text


def _unpacked_uuid(raw: bytes) -> str:
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
