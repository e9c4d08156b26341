"""Which texts are withheld from each principal, and the log records that this state is made of.

A record is one tag byte and MessagePack, in the log of the session ledger. It holds keyed hashes of
words, ids and reasons: no text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from policy.bounded import Bounded
from policy.model import MemoryClass
from policy.verdict import Reason
from policy.withheld.refused_texts import RefusedTexts, Terms
from policy.withheld.words import WordPrint
from proxy.withhold.convictions import NOTHING

STUCK_MAX: Final = 50_000
"""The most entries of one kind that are stored for one principal; the oldest are dropped."""
RESULT, TEXT, BLOCK = 0, 1, 2
_REJECT: Final = "reject"
# Reasons for a refusal that concern the class or label in one conversation, and not the text
# itself.
_OF_ITS_PLACE: Final = frozenset(
    {
        Reason.SOURCE_CLASS_FORBIDDEN,
        Reason.CLASS_FLOOR,
        Reason.SOURCE_BELOW_STORED,
        Reason.PERSON_REQUIRED,
    }
)


class NoticeParts(msgspec.Struct, frozen=True, array_like=True):
    """The parts of the notice that an agent gets in place of a refused text."""

    decision: str
    reason: Reason
    memory_class: MemoryClass


class Ruling(NamedTuple):
    """The last verdict on a candidate, and the store's version after it."""

    told: NoticeParts
    version: int


class UndecidedRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record of a candidate that is not decided yet, with the hashes of its words."""

    principal: str
    candidate_id: str
    prints: tuple[tuple[bytes, bool], ...]
    flagged: bool
    session: str  # "" where none is known
    orders: tuple[bytes, ...]  # the words of each sentence of the text that steers its reader
    tenant: str
    user: bytes = b""  # the keyed hash of the user in the candidate's scope; b"" if it has none

    def is_of(self, tenant: str, principal: str | None, user: bytes | None) -> bool:
        """Whether a tenant's principal, or the user with this keyed hash, wrote the candidate."""
        return self.tenant == tenant and (self.principal == principal or self.user == user)


def user_print(key: bytes, tenant: str, user_id: str) -> bytes:
    """The keyed hash of a tenant's user."""
    said = f"{tenant}\0{user_id}".encode("utf-8", "surrogatepass")
    return blake2b(said, digest_size=16, key=key, person=b"user").digest()


class RefusedRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record that a candidate was refused, or will never be decided.

    `version` is the store's version at that time.
    """

    principal: str
    candidate_id: str
    told: NoticeParts
    version: int = 0


class HeldRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record that a candidate waits for a person.

    If the candidate is flagged, the model's own words are searched for its text.
    """

    principal: str
    candidate_id: str
    told: NoticeParts | None = None
    version: int = 0


class ClearedRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record that a candidate's texts are not withheld: admitted, forgiven, or never judged."""

    principal: str
    candidate_id: str


class WithheldRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record that a result (by its call), a text or a signed block stays withheld.

    The entry stays withheld even when the hashes of the refused text are dropped.
    """

    principal: str
    kind: int
    name: bytes
    told: NoticeParts
    key_of: str = ""  # the id of the candidate whose text is withheld here
    parts: tuple[int, ...] = ()  # the numbers of the withheld sentences or lines
    session: str = ""  # the only conversation in which this is withheld; "" stands for all


class FirstSpeakerRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record of sentences, with the mark of the first speaker of each."""

    principal: str
    prints: bytes
    marks: bytes


Record = UndecidedRecord | RefusedRecord | HeldRecord | ClearedRecord | WithheldRecord
TAGS: Final[dict[int, type[Record | FirstSpeakerRecord]]] = {
    64: UndecidedRecord,
    65: RefusedRecord,
    66: HeldRecord,
    67: ClearedRecord,
    68: WithheldRecord,
    69: FirstSpeakerRecord,
}
_TAG_OF: Final = {kind: bytes([tag]) for tag, kind in TAGS.items()}
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final = {tag: msgspec.msgpack.Decoder(kind) for tag, kind in TAGS.items()}


def encode(record: Record | FirstSpeakerRecord) -> bytes:
    """Encode a record of this component as bytes."""
    return _TAG_OF[type(record)] + _ENCODER.encode(record)


def decode(data: bytes) -> Record | FirstSpeakerRecord | None:
    """The record of these bytes; None for the bytes of another component's record.

    Raises:
        msgspec.DecodeError: The record is of this component and cannot be read.
    """
    decoder = _DECODERS.get(data[0]) if data else None
    return None if decoder is None else decoder.decode(data[1:])


