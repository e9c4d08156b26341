"""Connects model requests to the session ledger and to the withholding of refused texts.

A request waits for undecided candidates and is noted in the ledger; then it is forwarded without
refused texts. The model's words are noted before the agent can act on them.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from policy.model import Memory, Principal, PrincipalId, Reads
from proxy.dialects.files.shipped_places import places_with
from proxy.dialects.model.memory_tools import OfferedTools, keeps_memory
from proxy.dialects.model.reading import list_of
from proxy.dialects.model.replies_withheld import ReplyFilter
from proxy.dialects.model.tools import tools_of
from proxy.dialects.model.transcript import ModelCall, ModelReply, ModelRequest, Turn
from proxy.dialects.model.withheld import LeftUnchanged
from proxy.dialects.strict_json.tolerant import Json
from proxy.ledger.sessions import RequestFindings, Sessions
from proxy.model.call_judge import ReplyJudge
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest
from proxy.model.model_replays import ModelReplays
from proxy.model.reply_notes import ReplyNotes
from proxy.places.place_wall import PlaceWall
from proxy.seams.by_identity import ByIdentity
from proxy.seams.cases import ChecksReplies
from proxy.withhold.first_speakers import RequestWords
from proxy.withhold.left_out import without
from proxy.withhold.request_withholding import Conversation
from proxy.withhold.withholding import Withholding
from storage.features.recalls import InContext
from storage.interfaces import MemoryReader


class AboveFloor:
    """Removes memories below the floor for reads from model requests. Event loop only.

    A request may contain such a memory: it was served to another key of the principal that has no
    floor, or to the same key, whose `[[model]]` table has a floor of its own.
    """

    def __init__(self, reader: MemoryReader) -> None:
        self._reader = reader

    async def of(
        self,
        asked: PrincipalRequest,
        body: dict[str, Json],
        served: tuple[InContext, ...],
        leave: LeftUnchanged,
    ) -> tuple[dict[str, Json], tuple[InContext, ...]]:
        """The body without texts that only memories below the floor contain.

        The second value lists the served memories that the body still contains.
        """
        if asked.principal.reads is Reads.ALL or not served:
            return body, served
        return await asyncio.to_thread(self._above, asked, body, served, leave)

    def _above(
        self,
        asked: PrincipalRequest,
        body: dict[str, Json],
        served: tuple[InContext, ...],
        leave: LeftUnchanged,
    ) -> tuple[dict[str, Json], tuple[InContext, ...]]:
        kept: list[InContext] = []
        present: list[Memory] = []
        below: list[Memory] = []
        for one in served:
            memory = self._memory(asked, one)
            if memory is not None and not asked.principal.reads.shows(memory.source):
                below.append(memory)
                continue
            kept.append(one)
            present += () if memory is None else (memory,)
        if not below:
            return body, served
        return without(body, asked.api.name, leave, out=below, present=present), tuple(kept)

    def _memory(self, asked: PrincipalRequest, served: InContext) -> Memory | None:
        if served.memory_id is None:
            return None
        return self._reader.get(asked.principal.tenant, served.memory_id)


class CleanTurns:
    """Remembers turns of a conversation in which no text had to be withheld.

    A turn counts as clean while it is the same object and `stamp` is the same; `stamp` changes when
    a further text may have to be withheld. Event loop only.
    """

    def __init__(self) -> None:
        self._kept: ByIdentity[Turn, tuple[int, ...]] = ByIdentity()

    def of(self, stamp: tuple[int, ...], request: ModelRequest) -> frozenset[int]:
        """The indexes of a request's turns that need no new search for withheld text."""
        known = self._kept.each(request.turns)
        return frozenset(at for at, kept in enumerate(known) if kept == stamp)

    def note(
        self,
        stamp: tuple[int, ...],
        request: ModelRequest,
        *,
        clean: frozenset[int],
        body: dict[str, Json],
        edited: dict[str, Json],
    ) -> None:
        """Note the turns that are equal in `body` and `edited`, so that they need no new search.

        `clean` are the indexes of turns that needed no search this time.
        """
        if len(request.prefix) != 1:
            return
        (key,) = request.prefix
        came, went = (list_of(one.get(str(key))) for one in (body, edited))
        stayed = {id(part) for part in went}
        for at, turn in enumerate(request.turns):
            if at < len(came) and at not in clean and id(came[at]) in stayed:
                self._kept[turn] = stamp


