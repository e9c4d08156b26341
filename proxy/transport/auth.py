"""Who is on the other end of a connection: API key, Unix-socket peer uid, or mTLS subject."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from policy.model import Channel, Claims, Principal, PrincipalId, Tenant
from proxy.seams.faults import NotOperator, Unauthenticated
from proxy.settings.values import SECRET_LEN_MIN
from storage.values import KeyRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.settings.load import Binding, Secret

CREDENTIAL_LEN_MAX = 256
KEY_PREFIX = "mg_"
_KEY_BYTES = 32
_KEY_ID_BYTES = 5
_FAILURES_MAX = 20  # per peer address and window, before the answer turns to 429
_WINDOW_S = 60.0
_PEERS_MAX = 1_024


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel and the TLS layer attest about a connection; nothing the peer merely says."""

    address: str
    # Peer uid of a Unix socket (SO_PEERCRED), None on TCP.
    uid: int | None = None
    # "CN:...", "DNS:...", "URI:..." of a verified client certificate.
    subjects: tuple[str, ...] = ()


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was just made: the record to store, and the text to show once."""

    record: KeyRecord
    plain: str

    def __repr__(self) -> str:
        """Hide the key: structs end up in logs."""
        return f"NewKey(key_id={self.record.key_id!r})"


def hash_key(plain: str) -> bytes:
    """What is stored of a key.

    Plain SHA-256, no salt and no stretching: our keys carry 256 random bits, so there is no
    dictionary to try. A key that the operator chose himself is only as good as his choice.
    """
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).digest()


def mint_key(principal: Principal, now_ms: int) -> NewKey:
    """A fresh random key `mg_<id>_<43 base64url characters>` for a principal."""
    key_id = base64.b32encode(secrets.token_bytes(_KEY_ID_BYTES)).decode().lower()
    secret = base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)).decode().rstrip("=")
    plain = f"{KEY_PREFIX}{key_id}_{secret}"
    record = KeyRecord(
        key_id=key_id, key_sha256=hash_key(plain), principal=principal, created_at_ms=now_ms
    )
    return NewKey(record=record, plain=plain)


class FirstKeys(msgspec.Struct, frozen=True, kw_only=True):
    """What to store at start, and which plain keys to print, once."""

    records: tuple[KeyRecord, ...]
    shown: tuple[NewKey, ...]


def first_keys(
    known: tuple[KeyRecord, ...],
    agent_key: Secret | None,
    operator_key: Secret | None,
    now_ms: int,
) -> FirstKeys:
    """The keys a start has to add.

    A key given by the operator replaces the one stored under its role; without one, the very
    first start makes a random key per role. A later start adds nothing. A key that was revoked
    stays so, although the environment still has it: who revoked it meant that very text.
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
            if stored is None or stored.key_sha256 != digest:
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


class Authenticator:
    """Maps a credential and a peer to a principal. Event loop only.

    A credential that is sent must be right: a wrong key is not rescued by the uid or the
    certificate it came with. A right key is always served; only failures are throttled, or one
    process on the same host could lock the agent out.
    """

    def __init__(
        self,
        keys: Callable[[], tuple[KeyRecord, ...]],
        bindings: tuple[Binding, ...],
        now_ms: Callable[[], int],
    ) -> None:
        self._keys = keys
        self._now_ms = now_ms
        self._by_digest: dict[bytes, KeyRecord] | None = None
        self._by_uid = {bound.uid: bound.principal for bound in bindings if bound.uid is not None}
        self._by_subject = {
            bound.mtls: bound.principal for bound in bindings if bound.mtls is not None
        }
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def invalidate(self) -> None:
        """Read the key records again at the next request; called after every change of keys."""
        self._by_digest = None

    def authenticate(self, credential: str | None, peer: Peer) -> Principal | None:
        """The principal behind a request, or None."""
        if credential is not None:
            return self._by_key(credential)
        if peer.uid is not None and peer.uid in self._by_uid:
            return self._by_uid[peer.uid]
        for subject in peer.subjects:
            if subject in self._by_subject:
                return self._by_subject[subject]
        return None

    def require(self, credential: str | None, peer: Peer) -> Principal:
        """The principal behind a request.

        Raises:
            Unauthenticated: There is none; `throttled` when this peer failed too often lately.
        """
        principal = self.authenticate(credential, peer)
        if principal is None:
            raise Unauthenticated(throttled=self._throttled(peer.address))
        return principal

    def is_ours(self, text: str) -> bool:
        """Whether this is a key of ours, a revoked one included: nobody else may be shown it."""
        if not SECRET_LEN_MIN <= len(text) <= CREDENTIAL_LEN_MAX:
            return False
        return text.startswith(KEY_PREFIX) or hash_key(text) in self._records()

    def _records(self) -> dict[bytes, KeyRecord]:
        if self._by_digest is None:
            self._by_digest = {record.key_sha256: record for record in self._keys()}
        return self._by_digest

    def _by_key(self, credential: str) -> Principal | None:
        if not 0 < len(credential) <= CREDENTIAL_LEN_MAX:
            return None
        digest = hash_key(credential)
        # The table is keyed by SHA-256 of the key: a peer cannot steer its digest towards a stored
        # one, so the time of the look-up tells it nothing.
        record = self._records().get(digest)
        if record is None or not hmac.compare_digest(record.key_sha256, digest):
            return None
        if record.revoked_at_ms is not None and record.revoked_at_ms <= self._now_ms():
            return None
        return record.principal

    def _throttled(self, address: str) -> bool:
        now_s = self._now_ms() / 1_000
        began, count = self._failures.pop(address, (now_s, 0))
        if now_s - began > _WINDOW_S:
            began, count = now_s, 0
        self._failures[address] = (began, count + 1)
        if len(self._failures) > _PEERS_MAX:
            self._failures.popitem(last=False)
        return count >= _FAILURES_MAX


def operator_of(principal: Principal) -> Principal:
    """The principal, if it is bound to an operator.

    Raises:
        NotOperator: It is not.
    """
    if principal.channel is not Channel.OPERATOR:
        raise NotOperator
    return principal


def bound(
    principal_id: str,
    tenant: str,
    channel: Channel = Channel.AGENT,
    claims: Claims = Claims.IGNORED,
) -> Principal:
    """A principal as an operator binds it."""
    return Principal(
        principal_id=PrincipalId(principal_id),
        tenant=Tenant(tenant),
        channel=channel,
        claims=claims,
    )
