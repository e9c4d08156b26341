"""Name cells: how many live memories of low trust mention a name, per tenant (step 10).

Single texts may each be harmless and add up: ten reports that praise one vendor. A cell counts the
admitted, live memories that mention a name and whose label is below `user_input`. It is updated in
the transactions that make such memories live and end them, so it always agrees with the store. The
name itself is stored nowhere: a cell is found by a keyed hash.

Table `cells`; a tenant's prefix is 7 bytes, a word's hash 8:

    prefix "n" word     a name, a `Cell`
    prefix "a" word     a name under alarm; empty
    prefix "w" word     a word that this tenant writes in lower case; empty
    zeros "t" tenant    the `Tally` of a tenant; of the zero tenant: since which row is counted
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from policy.model import Basis, SourceKind, Tenant
from policy.text.names import mentioned_in
from policy.trust.drift import ALARM_COUNT
from storage.tables.codec import encode
from storage.tables.expiry import expiry_ms
from storage.tables.lmdb_store import CELLS
from storage.tables.rows import text_of

if TYPE_CHECKING:
    from policy.model import Candidate
    from storage.tables.change import Change
    from storage.tables.keys import CellNames, KeyedNames
    from storage.tables.lmdb_store import Draft, View
    from storage.values import Row

CELLS_MAX: Final = 100_000
"""Names of one tenant that are counted, and as many words that it writes in lower case."""
_NEIGHBOURS: Final = 16
_REMEMBERED_MAX: Final = 65_536
_ENDS_MAX: Final = 1_024
_WORD_LEN: Final = 8
_NOTHING: Final = bytes(8)
_SINCE: Final = bytes(7) + b"t" + bytes(8)


class Cell(msgspec.Struct, frozen=True, array_like=True):
    """One name: its count, the version at which it was last counted, and what is known of it.

    `inner`: seen with a capital where none is due. `said`: a person of this tenant said it.
    `accepted`: an operator accepted it, and no text is held for it. `ends_ms`: the expiry times of
    the counted memories that have one.
    """

    count: int = 0
    version: int = 0
    inner: bool = False
    said: bool = False
    accepted: bool = False
    ends_ms: tuple[int, ...] = ()

    def live_count(self, now_ms: int) -> int:
        """The count without the memories that have expired since."""
        return max(0, self.count - sum(end_ms <= now_ms for end_ms in self.ends_ms))

    def alarmed(self, now_ms: int) -> bool:
        """Whether the name is under alarm."""
        return self.inner and not self.said and self.live_count(now_ms) >= ALARM_COUNT


class Tally(msgspec.Struct, frozen=True, array_like=True):
    """How many cells a tenant has, and the highest count of one that was evicted.

    A new cell begins with that count: a name that comes again after its cell was evicted has at
    least the count it had.
    """

    tenant: Tenant
    name_count: int = 0
    word_count: int = 0
    floor: int = 0


_CELL = msgspec.msgpack.Decoder(Cell).decode
_TALLY = msgspec.msgpack.Decoder(Tally).decode


def is_low(row: Row) -> bool:
    """Whether a row has a label below `user_input`, so that nobody accountable said its text."""
    return row.source.trust < SourceKind.USER_INPUT.trust


def _is_said(row: Row) -> bool:
    # A person's confirmation lets one text pass, and does not say each name that the text mentions.
    return not is_low(row) and row.basis is not Basis.CONFIRMATION


class Cells:
    """The name cells of one store.

    `alarmed` and `hashed` may be called by any thread, the rest by the writer thread alone.
    """

    def __init__(self, names: KeyedNames) -> None:
        self._names = names
        # By tenant and word under alarm: whether an operator accepted the name. A tenant's entry is
        # replaced as a whole.
        self._alarmed: dict[Tenant, dict[bytes, bool]] = {}
        # A cache of words in lower case that the table has, hashed as in the table, so that the
        # table is not asked for each word of each text.
        self._lower_case_known: dict[Tenant, set[bytes]] = {}

    def load(self, view: View) -> None:
        """Read which names are under alarm.

        Raises:
            StoreCorrupt: A value is damaged.
        """
        for key, payload in view.scan(CELLS, bytes(7) + b"t"):
            if not key.startswith(bytes(7) + b"t"):
                return
            if key == _SINCE:
                continue
            tenant = _TALLY(payload).tenant
            names = self._names.cells(tenant)
            found: dict[bytes, bool] = {}
            for marked, _ in view.scan(CELLS, names.alarm(_NOTHING)):
                if not marked.startswith(names.alarm(b"")):
                    break
                word = marked[-_WORD_LEN:]
                cell = _read(view, names, word)
                found[word] = cell is not None and cell.accepted
            self._alarmed[tenant] = found

    def alarmed(self, tenant: Tenant) -> dict[bytes, bool]:
        """The words under alarm as of the last commit, each with whether it was accepted."""
        return self._alarmed.get(tenant, {})

    def hashed(self, tenant: Tenant, text: str | None) -> frozenset[bytes]:
        """The words of a text, hashed.

        Words in lower case are included, because a known name is one too.
        """
        if not text:
            return frozenset()
        word_of = self._names.cells(tenant).word
        return frozenset(map(word_of, mentioned_in(text).every))

    def staged_words(self, candidate: Candidate) -> frozenset[bytes] | None:
        """The words that are staged for `raised`, so that the gate need not read the text again.

        None while the tenant has no name under alarm.
        """
        if not self.alarmed(candidate.tenant):
            return None
        return self.hashed(candidate.tenant, candidate.text)

    def raised(
        self, change: Change, candidate: Candidate, words: frozenset[bytes] | None
    ) -> tuple[str, ...]:
        """(10) The names under alarm that a candidate mentions and that nobody accepted, as hex."""
        tenant = candidate.tenant
        if candidate.text is None or not (self.alarmed(tenant) or change.alarms):
            return ()
        known = self.hashed(tenant, candidate.text) if words is None else words
        # The alarms are looked up in the text's words: a long text has thousands of words, and a
        # tenant has few names under alarm.
        under = {word for whose, word in change.alarms if whose == tenant}
        asked = known & (self.alarmed(tenant).keys() | under)
        open_ones = [word for word in asked if self._accepted(change, tenant, word) is False]
        if not open_ones:
            return ()
        names = self._names.cells(tenant)
        cells = ((word, _read(change.draft, names, word)) for word in open_ones)
        return tuple(
            sorted(word.hex() for word, cell in cells if cell and cell.alarmed(change.now_ms))
        )

    def settle(self, change: Change) -> tuple[str, ...]:
        """Count the memories that came and went in a transaction since the last call.

        Returns:
            The names that came under alarm by this, as hex.
        """
        gone = change.superseded[change.counted.superseded :]
        gone += change.vouched[change.counted.vouched :]
        came = [(one.ordinal, one.row) for one in change.added[change.counted.added :] if one.shown]
        came += change.readmitted[change.counted.readmitted :]
        change.counted.all_of(change)
        if not gone and not came:
            return ()
        since = self._since(change)
        raised: list[str] = []
        # Memories that end are counted first: an update ends one state of a memory and begins
        # another.
        for ordinal, row in gone:
            if ordinal >= since:
                self._lower(change, row)
        for ordinal, row in came:
            if ordinal >= since:
                raised += self._raise(change, row)
        return tuple(raised)

    def accept(self, change: Change, tenant: Tenant, word: str) -> str:
        """Exempt a name from holds, and from nothing else; returns its cell as hex."""
        names = self._names.cells(tenant)
        hashed = names.word(word)
        cell = _read(change.draft, names, hashed)
        if cell is None:
            cell = self._new(change, tenant, hashed)
        self._put(change, tenant, hashed, msgspec.structs.replace(cell, accepted=True))
        return hashed.hex()

    def count(self, view: View, tenant: Tenant, word: bytes) -> Cell:
        """The cell of a word; an empty cell where the word was never counted."""
        return _read(view, self._names.cells(tenant), word) or Cell()

    def adopt(self, change: Change) -> None:
        """Publish what a transaction changed, after it became durable."""
        for tenant in {tenant for tenant, _ in change.alarms}:
            standing = dict(self.alarmed(tenant))
            for (whose, word), accepted in change.alarms.items():
                if whose == tenant and accepted is not None:
                    standing[word] = accepted
                elif whose == tenant:
                    standing.pop(word, None)
            self._alarmed[tenant] = standing
        known = self._lower_case_known
        for tenant, words in change.lower_case.items():
            known.setdefault(tenant, set()).update(words)
        if change.lower_case and sum(map(len, known.values())) > _REMEMBERED_MAX:
            known.clear()

    # ---- counting ------------------------------------------------------------------------------

    def _since(self, change: Change) -> int:
        """The first ordinal that is counted: rows from before there were cells are in no count."""
        known = change.draft.get(CELLS, _SINCE)
        if known is not None:
            return int.from_bytes(known, "big")
        since = change.before.next_ordinal
        change.draft.put(CELLS, _SINCE, since.to_bytes(8, "big"))
        return since

    def _raise(self, change: Change, row: Row) -> list[str]:
        text = text_of(row)[0]
        if not text:
            return []
        tenant, names = row.tenant, self._names.cells(row.tenant)
        found = mentioned_in(text)
        low, said = is_low(row), _is_said(row)
        ends = () if row.expires_at is None else (expiry_ms(row.expires_at),)
        words = [(names.word(word), word in found.inner) for word in found.capital]
        words += [(word, False) for word in self._lower_case(change, tenant, found.lower)]
        raised: list[str] = []
        for word, inner in words:
            cell = _read(change.draft, names, word)
            if cell is None:
                cell = self._new(change, tenant, word)
            after = msgspec.structs.replace(
                cell,
                count=cell.count + low,
                version=change.version,
                inner=cell.inner or inner,
                said=cell.said or said,
                ends_ms=(*cell.ends_ms, *ends)[-_ENDS_MAX:] if low else cell.ends_ms,
            )
            if self._put(change, tenant, word, after):
                raised.append(word.hex())
        return raised

    def _lower_case(self, change: Change, tenant: Tenant, words: frozenset[str]) -> list[bytes]:
        """Record words that the tenant writes in lower case: from here on they are no names.

        Returns the words among them that are under alarm: these stay names in any spelling.
        """
        names, draft = self._names.cells(tenant), change.draft
        hashed = set(map(names.word, words))
        spelt: list[bytes] = []
        if change.alarms or self.alarmed(tenant):
            spelt = [one for one in hashed if self._accepted(change, tenant, one) is not None]
        seen = change.lower_case.setdefault(tenant, set())
        known = self._lower_case_known.setdefault(tenant, set())
        hashed.difference_update(spelt, known, seen)
        new = [word for word in hashed if not draft.has(CELLS, names.lower(word))]
        seen |= hashed
        if new:
            tally = self.tally(draft, tenant)
            full = tally.word_count + len(new) - CELLS_MAX
            for word in new:
                draft.put(CELLS, names.lower(word), b"")
            # Any of these words may be dropped for room: a word that is forgotten counts as a name
            # again.
            gone = self._beside(draft, names.lower(new[0]), names.lower(b""))[: max(0, full)]
            for key in gone:
                draft.delete(CELLS, key)
                known.discard(key[-_WORD_LEN:])
                seen.discard(key[-_WORD_LEN:])
            count = tally.word_count + len(new) - len(gone)
            self._put_tally(draft, msgspec.structs.replace(tally, word_count=count))
        return spelt

    def _lower(self, change: Change, row: Row) -> None:
        text = text_of(row)[0]
        if not text or not is_low(row):
            return
        tenant, names = row.tenant, self._names.cells(row.tenant)
        found = mentioned_in(text)
        words = [names.word(word) for word in found.capital]
        spelt = map(names.word, found.lower)
        words += [word for word in spelt if self._accepted(change, tenant, word) is not None]
        end_ms = None if row.expires_at is None else expiry_ms(row.expires_at)
        for word in words:
            cell = _read(change.draft, names, word)
            if cell is None:
                continue
            ends_ms = list(cell.ends_ms)
            if end_ms is not None:
                if end_ms not in ends_ms:
                    continue  # the memory had expired, and was subtracted then
                ends_ms.remove(end_ms)
            after = msgspec.structs.replace(
                cell, count=max(0, cell.count - 1), ends_ms=tuple(ends_ms)
            )
            self._put(change, tenant, word, after)

    # ---- the table -----------------------------------------------------------------------------

    def _accepted(self, change: Change, tenant: Tenant, word: bytes) -> bool | None:
        """Whether a name under alarm was accepted; None where the name is under no alarm."""
        if (tenant, word) in change.alarms:
            return change.alarms[tenant, word]
        return self.alarmed(tenant).get(word)

    def _new(self, change: Change, tenant: Tenant, word: bytes) -> Cell:
        """A new cell, after room was made for it."""
        draft = change.draft
        tally = self.tally(draft, tenant)
        if tally.name_count >= CELLS_MAX:
            tally = self._evict(change, tally, word)
        self._put_tally(draft, msgspec.structs.replace(tally, name_count=tally.name_count + 1))
        return Cell(count=tally.floor, version=change.version)

    def _evict(self, change: Change, tally: Tally, word: bytes) -> Tally:
        """The tally after a name was evicted: of those beside a new one the least recently counted.

        Keys are hashes, so the names beside a new one are any sixteen. Names under alarm stay
        longer, and longest stay names that a person said or accepted: else a flood of names would
        make texts with these names wait again.
        """
        tenant, draft = tally.tenant, change.draft
        names = self._names.cells(tenant)
        beside: list[tuple[bool, bool, int, bytes, Cell]] = []
        for key in self._beside(draft, names.name(word), names.name(b"")):
            found = key[-_WORD_LEN:]
            cell = _CELL(draft.get(CELLS, key) or b"")
            alarmed = self._accepted(change, tenant, found) is not None
            known = cell.said or cell.accepted
            beside.append((known, alarmed, cell.version, found, cell))
        _, alarmed, _, found, cell = min(beside, key=lambda one: one[:3])
        draft.delete(CELLS, names.name(found))
        if alarmed:
            draft.delete(CELLS, names.alarm(found))
            change.alarms[tenant, found] = None
        return msgspec.structs.replace(
            tally, name_count=tally.name_count - 1, floor=max(tally.floor, cell.count)
        )

    @staticmethod
    def _beside(view: View, key: bytes, kind: bytes) -> list[bytes]:
        """Sixteen keys of a kind from this key on, beginning anew at the end of the table."""
        found = _from(view, key, kind)
        return found if len(found) == _NEIGHBOURS else found + _from(view, kind, kind)

    def _put(self, change: Change, tenant: Tenant, word: bytes, cell: Cell) -> bool:
        """Store a cell; returns whether its name came under alarm by this."""
        names, draft = self._names.cells(tenant), change.draft
        left = tuple(end_ms for end_ms in cell.ends_ms if end_ms > change.now_ms)
        # This tenant writes the word in lower case, so it is no name.
        is_name = cell.inner and not draft.has(CELLS, names.lower(word))
        cell = msgspec.structs.replace(
            cell, count=cell.live_count(change.now_ms), ends_ms=left, inner=is_name
        )
        draft.put(CELLS, names.name(word), encode(cell))
        before = self._accepted(change, tenant, word)
        now = cell.accepted if cell.alarmed(change.now_ms) else None
        if before is now:
            return False
        change.alarms[tenant, word] = now
        if now is None:
            draft.delete(CELLS, names.alarm(word))
        else:
            draft.put(CELLS, names.alarm(word), b"")
        return before is None

    def tally(self, view: View, tenant: Tenant) -> Tally:
        """How many cells a tenant has, and the highest evicted count."""
        payload = view.get(CELLS, self._names.cells(tenant).tally)
        return Tally(tenant) if payload is None else _TALLY(payload)

    def _put_tally(self, draft: Draft, tally: Tally) -> None:
        draft.put(CELLS, self._names.cells(tally.tenant).tally, encode(tally))


def _read(view: View, names: CellNames, word: bytes) -> Cell | None:
    """The cell of a word; None where the word was never counted, or its cell was evicted."""
    payload = view.get(CELLS, names.name(word))
    return None if payload is None else _CELL(payload)


def _from(view: View, start: bytes, kind: bytes) -> list[bytes]:
    found: list[bytes] = []
    for key, _ in view.scan(CELLS, start):
        if not key.startswith(kind) or len(found) == _NEIGHBOURS:
            break
        found.append(key)
    return found
