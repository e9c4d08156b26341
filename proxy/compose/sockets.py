"""Opens the sockets of a sidecar, each for one front, and limits who may connect."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Final

import msgspec

from proxy.compose.observe_mode import HEADER
from proxy.compose.periodic import Periodic, every
from proxy.fronts.health import Health, HealthFront, HealthHosts
from proxy.guard.wire import SOCKET
from proxy.seams.environment import Environment
from proxy.seams.faults import CannotListen
from proxy.settings.table import Limits, Settings
from proxy.settings.values import Address
from proxy.standby.peer_port import Adopt, PeerPort
from proxy.standby.standby import HeldFront
from proxy.transport.exchange import Front
from proxy.transport.head import HostRules
from proxy.transport.listener import Listener, tls_context
from storage.shard import ShardMember

ADMIN_SOCKET: Final = "admin.sock"
GUARD_BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""The largest request body of a relay: a string that cannot be split may be long."""


class Fronts(msgspec.Struct, frozen=True, kw_only=True):
    """The fronts of a sidecar, one for each listener."""

    data: Front
    admin: Front
    guard: Front


class Sockets:
    """Opens the sidecar's sockets.

    The data listener is opened late, and the health listener last, because an answer of the health
    listener means that all others are open.
    """

    def __init__(
        self,
        settings: Settings,
        surroundings: Environment,
        halted: asyncio.Event,
        member: ShardMember | None = None,
    ) -> None:
        """`member` is this process as the holder of its shard's store; None without a shard."""
        self._member = member
        self._peers: PeerPort | None = None
        self._settings = settings
        self._surroundings = surroundings
        self._halted = halted
        self._listeners: list[Listener] = []

    async def open(
        self, stack: AsyncExitStack, fronts: Fronts, *, listen: bool
    ) -> tuple[Address | None, Address | None]:
        """Open the configured sockets; return the addresses of the data and the admin listener.

        Connections made before `serve` wait for their answer.

        Without `listen` only the operator's socket is opened.

        Raises:
            OSError: An address cannot be bound.
        """
        settings = self._settings
        admin = await self._listener(stack, fronts.admin, settings.admin)
        own = frozenset({os.geteuid(), 0})
        await admin.open_unix(settings.state / ADMIN_SOCKET, own, private=True, serving=False)
        if not listen:
            return None, None
        await self._open_guard(stack, fronts.guard, own)
        with _moved_by("tls_cert"):
            tls = tls_context(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
        with _moved_by("admin", settings.admin):
            admin_address = await admin.open_tcp(settings.admin, tls, serving=False)
        data = await self._listener(stack, fronts.data, settings.listen)
        if settings.unix_socket is not None:
            uids = frozenset(settings.unix_uids or ())
            with _moved_by("unix_socket"):
                await data.open_unix(settings.unix_socket, uids, private=False, serving=False)
        if self._member is not None:
            adopting = {"data": data.adopt, "admin": admin.adopt}
            self._open_peers(
                stack, self._member, {name: partial(one, tls=tls) for name, one in adopting.items()}
            )
        with _moved_by("listen", settings.listen):
            return await data.open_tcp(settings.listen, tls, serving=False), admin_address

    def _open_peers(
        self, stack: AsyncExitStack, member: ShardMember, listeners: Mapping[str, Adopt]
    ) -> None:
        if self._settings.shard is None:
            return
        address = self._settings.shard.address
        with _moved_by("peers", address):
            self._peers = PeerPort(address, member.peers_key, listeners)
        stack.callback(self._peers.close)

    def periodic(self) -> tuple[Periodic, ...]:
        """The job that serves clients whom other members of the shard announce."""
        if self._peers is None:
            return ()
        return (every(1.0, self._peers.serve, "the port of the shard's members", at_once=True),)

    async def _open_guard(self, stack: AsyncExitStack, front: Front, own: frozenset[int]) -> None:
        settings = self._settings
        limits = msgspec.structs.replace(settings, body_bytes_max=GUARD_BODY_BYTES_MAX)
        listener = await self._listener(stack, front, settings.admin, limits=limits)
        bound = frozenset(one.uid for one in settings.principals if one.uid is not None)
        await listener.open_unix(settings.state / SOCKET, own | bound, private=True, serving=False)

    async def open_health(self, stack: AsyncExitStack, health: Health) -> Address | None:
        """Open the health listener for an orchestrator; return its address, None if not configured.

        Raises:
            OSError: The address cannot be bound.
        """
        address = self._settings.health
        if address is None:
            return None
        front = HealthFront(health, self._halted.set)
        listener = await self._listener(stack, front, address, HealthHosts)
        # The health listener has no TLS: a kubelet has no client certificate, and the answers
        # contain no secret.
        with _moved_by("health", address):
            return await listener.open_tcp(address, serving=False)

    async def _listener(
        self,
        stack: AsyncExitStack,
        front: Front,
        address: Address,
        rules: type[HostRules] = HostRules,
        limits: Limits | None = None,
    ) -> Listener:
        settings = self._settings
        listener = Listener(
            front if self._member is None else HeldFront(front, self._member.journal.holds),
            limits=limits or settings,
            rules=msgspec.structs.replace(
                rules.of(settings.allowed_hosts, settings.allowed_origins, address.host),
                own_pages=front.name == "admin",
            ),
            surroundings=self._surroundings,
            halt=self._halted.set,
            headers=(HEADER,) if settings.observe else (),
        )
        stack.push_async_callback(listener.close)
        self._listeners.append(listener)
        return listener

    async def serve(self) -> None:
        """Begin to answer on every listener, in the order in which they were opened.

        Raises:
            OSError: The system has no resources to accept connections.
        """
        for listener in self._listeners:
            await listener.serve()


@contextmanager
def _moved_by(setting: str, address: Address | None = None) -> Generator[None]:
    """Turn a failure to open a listener into an error that names the setting to change."""
    try:
        yield
    except OSError as error:
        raise CannotListen(error, setting, None if address is None else address.port) from error
