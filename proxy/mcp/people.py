"""Calls that wait for a person's decision on a held item, and the relay's own requests."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from policy.model import CandidateId
from policy.verdict import InvariantBroken
from proxy.dialects.mcp import elicit
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
from proxy.mcp.answers import Answers
from proxy.mcp.backend import SentItem
from proxy.mcp.connection import OWN_PREFIX, RelayConnection, RelayLimits, ServerGone, Side, other
from proxy.mcp.pending_requests import PendingRequest, RequestStage, RequestTable
from proxy.mcp.server import HeldCall
from proxy.seams.environment import Environment
from proxy.seams.guard import ItemVerdict
from proxy.seams.observations import notes_of
from proxy.seams.waits import first
from proxy.settle.forwarder import UNDECIDED
from proxy.settle.leftovers import Leftovers

STATE_BYTES: Final = 16
CONFIRMED: Final = "A person confirmed it, and it is being stored. Do not send it again."
NOT_TAKEN: Final = "A person confirmed it, and the memory server did not take it: it is not stored."


class People:
    """Asks a person, through the client, to decide on a held item, and answers the item's call.

    The connection's other requests are handled meanwhile. Event loop only.
    """

    def __init__(
        self, connection: RelayConnection, answers: Answers, leftovers: Leftovers[SentItem]
    ) -> None:
        self._connection = connection
        self._answers = answers
        self._leftovers = leftovers
        # Whether a client of the handshake era can send a person to a page.
        self._takes_urls = False

    def introduced(self, params: Object) -> None:
        """Take the client's capabilities from `initialize`."""
        self._takes_urls = elicit.takes_urls(params.get("capabilities"))

    async def take_over(
        self, message: Message, pending: PendingRequest, judged: tuple[ItemVerdict, ...]
    ) -> bool:
        """Ask a person to decide on the call's held item; return False if no one can be asked.

        If True, the call is answered later, and nothing of it was sent. For a call with several
        held items no one is asked: they wait in `mnemogate review`.
        """
        held = [one for one in judged if one.decision == "hold"]
        if len(held) != 1 or held[0].candidate_id is None or held[0].confirm_url is None:
            return False
        stateless = message.era is Era.STATELESS
        takes_urls = elicit.takes_urls_now(message.params) if stateless else self._takes_urls
        if not takes_urls:
            return False
        random_hex = self._connection.surroundings.random_hex
        question = elicit.ConfirmQuestion(
            elicitation_id=random_hex(STATE_BYTES),
            url=held[0].confirm_url,
            memory_class=held[0].memory_class,
        )
        observation = "\n".join(one.observation for one in judged)
        if stateless:
            state = random_hex(STATE_BYTES)
            waiting = HeldCall(
                candidate_id=held[0].candidate_id,
                principal_id=self._connection.principal.principal_id,
                observation=observation,
            )
            self._connection.server.wait_for(state, waiting)
            await self._connection.answer(pending, elicit.input_required(question, state))
        else:
            given_up = asyncio.Event()
            self._connection.spawn(self._question(pending, question, given_up))
            self.wait(pending, held[0].candidate_id, observation, given_up)
        return True

    def wait(
        self,
        pending: PendingRequest,
        candidate_id: CandidateId,
        observation: str,
        given_up: asyncio.Event | None = None,
    ) -> None:
        """Answer the call when the person has decided or declined, or the time is over."""
        over = given_up or asyncio.Event()
        self._connection.spawn(self._decided(pending, candidate_id, observation, over))

    async def _question(
        self, pending: PendingRequest, question: elicit.ConfirmQuestion, given_up: asyncio.Event
    ) -> None:
        params = elicit.request("", question)["params"]
        if not isinstance(params, dict):
            raise InvariantBroken("a question has parameters")
        try:
            answer = await self._connection.ask(Side.CLIENT, elicit.METHOD, params, pending.via)
        except ServerGone:
            # The client did not answer in time. That ends nothing: `_decided` has a deadline of its
            # own, and the person may still decide on the page.
            return
        if elicit.answer_of(answer.body) is not elicit.Reaction.ACCEPT:
            given_up.set()

    async def _decided(
        self,
        pending: PendingRequest,
        candidate_id: CandidateId,
        observation: str,
        given_up: asyncio.Event,
    ) -> None:
        ends = asyncio.get_running_loop().time() + self._connection.limits.person_seconds
        while not (
            given_up.is_set() or pending.cancelled.is_set() or self._connection.gone.is_set()
        ):
            try:
                judged = await self._connection.guard.decided(
                    self._connection.principal, candidate_id
                )
            except UNDECIDED:
                break
            if judged.decision == "admit":
                await self._released(pending, candidate_id)
                return
            if judged.decision != "hold":
                observation = judged.observation
                break
            left = ends - asyncio.get_running_loop().time()
            if left <= 0:
                break
            pause = asyncio.sleep(min(left, self._connection.limits.ask_seconds))
            await first(pause, given_up.wait(), pending.cancelled.wait())
        await self._connection.refuse(pending, [observation])

    async def _released(self, pending: PendingRequest, candidate_id: CandidateId) -> None:
        """Send an item that a person released, and answer its call with the server's answer."""
        sent = await self._leftovers.send_released(candidate_id)
        if sent is None:
            await self._connection.refuse(pending, [CONFIRMED])
            return
        pending.note += notes_of((sent.state,))
        shown = await self._answers.shown(pending, sent.answer)
        if shown.result:
            await self._connection.answer(pending, shown.result)
        else:
            await self._connection.refuse(pending, [NOT_TAKEN])


_ID_BYTES: Final = 16
_COUNTED_BYTES: Final = 3
_COUNTED_MIN: Final = 2**24
_COPIED: Final = (META_VERSION, META_CLIENT_INFO)


def meta_of(message: Message) -> Object:
    """The `_meta` for the relay's own requests, made from a request of the client.

    It names the client, but without the client's capabilities: what a server asks in return for
    such a request would not reach the client.
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
        # Whether the ids of own requests are numbers. They have the form of the client's ids, so
        # that a server cannot distinguish the relay's requests from the client's.
        self._counted = True

    def like(self, request_id: RequestId) -> None:
        """Make the ids of the relay's next requests numbers or texts, as `request_id` is."""
        self._counted = isinstance(request_id, int)

    def _id_for(self, side: Side) -> RequestId:
        random_hex = self._surroundings.random_hex
        if side is Side.CLIENT:
            return OWN_PREFIX + random_hex(_ID_BYTES)
        if self._counted:
            # A random number above every number that the client's counter is likely to reach.
            return _COUNTED_MIN + int(random_hex(_COUNTED_BYTES), 16)
        return str(uuid.UUID(hex=random_hex(_ID_BYTES), version=4))

    def close(self) -> None:
        """Let pending and later requests fail, because the server has gone."""
        self._closed = True

    async def ask(self, side: Side, method: str, params: Object, via: object = None) -> Message:
        """Send the relay's own request; return the answer, which is not forwarded.

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
            table.take(pending)
            raise ServerGone from None
