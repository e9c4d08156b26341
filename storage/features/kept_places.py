"""The files that hosts put into model requests: the lines that were let in, and those that wait.

A line that was let in is kept as a keyed digest that ignores blanks. The path of a file and the
text of a line that waits are sealed under a key made of the store's secret, because no verdict has
admitted either: a path may be words that another file's text made up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from policy.labels.forwarded_call import call_of
from policy.model import ChangeKind, MemoryClass, PrincipalId, Tenant
from policy.text.paths import folded_path
from storage.ground.errors import StoreCorrupt
from storage.staging.undecided import seal, unseal
from storage.tables.change import Change
from storage.tables.keys import KeyedNames
from storage.tables.names import RecordTable
from storage.write.seam import AdmittedCandidate, Feature, Follower, LandedRow, StoreAccess

LINES_MAX: Final = 16_384
"""The most lines of one place that stay let in; the oldest are forgotten, and wait again."""
WAITING_MAX: Final = 512
PLACES_MAX: Final = 1_024
"""The most places and roots of one tenant that requests add; in a further one all lines wait."""
TEXT_LEN_MAX: Final = 4_096
"""How much of a line that waits is kept."""
LET_IN_LEN_MAX: Final = WAITING_MAX * TEXT_LEN_MAX
_DETAIL_LEN_MAX: Final = 256
_PURPOSE: Final = "places"


class WaitingLine(msgspec.Struct, frozen=True, array_like=True):
    """A line that waits for a person; its text is sealed."""

    digest: bytes
    sealed: bytes
    principals: tuple[PrincipalId, ...]


class PlaceRecord(msgspec.Struct, frozen=True, array_like=True):
    """A file of a tenant, or a root (its path ends with a slash) in which the agent has worked."""

    tenant: Tenant
    path: bytes  # sealed
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
        """Record the files, each with a leaf for a first sight and for lines that begin to wait."""
        kept = change.draft.under(PLACES, change.names.places(self.tenant))
        room = max(0, PLACES_MAX - sum(1 for _ in kept))  # counted once: a file may have many marks
        fresh = [one for one in self.roots if _read(change, self.tenant, one) is None][:room]
        room -= len(fresh)
        for root in fresh:
            _write(change, root, _new(change, self.tenant, root))
        for one in self.seen:
            found = _read(change, self.tenant, one.path)
            room -= found is None
            if found is None and room < 0:
                continue
            before = found or _new(change, self.tenant, one.path)
            # Another session may have been the first one while this request was read.
            let_in = one.lines if one.first and fresh and found is None else ()
            after = replace(
                before,
                lines=before.lines + let_in,
                waiting=self._waiting(change, before, one),
                gone=len({*before.lines} - {*one.lines}) if self.begins else before.gone,
                unread=one.unread,
            )
            if after != before:
                _write(change, one.path, after)
                self._note(change, _name(change, self.tenant, one.path).hex(), before, after)

    def _note(self, change: Change, subject: str, before: PlaceRecord, after: PlaceRecord) -> None:
        if len(after.lines) > len(before.lines):
            change.note("place.first", subject, self.by, f"{len(after.lines)} lines")
        if {line.digest for line in after.waiting} - {line.digest for line in before.waiting}:
            change.note("place.held", subject, self.by, f"{len(after.waiting)} lines wait")
        if after.unread > before.unread:
            change.note("place.unread", subject, self.by, "between no known marks")

    def _waiting(
        self, change: Change, record: PlaceRecord, seen: SeenPlace
    ) -> tuple[WaitingLine, ...]:
        known = {one.digest: one for one in record.waiting}
        # A file that lost a line still has the line in sessions that had begun before.
        found = {} if self.begins and not seen.unread else dict(known)
        key = change.names.seal(_PURPOSE)
        for digest, text in seen.waiting:
            one = known.get(digest)
            if one is None:
                said = text[:TEXT_LEN_MAX].encode("utf-8", "replace")
                one = WaitingLine(digest, seal(key, digest, said), ())
            found[digest] = replace(one, principals=tuple(sorted({*one.principals, self.by})))
        return tuple(found.values())[:WAITING_MAX]


class LetLinesIn(msgspec.Struct, frozen=True, kw_only=True):
    """An order to the writer: let the lines of a text into a file, for the tenant's principals."""

    tenant: Tenant
    path: str
    text: str
    by: PrincipalId

    def carry_out(self, change: Change) -> PlaceRecord:
        """Let the lines in, with a leaf that names whose requests had them; return the record."""
        before, after = _let_in(change, self.tenant, self.path, self.text)
        came = (one for one in before.waiting if one not in after.waiting)
        whose = sorted({name for one in came for name in one.principals})
        said = f"{len({*after.lines} - {*before.lines})} lines; {', '.join(whose)}"
        subject = _name(change, self.tenant, self.path).hex()
        change.note("place.accept", subject, self.by, said[:_DETAIL_LEN_MAX])
        return after


class AdmittedWrites(Follower):
    """Lets the lines of admitted writes into the files that they change."""

    def landed(self, change: Change, judged: AdmittedCandidate, landed: LandedRow) -> None:  # noqa: ARG002
        """Let the new lines of a write in, if it changes a file whose whole path is known."""
        candidate, call = judged.candidate, call_of(judged.candidate)
        if call is None or not call.place.startswith("/") or candidate.change is ChangeKind.DELETE:
            return
        known = _read(change, candidate.tenant, call.place) is not None
        if known or candidate.memory_class is MemoryClass.L2:
            _let_in(change, candidate.tenant, call.place, "\n".join(call.said))


class KeptPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a host puts into model requests.

    `lines` is the number of lines that were let in, `gone` of those that the file had no more when
    a session began. `unread`: the newest request had the file between no known marks. `waiting`
    maps the text of each line that waits to the principals whose requests had the line.
    """

    path: str
    lines: int
    gone: int
    unread: bool
    waiting: dict[str, tuple[PrincipalId, ...]]


class KeptPlaces(Feature):
    """The files of all tenants and their lines. Event loop only."""

    def __init__(self, access: StoreAccess) -> None:
        super().__init__(access)
        self._read_at = -1
        self._records: dict[Tenant, dict[str, PlaceRecord]] = {}
        self._paths: dict[bytes, str] = {}

    @property
    def generation(self) -> int:
        """A number that grows with each change of any file's record."""
        return self._access.moves.get(PLACES, 0)

    def of(self, tenant: Tenant) -> Mapping[str, PlaceRecord]:
        """The records of a tenant's files and roots, by `kept_key`."""
        now = self.generation
        if now != self._read_at:
            records: dict[Tenant, dict[str, PlaceRecord]] = defaultdict(dict)
            with self._store.reading() as view:
                found = [one for _, one in view.records(PLACES)]
            self._paths = {one.path: self.path(one) for one in found}
            for one in found:
                records[one.tenant][kept_key(self.path(one))] = one
            self._read_at, self._records = now, records
        return self._records.get(tenant, {})

    def full(self, tenant: Tenant) -> bool:
        """Whether requests add no further file or root of a tenant."""
        return len(self.of(tenant)) >= PLACES_MAX

    def path(self, record: PlaceRecord) -> str:
        """The path of a file or root."""
        return self._paths.get(record.path) or path_of(self._names, record)

    def files(self, tenant: Tenant) -> tuple[KeptPlace, ...]:
        """A tenant's files by path, with the texts of the lines that wait.

        Raises:
            StoreCorrupt: A text cannot be decrypted.
        """
        found = sorted((key, one) for key, one in self.of(tenant).items() if not key.endswith("/"))
        return tuple(self.shown(one) for _, one in found)

    def shown(self, record: PlaceRecord) -> KeptPlace:
        """A file, with the texts of the lines that wait."""
        return KeptPlace(
            path=self.path(record),
            lines=len(record.lines),
            gone=record.gone,
            unread=record.unread,
            waiting={
                _opened(self._names, one.digest, one.sealed): one.principals
                for one in record.waiting
            },
        )

    def unread_count(self) -> int:
        """The number of files that newest requests had between no known marks, of all tenants."""
        self.of(Tenant(""))
        return sum(one.unread for known in self._records.values() for one in known.values())

    def digest(self, tenant: Tenant, path: str, line: str) -> bytes:
        """The keyed digest of a line of a file; equal for lines that differ in blanks alone."""
        return self._names.place_line(tenant, kept_key(path), line)


def kept_key(path: str) -> str:
    """The key of a path: a file's folded path, or a root's, which keeps its last slash."""
    return folded_path(path) + ("/" if path.endswith("/") else "")


def path_of(names: KeyedNames, record: PlaceRecord) -> str:
    """The path of a file or root.

    Raises:
        StoreCorrupt: The path cannot be decrypted.
    """
    return _opened(names, record.tenant.encode(), record.path)


def _opened(names: KeyedNames, name: bytes, sealed: bytes) -> str:
    found = unseal(names.seal(_PURPOSE), name, sealed)
    if found is None:
        raise StoreCorrupt("the path or a line of a file does not open")
    return found.decode()


def _name(change: Change, tenant: Tenant, path: str) -> bytes:
    return change.names.place(tenant, kept_key(path))


def _new(change: Change, tenant: Tenant, path: str) -> PlaceRecord:
    key = change.names.seal(_PURPOSE)
    return PlaceRecord(tenant, seal(key, tenant.encode(), path.encode("utf-8", "replace")))


def _read(change: Change, tenant: Tenant, path: str) -> PlaceRecord | None:
    return change.draft.read(PLACES, _name(change, tenant, path))


def _write(change: Change, path: str, record: PlaceRecord) -> None:
    name = _name(change, record.tenant, path)
    change.draft.write(PLACES, name, replace(record, lines=record.lines[-LINES_MAX:]))
    change.moved.add(PLACES)


def _let_in(
    change: Change, tenant: Tenant, path: str, text: str
) -> tuple[PlaceRecord, PlaceRecord]:
    """Let the lines of a text into a file; return the record as it was, and as it is then."""
    record = _read(change, tenant, path) or _new(change, tenant, path)
    line = partial(change.names.place_line, tenant, kept_key(path))
    lines = dict.fromkeys(map(line, filter(str.strip, text.split("\n"))))
    waiting = tuple(one for one in record.waiting if one.digest not in lines)
    kept = tuple(dict.fromkeys((*record.lines, *lines)))
    after = replace(record, lines=kept, waiting=waiting)
    _write(change, path, after)
    return record, after
