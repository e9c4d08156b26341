"""A way to the gate of this very process, with a front that answers when it is told to."""

from __future__ import annotations

import asyncio

from proxy.dialects.problem import problem
from proxy.guard.direct import Direct
from proxy.seams.environment import Environment, RandomPool
from proxy.seams.operation import HttpReply
from proxy.transport.auth import Peer
from proxy.transport.exchange import AnsweredReply, RequestHead
from proxy.transport.responses import AnswerFailure, attempt


class Slow:
    """Answers every question with the same body, once `go` is set."""

    name = "guard"
    routes = frozenset({"guard.any"})

    def __init__(self, body: bytes) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.fails = False
        self.departed = 0
        self.answered = 0
        self._body = body

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        incoming.gone.tell(self._left)
        self.asked.set()
        await self.go.wait()
        if self.fails:
            raise RuntimeError("of its own")
        done = await attempt(incoming.complete(), lambda: None)
        self.answered += 1
        if isinstance(done, AnswerFailure):
            return AnsweredReply(reply=problem(done.refusal, incoming.answering), route="guard.any")
        return AnsweredReply(reply=HttpReply(status=200, body=self._body), route="guard.any")

    def _left(self) -> None:
        self.departed += 1


def direct_to(front: Slow, *, drain_s: float = 1, body_bytes_max: int = 1 << 20) -> Direct:
    return Direct(
        front,
        Peer(address="uid:1000", uid=1_000),
        surroundings=Environment(
            clock_ns=lambda: 1_700_000_000_000_000_000,
            random_hex=RandomPool(),
            record=lambda _event: None,
        ),
        halt=lambda: None,
        body_bytes_max=body_bytes_max,
        drain_s=drain_s,
    )
