"""Asks a person, at the end of a reply, whether a held memory may be stored.

One layer of what couples the model front to memory. An answer needs a code. It counts only as the
turn that directly follows the question, in the same conversation, where no tool was ever offered
that could have read the code or typed the answer. Words of a page or a model decide nothing, and a
code that appears in them is void.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from policy.labels.floor import class_once_confirmed
from policy.labels.forwarded_call import is_forwarded
from policy.labels.who_writes import UserTurns
from policy.model import CandidateId, PrincipalId, SourceKind
from proxy.dialects.model.confirm.block import (
    QUESTIONS_MAX,
    Outcomes,
    TextAsked,
    answers_in,
    block_of,
    code_of,
    host_of,
    resembles,
)
from proxy.dialects.model.confirm.candidates import ShownWhole, shown_whole
from proxy.dialects.model.confirm.history import TakenOut, taken_out
from proxy.dialects.model.confirm.may_ask import why_not
from proxy.dialects.model.confirm.replies import answers_a_person
from proxy.dialects.model.transcript import Voice
from proxy.ledger.by_identity import ByIdentity
from proxy.ledger.texts import strings_in
from proxy.ledger.views import READ_NAMED_MAX
from proxy.model.codes import OPEN_MS, OpenCode
from proxy.seams.delivery import Way
from storage.audit import plain_name
from storage.errors import StorageError, UnknownCandidate
from storage.values import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.model import Principal
    from proxy.dialects.model.confirm.history import TurnBehind
    from proxy.dialects.model.transcript import ModelCall, ModelReply, ModelRequest, Turn
    from proxy.dialects.strict_json.tolerant import Json
    from proxy.ledger.sessions import Sessions
    from proxy.model.codes import Codes
    from proxy.model.memory_seam import Asked, Coupling, Filter, Prepared
    from proxy.seams.surroundings import Surroundings
    from storage.interfaces import MemoryReader
    from storage.values import HeldCandidate, Outcome

_LOG: Final = logging.getLogger("mnemogate.confirm")
IN_CONVERSATION: Final = PrincipalId("confirm:reply")
"""Approves on behalf of whoever answered in the conversation; no principal can be called so."""
WAY: Final = "reply"
LOOKED_AT_MAX: Final = 8
"""Candidates of one origin that are read, the newest first, until one can be shown."""
HOSTS_MAX: Final = 4


class PersonsVerdict(Protocol):
    """How a person's decision on a held candidate turned out."""

    @property
    def outcome(self) -> Outcome:
        """The verdict that the person's decision brought about."""
        ...

    @property
    def way(self) -> Way:
        """Who writes the text if it was let in."""
        ...


class Decides(Protocol):
    """Takes a person's verdict on a held candidate.

    `mnemogate review` and the review page have the same.
    """

    async def release(self, candidate_id: CandidateId, by: PrincipalId, way: str) -> PersonsVerdict:
        """Refuse a held candidate, as the person decided."""
        ...

    async def deny(self, candidate_id: CandidateId, by: PrincipalId, way: str) -> PersonsVerdict:
        """Refuse a candidate."""
        ...


class _Waiting(NamedTuple):
    """A candidate that a person may be asked about, and what its conversation had read."""

    candidate_id: CandidateId
    shown: ShownWhole
    # All strings of the candidate: a name shown beside the candidate must not repeat any of them.
    said: tuple[str | None, ...]
    stands: int
    had_read: tuple[str, ...] = ()


