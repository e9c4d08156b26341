"""Authentication of a connection's peer: by API key, Unix-socket peer uid, or mTLS subject."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
import secrets
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import unquote_plus

import msgspec

from policy.bounded import Bounded
from policy.model import Channel, OperatorScope, Principal, PrincipalId, Tenant
from proxy.seams.access import Access, Authenticated
from proxy.seams.faults import MalformedRequest, NotOperator, ScopeMissing, Unauthenticated
from proxy.settings.binding import Binding
from proxy.settings.values import SECRET_LEN_MIN, Secret
from storage.ground.errors import StoreUnavailable
from storage.values import KeyRecord

_LOG: Final = logging.getLogger("mnemogate.auth")
CREDENTIAL_LEN_MAX = 256
KEY_PREFIX = "mg_"
_MINTED: Final = re.compile(rf"{KEY_PREFIX}[a-z2-7]{{8}}_[A-Za-z0-9_-]{{43}}")
_BREAKS: Final = re.compile(r"""[\s,;:=&?#/|"'`()<>\[\]{}]+""")
_KEY_BYTES = 32
_KEY_ID_BYTES = 5
_FAILURES_MAX = 20  # After so many wrong keys from one address in the window, the answer is 429.
_WINDOW_S = 60.0
_PEERS_MAX = 1_024


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel and the TLS layer attest about a connection; nothing that the peer claims."""

    address: str
    # Peer uid of a Unix socket (SO_PEERCRED), None on TCP.
    uid: int | None = None
    # The names in a verified client certificate: "CN:...", "DNS:...", "URI:...".
    subjects: tuple[str, ...] = ()


class Visit(Protocol):
    """The part of a request that the authenticator uses: its peer, and its tie to a credential."""

    @property
    def peer(self) -> Peer:
        """The peer of the request's connection."""
        ...

    def stands_on(self, access: Access, /) -> None:
        """Tie a request to this credential: when the credential ends, the request ends too."""
        ...


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was just made: the record to store, and the text to show once."""

    record: KeyRecord
    plain: str

    def __repr__(self) -> str:
        """Hide the key: structs end up in logs."""
        return f"NewKey(key_id={self.record.key_id!r})"


def hash_key(plain: str) -> bytes:
    """The hash under which a key is stored.

    Plain SHA-256, without salt or stretching: our keys have 256 random bits, so there is no
    dictionary to try. A key that the operator chose is only as good as the choice.
    """
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).digest()


def mint_key(principal: Principal, now_ms: int) -> NewKey:
    """Make a random key `mg_<id>_<43 base64url characters>` for a principal; it is not stored."""
    key_id = base64.b32encode(secrets.token_bytes(_KEY_ID_BYTES)).decode().lower()
    secret = base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)).decode().rstrip("=")
    plain = f"{KEY_PREFIX}{key_id}_{secret}"
    record = KeyRecord(
        key_id=key_id, key_sha256=hash_key(plain), principal=principal, created_at_ms=now_ms
    )
    return NewKey(record=record, plain=plain)


class FirstKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that a start of the sidecar adds: records to store, and plain keys to print once."""

    records: tuple[KeyRecord, ...]
    shown: tuple[NewKey, ...]


def first_keys(
    known: tuple[KeyRecord, ...],
    agent_key: Secret | None,
    operator_key: Secret | None,
    now_ms: int,
) -> FirstKeys:
    """The keys that a start of the sidecar has to add.

    A key that the operator gives replaces the one stored under its role. Without given keys, the
    first start makes a random key for each role, and a later start adds nothing. A revoked key
    stays revoked even if the environment still contains it.
    """
    records: list[KeyRecord] = []
    shown: list[NewKey] = []
    by_id = {record.key_id: record for record in known}
    for role, given in (("agent", agent_key), ("operator", operator_key)):
        principal = Principal(
            principal_id=PrincipalId(role), tenant=Tenant("default"), channel=Channel(role)
        )
        if given is not None:
            digest = hash_key(given.reveal())
            stored = by_id.get(role)
            # The given key may be one that a first start made and the operator exported. Such a key
            # is stored already, under an id of its own.
            known_so = any(
                one.key_sha256 == digest and one.principal.principal_id == role for one in known
            )
            if not known_so and (stored is None or stored.key_sha256 != digest):
                records.append(
                    KeyRecord(
                        key_id=role, key_sha256=digest, principal=principal, created_at_ms=now_ms
                    )
                )
        elif not any(record.principal.principal_id == role for record in known):
            made = mint_key(principal, now_ms)
            records.append(made.record)
            shown.append(made)
    return FirstKeys(records=tuple(records), shown=tuple(shown))


class KeyBook:
    """The key records of a store, ended ones too, by hash, id and principal. Event loop only."""

    def __init__(self, records: Iterable[KeyRecord]) -> None:
        self.by_digest: dict[bytes, KeyRecord] = {}
        self.by_id: dict[str, KeyRecord] = {}
        self.principals: dict[PrincipalId, Principal] = {}
        for record in records:
            self.put(record)

    def put(self, record: KeyRecord) -> None:
        """Add a record, or replace the one of its key id."""
        replaced = self.by_id.get(record.key_id)
        if replaced is not None:
            self.by_digest.pop(replaced.key_sha256, None)
        self.by_id[record.key_id] = self.by_digest[record.key_sha256] = record
        self.principals[record.principal.principal_id] = record.principal


class Authenticator:
    """Maps a credential and a peer to a principal. Event loop only.

    A wrong key is refused, even with a known uid or certificate. A right key is never throttled,
    because another process on the same host could then lock the agent out with wrong keys.

    Each credential in use has one `Access`: when a key ends, so do all requests that are open on
    it, on every front.
    """

    def __init__(
        self,
        keys: Callable[[], tuple[KeyRecord, ...]],
        bindings: tuple[Binding, ...],
        now_ms: Callable[[], int],
    ) -> None:
        self._keys = keys
        self._now_ms = now_ms
        self._book: KeyBook | None = None
        # A binding is valid as long as the process runs, because it is a line of the configuration.
        self._by_uid = {
            bound.uid: _let_in(bound.principal, Access())
            for bound in bindings
            if bound.uid is not None
        }
        self._by_subject = {
            bound.mtls: _let_in(bound.principal, Access())
            for bound in bindings
            if bound.mtls is not None
        }
        self._accesses: dict[bytes, Access] = {}
        self._timers: dict[bytes, asyncio.TimerHandle] = {}
        # Hashes of keys that this process ended; their stored records may not have the end yet.
        self._ended: set[bytes] = set()
        self._failures = Bounded[str, tuple[float, int]](_PEERS_MAX)

    def binds(self, principal_id: PrincipalId) -> bool:
        """Whether the configuration binds a user id or certificate to this principal."""
        made = (*self._by_uid.values(), *self._by_subject.values())
        return any(one.principal_id == principal_id for one in made)

    @property
    def keys(self) -> KeyBook:
        """The store's keys, which are read once; each change is put into the book as well."""
        if self._book is None:
            self._book = KeyBook(self._keys())
        return self._book

    def invalidate(self) -> None:
        """Drop the key records after an unknown change; the next request reads them again."""
        self._book = None

    @contextmanager
    def storing(self, record: KeyRecord) -> Generator[None]:
        """Store a key's record in the block; it counts when the block ends.

        A key with an end in the future ends its open requests then. If the block fails, it is
        unknown what was stored, and the next request reads all records again.
        """
        stored = False
        try:
            yield
            stored = True
        finally:
            if not stored:
                self.invalidate()
        self.keys.put(record)
        if record.key_sha256 in self._accesses:
            self._end_in_time(record)

    @contextmanager
    def ending(self, record: KeyRecord) -> Generator[None]:
        """End a key at once, around a block that records the key's end on disk.

        When the block begins, the key is refused, and requests that are open on it end: their
        uncommitted writes are refused. If the block fails with `StoreUnavailable`, the key is valid
        again.
        """
        digest = record.key_sha256
        self._ended.add(digest)
        self._access_to(record).end()
        try:
            with self.storing(record):
                yield
        except StoreUnavailable:
            self._ended.discard(digest)
            raise
        finally:
            self._accesses.pop(digest, None)

    def authenticate(self, credential: str | None, peer: Peer) -> Authenticated | None:
        """The principal of a credential or peer, or None; a failure is not counted."""
        return self._known(credential, self._record_of(credential), peer)

    def _known(
        self, credential: str | None, record: KeyRecord | None, peer: Peer
    ) -> Authenticated | None:
        if credential is not None:
            if record is None:
                return None
            return _let_in(record.principal, self._access_to(record))
        if peer.uid is not None and peer.uid in self._by_uid:
            return self._by_uid[peer.uid]
        named = [self._by_subject[one] for one in peer.subjects if one in self._by_subject]
        if any(one != named[0] for one in named):
            _LOG.warning("a client certificate has the names of two principals: it names nobody")
            return None
        return named[0] if named else None

    def require(
        self,
        credential: str | None,
        visit: Visit,
        least: OperatorScope = OperatorScope.OPERATE,
    ) -> Authenticated:
        """Authenticate a request, and tie it to its credential; return its principal.

        An operator's key of a scope below `least` is refused. The admin listener alone asks for
        less than all: a write under an operator's key counts as an operator's word.

        Raises:
            ScopeMissing: The scope of the key does not include `least`.
            Unauthenticated: There is no principal; `throttled` if the peer's address failed too
                often in the last minute.
        """
        record = self._record_of(credential)
        principal = self._known(credential, record, visit.peer)
        if principal is None:
            raise Unauthenticated(throttled=self._throttled(visit.peer.address))
        if (
            record is not None
            and record.revoked_at_ms is not None
            and record.key_sha256 not in self._timers
        ):
            self._end_in_time(record)
        visit.stands_on(principal.access)
        if principal.may is not OperatorScope.OPERATE:  # which includes every scope
            check_scope(principal, least)
        return principal

    def is_ours(self, text: str) -> bool:
        """Whether a text is a key of this sidecar, even a revoked one; no upstream may see one."""
        if not SECRET_LEN_MIN <= len(text) <= CREDENTIAL_LEN_MAX:
            return False
        return text.startswith(KEY_PREFIX) or hash_key(text) in self.keys.by_digest

    def names_a_key(self, text: str) -> bool:
        """Whether a text contains a key of this sidecar: between other words, encoded or quoted.

        Of a key that an operator chose only the hash is stored, so it is found only as a whole
        word, between characters that no key contains.
        """
        if len(text) < SECRET_LEN_MIN:
            return False
        found = _keys_in(text)
        return found is None or not found.isdisjoint(self.keys.by_digest)

    def check_sent_on(self, place: str, texts: Iterable[str]) -> None:
        """Refuse a request that would send one of this sidecar's keys upstream.

        Raises:
            MalformedRequest: One of the texts contains a key; the detail names `place`.
        """
        if any(map(self.names_a_key, texts)):
            raise MalformedRequest(
                f"{place}: no place for a key, it would be sent on; send it as a credential",
                status=400,
            )

    def _access_to(self, record: KeyRecord) -> Access:
        known = self._accesses.get(record.key_sha256)
        return known or self._accesses.setdefault(record.key_sha256, Access(record.key_id))

    def _end_in_time(self, record: KeyRecord) -> None:
        """End a key's open requests at its end time, by the clock that authentication uses too."""
        digest = record.key_sha256
        timer = self._timers.pop(digest, None)
        if timer is not None:
            timer.cancel()
        left_s = ((record.revoked_at_ms or 0) - self._now_ms()) / 1_000
        if left_s > 0:
            loop = asyncio.get_running_loop()
            self._timers[digest] = loop.call_later(left_s, self._end_in_time, record)
            return
        access = self._accesses.pop(digest, None)
        if access is not None:
            access.end()

    def _record_of(self, credential: str | None) -> KeyRecord | None:
        if credential is None or not 0 < len(credential) <= CREDENTIAL_LEN_MAX:
            return None
        digest = hash_key(credential)
        # Key records are looked up by SHA-256. A peer cannot steer its digest towards a stored one,
        # so the duration of the look-up reveals nothing about stored keys.
        record = (self._book or self.keys).by_digest.get(digest)
        if record is None:
            return None
        if record.revoked_at_ms is not None and record.revoked_at_ms <= self._now_ms():
            return None
        return None if digest in self._ended else record

    def _throttled(self, address: str) -> bool:
        now_s = self._now_ms() / 1_000
        began, count = self._failures.get(address, (now_s, 0))
        if now_s - began > _WINDOW_S:
            began, count = now_s, 0
        self._failures[address] = (began, count + 1)
        return count >= _FAILURES_MAX


@lru_cache(maxsize=1_024)
def _keys_in(text: str) -> frozenset[bytes] | None:
    """Hashes of possible keys in a text; None if a part of it has the form of a minted key.

    The result is cached, because most headers of a client are the same in each request.
    """
    spellings = {text, unquote_plus(text)}
    spellings |= {_opened(word) for one in tuple(spellings) for word in _BREAKS.split(one)}
    words: set[str] = set()
    for one in spellings:
        if _MINTED.search(one) is not None:
            return None
        words |= {one, *_BREAKS.split(one), *one.split(".")}
    return frozenset(
        hash_key(word) for word in words if SECRET_LEN_MIN <= len(word) <= CREDENTIAL_LEN_MAX
    )


def _opened(word: str) -> str:
    """The decoded text of a base64 word, as in HTTP's Basic scheme; "" if it is not base64."""
    try:
        return base64.b64decode(word + "=" * (-len(word) % 4), validate=True).decode()
    except ValueError:
        return ""


def _let_in(principal: Principal, access: Access) -> Authenticated:
    return Authenticated(
        principal_id=principal.principal_id,
        tenant=principal.tenant,
        channel=principal.channel,
        claims=principal.claims,
        reads=principal.reads,
        may=principal.may,
        access=access,
    )


def check_scope(principal: Principal, least: OperatorScope) -> None:
    """Refuse an operator's key whose scope does not include `least`.

    Raises:
        ScopeMissing: It does not; the error names the scope that is needed.
    """
    if not principal.may.includes(least):
        raise ScopeMissing(least)


def operator_of(principal: Principal) -> Principal:
    """The principal, if it has the operator's channel.

    Raises:
        NotOperator: The principal is not an operator.
    """
    if principal.channel is not Channel.OPERATOR:
        raise NotOperator
    return principal