class WithheldEntry(NamedTuple):
    """A text or a result that was withheld once, and the candidate whose text it repeats."""

    key: int | None
    told: NoticeParts
    candidate_id: str
    parts: tuple[int, ...] = ()
    session: str = ""


class _Refusal(NamedTuple):
    begun: UndecidedRecord
    told: NoticeParts
    keys: tuple[int, ...]
    version: int


class WithheldTexts:
    """The withheld texts of one principal. Event loop only.

    All changes of what was refused go through `apply`. The store has the convicted memories, so
    this class writes no records about them.
    """

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.withheld = RefusedTexts()
        self.told: dict[int, NoticeParts] = {}
        self.pending: dict[str, UndecidedRecord] = {}
        self.waiting: dict[str, UndecidedRecord] = {}
        self._held: dict[str, _Refusal] = {}
        self._refused: dict[str, _Refusal] = {}
        self._of_key: dict[int, str] = {}
        self.results = Bounded[bytes, WithheldEntry](STUCK_MAX)
        self.texts = Bounded[bytes, WithheldEntry](STUCK_MAX)
        self.blocks = Bounded[bytes, NoticeParts](STUCK_MAX)
        # How many texts, results and blocks were recorded as withheld so far.
        self.stuck_count = 0
        # The digests of texts that were withheld once and may be shown again; a digest is removed
        # when its text is shown.
        self.uncovered: dict[bytes, int] = {}
        # For each text the generation at which it was found to have nothing to withhold.
        self.clean = Bounded[bytes, int](STUCK_MAX)
        # For each text of the agent's program, the generation of its last search, and the refused
        # stretches that were found in it.
        self.stood = Bounded[bytes, tuple[int, tuple[bytes, ...]]](STUCK_MAX)
        # The tenant's convicted sentences, and the digests of texts that were sent without them.
        self.convicted = NOTHING
        self.spared = Bounded[bytes, None](STUCK_MAX)

    def apply(self, record: Record) -> None:
        """Apply one record. Applying the same record twice changes nothing."""
        match record:
            case UndecidedRecord():
                if record.candidate_id not in self._refused:
                    self.pending[record.candidate_id] = record
            case RefusedRecord():
                begun = self._taken(record.candidate_id)
                if begun is not None:
                    self._refuse(begun, record)
            case HeldRecord():
                begun = self._taken(record.candidate_id)
                if begun is not None:
                    self._wait(begun, record)
            case ClearedRecord():
                self._taken(record.candidate_id)
                gone = self._refused.pop(record.candidate_id, None)
                if gone is not None:
                    self._forgive(gone.keys)
                    self._unstick(record.candidate_id)
            case WithheldRecord():
                self._stick(record)

    def _taken(self, candidate_id: str) -> UndecidedRecord | None:
        waited = self._held.pop(candidate_id, None)
        if waited is not None:
            self._forgive(waited.keys)
            self._unstick(candidate_id)
        return self.pending.pop(candidate_id, None) or self.waiting.pop(candidate_id, None)

    def _refuse(self, begun: UndecidedRecord, record: RefusedRecord) -> None:
        keys = self._withhold(begun, record.told, _terms_of(begun, record.told), record.version)
        refusal = _Refusal(begun, record.told, keys, record.version)
        self._refused[begun.candidate_id] = refusal
        if len(self._refused) > STUCK_MAX:
            del self._refused[next(iter(self._refused))]

    def _wait(self, begun: UndecidedRecord, record: HeldRecord) -> None:
        self.waiting[begun.candidate_id] = begun
        if begun.flagged and record.told is not None:
            terms = Terms(flagged=True, held=True)
            keys = self._withhold(begun, record.told, terms, record.version)
            self._held[begun.candidate_id] = _Refusal(begun, record.told, keys, record.version)

    def withdraw(self, candidate_id: str, told: NoticeParts, prints: Sequence[WordPrint]) -> None:
        """Withhold all texts of a memory, for a request that is replayed without the memory."""
        for key in self.withheld.withdraw(prints, 0):
            self.told.setdefault(key, told)
            self._of_key.setdefault(key, candidate_id)

    def _withhold(
        self, begun: UndecidedRecord, told: NoticeParts, terms: Terms, version: int
    ) -> tuple[int, ...]:
        keys: list[int] = []
        for numbers, whole in begun.prints:
            printed = WordPrint(numbers, whole)
            key, gone = self.withheld.refuse(printed, terms, orders=begun.orders, version=version)
            self.told.setdefault(key, told)
            self._of_key.setdefault(key, begun.candidate_id)
            keys.append(key)
            for lost in gone:
                self.told.pop(lost, None)
                self._of_key.pop(lost, None)
        return tuple(keys)

    def _forgive(self, keys: tuple[int, ...]) -> None:
        # If another candidate with this text was refused too, the text stays withheld, in that
        # candidate's name.
        still = {
            key: (candidate_id, other.told)
            for others in (self._refused, self._held)
            for candidate_id, other in others.items()
            for key in other.keys
        }
        gone = [key for key in keys if key not in still]
        self.withheld.forgive(gone)
        for key in gone:
            self.told.pop(key, None)
            self._of_key.pop(key, None)
        for key in keys:
            if key in still and key in self.told:
                self._of_key[key], self.told[key] = still[key]

    def _stick(self, record: WithheldRecord) -> None:
        self.stuck_count += 1
        if record.kind == BLOCK:
            self.blocks[record.name] = record.told
            return
        there = self._refused.get(record.key_of) or self._held.get(record.key_of)
        key = there.keys[0] if there is not None and there.keys else None
        entry = WithheldEntry(key, record.told, record.key_of, record.parts, record.session)
        kept = self.results if record.kind == RESULT else self.texts
        kept[record.name] = entry

    def _unstick(self, *candidate_ids: str) -> None:
        for table in (self.results, self.texts):
            for name in [name for name, one in table.items() if one.candidate_id in candidate_ids]:
                del table[name]
                self.uncovered[name] = 1

    def refused(self) -> tuple[str, ...]:
        """The candidates whose texts are withheld because they were refused."""
        return tuple(self._refused)

    def same_text(self, candidate_id: str) -> tuple[str, ...]:
        """The refused candidates with no other texts than the given one, which is included."""
        one = self._refused.get(candidate_id)
        if one is None:
            return ()
        prints = set(one.begun.prints)
        return tuple(
            name for name, other in self._refused.items() if prints >= set(other.begun.prints)
        )

    def denied_before(self, released: UndecidedRecord, version: int) -> tuple[str, ...]:
        """The candidates denied earlier whose texts are all among those of the released one."""
        prints = set(released.prints)
        return tuple(
            name
            for name, one in self._refused.items()
            if one.told.reason is Reason.DENIED_BY_PERSON
            and one.version < version
            and one.begun.tenant == released.tenant
            and prints >= set(one.begun.prints)
        )

    def candidate_of(self, key: int) -> str:
        """The id of the candidate whose refused text has this key; "" if that is not known."""
        return self._of_key.get(key, "")

    def records(self) -> Iterator[Record]:
        """Records from which this state can be rebuilt."""
        for begun in self.pending.values():
            yield begun
        for begun in self.waiting.values():
            yield begun
            held = self._held.get(begun.candidate_id)
            told, version = (held.told, held.version) if held else (None, 0)
            yield HeldRecord(self.principal, begun.candidate_id, told, version)
        for candidate_id, one in self._refused.items():
            if any(self.withheld.knows(key) for key in one.keys):
                yield one.begun
                yield RefusedRecord(self.principal, candidate_id, one.told, one.version)
        for name, told in self.blocks.items():
            yield WithheldRecord(self.principal, BLOCK, name, told)
        for kind, stuck in ((RESULT, self.results), (TEXT, self.texts)):
            for name, entry in stuck.items():
                yield WithheldRecord(
                    self.principal,
                    kind,
                    name,
                    entry.told,
                    entry.candidate_id,
                    entry.parts,
                    entry.session,
                )


def _terms_of(begun: UndecidedRecord, told: NoticeParts) -> Terms:
    """The conditions under which a refused text is withheld.

    A text that was refused only for its class or label is withheld in one conversation alone.
    """
    if told.reason is Reason.HOLD_EXPIRED:
        # The candidate was never decided, so only the model's own words are searched for its text.
        return Terms(flagged=True, held=True)
    scoped = not begun.flagged and told.decision == _REJECT and told.reason in _OF_ITS_PLACE
    return Terms(
        session=begun.session if scoped else "",
        flagged=begun.flagged,
        denied=told.reason is Reason.DENIED_BY_PERSON,
    )
