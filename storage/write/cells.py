"""Name cells: how many live memories of low trust mention a name, per tenant (step 10).

Single texts may each be harmless and add up: ten reports that praise one vendor. A cell counts the
admitted, live memories that mention a name and whose label is below `user_input`. It is updated in
the transactions that make such memories live and end them, so it always agrees with the store. The
name itself is stored nowhere: a cell is found by a keyed hash.

Only persons exempt a name: a word that a person of the tenant said, in a memory or in a turn that
the session ledger saw, is under no alarm. How a memory of low trust spells a word exempts nothing,
because its author may be the one who praises.

A flood of made-up names has bounded room and a bounded time. All texts with more than `NAMES_MAX`
names (`policy.text.names`) count in one cell, so that no name can hide among them: at the third one
such texts are under alarm. Where all room is taken, one cell of any sixteen goes, and new names
begin with its count, so that nothing counted in the last `FLOOR_MS` is counted too low. Older
counts weigh on no new name.

Table `cells`; a tenant's prefix is 7 bytes, a word's hash 8:

    prefix "n" word     a name, a `Cell`
    prefix "a" word     a name under alarm: the first ordinal whose row counts in any spelling
    prefix "s" word     a word that a person of this tenant said; empty
    zeros "t" tenant    the `Tally` of a tenant; of the zero tenant: since which row is counted
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

import msgspec

from policy.model import Basis, SourceKind, Tenant
from policy.text.names import CROWD, mentioned_in
from policy.trust.drift import ALARM_COUNT
from storage.tables.codec import encode
from storage.tables.expiry import expiry_ms
from storage.tables.lmdb_store import CELLS
from storage.tables.rows import text_of
from storage.values import Mentions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.model import Candidate
    from storage.tables.change import Change
    from storage.tables.keys import CellNames, KeyedNames
    from storage.tables.lmdb_store import Draft, View
    from storage.values import Row, Submission

CELLS_MAX: Final = 100_000
"""How many names of one tenant are counted; as many words that its persons said are kept."""
FLOOR_MS: Final = 7 * 86_400_000
"""For how long an evicted name's count raises the count that new names begin with."""
_NEIGHBOURS: Final = 16
_REMEMBERED_MAX: Final = 65_536
_ENDS_MAX: Final = 1_024
_WORD_LEN: Final = 8
_NOTHING: Final = bytes(8)
_SINCE: Final = bytes(7) + b"t" + bytes(8)


class Cell(msgspec.Struct, frozen=True, array_like=True):
    """One name: its count, when it was last counted, and what is known of it.

    `inner`: a text has it with a capital inside a sentence. `said`: a person of this tenant said
    it. `accepted`: an operator accepted it, so no text is held for it. `ends_ms` are the expiry
    times of the counted memories that have one.
    """

    count: int = 0
    at_ms: int = 0
    inner: bool = False
    said: bool = False
    accepted: bool = False
    ends_ms: tuple[int, ...] = ()

    def live_count(self, now_ms: int) -> int:
        """The cell's count without the memories that have expired since."""
        return max(0, self.count - sum(end_ms <= now_ms for end_ms in self.ends_ms))

    def alarmed(self, now_ms: int) -> bool:
        """Whether the name is under alarm."""
        return self.inner and not self.said and self.live_count(now_ms) >= ALARM_COUNT


class Tally(msgspec.Struct, frozen=True, array_like=True):
    """How many name cells a tenant has, and the highest count of an evicted one.

    A new cell begins with that count, so that a name which comes again after its cell was evicted
    has at least the count it had. `FLOOR_MS` later it begins at nothing again: a flood must not
    weigh on honest names for good.
    """

    tenant: Tenant
    name_count: int = 0
    word_count: int = 0
    floor: int = 0
    floor_at_ms: int = 0

    def floor_now(self, now_ms: int) -> int:
        """The count that a new name begins with."""
        return self.floor if now_ms < self.floor_at_ms + FLOOR_MS else 0


_CELL = msgspec.msgpack.Decoder(Cell).decode
_TALLY = msgspec.msgpack.Decoder(Tally).decode


def is_low(row: Row) -> bool:
    """Whether a row has a label below `user_input`, so that nobody accountable said its text."""
    return row.source.trust < SourceKind.USER_INPUT.trust


