"""The other end of a socket, as the kernel and the TLS layer attest it."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final, cast

from proxy.transport.auth import Peer

_UCRED: Final = struct.Struct("3i")


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """The peer of a connection: by its uid on a Unix socket, else by address and certificate."""
    uid = peer_uid(transport)
    if uid is not None:
        return Peer(address=f"uid:{uid}", uid=uid)
    name = cast("tuple[object, ...] | None", transport.get_extra_info("peername"))
    address = str(name[0]) if name else ""
    certificate = transport.get_extra_info("peercert")
    return Peer(address=address, subjects=_subjects(certificate) if certificate else ())


def peer_uid(transport: asyncio.BaseTransport) -> int | None:
    """The uid of the process that connected to a Unix socket (SO_PEERCRED); None on TCP."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return int(_UCRED.unpack(raw)[1])


def _subjects(certificate: dict[str, tuple[tuple[object, ...], ...]]) -> tuple[str, ...]:
    """The `CN:`, `DNS:` and `URI:` names in a certificate that the TLS layer has verified."""
    names: list[str] = []
    for kind, value in certificate.get("subjectAltName", ()):
        if kind in {"DNS", "URI"}:
            names.append(f"{kind}:{value}")
    for relative in certificate.get("subject", ()):
        names.extend(
            f"CN:{pair[1]}"
            for pair in relative
            if isinstance(pair, tuple) and pair[0] == "commonName"
        )
    return tuple(names)
