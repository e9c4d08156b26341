"""The files that hosts put into model requests: the lines that were let in, and those that wait.

A line that was let in is kept as a keyed digest that ignores blanks. The text of a line that waits
is sealed under a key made of the store's secret, because no verdict has admitted the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec.structs import replace

from policy.labels.effect import NOTHING
from policy.labels.forwarded_call import call_of
from policy.model import MemoryClass, PrincipalId, Tenant
from policy.text.paths import folded_path
from storage.ground.errors import StoreCorrupt
from storage.ground.randomness import random_bytes
from storage.tables.change import Change
from storage.tables.lmdb_store import RecordTable
from storage.write.seam import AdmittedCandidate, Feature, Follower, LandedRow, StoreAccess

LINES_MAX: Final = 16_384
"""The most lines of one place that stay let in; the oldest are forgotten, and wait again."""
WAITING_MAX: Final = 512
PLACES_MAX: Final = 1_024
"""The most places and roots of one tenant; a further one is not kept, so all of its lines wait."""
TEXT_LEN_MAX: Final = 4_096
_DETAIL_LEN_MAX: Final = 256
_NONCE_LEN: Final = 12
_PURPOSE: Final = "places"


class WaitingLine(msgspec.Struct, frozen=True, array_like=True):
    """A line that waits for a person, since `since_ms`; its text is sealed."""

    digest: bytes
    sealed: bytes
    since_ms: int
    principals: tuple[PrincipalId, ...]


class PlaceRecord(msgspec.Struct, frozen=True, array_like=True):
    """A file of a tenant, or a root (its path ends with a slash) in which the agent has worked."""

    tenant: Tenant
    path: str
    lines: tuple[bytes, ...] = ()
    waiting: tuple[WaitingLine, ...] = ()
    gone: int = 0  # how many lines that were let in the file had no more, when a session began
    # Whether the newest request named the file, and had it between no known marks.
    unread: bool = False


PLACES: Final = RecordTable(b"places", PlaceRecord)


class SeenPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A file as one request has it; `first`: at the first sight of its root."""

    path: str
    first: bool
    unread: bool
    # The digests of the lines but those that wait; all of them are let in at first sight.
    lines: tuple[bytes, ...] = ()
    # The lines that wait: pairs of digest and text.
    waiting: tuple[tuple[bytes, str], ...] = ()


class SeePlaces(msgspec.Struct, frozen=True, kw_only=True):
    """An order to the writer: record the files of one request, and the root of a new session."""

    tenant: Tenant
    by: PrincipalId
    # The roots that become known; () unless the request begins a session.
    roots: tuple[str, ...]
    begins: bool
    seen: tuple[SeenPlace, ...]

    def carry_out(self, change: Change) -> None:
        """Record the files, with a leaf for a first sight and for lines that begin to wait."""
        fresh = [one for one in self.roots if _read(change, self.tenant, one) is None]
        for root in fresh:
            _write(change, PlaceRecord(self.tenant, root))
        first_count = 0
        kept = change.draft.under(PLACES, change.names.places(self.tenant))
        room = PLACES_MAX - sum(1 for _ in kept)  # counted once: a file may have many marks
        for one in self.seen:
            before = _read(change, self.tenant, one.path)
            room -= before is None
            if room < 0 and before is None:
                continue
            # Another session may have been the first one while this request was read.
            let_in = one.lines if one.first and fresh and before is None else ()
            first_count += len(let_in)
            record = before or PlaceRecord(self.tenant, one.path)
            gone = len({*record.lines} - {*one.lines}) if self.begins else record.gone
            lines, waiting = record.lines + let_in, self._waiting(change, record, one)
            after = replace(record, lines=lines, waiting=waiting, gone=gone, unread=one.unread)
            if after != before and not _write(change, after):
                continue
            if {line.digest for line in waiting} - {line.digest for line in record.waiting}:
                change.note("place.held", record.path, self.by, f"{len(waiting)} lines wait")
            if one.unread > record.unread:
                change.note("place.unread", record.path, self.by, "between no known marks")
        if first_count:
            change.note("place.first", fresh[0], self.by, f"{first_count} lines")

    def _waiting(
        self, change: Change, record: PlaceRecord, seen: SeenPlace
    ) -> tuple[WaitingLine, ...]:
        known = {one.digest: one for one in record.waiting}
        # A file that lost a line still has the line in sessions that had begun before.
        found = {} if self.begins and not seen.unread else dict(known)
        for digest, text in seen.waiting:
            one = known.get(digest)
            if one is None:
                one = WaitingLine(digest, _sealed(change, digest, text), change.now_ms, ())
            found[digest] = replace(one, principals=tuple({*one.principals, self.by}))
        return tuple(found.values())[:WAITING_MAX]


class LetLinesIn(msgspec.Struct, frozen=True, kw_only=True):
    """An order to the writer: let lines of a file in, for all principals of the tenant."""

    tenant: Tenant
    path: str
    lines: tuple[bytes, ...]
    by: PrincipalId
    action: str

    def carry_out(self, change: Change) -> PlaceRecord:
        """Let the lines in, with a leaf that names whose requests had them; return the record."""
        record = _read(change, self.tenant, self.path) or PlaceRecord(self.tenant, self.path)
        asked = (one for one in record.waiting if one.digest in self.lines)
        whose = sorted({name for one in asked for name in one.principals})
        said = f"{len(self.lines)} lines; {', '.join(whose)}"[:_DETAIL_LEN_MAX]
        change.note(self.action, record.path, self.by, said)
        return _let_in(change, record, self.lines)


