"""Keys of the tables; words of clients become keys only as keyed hashes (HMAC)."""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from hashlib import sha256
from typing import Final

from policy.model import Candidate, Digest, MemoryId, PrincipalId, Tenant

_NAME_LEN: Final = 16
_KEYED_LEN: Final = 8
_BLOCK_LEN: Final = 64
_LENGTH: Final = struct.Struct(">I").pack
_KEPT_MAX: Final = 4_096
_INCARNATION: Final = re.compile(r"([0-9a-f]{16}-[0-9]{1,9}):")


class KeyedNames:
    """Keys of 16 bytes, hashed under the store's secret, without which no one can guess them."""

    __slots__ = ("_inner", "_outer", "_seal_secret", "group", "principal", "tenant")

    def __init__(self, secret: bytes) -> None:
        # HMAC-SHA256 (RFC 2104) with both padded keys precomputed.
        padded = secret.ljust(_BLOCK_LEN, b"\0")
        self._inner = bytes(byte ^ 0x36 for byte in padded)
        self._outer = bytes(byte ^ 0x5C for byte in padded)
        # Keys are cached, because every transaction needs the same ones again.
        self.principal = lru_cache(maxsize=_KEPT_MAX)(self._principal)
        self.tenant = lru_cache(maxsize=_KEPT_MAX)(self._tenant)
        self.group = lru_cache(maxsize=_KEPT_MAX)(self._group)
        self._seal_secret = sha256(self._name(b"seals") + secret).digest()

    def _name(self, purpose: bytes, *parts: bytes) -> bytes:
        # Each part is preceded by its length, so that two different lists of parts never have the
        # same bytes.
        framed = [self._inner, purpose, b"\0"]
        for part in parts:
            framed += (_LENGTH(len(part)), part)
        inner = sha256(b"".join(framed)).digest()
        return sha256(self._outer + inner).digest()[:_NAME_LEN]

    def nonce(self, principal_id: PrincipalId, nonce: str) -> bytes:
        """The key of the record of a nonce."""
        return self._name(b"nonce", principal_id.encode(), nonce.encode())

    def binding(self, candidate: Candidate, digest: Digest) -> bytes:
        """A hash of nonce, digest, principal and target: the request that used a nonce.

        See MWP 3.2, check 5.
        """
        return self._name(
            b"binding",
            candidate.nonce.encode(),
            digest,
            candidate.principal_id.encode(),
            candidate.target.encode(),
        )

    def charge(self, candidate: Candidate, digest: Digest) -> bytes:
        """The key that makes violations of a principal with one nonce and digest count once."""
        return self._name(
            b"charge", candidate.principal_id.encode(), candidate.nonce.encode(), digest
        )

    def memory(self, tenant: Tenant, memory_id: MemoryId) -> bytes:
        """The key of a tenant's memory; the same id in another tenant has another key."""
        return self._name(b"memory", tenant.encode(), memory_id.encode())

    def own(self, tenant: Tenant, key: str, life: int = 0) -> MemoryId:
        """The id of the memory that a client files under a key of its own.

        `life` is the number of earlier memories under that key that were hidden. The id remains in
        the log after a purge, and reveals nothing about the key without the secret.
        """
        parts = (tenant.encode(), key.encode(), *((b"%d" % life,) if life else ()))
        return uuid_of(self._name(b"own", *parts), 8)

    def guarded(self, tenant: Tenant, target: str, key: str) -> bytes:
        """The prefix of the rows of one upstream memory: 8 bytes, before an ordinal.

        64 keyed bits are enough, because no one can search for a second key with the same prefix.
        """
        name = self._name(b"guarded", tenant.encode(), target.encode(), key.encode())
        return name[:_KEYED_LEN]

    def closed(self, tenant: Tenant, target: str, key: str) -> bytes:
        """The key of the record of a key closed for a tenant; begins with `closed_by_anybody`."""
        return self.closed_by_anybody(target, key) + self.tenant(tenant)[:_KEYED_LEN]

    def closed_by_anybody(self, target: str, key: str) -> bytes:
        """The prefix of the records of one key of a server: 8 bytes, before 8 of the tenant's."""
        return self._name(b"closed", target.encode(), key.encode())[:_KEYED_LEN]

    def seal(self, purpose: str) -> bytes:
        """The encryption key, of 32 bytes, for records of one purpose."""
        return sha256(self._name(b"seal", purpose.encode()) + self._seal_secret).digest()

    def children(self, tenant: Tenant, parent: MemoryId) -> bytes:
        """The prefix of all rows that name this memory as a parent; an ordinal follows."""
        return self._name(b"children", tenant.encode(), parent.encode())[:_KEYED_LEN]

    def _group(self, tenant: Tenant, principal_id: PrincipalId, place: str) -> bytes:
        """The prefix, of 7 bytes, of people's decisions for a principal in a place."""
        parts = (tenant, principal_id, place)
        return self._name(b"group", *(one.encode("utf-8", "surrogatepass") for one in parts))[:7]

    def line(self, group: bytes, kind: bytes, said: bytes) -> bytes:
        """The key of a decision on one line of a group; `kind` is one byte."""
        return group + kind + self._name(b"line", said)[:_KEYED_LEN]

    def pins(self, tenant: Tenant, server: str) -> bytes:
        """The key of the record of a server's pinned tools."""
        return self._name(b"pins", tenant.encode(), server.encode())

    def places(self, tenant: Tenant) -> bytes:
        """The prefix, of 8 bytes, of the records of a tenant's files in model requests."""
        return self._name(b"places", tenant.encode())[:_KEYED_LEN]

    def place(self, tenant: Tenant, path: str) -> bytes:
        """The key of the record of one file in model requests, by its folded path."""
        said = path.encode("utf-8", "surrogatepass")
        return self.places(tenant) + self._name(b"place", tenant.encode(), said)[:_KEYED_LEN]

    def place_line(self, tenant: Tenant, path: str, line: str) -> bytes:
        """The digest of a line of a file, which is equal for lines that differ in blanks alone."""
        said = "".join(line.split()).encode("utf-8", "surrogatepass")
        return self._name(b"place line", self.place(tenant, path), said)[:_KEYED_LEN]

    def token(self, token_key: bytes) -> bytes:
        """The key of a spent promotion token."""
        return self._name(b"token", token_key)

    def _tenant(self, tenant: Tenant) -> bytes:
        """The key of a tenant's usage."""
        return self._name(b"tenant", tenant.encode())

    def _principal(self, principal_id: PrincipalId) -> bytes:
        """The key of a principal's trust."""
        return self._name(b"principal", principal_id.encode())

    def origin(self, tenant: Tenant, server: str, tool: str) -> bytes:
        """The key of a tenant's trust in the results of one tool of a server."""
        return self._name(b"origin", tenant.encode(), server.encode(), tool.encode())

    def counted(self, holder: bytes, kind: str, subject: str) -> bytes:
        """The key of the time at which an outcome about a subject last counted for a holder."""
        return self._name(b"counted", holder, kind.encode(), subject.encode())

    def api_key(self, key_id: str) -> bytes:
        """The key of an API key's record."""
        return self._name(b"key", key_id.encode())

    def anchor(self, tenant: Tenant, anchor_id: str) -> bytes:
        """The key of a tenant's anchor."""
        return self._name(b"anchor", tenant.encode(), anchor_id.encode())


def uuid_of(raw: bytes, version: int) -> MemoryId:
    """16 bytes as a UUID of that version (RFC 9562), which replaces 6 of their 128 bits."""
    digits = bytearray(raw)
    digits[6] = digits[6] & 0x0F | version << 4
    digits[8] = digits[8] & 0x3F | 0x80
    spelled = digits.hex()
    parts = (spelled[:8], spelled[8:12], spelled[12:16], spelled[16:20], spelled[20:])
    return MemoryId("-".join(parts))


def named_incarnation(nonce: str) -> str | None:
    """The incarnation that a nonce names, or None if it names none."""
    match = _INCARNATION.match(nonce)
    return None if match is None else match[1]
