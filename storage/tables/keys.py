"""Keys of the tables; words of clients become keys only as keyed hashes (BLAKE2b)."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Final

import msgspec

from policy.model import Candidate, Digest, MemoryId, PrincipalId, Tenant

_NAME_LEN: Final = 16
_KEYED_LEN: Final = 8
_KEPT_MAX: Final = 4_096
_encode: Final = msgspec.msgpack.Encoder().encode
_INCARNATION: Final = re.compile(r"([0-9a-f]{16}-[0-9]{1,9}):")


class KeyedNames:
    """Keys of 16 bytes, hashed under the store's secret, without which no one can guess them."""

    __slots__ = ("_secret", "group", "principal", "tenant")

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        # Keys are cached, because every transaction needs the same ones again: of a principal's
        # trust, of a tenant's usage, and of a group of decisions.
        self.principal = lru_cache(maxsize=_KEPT_MAX)(partial(self._name, b"principal"))
        self.tenant = lru_cache(maxsize=_KEPT_MAX)(partial(self._name, b"tenant"))
        self.group = lru_cache(maxsize=_KEPT_MAX)(self._group)

    def _name(self, *parts: bytes | str) -> bytes:
        # msgpack writes the length of a part before the part, so that two different lists of parts
        # never have the same bytes.
        return blake2b(_encode(parts), digest_size=_NAME_LEN, key=self._secret).digest()

    def nonce(self, principal_id: PrincipalId, nonce: str) -> bytes:
        """The key of the record of a nonce."""
        return self._name(b"nonce", principal_id, nonce)

    def binding(self, candidate: Candidate, digest: Digest) -> bytes:
        """A hash of nonce, digest, principal and target: the request that used a nonce.

        See MWP 3.2, check 5.
        """
        return self._name(
            b"binding",
            candidate.nonce,
            digest,
            candidate.principal_id,
            candidate.target,
        )

    def charge(self, candidate: Candidate, digest: Digest) -> bytes:
        """The key that makes violations of a principal with one nonce and digest count once."""
        return self._name(b"charge", candidate.principal_id, candidate.nonce, digest)

    def memory(self, tenant: Tenant, memory_id: MemoryId) -> bytes:
        """The key of a tenant's memory; the same id in another tenant has another key."""
        return self._name(b"memory", tenant, memory_id)

    def own(self, tenant: Tenant, key: str, life: int = 0) -> MemoryId:
        """The id of the memory that a client files under a key of its own.

        `life` is the number of earlier memories under that key that were hidden. The id remains in
        the log after a purge, and reveals nothing about the key without the secret.
        """
        parts = (tenant, key, *((b"%d" % life,) if life else ()))
        return uuid_of(self._name(b"own", *parts), 8)

    def guarded(self, tenant: Tenant, target: str, key: str) -> bytes:
        """The prefix of the rows of one upstream memory: 8 bytes, before an ordinal.

        64 keyed bits are enough, because no one can search for a second key with the same prefix.
        """
        name = self._name(b"guarded", tenant, target, key)
        return name[:_KEYED_LEN]

    def closed(self, tenant: Tenant, target: str, key: str) -> bytes:
        """The key of the record of a key closed for a tenant; begins with `closed_by_anybody`."""
        return self.closed_by_anybody(target, key) + self.tenant(tenant)[:_KEYED_LEN]

    def closed_by_anybody(self, target: str, key: str) -> bytes:
        """The prefix of the records of one key of a server: 8 bytes, before 8 of the tenant's."""
        return self._name(b"closed", target, key)[:_KEYED_LEN]

    def seal(self, purpose: str) -> bytes:
        """The encryption key, of 32 bytes, for records of one purpose."""
        key = blake2b(purpose.encode(), digest_size=32, key=self._secret, person=b"seal")
        return key.digest()

    def children(self, tenant: Tenant, parent: MemoryId) -> bytes:
        """The prefix of all rows that name this memory as a parent; an ordinal follows."""
        return self._name(b"children", tenant, parent)[:_KEYED_LEN]

    def _group(self, tenant: Tenant, principal_id: PrincipalId, place: str) -> bytes:
        """The prefix, of 7 bytes, of people's decisions for a principal in a place."""
        parts = (tenant, principal_id, place)
        return self._name(b"group", *(one.encode("utf-8", "surrogatepass") for one in parts))[:7]

    def line(self, group: bytes, kind: bytes, said: bytes) -> bytes:
        """The key of a decision on one line of a group; `kind` is one byte."""
        return group + kind + self._name(b"line", said)[:_KEYED_LEN]

    def pins(self, tenant: Tenant, server: str) -> bytes:
        """The key of the record of a server's pinned tools."""
        return self._name(b"pins", tenant, server)

    def places(self, tenant: Tenant) -> bytes:
        """The prefix, of 8 bytes, of the records of a tenant's files in model requests."""
        return self._name(b"places", tenant)[:_KEYED_LEN]

    def place(self, tenant: Tenant, path: str) -> bytes:
        """The key of the record of one file in model requests, by its folded path."""
        said = path.encode("utf-8", "surrogatepass")
        return self.places(tenant) + self._name(b"place", tenant, said)[:_KEYED_LEN]

    def place_line(self, tenant: Tenant, path: str, line: str) -> bytes:
        """The digest of a line of a file, which is equal for lines that differ in blanks alone."""
        said = "".join(line.split()).encode("utf-8", "surrogatepass")
        return self._name(b"place line", self.place(tenant, path), said)[:_KEYED_LEN]

    def token(self, token_key: bytes) -> bytes:
        """The key of a spent promotion token."""
        return self._name(b"token", token_key)

    def origin(self, tenant: Tenant, server: str, tool: str) -> bytes:
        """The key of a tenant's trust in the results of one tool of a server."""
        return self._name(b"origin", tenant, server, tool)

    def counted(self, holder: bytes, kind: str, subject: str) -> bytes:
        """The key of the time at which an outcome about a subject last counted for a holder."""
        return self._name(b"counted", holder, kind, subject)

    def api_key(self, key_id: str) -> bytes:
        """The key of an API key's record."""
        return self._name(b"key", key_id)

    def anchor(self, tenant: Tenant, anchor_id: str) -> bytes:
        """The key of a tenant's anchor."""
        return self._name(b"anchor", tenant, anchor_id)


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