class Questioning:
    """Implements `Coupling`: asks persons, and passes the rest to the coupling that it wraps.

    Event loop only.
    """

    def __init__(
        self,
        inner: Coupling,
        *,
        codes: Codes,
        sessions: Sessions,
        reader: MemoryReader,
        decides: Decides,
        surroundings: Surroundings,
    ) -> None:
        self._inner = inner
        self._codes = codes
        self._sessions = sessions
        self._reader = reader
        self._decides = decides
        self._out = surroundings
        self._scanned: ByIdentity[Turn, int] = ByIdentity()
        self._given_count = 0

    async def prepare(self, asked: Asked) -> Prepared:
        """Take the sidecar's questions out of the request, and act on an answer; see `Coupling`."""
        came_ms, principal_id = self._out.now_ms(), asked.principal.principal_id
        ours = self._codes.known(principal_id)
        found = TakenOut(asked.body)
        if ours is not None:
            found = taken_out(asked.api.name, asked.body, ours)
            if found.body is not asked.body:
                asked = msgspec.structs.replace(asked, body=found.body)
        prepared = await self._inner.prepare(asked)
        self._search(prepared)
        why = await self._noted(prepared)
        if found.answer is not None and found.answer.last:
            await self._answered(prepared, found.answer, why, came_ms)
        return msgspec.structs.replace(prepared, answer=found.answer)

    # ---- which persons may be asked --------------------------------------------------------------

    async def _noted(self, prepared: Prepared) -> str:
        """Note which tools a request offers. Returns why no person can be asked in it, or ""."""
        asked, request = prepared.asked, prepared.request
        root, why = self._sessions.root_of(prepared.session), "off"
        if asked.confirm is not None and not asked.extracts:
            why = why_not(asked.api.name, asked.body, request, asked.confirm)
        if why == "off" and not self._codes.only_listed(root):
            return why
        first = not any(one.voice is Voice.MODEL for turn in request.turns for one in turn.said)
        listed = why not in {"off", "members", "tools"}
        await self._stored(self._codes.offered(root, listed=listed, first=first))
        return why or self._not_hers(prepared, root)

    def _not_hers(self, prepared: Prepared, root: str) -> str:
        """Why no person may be asked in this conversation; "" if a person may be.

        A person must type its turns, no call may have begun it, and it may only ever have offered
        listed tools.
        """
        if prepared.asked.user_turns is not UserTurns.PERSON:
            return "user_turns"
        if root != prepared.session or not self._sessions.is_persons(root):
            return "conversation"
        return "" if self._codes.only_listed(root) else "offered"

    async def _stored(self, records: list[bytes]) -> None:
        log = self._sessions.log
        if log is not None and records:
            await log.append(records)

    # ---- ending codes that appear in texts -------------------------------------------------------

    def _search(self, prepared: Prepared) -> None:
        """End codes that appear in a request: somebody other than the person may have them."""
        principal_id = prepared.asked.principal.principal_id
        if not self._codes.waits(principal_id, self._out.now_ms()):
            return
        for turn in prepared.request.turns:
            if self._scanned.get(turn) == self._given_count:
                continue
            self._scanned[turn] = self._given_count
            theirs = [one.text for one in turn.said if one.voice is not Voice.USER]
            called = [text for call in turn.calls for text in _texts_of(call)]
            self._codes.void_if_in(principal_id, (*theirs, *called), "in_a_request")
            # A request for the conversation's title quotes the person's answer, as a conversation
            # of its own. That ends no code.
            hers = [one.text for one in turn.said if one.voice is Voice.USER]
            self._codes.void_if_in(principal_id, hers, "out_of_place", prepared.session)

    async def replied(self, prepared: Prepared, reply: ModelReply) -> None:
        """Implements `Coupling.replied`. A code that the model says is ended."""
        principal_id = prepared.asked.principal.principal_id
        if self._codes.waits(principal_id, self._out.now_ms()):
            heard = (one.text for one in reply.heard)
            called = (text for call in reply.calls for text in _texts_of(call))
            self._codes.void_if_in(principal_id, (*reply.said, *heard, *called), "in_a_reply")
        await self._inner.replied(prepared, reply)

    # ---- acting on persons' answers --------------------------------------------------------------

    async def _answered(
        self, prepared: Prepared, given: TurnBehind, why: str, came_ms: int
    ) -> None:
        principal_id = prepared.asked.principal.principal_id
        if not given.taken:
            self._codes.wrong(principal_id, given.block)
            return
        turn = self._codes.print_of(principal_id, given.block, given.turn)
        if self._codes.told(principal_id, turn) not in {None, Outcomes.UNDER_A_CALL}:
            return  # this very answer was handled already, when an earlier request brought it
        if why:
            self._codes.void(principal_id, given.block, f"not_asked_here: {why}")
        elif self._sessions.is_under_a_call(principal_id):
            # The process that the call started may have sent the answer. The codes stay open, so
            # that the person can give the same answer in the same place.
            self._codes.tell(principal_id, turn, Outcomes.UNDER_A_CALL)
            await self._stored(self._codes.take(principal_id, turn))
            return
        answers = answers_in(given.turn)
        claimed = self._codes.claim(
            principal_id, (one.code for one in answers), prepared.session, came_ms
        )
        # The answer is noted before this method first waits: if two windows send the same answer,
        # the first decides, and the second learns that.
        self._codes.tell(principal_id, turn, Outcomes.BEFORE)
        await self._stored(self._codes.take(principal_id, turn))
        if not claimed:
            _LOG.warning("an answer decided nothing", extra={"fields": {"principal": principal_id}})
            codes = [one.code for one in answers]
            waiting = self._codes.may_wait(principal_id, given.block, codes)
            if await asyncio.to_thread(self._any_held, waiting):
                self._codes.tell(principal_id, turn, Outcomes.UNDECIDED)
            return
        said = {one.code: one.yes for one in answers}
        became = [await self._decide(prepared.asked.principal, one, said) for one in claimed]
        told = max(became, key=_WORST.index)
        self._codes.tell(principal_id, turn, told)

    def _any_held(self, candidate_ids: tuple[str, ...]) -> bool:
        found = (self._reader.held_candidate(CandidateId(one)) for one in candidate_ids)
        return any(one is not None for one in found)

    async def _decide(self, principal: Principal, one: OpenCode, said: dict[str, bool]) -> str:
        decide = self._decides.release if said[one.code] else self._decides.deny
        held = await asyncio.to_thread(self._reader.held_candidate, one.candidate_id)
        if held is None or held.candidate is None or self._standing(held) != one.stands:
            return Outcomes.BEFORE
        try:
            ruled = await decide(one.candidate_id, IN_CONVERSATION, WAY)
        except UnknownCandidate:
            return Outcomes.BEFORE
        except StorageError:
            return Outcomes.UNDECIDED
        fields = {"principal": principal.principal_id, "candidate": one.candidate_id}
        _LOG.info("a person decided in the conversation", extra={"fields": fields})
        if not said[one.code]:
            return Outcomes.STORED
        admitted = ruled.outcome.decision is Decision.ADMIT
        return _ALLOWED[ruled.way] if admitted else Outcomes.REFUSED

    # ---- putting questions to persons ------------------------------------------------------------

    async def closing(self, prepared: Prepared, said: str) -> str | None:
        """See `Coupling`: a question to the person, or the result of the person's answer."""
        why = await self._noted(prepared)
        principal_id = prepared.asked.principal.principal_id
        if why or not answers_a_person(prepared.request):
            return None
        # The result of an answer has no code, so it is shown whatever the model says before it.
        given = prepared.answer
        if given is not None and not given.taken:
            return Outcomes.NO_ANSWER
        if given is not None:
            turn = self._codes.print_of(principal_id, given.block, given.turn)
            return self._codes.told(principal_id, turn)
        # The model may have repeated the review page's address, and that address may have
        # Mnemogate's name in it.
        address = self._out.page.address
        if resembles(said if address is None else said.replace(address, " ")):
            fields = {"principal": principal_id, "session": prepared.session}
            _LOG.warning("a model writes what looks like a question", extra={"fields": fields})
            return None
        if not self._codes.may_ask(prepared.session):
            return None
        return await self._question(prepared)

    async def _question(self, prepared: Prepared) -> str | None:
        principal, session = prepared.asked.principal, prepared.session
        held = self._sessions.held_in(session)
        fresh = {one: held[one] for one in held if not self._codes.was_asked(one)}
        if not fresh:
            return None
        groups = await asyncio.to_thread(self._read, principal, fresh)
        chosen = self._chosen(prepared, groups)
        had_read = tuple(dict.fromkeys(name for one in chosen for name in one.had_read))
        if not chosen or len(had_read) > READ_NAMED_MAX:
            return None
        until_ms = self._out.now_ms() + OPEN_MS
        codes = [
            OpenCode(
                code=code_of(int(self._out.random_hex(16), 16)),
                candidate_id=one.candidate_id,
                block=b"",
                session=session,
                until_ms=until_ms,
                stands=one.stands,
            )
            for one in chosen
        ]
        asked = [
            TextAsked(one.shown.text, one.shown.kind, code.code, one.shown.before)
            for one, code in zip(chosen, codes, strict=True)
        ]
        text = block_of(asked, had_read)
        self._given_count += 1
        records = self._codes.give_out(principal.principal_id, session, text, codes)
        try:
            await self._stored(records)
        except StorageError:
            # Without the record, a restart could not tell that the question is the sidecar's own.
            self._codes.void(principal.principal_id, None, "not_stored")
            return None
        return text

    def _read(
        self, principal: Principal, origins: dict[str, tuple[str, ...]]
    ) -> list[list[_Waiting]]:
        """Held candidates that can be shown whole, grouped by origin, smallest group first.

        Any thread.

        An origin with many held candidates thus cannot keep a person from being asked about
        another's.
        """
        by_origin: dict[tuple[str, ...], list[HeldCandidate]] = {}
        for one in self._reader.held(principal.tenant):
            if one.principal_id == principal.principal_id and one.candidate_id in origins:
                origin = (one.origin, *origins[one.candidate_id])
                by_origin.setdefault(origin, []).append(one)
        groups = sorted(by_origin.values(), key=lambda one: (len(one), -one[-1].held_at_ms))
        newest = [group[: -LOOKED_AT_MAX - 1 : -1] for group in groups]
        return [[one for row in group for one in self._waiting(row)] for group in newest]

    def _waiting(self, row: HeldCandidate) -> Iterator[_Waiting]:
        held = self._reader.held_candidate(row.candidate_id)
        if held is None or held.candidate is None:
            return
        candidate = held.candidate
        stored = None
        if candidate.memory_id is not None:
            stored = self._reader.get(candidate.tenant, candidate.memory_id)
        becomes = class_once_confirmed(candidate, held.memory_class, held.basis)
        shown = shown_whole(candidate, becomes, None if stored is None else stored.text)
        if shown is not None:
            # For a candidate that is a tool call, the metadata names its tool, which the
            # conversation may well have read from. So that name is left out here.
            beside = None if is_forwarded(candidate) else candidate.metadata_json
            said = (candidate.text, beside)
            yield _Waiting(held.candidate_id, shown, said, self._standing(held))

    def _chosen(self, prepared: Prepared, groups: list[list[_Waiting]]) -> list[_Waiting]:
        """One candidate of each origin, with what its conversation had read."""
        found: list[_Waiting] = []
        for group in groups:
            named = (self._named(prepared, one) for one in group)
            first = next((one for one in named if one is not None), None)
            if first is not None:
                found.append(first)
        return found[:QUESTIONS_MAX]

    def _standing(self, held: HeldCandidate) -> int:
        """The version of the memory that a candidate would change; 0 if there is no such memory."""
        candidate = held.candidate
        if candidate is None or candidate.memory_id is None:
            return 0
        stored = self._reader.get(candidate.tenant, candidate.memory_id)
        return 0 if stored is None else stored.version

    def _named(self, prepared: Prepared, one: _Waiting) -> _Waiting | None:
        """A candidate, with the names of all sources that lowered its label.

        None if not every source is known.
        """
        below = SourceKind.MODEL_INFERENCE
        found = self._sessions.read_before(one.candidate_id, below)
        if found is None or len(found) >= READ_NAMED_MAX:
            return None
        hosts = _hosts_in(prepared.request)
        names: list[str] = []
        for parts in found:
            reached = hosts.get(parts[-1], ())
            if len(reached) > HOSTS_MAX or any(plain_name(a, *one.said) != a for a in parts):
                return None
            names.append(" ".join((*parts, *reached)))
        return one._replace(had_read=tuple(dict.fromkeys(names)))

    # ---- calls passed on to the wrapped coupling -------------------------------------------------

    async def judge(
        self, prepared: Prepared, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        """For each complete call: None if it goes on, or the text that the agent gets instead."""
        return await self._inner.judge(prepared, calls)

    def filter(self, prepared: Prepared) -> Filter:
        """Implements `Coupling.filter`: a filter for the events of one streamed reply."""
        return self._inner.filter(prepared)

    async def settled(self, principal: Principal) -> None:
        """Wait for undecided candidates; what is sent afterwards respects their verdicts."""
        await self._inner.settled(principal)

    def withholds(self, principal: Principal) -> bool:
        """Implements `Coupling.withholds`: whether anything is withheld from this principal."""
        return self._inner.withholds(principal)

    def carries(self, principal: Principal, text: str) -> bool:
        """Whether a text contains a text that is withheld from this principal."""
        return self._inner.carries(principal, text)

    def sieved(self, principal: Principal, value: Json) -> Json:
        """Implements `Coupling.sieved`: JSON without refused texts, on routes that ask no model."""
        return self._inner.sieved(principal, value)

    def said(self, prepared: Prepared, body: dict[str, Json]) -> dict[str, Json]:
        """A whole reply without what is withheld; its calls were judged before."""
        return self._inner.said(prepared, body)

    def passing(self, principal: Principal) -> Filter:
        """Implements `Coupling.passing`: a filter for the events of a stream in an unknown API."""
        return self._inner.passing(principal)


_ALLOWED: Final = {
    Way.STORE: Outcomes.STORED,
    Way.RELAY: Outcomes.SENT,
    Way.AGENT: Outcomes.ALLOWED,
}
# If one turn gave several answers, the person is told one result: the one that comes last in this
# list.
_WORST: Final = (
    *_ALLOWED.values(),
    Outcomes.REFUSED,
    Outcomes.BEFORE,
    Outcomes.UNDECIDED,
)


def _texts_of(call: ModelCall) -> Iterator[str]:
    yield call.unread
    yield call.name
    yield from strings_in(call.arguments)


def _hosts_in(request: ModelRequest) -> dict[str, tuple[str, ...]]:
    """The hosts that the calls of each tool named in their arguments, in order."""
    found: dict[str, dict[str, None]] = {}
    for turn in request.turns:
        for call in turn.calls:
            for host in _hosts(strings_in(call.arguments)):
                found.setdefault(call.name, {})[host] = None
    return {name: tuple(hosts) for name, hosts in found.items()}


def _hosts(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if "://" not in text:
            continue
        try:
            host = urlsplit(text.strip()).hostname
        except ValueError:
            host = None
        yield host_of(host) if host else "an address that cannot be read"
