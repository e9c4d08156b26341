"""What is withheld from each principal, and the records that it is made of.

A record is one tag byte and MessagePack, in the log of the session ledger. It holds numbers of
words under a key, ids and reasons: no text.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from policy.model import MemoryClass  # noqa: TC001 - msgspec reads the annotations
from policy.verdict import Reason  # noqa: TC001 - the same
from policy.withheld.matching import Withheld
from policy.withheld.words import Print

if TYPE_CHECKING:
    from collections.abc import Iterator

STUCK_MAX: Final = 50_000
"""Of each kind and principal, the newest count."""
RESULT, TEXT, BLOCK = 0, 1, 2

_Value = TypeVar("_Value")


class Told(msgspec.Struct, frozen=True, array_like=True):
    """What an agent is told instead of a refused text."""

    decision: str
    reason: Reason
    memory_class: MemoryClass


class Begun(msgspec.Struct, frozen=True, array_like=True):
    """A candidate that is not decided yet; prints as pairs of numbers and `whole`."""

    principal: str
    candidate_id: str
    prints: tuple[tuple[bytes, bool], ...]


class Refused(msgspec.Struct, frozen=True, array_like=True):
    """It was refused, or nobody will ever decide it."""

    principal: str
    candidate_id: str
    told: Told


class Waits(msgspec.Struct, frozen=True, array_like=True):
    """It waits for a person: shown for now, withheld once it is denied."""

    principal: str
    candidate_id: str


class Cleared(msgspec.Struct, frozen=True, array_like=True):
    """It was admitted, or never reached the gate: nothing of it is withheld."""

    principal: str
    candidate_id: str


class Stuck(msgspec.Struct, frozen=True, array_like=True):
    """A result (by its call), a text or a signed block stays withheld, whatever is forgotten."""

    principal: str
    kind: int
    name: bytes
    told: Told
    key_of: str = ""  # the candidate whose text it was
    parts: tuple[int, ...] = ()  # which sentences of it


Record = Begun | Refused | Waits | Cleared | Stuck
TAGS: Final[dict[int, type[Record]]] = {64: Begun, 65: Refused, 66: Waits, 67: Cleared, 68: Stuck}
_TAG_OF: Final = {kind: bytes([tag]) for tag, kind in TAGS.items()}
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final = {tag: msgspec.msgpack.Decoder(kind) for tag, kind in TAGS.items()}


def encode(record: Record) -> bytes:
    """The bytes of a record."""
    return _TAG_OF[type(record)] + _ENCODER.encode(record)


def decode(data: bytes) -> Record | None:
    """A record, or None for bytes that are somebody else's.

    Raises:
        msgspec.DecodeError: It is ours and cannot be read.
    """
    decoder = _DECODERS.get(data[0]) if data else None
    return None if decoder is None else decoder.decode(data[1:])


class Entry(NamedTuple):
    """A text that was withheld once, and whose."""

    key: int | None
    told: Told
    parts: tuple[int, ...] = ()


class Kept:
    """All about one principal. Event loop only; `apply` is the only way in."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.withheld = Withheld()
        self.told: dict[int, Told] = {}
        self.pending: dict[str, Begun] = {}
        self.waiting: dict[str, Begun] = {}
        self._refused: dict[str, tuple[Begun, Told, tuple[int, ...]]] = {}
        self._of_key: dict[int, str] = {}
        self.results: OrderedDict[bytes, Told] = OrderedDict()
        self.texts: OrderedDict[bytes, Entry] = OrderedDict()
        self.blocks: OrderedDict[bytes, Told] = OrderedDict()
        # Moves with whatever is withheld in a place of its own from now on.
        self.stuck_count = 0
        # As of which generation a text holds nothing, or stands where it may be shown.
        self.clean: OrderedDict[bytes, int] = OrderedDict()
        self.stood: OrderedDict[bytes, int] = OrderedDict()

    def apply(self, record: Record) -> None:
        """Take in one record. The same one twice is once."""
        match record:
            case Begun():
                if record.candidate_id not in self._refused:
                    self.pending[record.candidate_id] = record
            case Refused():
                begun = self._taken(record.candidate_id)
                if begun is not None:
                    self._refuse(begun, record.told)
            case Waits():
                begun = self._taken(record.candidate_id)
                if begun is not None:
                    self.waiting[record.candidate_id] = begun
            case Cleared():
                self._taken(record.candidate_id)
                gone = self._refused.pop(record.candidate_id, None)
                if gone is not None:
                    self._forgive(gone[2])
            case Stuck():
                self._stick(record)

    def _taken(self, candidate_id: str) -> Begun | None:
        return self.pending.pop(candidate_id, None) or self.waiting.pop(candidate_id, None)

    def _refuse(self, begun: Begun, told: Told) -> None:
        keys: list[int] = []
        for numbers, whole in begun.prints:
            key, gone = self.withheld.refuse(Print(numbers, whole))
            self.told.setdefault(key, told)
            self._of_key.setdefault(key, begun.candidate_id)
            keys.append(key)
            for lost in gone:
                self.told.pop(lost, None)
                self._of_key.pop(lost, None)
        self._refused[begun.candidate_id] = (begun, told, tuple(keys))
        if len(self._refused) > STUCK_MAX:
            del self._refused[next(iter(self._refused))]

    def _forgive(self, keys: tuple[int, ...]) -> None:
        # What another candidate was refused for as well stays withheld.
        still = {key for _, _, others in self._refused.values() for key in others}
        gone = [key for key in keys if key not in still]
        self.withheld.forgive(gone)
        for key in gone:
            self.told.pop(key, None)
            self._of_key.pop(key, None)

    def _stick(self, record: Stuck) -> None:
        self.stuck_count += 1
        if record.kind == RESULT:
            put(self.results, record.name, record.told)
        elif record.kind == BLOCK:
            put(self.blocks, record.name, record.told)
        else:
            there = self._refused.get(record.key_of)
            key = there[2][0] if there and there[2] else None
            put(self.texts, record.name, Entry(key, record.told, record.parts))

    def candidate_of(self, key: int) -> str:
        """The candidate whose text has this key."""
        return self._of_key.get(key, "")

    def records(self) -> Iterator[Record]:
        """Records that make this state anew."""
        for begun in self.pending.values():
            yield begun
        for begun in self.waiting.values():
            yield begun
            yield Waits(self.principal, begun.candidate_id)
        for candidate_id, (begun, told, keys) in self._refused.items():
            if any(self.withheld.knows(key) for key in keys):
                yield begun
                yield Refused(self.principal, candidate_id, told)
        for kind, stuck in ((RESULT, self.results), (BLOCK, self.blocks)):
            for name, told in stuck.items():
                yield Stuck(self.principal, kind, name, told)
        for name, entry in self.texts.items():
            key_of = "" if entry.key is None else self.candidate_of(entry.key)
            yield Stuck(self.principal, TEXT, name, entry.told, key_of, entry.parts)


def put(kept: OrderedDict[bytes, _Value], name: bytes, value: _Value) -> None:
    """Keep a value under a name; the one that was not used for longest goes for it."""
    kept[name] = value
    kept.move_to_end(name)
    while len(kept) > STUCK_MAX:
        kept.popitem(last=False)
