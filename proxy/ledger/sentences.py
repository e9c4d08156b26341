"""What is known of one principal: first speakers of sentences, calls, recalled memories.

The tables are bounded. Sentences that were dropped for room, and sentences that others of the
tenant heard, are looked up in `Hearsay`, a filter that may report a new sentence as heard and never
misses one.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from policy.model import SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.model import MemoryId
    from proxy.ledger.hearsay import Hearsay

SENTENCES_MAX: Final = 120_000
"""Of one principal; about 12 MB."""
RECALLS_MAX: Final = 40_000
USER_FIRST: Final = 9
"""The mark of a sentence that a person of this principal typed before anybody else said it."""
HOST_FIRST: Final = 8
"""The same of the agent's own program: a page that repeats it does not lower it."""
FILTER_BITS: Final = 1 << 23
_FILTER_HASHES: Final = 6
_FILTER_MASK: Final = FILTER_BITS - 1

_KINDS: Final = {
    0: SourceKind.UNKNOWN,
    1: SourceKind.TOOL_RESULT,
    2: SourceKind.MODEL_INFERENCE,
    3: SourceKind.USER_INPUT,
    HOST_FIRST: SourceKind.AGENT_SELF_EDIT,
    # a sentence that the operator published does not lower the label of the user's turn it stands
    # in
    4: SourceKind.USER_INPUT,
}


def prints(data: bytes) -> array[int]:
    """Fingerprints, read from the bytes in a record."""
    return array("Q", data)


def packed(found: Iterable[int]) -> bytes:
    """Fingerprints in the form of bytes that records have."""
    return array("Q", found).tobytes()


class Filter:
    """A bit filter of earlier versions.

    It may wrongly report a fingerprint, and never misses one.
    """

    def __init__(self) -> None:
        self._bits = bytearray()

    def __contains__(self, found: int) -> bool:
        return bool(self._bits) and all(
            self._bits[at >> 3] & (1 << (at & 7)) for at in _places(found)
        )

    def restore(self, bits: bytes) -> None:
        """Take over another filter's bits."""
        if len(bits) == FILTER_BITS // 8:
            there = bytes(self._bits) or bytes(len(bits))
            both = int.from_bytes(there, "big") | int.from_bytes(bits, "big")
            self._bits = bytearray(both.to_bytes(len(bits), "big"))

    def __bool__(self) -> bool:
        return bool(self._bits)

    def __bytes__(self) -> bytes:
        return bytes(self._bits)


def _places(found: int) -> Iterable[int]:
    # Fingerprints are keyed hashes, so the two halves of one fingerprint serve as two hash
    # functions.
    step = (found >> 32) | 1
    return [(found + turn * step) & _FILTER_MASK for turn in range(_FILTER_HASHES)]


class Sentences:
    """The first speaker of each sentence that this principal's agent saw."""

    def __init__(self, principal: str, hearsay: Hearsay) -> None:
        self._principal = principal
        self._hearsay = hearsay
        self._marks: dict[int, int] = {}
        self.forgotten = Filter()
        # The tenant whose shared sentences count here too; "" while it is unknown.
        self.tenant = ""

    def __len__(self) -> int:
        return len(self._marks)

    def heard(self, found: Iterable[int], trust: int) -> None:
        """Note sentences of another speaker than the person, and how far the speaker is trusted."""
        for one in found:
            mark = self._marks.pop(one, trust)
            self._marks[one] = mark if mark >= HOST_FIRST else min(mark, trust)
        self._bound()

    def shared(self, found: Iterable[int], trust: int, at_ms: int) -> None:
        """Note sentences shared in the tenant, except those that a person said to this agent."""
        ones = [*found]
        self.heard(ones, trust)
        if self.tenant:
            hers = self._marks.get
            others = (one for one in ones if hers(one) != USER_FIRST)
            self._hearsay.share(self.tenant, self._principal, trust, others, at_ms)

    def typed(self, found: Iterable[int]) -> None:
        """Note sentences that a person said."""
        self._first(found, USER_FIRST)

    def told(self, found: Iterable[int]) -> None:
        """Note sentences that the agent's own program put into a conversation."""
        self._first(found, HOST_FIRST)

    def _first(self, found: Iterable[int], first: int) -> None:
        for one in found:
            mark = self._marks.pop(one, None)
            if mark is None:
                told = self._told(one)
                mark = first if told is None else told
            self._marks[one] = mark
        self._bound()

    def source(self, one: int) -> SourceKind | None:
        """The label of whoever said a sentence before any person did.

        None if a person said the sentence first, or nobody did.
        """
        mark = self._marks.get(one)
        if mark is not None and mark >= HOST_FIRST:
            return _KINDS.get(mark)
        known = [each for each in (mark, self._told(one)) if each is not None]
        return _KINDS.get(min(known)) if known else None

    def _told(self, one: int) -> int | None:
        """The lowest trust among a sentence's other speakers, as far as it is remembered."""
        if one in self.forgotten:
            return 0
        return self._hearsay.trust(self.tenant, self._principal, one)

    def is_own(self, one: int) -> bool:
        """Whether a person was the first to say the sentence."""
        return self._marks.get(one) == USER_FIRST

    def _bound(self) -> None:
        while len(self._marks) > SENTENCES_MAX:
            oldest = next(iter(self._marks))
            mark = self._marks.pop(oldest)
            if mark != USER_FIRST:
                # A person's own sentences are left out of the filter: they lower no label.
                self._hearsay.forget(self._principal, oldest)

    def by_mark(self) -> dict[int, bytes]:
        """All sentences by the trust of their speakers, for a snapshot."""
        found: dict[int, array[int]] = {}
        for one, mark in self._marks.items():
            found.setdefault(mark, array("Q")).append(one)
        return {mark: ones.tobytes() for mark, ones in found.items()}

    def restore(self, mark: int, found: Iterable[int]) -> None:
        """Restore the sentences of a snapshot (`by_mark`)."""
        for one in found:
            there = self._marks.get(one)
            self._marks[one] = mark if there is None else min(mark, there)
        self._bound()


class Recalls:
    """The sentences of memories that were served, each with its lowest label."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[SourceKind, MemoryId]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def served(self, found: Iterable[int], label: SourceKind, memory_id: MemoryId) -> None:
        """Note a memory that was served to the agent."""
        for one in found:
            there = self._known.pop(one, None)
            if there is not None and there[0].trust < label.trust:
                self._known[one] = there
            else:
                self._known[one] = (label, memory_id)
            if len(self._known) > RECALLS_MAX:
                # A served memory that was dropped from this table is not recognised any more: its
                # text then counts as unknown.
                self._known.popitem(last=False)

    def get(self, one: int) -> tuple[SourceKind, MemoryId] | None:
        """The label and id of the served memory with this sentence; None if no memory has it."""
        return self._known.get(one)

    def entries(self) -> dict[tuple[SourceKind, MemoryId], bytes]:
        """For each served memory (label and id) its sentences, for a snapshot."""
        found: dict[tuple[SourceKind, MemoryId], array[int]] = {}
        for one, memory in self._known.items():
            found.setdefault(memory, array("Q")).append(one)
        return {memory: ones.tobytes() for memory, ones in found.items()}
