"""The relay's own requests to a server or client, and the `_meta` that each era needs for them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from proxy.dialects.mcp.message import (
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_VERSION,
    Era,
    Message,
    Object,
    RequestId,
    made,
)
from proxy.mcp.connection import OWN_PREFIX, RelayLimits, ServerGone, Side, other
from proxy.mcp.pending_requests import PendingRequest, RequestStage, RequestTable
from proxy.seams.environment import Environment

_ID_BYTES: Final = 16
_COUNTED_BYTES: Final = 3
_COUNTED_MIN: Final = 2**24
_COPIED: Final = (META_VERSION, META_CLIENT_INFO)


def meta_of(message: Message) -> Object:
    """The `_meta` for a request of the relay's own, modelled on this request of the client.

    Such requests are sent in the client's name, but without its capabilities: the client would not
    see what a server asks back.
    """
    if message.era is not Era.STATELESS:
        return {}
    copied: Object = {name: message.meta[name] for name in _COPIED if name in message.meta}
    copied[META_CAPABILITIES] = {}
    return copied


class OwnRequests:
    """Sends the relay's own requests to client or server. Event loop only."""

    def __init__(
        self,
        asked: Mapping[Side, RequestTable],
        send: Callable[[Side, Message, object], Awaitable[None]],
        limits: RelayLimits,
        surroundings: Environment,
    ) -> None:
        self._asked = asked
        self._send = send
        self._limits = limits
        self._surroundings = surroundings
        self._closed = False
        # Random ids: a server must not tell the relay's requests from its client's.
        self._counted = True

    def like(self, request_id: RequestId) -> None:
        """Make ids of the relay's requests from now on numbers or texts, as the client's are."""
        self._counted = isinstance(request_id, int)

    def _id_for(self, side: Side) -> RequestId:
        random_hex = self._surroundings.random_hex
        if side is Side.CLIENT:
            return OWN_PREFIX + random_hex(_ID_BYTES)
        if self._counted:
            # A number that the client's counter will not reach while the relay waits.
            return _COUNTED_MIN + int(random_hex(_COUNTED_BYTES), 16)
        return str(uuid.UUID(hex=random_hex(_ID_BYTES), version=4))

    def close(self) -> None:
        """Let pending and later requests fail, because the server has gone."""
        self._closed = True

    async def ask(self, side: Side, method: str, params: Object, via: object = None) -> Message:
        """Send a request of the relay's own; its answer is returned here, and not passed on.

        Raises:
            ServerGone: No answer came in time.
        """
        request_id = self._id_for(side)
        era = Era.STATELESS if "_meta" in params else Era.HANDSHAKE
        body: Object = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        message = made(body, era)
        pending = PendingRequest(message, via)
        own: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        pending.own = own
        pending.stage = RequestStage.SENT
        table = self._asked[other(side)]
        if self._closed or not table.add(pending):
            raise ServerGone
        limits = self._limits
        seconds = limits.person_seconds if side is Side.CLIENT else limits.answer_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._send(side, message, via)
                return await own
        except TimeoutError:
            table.take(request_id)
            raise ServerGone from None
