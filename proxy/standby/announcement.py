"""The header with which a member of a shard announces a connection of a client to another member.

The header is that of PROXY protocol version 2. The holder counts connections and wrong keys by the
client's address, so whoever chose the address could exhaust another client's share. So the header
ends with a MAC under a key that the members share. Whatever the client sends, TLS included, follows
it unchanged.
"""

from __future__ import annotations

import hmac
import struct
from ipaddress import ip_address
from typing import Final

import msgspec

_HEAD: Final = struct.Struct("!12sBBH")
HEAD_LEN: Final = _HEAD.size
_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_PROXIED: Final = 0x21  # version 2, for another than the sender
_FAMILIES: Final = {4: 0x11, 6: 0x21}  # TCP over IPv4 and IPv6
_PORTS_LEN: Final = 4
_FIELD: Final = struct.Struct("!BH")
_LISTENER: Final = 0xE0
_MAC: Final = 0xE1
_MAC_LEN: Final = 32
_MAC_FIELD: Final = _FIELD.pack(_MAC, _MAC_LEN)
_LENGTH_MAX: Final = 256


class BadAnnouncement(Exception):  # noqa: N818 - it names what the peer sent
    """The error for bytes that are no announcement of a member of this shard."""


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """A client's address, and the name of the listener to which it connected."""

    address: str
    listener: str

    def encode(self, key: bytes) -> bytes:
        """The header with its MAC."""
        client = ip_address(self.address.partition("%")[0])
        # Ports, and the address that the client connected to, are of no use to the holder.
        fields = client.packed + bytes(len(client.packed) + _PORTS_LEN)
        name = self.listener.encode()
        fields += _FIELD.pack(_LISTENER, len(name)) + name + _MAC_FIELD
        head = _HEAD.pack(_SIGNATURE, _PROXIED, _FAMILIES[client.version], len(fields) + _MAC_LEN)
        return head + fields + _mac(head + fields, key)


def length_of(head: bytes) -> int:
    """The number of bytes that follow the first `HEAD_LEN` bytes of a header.

    Raises:
        BadAnnouncement: The bytes do not begin a header.
    """
    signature, command, _, length = _HEAD.unpack(head)
    if signature != _SIGNATURE or command != _PROXIED or length > _LENGTH_MAX:
        raise BadAnnouncement("no header of a member of the shard")
    return int(length)


def announced(header: bytes, key: bytes) -> Announcement:
    """The announcement in a whole header.

    Raises:
        BadAnnouncement: The header has no MAC of a member of this shard.
    """
    said, mac = header[:-_MAC_LEN], header[-_MAC_LEN:]
    if not said.endswith(_MAC_FIELD) or not hmac.compare_digest(_mac(said, key), mac):
        raise BadAnnouncement("the header is not of a member of the shard")
    # A member made what follows, so that it has the one form of `encode`.
    length = 4 if header[13] == _FAMILIES[4] else 16
    fields = said[HEAD_LEN : -len(_MAC_FIELD)]
    return Announcement(
        address=str(ip_address(fields[:length])),
        listener=fields[2 * length + _PORTS_LEN + _FIELD.size :].decode(),
    )


def _mac(said: bytes, key: bytes) -> bytes:
    return hmac.digest(key, said, "sha256")
