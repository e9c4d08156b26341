"""The model front's record of each agent, its sessions and withheld texts, stored in one log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Self

from policy.model import Principal, PrincipalId
from proxy.ledger.sessions import Sessions
from proxy.model.call_judge import ReplyJudge
from proxy.model.ledger_coupling import AboveFloor, LedgerCoupling
from proxy.model.model_replays import ModelReplays
from proxy.model.reply_healer import HealedReply
from proxy.model.reply_notes import ReplyNotes
from proxy.places.place_wall import PlacesMode, PlaceWall
from proxy.seams.cases import ChecksReplies, HealsReplies
from proxy.seams.environment import Environment
from proxy.seams.guard import RelayedText
from proxy.seams.operation import earlier_texts_of, memories_of
from proxy.seams.recalls import Shown
from proxy.withhold.convictions import Convictions
from proxy.withhold.screens import KnownRules, ScreenMaker
from proxy.withhold.verdicts import Verdicts
from proxy.withhold.withholding import Withholding
from storage.interfaces import SessionLog, Store

# The methods whose answers describe a server and its tools: the agent's host, and no tool result,
# brings these texts into a context.
_DECLARING: Final = frozenset({"initialize", "server/discover", "tools/list"})


class ModelMemory:
    """The session ledger and the withholding, shared by all model fronts of a store.

    Event loop only, unless a method says otherwise.
    """

    def __init__(
        self,
        log: SessionLog,
        sessions: Sessions,
        withholding: Withholding,
        replies: ReplyNotes,
        *,
        replays: ModelReplays,
        floor: AboveFloor,
        wall: PlaceWall,
    ) -> None:
        self._log = log
        self._wall = wall
        self._floor = floor
        self._replies = replies
        self.replays = replays
        self.sessions = sessions
        self.withholding = withholding

    @classmethod
    async def opened(
        cls,
        store: Store,
        surroundings: Environment,
        replays: ModelReplays,
        convictions: Convictions,
        places: PlacesMode,
    ) -> Self:
        """Open the session ledger and the withholding with what was stored before the last stop.

        Raises:
            StoreUnavailable: The ledger's file cannot be opened or created.
        """
        scar = Sessions.scar(surroundings.now_ms())
        log, records = await asyncio.to_thread(store.open_session_log, scar)
        sessions = Sessions(log, store.prints_key, surroundings)
        verdicts = Verdicts(store, convictions)
        withholding = Withholding(store.prints_key, log, verdicts, surroundings.pace)
        sessions.restore(records, withholding)
        await asyncio.to_thread(withholding.resolve)
        replies = ReplyNotes(store.recalls, surroundings.now_ms)
        floor = AboveFloor(store.reader)
        wall = PlaceWall(store.places, surroundings.pace, places)
        return cls(log, sessions, withholding, replies, replays=replays, floor=floor, wall=wall)

    async def close(self) -> None:
        """Flush the session log and close its file; drop the requests stored for replays."""
        self.replays.close()
        await self.sessions.close()

    def coupled(self, judging: ReplyJudge, checks: ChecksReplies | None) -> LedgerCoupling:
        """The coupling of a model front, by which ledger and withholding see its requests."""
        return LedgerCoupling(
            judging,
            self.sessions,
            self.withholding,
            self._replies,
            checks=checks,
            replays=self.replays,
            floor=self._floor,
            wall=self._wall,
        )

    def healing(self, heals: HealsReplies, halt: Callable[[], None]) -> Callable[[], HealedReply]:
        """Makes the object that checks one reply of a model before it is forwarded to the agent."""
        return partial(HealedReply, self._replies, heals, halt)

    async def saw(self, principal_id: PrincipalId, segment: RelayedText, tenant: str = "") -> None:
        """Record in ledger and withholding the text that a relay showed an agent."""
        await self.sessions.saw(principal_id, segment, tenant)
        if segment.tool not in _DECLARING:
            await self.withholding.speakers.saw(principal_id, segment.texts)

    def recalled(self, principal: Principal, shown: Shown, recall_id: str) -> None:
        """Record in ledger and withholding the memories that a memory front is about to serve."""
        memories = memories_of(shown)
        recalls = memories or earlier_texts_of(shown, principal.tenant)
        if recalls:
            self.sessions.recalled(principal.principal_id, recalls)
            self.withholding.shown(principal.principal_id, memories)
            self._replies.recalled(principal, memories, recall_id)


def convictions_of(store: Store) -> Convictions:
    """The source of the convicted sentences of each tenant of a store."""
    rules = ScreenMaker(KnownRules(store.reader.anchors))
    return Convictions(store.quarantined, store.reader, rules)