class AdmittedWrites(Follower):
    """Lets the lines of admitted writes into the files that they change."""

    def landed(self, change: Change, judged: AdmittedCandidate, landed: LandedRow) -> None:  # noqa: ARG002
        """Let the new lines of a write in, if it changes a file whose whole path is known."""
        candidate, call = judged.candidate, call_of(judged.candidate)
        if call is None or not call.place.startswith("/") or call.came == NOTHING:
            return
        record = _read(change, candidate.tenant, call.place)
        if record is not None or candidate.memory_class is MemoryClass.L2:
            texts = [line for piece in call.pieces[: call.came] for line in piece.split("\n")]
            line = change.names.place_line
            lines = tuple(line(candidate.tenant, kept_key(call.place), one) for one in texts)
            _let_in(change, record or PlaceRecord(candidate.tenant, call.place), lines)


class WaitingText(msgspec.Struct, frozen=True, kw_only=True):
    """A line that waits for a person; `principals` are those whose requests had it."""

    digest: str
    text: str
    since_ms: int
    principals: tuple[PrincipalId, ...]


class KeptPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a host puts into model requests.

    `lines` is the number of lines that were let in, `gone` of those that the file had no more when
    a session began. `unread`: the newest request had the file between no known marks.
    """

    path: str
    lines: int
    gone: int
    unread: bool
    waiting: tuple[WaitingText, ...]


class KeptPlaces(Feature):
    """The files of all tenants and their lines. Event loop only."""

    def __init__(self, access: StoreAccess) -> None:
        super().__init__(access)
        self._read_at = -1
        self._records: dict[Tenant, dict[str, PlaceRecord]] = {}

    @property
    def generation(self) -> int:
        """A number that grows with each change of any file's record."""
        return self._access.moves.get(PLACES, 0)

    def of(self, tenant: Tenant) -> Mapping[str, PlaceRecord]:
        """The records of a tenant's files and roots, by `kept_key`."""
        now = self.generation
        if now != self._read_at:
            with self._store.reading() as view:
                records = [one for _, one in view.records(PLACES)]
            self._records = {one.tenant: {} for one in records}
            for one in records:
                self._records[one.tenant][kept_key(one.path)] = one
            self._read_at = now
        return self._records.get(tenant, {})

    def files(self, tenant: Tenant) -> tuple[KeptPlace, ...]:
        """A tenant's files by path, with the texts of the lines that wait.

        Raises:
            StoreCorrupt: A text cannot be decrypted.
        """
        found = sorted((key, one) for key, one in self.of(tenant).items() if not key.endswith("/"))
        return tuple(self.shown(one) for _, one in found)

    def shown(self, record: PlaceRecord) -> KeptPlace:
        """A file, with the texts of the lines that wait."""
        waiting = tuple(
            WaitingText(
                digest=one.digest.hex(),
                text=self._text(one),
                since_ms=one.since_ms,
                principals=one.principals,
            )
            for one in record.waiting
        )
        return KeptPlace(
            path=record.path,
            lines=len(record.lines),
            gone=record.gone,
            unread=record.unread,
            waiting=waiting,
        )

    def _text(self, line: WaitingLine) -> str:
        cipher = AESGCM(self._names.seal(_PURPOSE))
        nonce, sealed = line.sealed[:_NONCE_LEN], line.sealed[_NONCE_LEN:]
        try:
            return cipher.decrypt(nonce, sealed, line.digest).decode()
        except InvalidTag:
            raise StoreCorrupt("a line that waits does not open") from None

    def unread(self) -> tuple[str, ...]:
        """The files that newest requests had between no known marks, of all tenants."""
        self.of(Tenant(""))
        known = (one for records in self._records.values() for one in records.values())
        return tuple(one.path for one in known if one.unread)

    def digest(self, tenant: Tenant, path: str, line: str) -> bytes:
        """The keyed digest of a line of a file; equal for lines that differ in blanks alone."""
        return self._names.place_line(tenant, kept_key(path), line)

    async def let_in(
        self, tenant: Tenant, path: str, lines: Iterable[bytes], by: PrincipalId, action: str
    ) -> KeptPlace:
        """Let lines of a file in, with a leaf `action`; return the file."""
        order = LetLinesIn(tenant=tenant, path=path, lines=tuple(lines), by=by, action=action)
        return self.shown(await self.order(order))


def kept_key(path: str) -> str:
    """The key of a path: a file's folded path, or a root's, which keeps its last slash."""
    return folded_path(path) + ("/" if path.endswith("/") else "")


def _read(change: Change, tenant: Tenant, path: str) -> PlaceRecord | None:
    return change.draft.read(PLACES, change.names.place(tenant, kept_key(path)))


def _write(change: Change, record: PlaceRecord) -> bool:
    """Write a record; return False if the tenant has no room for a further one."""
    name = change.names.place(record.tenant, kept_key(record.path))
    others = change.draft.under(PLACES, change.names.places(record.tenant))
    has_room = change.draft.has(PLACES, name) or sum(1 for _ in others) < PLACES_MAX
    if has_room:
        kept = replace(record, lines=record.lines[-LINES_MAX:])
        change.draft.write(PLACES, name, kept)
        change.moved.add(PLACES)
    return has_room


def _let_in(change: Change, record: PlaceRecord, lines: tuple[bytes, ...]) -> PlaceRecord:
    waiting = tuple(one for one in record.waiting if one.digest not in lines)
    kept = tuple(dict.fromkeys((*record.lines, *lines)))
    after = replace(record, lines=kept, waiting=waiting)
    _write(change, after)
    return after


def _sealed(change: Change, digest: bytes, text: str) -> bytes:
    nonce, said = random_bytes(_NONCE_LEN), text[:TEXT_LEN_MAX].encode("utf-8", "replace")
    return nonce + AESGCM(change.names.seal(_PURPOSE)).encrypt(nonce, said, digest)