def _is_said(row: Row) -> bool:
    # A person's confirmation lets one text pass. It does not mean that the person said each name in
    # that text.
    return not is_low(row) and row.basis is not Basis.CONFIRMATION


class Cells:
    """The name cells of one store.

    `alarmed`, `hashed`, `mentions` and `heard` may be called by any thread, the rest by the writer
    thread alone.
    """

    def __init__(self, names: KeyedNames) -> None:
        self._names = names
        # By tenant and word under alarm: whether an operator accepted the name. A tenant's entry is
        # replaced as a whole.
        self._alarmed: dict[Tenant, dict[bytes, bool]] = {}
        # A cache of words that persons said and that the table has, hashed as in the table, so that
        # the table is not asked for each word of each text.
        self._said_known: dict[Tenant, set[bytes]] = {}
        # Words of persons' turns that are not stored in the table yet, and the lock that guards
        # them.
        self._heard: dict[Tenant, set[bytes]] = {}
        self._hearing = Lock()

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
        """The words of a text as keyed hashes.

        Words in lower case are included, because a known name in lower case counts too.
        """
        if not text:
            return frozenset()
        word_of = self._names.cells(tenant).word
        return frozenset(map(word_of, mentioned_in(text).every))

    def mentions(self, submission: Submission) -> Mentions | None:
        """The words that a candidate's text mentions, so that no transaction need read the text.

        None for a candidate without a text.
        """
        candidate = submission.candidate
        if not candidate.text:
            return None
        every = bool(self.alarmed(candidate.tenant))
        return self._mentions(candidate.tenant, candidate.text, every=every)

    def _mentions(self, tenant: Tenant, text: str, *, every: bool) -> Mentions:
        word_of = self._names.cells(tenant).word
        found = mentioned_in(text, with_lower=every)
        return Mentions(
            frozenset(map(word_of, found.inner)),
            frozenset(map(word_of, found.first)),
            frozenset(map(word_of, found.lower)) if every else None,
        )

    def heard(self, tenant: Tenant, texts: Iterable[str]) -> None:
        """Note the words that persons of a tenant said in a conversation.

        The next transaction stores them.

        They count from the next verdict on.
        """
        words = frozenset[bytes]().union(*(self.hashed(tenant, text) for text in texts))
        with self._hearing:
            new = words.difference(self._said_known.get(tenant, ()))
            waiting = self._heard.setdefault(tenant, set()) if new else set[bytes]()
            # Words beyond the bound are not exempt from alarms, which is safe.
            if len(waiting) + len(new) <= _REMEMBERED_MAX:
                waiting |= new

    @property
    def has_heard(self) -> bool:
        """Whether there are words of persons to be stored."""
        return bool(self._heard)

    def raised(
        self, change: Change, candidate: Candidate, words: Mentions | None
    ) -> tuple[str, ...]:
        """(10) The names under alarm that a candidate mentions and nobody accepted, as hex keys."""
        self._take_heard(change)
        tenant = candidate.tenant
        standing = self.alarmed(tenant)
        if candidate.text is None or not (standing or change.alarms):
            return ()
        if words is None or words.lower is None:
            words = self._mentions(tenant, candidate.text, every=True)
        asked = words.among(standing.keys())
        if change.alarms:
            asked |= words.among({word for whose, word in change.alarms if whose == tenant})
        if not asked:
            return ()
        open_ones = [word for word in asked if self._accepted(change, tenant, word) is False]
        return self._still_alarmed(change.draft, tenant, open_ones, change.now_ms)

    def raised_by(self, view: View, tenant: Tenant, text: str, now_ms: int) -> tuple[str, ...]:
        """The names under alarm in a text that is not to be stored, as of the last commit.

        Any thread.
        """
        standing = self.alarmed(tenant)
        if not standing:
            return ()
        asked = self.hashed(tenant, text) & standing.keys()
        open_ones = [word for word in asked if not standing[word]]
        return self._still_alarmed(view, tenant, open_ones, now_ms)

    def _still_alarmed(
        self, view: View, tenant: Tenant, words: Iterable[bytes], now_ms: int
    ) -> tuple[str, ...]:
        """The words whose names are still under alarm: some of the memories may have expired."""
        names = self._names.cells(tenant)
        cells = ((word, _read(view, names, word)) for word in words)
        return tuple(sorted(word.hex() for word, cell in cells if cell and cell.alarmed(now_ms)))

    def settle(
        self, change: Change, candidate: Candidate | None = None, words: Mentions | None = None
    ) -> tuple[str, ...]:
        """Count the memories that came and went in a transaction since the last call.

        `words` are those of the candidate's text, if it was read before.

        Returns:
            The names that came under alarm by this, as hex.
        """
        self._take_heard(change)
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
                self._lower(change, ordinal, row)
        for ordinal, row in came:
            text = text_of(row)[0] if ordinal >= since else None
            if text:
                read_before = candidate is not None and text == candidate.text
                raised += self._raise(change, row, text, words if read_before else None)
        return tuple(raised)

    def accept(
        self, change: Change, tenant: Tenant, word: str, *, accepted: bool = True
    ) -> str | None:
        """Exempt a name from holds, and from nothing else, or take that back.

        Returns the key of the name's cell as hex; None where nothing had to be changed.
        """
        names = self._names.cells(tenant)
        hashed = names.word(word)
        cell = _read(change.draft, names, hashed)
        if cell is None or cell.accepted is accepted:
            return None
        self._put(change, tenant, hashed, msgspec.structs.replace(cell, accepted=accepted))
        return hashed.hex()

    def count(self, view: View, tenant: Tenant, word: bytes) -> Cell:
        """The cell of a word; an empty cell where the word was never counted."""
        return _read(view, self._names.cells(tenant), word) or Cell()

    def adopt(self, change: Change) -> None:
        """Publish the changes of a transaction after it became durable."""
        for tenant in {tenant for tenant, _ in change.alarms}:
            standing = dict(self.alarmed(tenant))
            for (whose, word), accepted in change.alarms.items():
                if whose == tenant and accepted is not None:
                    standing[word] = accepted
                elif whose == tenant:
                    standing.pop(word, None)
            self._alarmed[tenant] = standing
        if not change.said:
            return
        with self._hearing:
            known = self._said_known
            for tenant, words in change.said.items():
                known.setdefault(tenant, set()).update(words)
            for tenant, taken in change.heard.items():
                waiting = self._heard.pop(tenant, set()) - taken
                if waiting:
                    self._heard[tenant] = waiting
            if sum(map(len, known.values())) > _REMEMBERED_MAX:
                known.clear()

    # ---- counting memories that mention a name ---------------------------------------------------

    def _since(self, change: Change) -> int:
        """The first ordinal that is counted; rows older than the cells are in no count."""
        known = change.draft.get(CELLS, _SINCE)
        if known is not None:
            return int.from_bytes(known, "big")
        since = change.before.next_ordinal
        change.draft.put(CELLS, _SINCE, since.to_bytes(8, "big"))
        return since

    def _raise(self, change: Change, row: Row, text: str, words: Mentions | None) -> list[str]:
        tenant = row.tenant
        if _is_said(row):
            self._say(change, tenant, self.hashed(tenant, text))
        if not is_low(row):
            return []
        standing = bool(change.alarms or self.alarmed(tenant))
        if words is None or (standing and words.lower is None):
            words = self._mentions(tenant, text, every=standing)
        names = self._names.cells(tenant)
        ends = () if row.expires_at is None else (expiry_ms(row.expires_at),)
        counted = {word: _read(change.draft, names, word) for word in words.inner | words.first}
        # If a name is under alarm, its word counts as the name in any spelling.
        for word in words.lower or ():
            if self._accepted(change, tenant, word) is not None:
                counted[word] = _read(change.draft, names, word)
        raised: list[str] = []
        for word, known in counted.items():
            cell = self._new(change, tenant, word) if known is None else known
            after = msgspec.structs.replace(
                cell,
                count=cell.count + 1,
                at_ms=change.now_ms,
                inner=cell.inner or word in words.inner,
                ends_ms=(*cell.ends_ms, *ends)[-_ENDS_MAX:],
            )
            if self._put(change, tenant, word, after):
                raised.append(word.hex())
        return raised

    def _take_heard(self, change: Change) -> None:
        """Store the words that persons said since the last transaction."""
        if not self._heard:
            return
        with self._hearing:
            change.heard = {tenant: frozenset(words) for tenant, words in self._heard.items()}
        for tenant, words in change.heard.items():
            self._say(change, tenant, words)

    def _say(self, change: Change, tenant: Tenant, words: frozenset[bytes]) -> None:
        """Store words that a person said.

        From then on no name among them is under alarm.
        """
        names, draft = self._names.cells(tenant), change.draft
        # A person's text with too many names exempts no text of others that has too many names.
        words -= {names.word(CROWD)}
        seen = change.said.setdefault(tenant, set())
        known = self._said_known.get(tenant, set())
        unknown = words - seen - known
        new = [word for word in unknown if not draft.has(CELLS, names.said(word))]
        # A text of more words than there is room for says as many as there is room for.
        unknown = unknown.difference(new[CELLS_MAX:])
        del new[CELLS_MAX:]
        seen |= unknown
        if not new:
            return
        tally = self.tally(draft, tenant)
        full = tally.word_count + len(new) - CELLS_MAX
        for word in new:
            draft.put(CELLS, names.said(word), b"")
        # Any of these words may be dropped for lack of room. A name whose word was dropped may
        # raise an alarm again.
        came = {names.said(word) for word in new}
        # The words that were said just now are kept, because the next texts are likely to mention
        # them.
        gone = _others(draft, names.said(new[0]), names.said(b""), came, max(0, full))
        for key in gone:
            draft.delete(CELLS, key)
            known.discard(key[-_WORD_LEN:])
            seen.discard(key[-_WORD_LEN:])
        count = tally.word_count + len(new) - len(gone)
        self._put_tally(draft, msgspec.structs.replace(tally, word_count=count))
        for word in new:
            cell = _read(draft, names, word)
            if cell is not None and not cell.said:
                self._put(change, tenant, word, msgspec.structs.replace(cell, said=True))

    def _lower(self, change: Change, ordinal: int, row: Row) -> None:
        text = text_of(row)[0]
        if not text or not is_low(row):
            return
        tenant, names = row.tenant, self._names.cells(row.tenant)
        found = self._mentions(tenant, text, every=bool(change.alarms or self.alarmed(tenant)))
        words = [*found.inner, *found.first]
        spelt = found.lower or ()
        standing = [word for word in spelt if self._accepted(change, tenant, word) is not None]
        # A row from before the alarm was counted only for words that it writes with a capital, as
        # names.
        began = ((word, change.draft.get(CELLS, names.alarm(word)) or b"") for word in standing)
        words += [word for word, since in began if int.from_bytes(since, "big") <= ordinal]
        end_ms = None if row.expires_at is None else expiry_ms(row.expires_at)
        for word in words:
            cell = _read(change.draft, names, word)
            if cell is None:
                continue
            ends_ms = list(cell.ends_ms)
            if end_ms is not None:
                if end_ms not in ends_ms:
                    # The memory had expired, so it was subtracted from the count at that time.
                    continue
                ends_ms.remove(end_ms)
            after = msgspec.structs.replace(
                cell, count=max(0, cell.count - 1), ends_ms=tuple(ends_ms)
            )
            self._put(change, tenant, word, after)

    # ---- reading and writing the table of cells --------------------------------------------------

    def _accepted(self, change: Change, tenant: Tenant, word: bytes) -> bool | None:
        """Whether a name under alarm was accepted; None where the name is under no alarm."""
        if (tenant, word) in change.alarms:
            return change.alarms[tenant, word]
        return self.alarmed(tenant).get(word)

    def _new(self, change: Change, tenant: Tenant, word: bytes) -> Cell:
        """A new cell, for which room has been made."""
        draft, names = change.draft, self._names.cells(tenant)
        tally = self.tally(draft, tenant)
        if tally.name_count >= CELLS_MAX:
            tally = self._evict(change, tally, word)
        self._put_tally(draft, msgspec.structs.replace(tally, name_count=tally.name_count + 1))
        return Cell(
            count=tally.floor_now(change.now_ms),
            at_ms=change.now_ms,
            said=draft.has(CELLS, names.said(word)),
        )

    def _evict(self, change: Change, tally: Tally, word: bytes) -> Tally:
        """Drop one name to make room for `word`; returns the tally without the dropped name.

        Dropped is one of the sixteen names beside `word` in the table, which are any sixteen, as
        keys are hashes: an old one, else the least counted. Names under alarm stay longer, and
        longest stay names that a person said or accepted: else a flood of names would make texts
        with these names wait again.
        """
        tenant, draft, now_ms = tally.tenant, change.draft, change.now_ms
        names = self._names.cells(tenant)
        beside: list[tuple[bool, bool, bool, int, int, bytes]] = []
        for key in self._beside(draft, names.name(word), names.name(b"")):
            found = key[-_WORD_LEN:]
            cell = _CELL(draft.get(CELLS, key) or b"")
            alarmed = self._accepted(change, tenant, found) is not None
            known = cell.said or cell.accepted
            recent = now_ms < cell.at_ms + FLOOR_MS
            count = cell.live_count(now_ms)
            beside.append((known, alarmed, recent, count, cell.at_ms, found))
        _, alarmed, recent, count, _, found = min(beside)
        draft.delete(CELLS, names.name(found))
        if alarmed:
            draft.delete(CELLS, names.alarm(found))
            change.alarms[tenant, found] = None
        tally = msgspec.structs.replace(tally, name_count=tally.name_count - 1)
        if not recent or count < tally.floor_now(now_ms):
            return tally
        return msgspec.structs.replace(tally, floor=count, floor_at_ms=now_ms)

    @staticmethod
    def _beside(view: View, key: bytes, kind: bytes) -> list[bytes]:
        """Sixteen keys of a kind from this key on.

        Behind the table's last key its first one follows.
        """
        found = _from(view, key, kind)
        return found if len(found) == _NEIGHBOURS else found + _from(view, kind, kind)

    def _put(self, change: Change, tenant: Tenant, word: bytes, cell: Cell) -> bool:
        """Store a cell; returns whether its name thereby came under alarm."""
        names, draft = self._names.cells(tenant), change.draft
        left = tuple(end_ms for end_ms in cell.ends_ms if end_ms > change.now_ms)
        cell = msgspec.structs.replace(cell, count=cell.live_count(change.now_ms), ends_ms=left)
        draft.put(CELLS, names.name(word), encode(cell))
        before = self._accepted(change, tenant, word)
        now = cell.accepted if cell.alarmed(change.now_ms) else None
        if before is now:
            return False
        change.alarms[tenant, word] = now
        if now is None:
            draft.delete(CELLS, names.alarm(word))
        else:
            added = change.added
            since = added[-1].ordinal + 1 if added else change.before.next_ordinal
            if before is None:
                draft.put(CELLS, names.alarm(word), since.to_bytes(8, "big"))
        return before is None

    def tally(self, view: View, tenant: Tenant) -> Tally:
        """How many cells a tenant has, and the highest evicted count."""
        payload = view.get(CELLS, self._names.cells(tenant).tally)
        return Tally(tenant) if payload is None else _TALLY(payload)

    def _put_tally(self, draft: Draft, tally: Tally) -> None:
        draft.put(CELLS, self._names.cells(tally.tenant).tally, encode(tally))


def _read(view: View, names: CellNames, word: bytes) -> Cell | None:
    """The cell of a word; None if the word was never counted, or its cell was evicted."""
    payload = view.get(CELLS, names.name(word))
    return None if payload is None else _CELL(payload)


def _others(view: View, start: bytes, kind: bytes, without: set[bytes], count: int) -> list[bytes]:
    """Up to so many keys of a kind, from a given key on and then from the table's beginning.

    The given exceptions are left out.
    """
    found: dict[bytes, None] = {}
    for begin in (start, kind):
        for key, _ in view.scan(CELLS, begin):
            if not key.startswith(kind) or len(found) >= count:
                break
            if key not in without:
                found[key] = None
    return list(found)


def _from(view: View, start: bytes, kind: bytes) -> list[bytes]:
    found: list[bytes] = []
    for key, _ in view.scan(CELLS, start):
        if not key.startswith(kind) or len(found) == _NEIGHBOURS:
            break
        found.append(key)
    return found
