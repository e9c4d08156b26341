"""Decides to which addresses the sidecar may send a request that an operator configured.

A host name is looked up once for each connection, all its addresses are checked, and the connection
is made to a checked address. A second look-up could return another address (DNS rebinding): a
cloud's metadata service, or a database that trusts every caller in its network.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from aiohttp.abc import ResolveResult

from proxy.seams.faults import UpstreamError

Network: TypeAlias = IPv4Network | IPv6Network
LookUp: TypeAlias = Callable[[str, int], Awaitable[tuple[str, ...]]]
"""A function of a host and a port that returns the host's addresses, as text."""

# Addresses that are not public: IANA's special-purpose ones, multicast, and one at which a cloud
# (Azure) serves its own machines.
_NOT_PUBLIC: Final[tuple[Network, ...]] = tuple(
    ip_network(one)
    for one in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
# All other IPv6 addresses count as not public: loopback, local, IPv4-mapped, and NAT64, which may
# lead to any IPv4 address.
_GLOBAL_UNICAST: Final = ip_network("2000::/3")


def refused(address: str, allowed: Iterable[Network], *, only_allowed: bool = False) -> bool:
    """Whether an address must not be connected to: it is neither public nor in `allowed`.

    With `only_allowed` a public address is refused as well. A text that is no address in its usual
    spelling is always refused, because a system may parse it as one (`2130706433`, `127.1`).
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return True
    if any(found in one for one in allowed):
        return False
    if only_allowed or any(found in one for one in _NOT_PUBLIC):
        return True
    return found.version == 6 and found not in _GLOBAL_UNICAST  # noqa: PLR2004 - of the protocol


def is_address(host: str) -> bool:
    """Whether a host is an address, in whatever spelling, so that a connector does not resolve it.

    The address of such a host has to be checked without a resolver (`JudgedResolver.check`).
    """
    return ":" in host or host.replace(".", "").isdigit()


async def look_up(host: str, port: int) -> tuple[str, ...]:
    """Every address that the system's resolver returns for a host.

    Raises:
        OSError: The host has no address.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class JudgedResolver:
    """Resolves host names for a connector, and refuses addresses that must not be connected to.

    Event loop only. Has the methods of `aiohttp.abc.AbstractResolver`.

    If one address of a name is refused, so is the name: no honest server has some of its addresses
    in a private network.
    """

    def __init__(
        self, allowed: Iterable[Network], *, only_allowed: bool, look_up: LookUp = look_up
    ) -> None:
        """With `only_allowed`, public addresses are refused as well, as for plain HTTP."""
        self._allowed = tuple(allowed)
        self._only_allowed = only_allowed
        self._look_up = look_up

    def check(self, address: str) -> None:
        """Refuse an address that is neither public nor allowed (`refused`).

        Raises:
            UpstreamError: The address is refused.
        """
        if refused(address, self._allowed, only_allowed=self._only_allowed):
            raise UpstreamError(
                f"{address} is not an address that anything is sent to; `allow` lists exceptions",
                sent=False,
            )

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Look up a host and check its addresses; return all of them.

        Raises:
            UpstreamError: One of the addresses is refused.
            OSError: The host has no address.
        """
        # The parameter is not used: the family of each address is read from its text below.
        del family
        found = await self._look_up(host, port)
        for address in found:
            self.check(address)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in found
        ]

    async def close(self) -> None:
        """Do nothing, because the resolver has no open resource."""
