"""An agent with memory tools in its own hands: its model's calls are noted, judged and answered."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import msgspec

from policy.gate import GATE, Gate
from policy.labels.forwarded_call import MCP
from policy.model import Channel, Principal
from proxy.dialects.model.anthropic import messages as anthropic
from proxy.dialects.model.memory_tools import Maps, OfferedTools
from proxy.dialects.model.tools import DeclaredTool
from proxy.dialects.model.transcript import ModelCall
from proxy.dialects.strict_json.tolerant import Json
from proxy.guard.answer_sieve import ShowingNotes
from proxy.guard.local_guard import LocalGuard
from proxy.guard.sieve import Sieve
from proxy.ledger.sessions import Sessions
from proxy.model.call_judge import CallJudge
from proxy.settings.tool_maps import maps_of_models
from tests.unit.proxy.guarded import AGENT, Clock, no_page
from tests.unit.proxy.ledgers import Clock as Time
from tests.unit.proxy.ledgers import assistant, reply, result, user
from tests.unit.proxy.wired import Wired, wired

PAGE = "The harbour office is closed on Mondays. Boats longer than nine metres moor at quay seven."


class Agent:
    """One agent, one conversation; everything its model says passes ledger and veto.

    The holder of a person's key calls the tools herself: of her calls the ledger sees nothing.
    """

    def __init__(self, veto: CallJudge, sessions: Sessions, parts: Wired, by: Principal) -> None:
        self.veto, self.sessions, self.parts, self.by = veto, sessions, parts, by
        self.messages: list[Json] = [user("Please keep the notes in order.")]
        self._count = 0
        self.last: str | None = None

    async def _enter(self) -> str:
        request = anthropic.read_request({"messages": self.messages})
        return (await self.sessions.entered(self.by, request)).session

    async def reads(self, text: str, tool: str = "fetch") -> None:
        """A tool's result enters the context."""
        await self._made(ModelCall(call_id=self._id(), name=tool, arguments={"about": "it"}), text)

    async def calls(self, tool: str, arguments: dict[str, Json], answer: str | None = "ok") -> bool:
        """A memory tool is called; whether the agent gets the call. None: no answer comes."""
        one = ModelCall(call_id=self._id(), name=tool, arguments=arguments)
        if self.by.channel is not Channel.USER:
            session = await self._enter()
            await self.sessions.replied(self.by, session, reply("", one))
        declared = DeclaredTool(name=tool, arguments=frozenset(arguments))
        self.catalogue = OfferedTools((declared,), self.maps)
        # What she calls herself, no model made.
        hers = patch("proxy.guard.local_guard.MODEL_SERVERS", ())
        with hers if self.by.channel is Channel.USER else nullcontext():
            (self.last,) = await self.veto.judge(self.by, self.catalogue, (one,))
        if self.last is None and answer is not None:
            # The answer of a memory tool is nothing foreign, so the ledger is not shown it.
            answered: list[Json] = [assistant("", one), result(one.call_id, answer)]
            await self.veto.results(self.by, {"messages": [*self.messages, *answered]})
        return self.last is None

    maps: Maps

    async def _made(self, one: ModelCall, answer: str) -> None:
        session = await self._enter()
        await self.sessions.replied(self.by, session, reply("", one))
        self.messages += [assistant("", one), result(one.call_id, answer)]
        await self._enter()

    def _id(self) -> str:
        self._count += 1
        return f"{self.by.principal_id}-{self._count}"


class Desk:
    """A store with a guard, a ledger and a veto, for any number of agents."""

    def __init__(self, parts: Wired, sessions: Sessions) -> None:
        self.parts, self.sessions = parts, sessions
        store = parts.store
        self.guard = LocalGuard(
            dialect="mcp",
            target_prefix=MCP,
            writing=parts.writing,
            forwards=store.forwards,
            followed=store.followed,
            pins=store.pins,
            sieve=Sieve(store.followed.since),
            ledger=sessions,
            surroundings=parts.surroundings,
            url_of=no_page,
            showing=ShowingNotes(store.recalls, lambda: 0, parts.surroundings.now_ms),
            monotonic_s=Clock(),
        )
        self.veto = CallJudge(self.guard)

    def agent(self, tool_map: str, by: Principal = AGENT) -> Agent:
        agent = Agent(self.veto, self.sessions, self.parts, by)
        shipped = maps_of_models((tool_map,))
        agent.maps = msgspec.structs.replace(shipped, named=True)
        return agent


@asynccontextmanager
async def desk(root: Path, gate: Gate = GATE) -> AsyncGenerator[Desk]:
    """The parts on a store below `root`."""
    sessions = Sessions(None, b"p" * 32, Time().surroundings())
    with wired(root, gate, sessions=sessions) as parts:
        yield Desk(parts, sessions)
        assert parts.store.reader.check().problems == ()