QUIET_S: Final = 20.0
"""Seconds that a request waits for undecided candidates; those still undecided are then refused."""


class LedgerCoupling:
    """Connects the model front to judge, session ledger and withholding.

    Event loop only; any number of requests at once.
    """

    def __init__(
        self,
        judging: ReplyJudge,
        sessions: Sessions,
        withholding: Withholding,
        replies: ReplyNotes,
        *,
        checks: ChecksReplies | None,
        replays: ModelReplays,
        floor: AboveFloor,
        wall: PlaceWall,
    ) -> None:
        """`checks` compares finished replies with anchors; `replays` keeps requests to replay.

        `wall` takes out lines of files that wait for a person.
        """
        self._floor = floor
        self._wall = wall
        self._judging = judging
        self._checks = checks
        self._replays = replays
        self._replies = replies
        self._sessions = sessions
        self._withholding = withholding
        self._clean = CleanTurns()

    async def prepare(self, asked: PrincipalRequest) -> PreparedRequest:
        """Wait for undecided candidates, note what enters the context, remove withheld texts.

        Raises:
            StorageError: The note of what entered could not be made durable.
        """
        principal, principal_id = asked.principal, asked.principal.principal_id
        await self._judging.results(asked)
        request = asked.api.read_request(asked.body, asked.readings)
        # Wait until the memories that made an earlier reply wrong are hidden, so that their texts
        # are removed from this request.
        if self._checks is not None:
            await self._checks.settled(principal)
        # Wait for undecided candidates; the text of one that is not decided in time is withheld
        # until its verdict is known.
        await self._withholding.quiet(principal_id, QUIET_S)
        # Withholding only queues its records here: `noted` is awaited after the session ledger has
        # queued its own, so that both are written to disk together.
        came = asked
        asked, went, files = await self._walled(came, request)
        # The text of a file is never the host's own, also where the host is the first to show it.
        if files:
            await self._withholding.speakers.saw(principal_id, files)
        heard, noted = await self._withholding.entered(principal_id, went)
        entered = await self._sessions.entered(
            principal, request, reads_foreign=asked.reads_foreign
        )
        await asyncio.shield(noted)
        # Wait again, for candidates that arrived while the ledger wrote to disk.
        await self._withholding.quiet(principal_id, QUIET_S)
        conversation = self._conversation(principal_id, entered, heard)
        body = await self._withheld(asked, went, heard, conversation)
        leave, memories = LeftUnchanged(), self._replies.in_context(principal, request, entered)
        if self._replays.keeps(asked) or principal.reads is not Reads.ALL:
            leave = heard.leave()
        body, memories = await self._floor.of(asked, body, memories, leave)
        return PreparedRequest(
            asked=came,
            request=request,
            body=body,
            session=entered.session,
            conversation=conversation,
            leave=leave,
            memories=memories,
        )

    async def _walled(
        self, asked: PrincipalRequest, request: ModelRequest
    ) -> tuple[PrincipalRequest, ModelRequest, list[str]]:
        """The request without lines of files that wait, and the texts of its files."""
        file_maps = asked.maps.files
        places = file_maps[0].all_places if file_maps else places_with()
        came = asked.body
        body, files = await self._wall.without_waiting(asked.principal, came, request, places)
        if body is not came:
            asked = msgspec.structs.replace(asked, body=body)
            request = asked.api.read_request(body, asked.readings)
        return asked, request, files

    def _conversation(
        self, principal_id: PrincipalId, entered: RequestFindings, heard: RequestWords
    ) -> Conversation:
        """The request's sessions, and the words that a person typed or the host wrote in it."""
        others = self._withholding.sessions(principal_id)
        kin = frozenset(one for one in others if self._sessions.are_kin(one, entered.session))
        return Conversation(kin | {entered.session}, heard.typed, heard.hosts)

    async def _withheld(
        self,
        asked: PrincipalRequest,
        request: ModelRequest,
        heard: RequestWords,
        conversation: Conversation,
    ) -> dict[str, Json]:
        withholding, principal_id = self._withholding, asked.principal.principal_id
        looked_at: list[tuple[tuple[int, ...], frozenset[int]]] = []

        def stamp() -> tuple[int, ...]:
            return withholding.stamp(principal_id, conversation)

        def left() -> LeftUnchanged:
            now = stamp()
            clean = self._clean.of(now, request)
            looked_at.append((now, clean))
            return heard.leave(clean)

        went = await withholding.apply(
            *(asked.principal, asked.api.name, asked.body, left, conversation),
            thinks=request.thinks,
        )
        for then, clean in looked_at:
            if then == stamp():
                self._clean.note(then, request, clean=clean, body=asked.body, edited=went)
        return went

    async def judge(
        self, prepared: PreparedRequest, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        """For each complete call: None to forward it, or the text that the agent gets instead.

        A call with a withheld text is refused.
        """
        principal_id = prepared.asked.principal.principal_id
        return await self._judging.judge(
            prepared,
            calls,
            lambda call: self._withholding.refusal(principal_id, call, prepared.conversation),
        )

    async def replied(self, prepared: PreparedRequest, reply: ModelReply) -> None:
        """Note the model's words and calls, before the agent can act on them."""
        principal = prepared.asked.principal
        noted = await self._withholding.speakers.replied(principal.principal_id, reply)
        await self._sessions.replied(principal, prepared.session, reply, _recalls(prepared, reply))
        await asyncio.shield(noted)
        self._replies.replied(prepared, reply)
        self._replays.keep(prepared, reply.reply_id or "")
        if self._checks is not None and prepared.memories and reply.reply_id:
            ids = tuple(one.memory_id for one in prepared.memories if one.memory_id is not None)
            self._checks.replied(principal, reply.reply_id, reply.said, ids)

    def filter(self, prepared: PreparedRequest) -> ReplyFilter:
        """A filter that removes withheld texts from the events of one streamed reply."""
        asked = prepared.asked
        return self._withholding.reply(
            asked.principal.principal_id, asked.api.name, prepared.conversation
        )

    async def settled(self, principal: Principal) -> None:
        """Wait for undecided candidates, so that what is sent later respects their verdicts."""
        await self._withholding.settled(principal, QUIET_S)

    def withholds(self, principal: Principal) -> bool:
        """Whether any text is withheld from this principal."""
        return self._withholding.withholds(principal.principal_id)

    def carries(self, principal: Principal, text: str) -> bool:
        """Whether a text contains a text that is withheld from this principal."""
        return self._withholding.carries(principal.principal_id, text)

    def sieved(self, principal: Principal, value: Json) -> Json:
        """The JSON value without refused texts, for routes that ask no model."""
        return self._withholding.sieved(principal.principal_id, value)

    def said(self, prepared: PreparedRequest, body: dict[str, Json]) -> dict[str, Json]:
        """A whole reply without withheld texts; the reply's calls were judged before."""
        asked = prepared.asked
        return self._withholding.said(
            asked.principal.principal_id, asked.api.name, body, prepared.conversation
        )

    def passing(self, principal: Principal) -> ReplyFilter:
        """A filter that removes withheld texts from a stream of an unknown API's events."""
        return self._withholding.reply(principal.principal_id, "")


def _recalls(prepared: PreparedRequest, reply: ModelReply) -> frozenset[str]:
    """The ids of a reply's calls whose tools only read or change memory, as the tool maps tell.

    An id that a call of any other tool has too is left out.
    """
    if not reply.calls:
        return frozenset()
    tools = OfferedTools(tools_of(prepared.asked.body), prepared.asked.maps)
    others = {call.call_id for call in reply.calls if not keeps_memory(tools.find(call))}
    return frozenset(call.call_id for call in reply.calls) - others
