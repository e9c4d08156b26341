"""Keeps refused texts out of everything that an agent is sent, from the moment of interception on.

The interceptor reports every candidate before and after its verdict. Model requests of a principal
wait until all of its candidates are decided. Refused texts are then taken out of requests and
replies, wherever they are. Three things stay: what a person typed outside of tags, what the host
was the first to say, and the words of a memory that is proven or older than the refusal.

A held candidate is not refused: its text is shown until a person denies it, because blanking the
page that an agent works on would end its work. Only a held text that steers its reader is taken out
of the model's own replies and of the call that proposed it. A candidate that is not decided in time
counts as refused, and the writer then refuses it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from policy.model import Memory, MemoryClass, Principal, PrincipalId, Tenant
from policy.verdict import Reason
from policy.withheld.refused_texts import Sight, StoredText
from policy.withheld.words import WordHasher, orders_of, prints_of, unpacked
from proxy.dialects.model.anthropic.withheld import withhold
from proxy.dialects.model.bodies import bare_of_tokens
from proxy.dialects.model.gemini.withheld import withhold as withhold_gemini
from proxy.dialects.model.openai.withheld import withhold_chat, withhold_responses
from proxy.dialects.model.reading import object_of
from proxy.dialects.model.replies_withheld import ReplyFilter, sieved_reply
from proxy.dialects.model.transcript import ModelCall, ModelRequest
from proxy.dialects.model.withheld import LeftUnchanged, sieved, sieved_body, written
from proxy.dialects.strict_json.tolerant import Json
from proxy.seams.faults import NotFound
from proxy.seams.observations import ReviewPage
from proxy.seams.pace import Pace
from proxy.withhold.first_speakers import AllSpeakers, Durable, RequestWords
from proxy.withhold.request_withholding import (
    NOWHERE,
    Conversation,
    ReplyWithholding,
    RequestWithholding,
)
from proxy.withhold.state import (
    ClearedRecord,
    FirstSpeakerRecord,
    HeldRecord,
    NoticeParts,
    Record,
    RefusedRecord,
    Ruling,
    UndecidedRecord,
    WithheldTexts,
    decode,
    encode,
    user_print,
)
from proxy.withhold.texts import own_texts, strings_of, texts_of
from proxy.withhold.verdicts import Verdicts
from proxy.withhold.voices import SentencePrinter
from storage.ground.clock import Due
from storage.ground.errors import OutcomeUnknown, StorageError, StoreUnavailable
from storage.interfaces import SessionLog
from storage.values import Decision, Outcome, Submission

BEGUN_S: Final = 10.0
"""How long a decision that the writer has begun is waited for, beyond the deadline."""
_NO_REFUSALS: Final = frozenset({Reason.HOLD_EXPIRED, Reason.DENIED_BY_PERSON})
WITHHOLD: Final = {
    "anthropic": withhold,
    "chat": withhold_chat,
    "responses": withhold_responses,
    "gemini": withhold_gemini,
}


class _Flight(NamedTuple):
    principal: str
    due: Due
    over: asyncio.Event


class Withholding:
    """What is withheld from each principal, with the records in the log. Event loop only."""

    def __init__(
        self, key: bytes, log: SessionLog, verdicts: Verdicts, pace: Pace | None = None
    ) -> None:
        """`pace` is shared by the process; without it, this object has one of its own."""
        self._pace = pace or Pace()
        self._printer = WordHasher(key)
        self._key = key
        self._log = log
        self._verdicts = verdicts
        self._kept: dict[str, WithheldTexts] = {}
        self._flights: dict[str, _Flight] = {}
        self._seen_leaves: dict[str, int] = {}
        self.speakers = AllSpeakers(SentencePrinter(key), self._pace, self._keep_spoken)
        # Our own notices are never withheld, even if a client proposes to remember them.
        self._own = [self._printer.numbers(text) for text in own_texts()]

    def page_served(self, page: ReviewPage) -> None:
        """Let notices name the page where a person decides, from now on.

        These notices are the sidecar's own text too, which is never withheld.
        """
        self._own = [self._printer.numbers(text) for text in own_texts(page.address)]
        for kept in self._kept.values():
            self._keep_own_words(kept)

    @property
    def lost_count(self) -> int:
        """How many refused texts were dropped for room, so that new copies are not recognised."""
        return sum(one.withheld.lost_count for one in self._kept.values())

    # ---- start and stop of withholding -----------------------------------------------------------

    def restore(self, record: bytes) -> None:
        """Apply one stored record, in the order of writing."""
        found = decode(record)
        if isinstance(found, FirstSpeakerRecord):
            self.speakers.restore(found)
        elif found is not None:
            self._of(found.principal).apply(found)

    def resolve(self) -> None:
        """Finish the start, after the last record and before anything is served; blocks.

        A candidate that was begun and not decided is looked up in the store: a candidate without a
        verdict was dropped by the crash, and will never be decided.
        """
        for kept in self._kept.values():
            for begun in tuple(kept.pending.values()):
                kept.apply(self._resolved(begun))
            self._keep_own_words(kept)

    def _resolved(self, begun: UndecidedRecord) -> Record:
        ruling = self._verdicts.decided(begun.candidate_id)
        if ruling is None:
            return self._record_of(begun, _undecided(MemoryClass.L4))
        return _record_of(begun, ruling.told, ruling.version)

    def snapshot(self) -> Iterator[bytes]:
        """The records to which a compacted log is reduced, in place of all that were written."""
        states = (kept.records() for kept in self._kept.values())
        yield from map(encode, chain(self.speakers.records(), *states))

    def _of(self, principal: str) -> WithheldTexts:
        kept = self._kept.get(principal)
        if kept is None:
            kept = self._kept[principal] = WithheldTexts(principal)
        return kept

    # ---- verdicts on candidates ------------------------------------------------------------------

    async def begun(self, submissions: Sequence[Submission]) -> list[Submission]:
        """Record intercepted candidates, so that model requests wait; return them with deadlines.

        Raises:
            StoreUnavailable: The record could not be written; none of the candidates may be judged.
        """
        dated: list[Submission] = []
        for submission in submissions:
            due = Due()
            principal = str(submission.candidate.principal_id)
            self._flights[submission.candidate_id] = _Flight(principal, due, asyncio.Event())
            dated.append(msgspec.structs.replace(submission, due=due))
        records: list[Record] = []
        noted = False
        try:
            for submission in submissions:
                begun = await self._begun(submission)
                if begun is not None:
                    self._of(begun.principal).apply(begun)
                    records.append(begun)
            if records:
                await self._log.append(map(encode, records))
            noted = True
        finally:
            if not noted:
                for submission in dated:
                    self.ended(submission, StoreUnavailable("nothing was written"))
        return dated

    async def _begun(self, submission: Submission) -> UndecidedRecord | None:
        candidate = submission.candidate
        principal, user = str(candidate.principal_id), candidate.scope.user_id
        found = texts_of(candidate)
        size, texts = found.size, (found.texts, found.names, found.strings)
        flagged = submission.reading.flagged
        prints = await self._pace.aside(principal, size, prints_of, self._printer, *texts)
        if not prints:
            return None
        orders: tuple[bytes, ...] = ()
        if flagged:
            said = chain(*found)
            orders = await self._pace.aside(principal, size, orders_of, self._printer, said)
        return UndecidedRecord(
            principal,
            submission.candidate_id,
            tuple((one.numbers, one.whole) for one in prints),
            flagged,
            submission.provenance.session or "",
            orders,
            str(candidate.tenant),
            b"" if user is None else user_print(self._key, candidate.tenant, user),
        )

    def of_person(
        self, tenant: Tenant, principal: str | None, user_id: str | None, among: Collection[str]
    ) -> list[UndecidedRecord]:
        """The candidates of a person whose texts are withheld, or may be later."""
        user = None if user_id is None else user_print(self._key, tenant, user_id)
        records = chain.from_iterable(kept.records() for kept in self._kept.values())
        undecided = (one for one in records if isinstance(one, UndecidedRecord))
        whose = (tenant, principal, user)
        return [one for one in undecided if one.candidate_id in among or one.is_of(*whose)]

    def erase(self, found: Iterable[UndecidedRecord]) -> None:
        """End the withholding of these texts; the next snapshot lacks them."""
        for one in found:
            self._decide(self._of(one.principal), ClearedRecord(one.principal, one.candidate_id))

    def ended(self, submission: Submission, result: Outcome | StorageError | None) -> None:
        """Record a candidate's verdict; `result` is None if no one waits for it any more."""
        candidate = submission.candidate
        kept = self._of(candidate.principal_id)
        begun = kept.pending.get(submission.candidate_id)
        self._land(submission.candidate_id)
        if isinstance(result, Outcome) and result.decision is Decision.ADMIT:
            self._decide(kept, ClearedRecord(kept.principal, submission.candidate_id))
            if result.memory is not None:
                self._show(kept, result.memory)
        elif begun is None:
            # The candidate has no text, or was given up: then its text is withheld already.
            return
        elif result is None:
            # The writer continues, and the next model request asks the store for the outcome.
            early = submission.due is not None and submission.due.expire()
            told = _undecided(candidate.memory_class)
            waits = HeldRecord(kept.principal, submission.candidate_id)
            self._decide(kept, self._record_of(begun, told) if early else waits)
        elif isinstance(result, Outcome) and (
            result.candidate_id != submission.candidate_id
            or result.reason is Reason.DENIED_BY_PERSON
        ):
            # An equal text was proposed before, and waits or was denied: its verdict counts here.
            self._decide(kept, ClearedRecord(kept.principal, submission.candidate_id))
        elif isinstance(result, Outcome):
            ruling = _ruling_of(result)
            self._decide(kept, _record_of(begun, ruling.told, ruling.version))
        elif isinstance(result, OutcomeUnknown):
            # The candidate may have been refused: its text is withheld until the outcome is known.
            self._decide(kept, self._record_of(begun, _undecided(candidate.memory_class)))
        else:
            # The candidate never reached the gate, and nothing was written.
            self._decide(kept, ClearedRecord(kept.principal, submission.candidate_id))

    def _decide(self, kept: WithheldTexts, record: Record) -> None:
        kept.apply(record)
        if isinstance(record, RefusedRecord):
            self._keep_own_words(kept)
        # If this record is lost, a restart asks the store, which knows the verdict.
        with contextlib.suppress(StorageError):
            self._log.add([encode(record)])

    def _land(self, candidate_id: str) -> None:
        flight = self._flights.pop(candidate_id, None)
        if flight is not None:
            flight.over.set()

    def _keep_own_words(self, kept: WithheldTexts) -> None:
        for numbers in self._own:
            kept.withheld.open(numbers)

    def _record_of(self, begun: UndecidedRecord, told: NoticeParts) -> Record:
        """The record of a candidate without a decision, with the store's current version."""
        return _record_of(begun, told, self._verdicts.version())

    def _show(self, kept: WithheldTexts, memory: Memory) -> tuple[str, ...]:
        """Let a memory exempt refused words; return the memory's texts."""
        stored = StoredText(memory.memory_id, memory.version, memory.source.proven)
        strings = strings_of(memory.metadata_json)
        printer = self._printer
        kept.withheld.show(stored, printer.numbers(memory.text), *printer.each(strings))
        return memory.text, *strings

    def _show_released(self, kept: WithheldTexts, begun: UndecidedRecord) -> None:
        # A person released the candidate; the store has its text, and here hashes are enough.
        stored = StoredText("", self._verdicts.version(), proven=True)
        kept.withheld.show(stored, *[unpacked(numbers) for numbers, _ in begun.prints])

    def shown(self, principal_id: PrincipalId, memories: Iterable[Memory]) -> None:
        """Record memories that the principal was shown.

        If the principal proposes such a memory again, its text is not withheld for that.
        """
        kept = self._of(principal_id)
        told = [text for memory in memories for text in self._show(kept, memory)]
        self.speakers.served(principal_id, told)
        records = self.speakers.take(principal_id)
        if records:
            # If the disk fails, the next model request fails.
            with contextlib.suppress(StorageError):
                self._keep_spoken(records)

    def _keep_spoken(self, records: list[FirstSpeakerRecord]) -> Durable:
        return self._log.add(map(encode, records))

    def refused(self) -> tuple[str, ...]:
        """The candidates whose texts are withheld, and that a person may forgive."""
        return tuple(name for kept in self._kept.values() for name in kept.refused())

    async def forgive(
        self, candidate_id: str, leaf: Callable[[], Awaitable[int]]
    ) -> tuple[int, int]:
        """End the withholding of a refused text, as a person asked.

        Returns how many refused candidates that covers, and the leaf's index. `leaf` writes the
        leaf; nothing is forgiven before the leaf is durable.

        Raises:
            NotFound: No candidate with that id is withheld.
            StorageError: The leaf is not durable.
        """
        for kept in tuple(self._kept.values()):
            await self._look_at(kept, candidate_id)
            same = kept.same_text(candidate_id)
            if same:
                break
        else:
            raise NotFound(
                "nothing is withheld under that id; what waits for a person is released or denied"
            )
        leaf_index = await leaf()
        records = [ClearedRecord(kept.principal, one) for one in same]
        for record in records:
            kept.apply(record)
        await self._log.append(map(encode, records))
        return len(same), leaf_index

    # ---- waiting for verdicts --------------------------------------------------------------------

    async def quiet(self, principal_id: PrincipalId, deadline_s: float) -> bool:
        """Wait until no candidate of this principal is undecided.

        A candidate that is undecided at the deadline is refused for good. False where the writer
        had begun to decide on a candidate and does not finish: then the candidate's text is
        withheld until the outcome is known.
        """
        if await self._all_over(principal_id, deadline_s):
            return True
        for candidate_id, flight in self._flights_of(principal_id):
            if flight.due.expire():
                self._give_up(candidate_id, flight)
        if await self._all_over(principal_id, BEGUN_S):
            return True
        for candidate_id, flight in self._flights_of(principal_id):
            self._give_up(candidate_id, flight)
        return False

    async def _all_over(self, principal_id: PrincipalId, deadline_s: float) -> bool:
        try:
            async with asyncio.timeout(deadline_s):
                while flights := self._flights_of(principal_id):
                    await flights[0][1].over.wait()
        except TimeoutError:
            return False
        return True

    def _flights_of(self, principal_id: PrincipalId) -> list[tuple[str, _Flight]]:
        return [one for one in self._flights.items() if one[1].principal == principal_id]

    def _give_up(self, candidate_id: str, flight: _Flight) -> None:
        kept = self._of(flight.principal)
        begun = kept.pending.get(candidate_id)
        self._land(candidate_id)
        if begun is not None:
            self._decide(kept, self._record_of(begun, _undecided(MemoryClass.L4)))

    # ---- hearing who said what first -------------------------------------------------------------

    async def entered(
        self, principal_id: PrincipalId, request: ModelRequest
    ) -> tuple[RequestWords, Durable]:
        """Record who says what in a model request; return the words, and when that is durable.

        Raises:
            StorageError: The record could not be written.
        """
        asking = RequestWithholding(self._of(principal_id), self._printer)
        return await self.speakers.entered(principal_id, request, asking.carriers)

    # ---- taking refused texts out of model requests ----------------------------------------------

    def sessions(self, principal_id: PrincipalId) -> frozenset[str]:
        """The sessions in which a text is withheld that other sessions may be shown."""
        return self._of(principal_id).withheld.sessions

    async def apply(
        self,
        principal: Principal,
        api: str,
        body: dict[str, Json],
        left: Callable[[], LeftUnchanged],
        conversation: Conversation = NOWHERE,
        *,
        thinks: bool = False,
    ) -> dict[str, Json]:
        """The body of a model request without withheld texts; the same object if it has none.

        `left` returns which texts stay as they are, and is called only where something might be
        removed. `thinks`: the conversation has signed blocks, which fit only the text that was sent
        before them. New withholdings are durable when this returns.

        Raises:
            StorageError: It is unknown what may be shown, or the record could not be written.
        """
        kept = self._of(principal.principal_id)
        await self._look_at_store(kept, principal.tenant)
        sight = Sight(conversation.sessions, by_model=True)
        told = bool(kept.withheld.any_in(sight) or kept.texts or kept.results)
        told = told or bool(kept.convicted or kept.spared)
        if not told and not thinks:
            return body
        asking = RequestWithholding(kept, self._printer, conversation)
        made = WITHHOLD.get(api, sieved_body)(body, left(), asking)
        if asking.records:
            await self._log.append(map(encode, asking.records))
        return made

    def stamp(
        self, principal_id: PrincipalId, conversation: Conversation = NOWHERE
    ) -> tuple[int, ...]:
        """Numbers that change whenever a search of the same text may have another result."""
        kept = self._of(principal_id)
        own = conversation.opened(kept, self._printer)
        place = hash((conversation.sessions, own))
        return kept.withheld.generation, kept.stuck_count, place

    async def _look_at_store(self, kept: WithheldTexts, tenant: Tenant) -> None:
        """Read from the store how held candidates were decided, and which memories are hidden."""
        convicted = await self._verdicts.convictions.of(tenant)
        if convicted is not kept.convicted:
            kept.convicted = convicted
            kept.withheld.generation += 1
        leaves = self._verdicts.leaf_count()
        opening = kept.withheld.opening
        if not (kept.waiting or opening) or self._seen_leaves.get(kept.principal) == leaves:
            return
        if opening:
            kept.withheld.unshow(await asyncio.to_thread(self._verdicts.gone, opening, tenant))
        held = await asyncio.to_thread(self._verdicts.held, tenant)
        for candidate_id in tuple(kept.waiting):
            if candidate_id not in held:
                await self._look_at(kept, candidate_id)
        self._seen_leaves[kept.principal] = leaves

    async def _look_at(self, kept: WithheldTexts, candidate_id: str) -> None:
        """Apply the store's decision on a held candidate; without one, the text is withheld."""
        if candidate_id not in kept.waiting:
            return
        ruling = await asyncio.to_thread(self._verdicts.decided, candidate_id)
        begun = kept.waiting.get(candidate_id)
        if begun is None:
            return  # another request has applied the decision already
        if ruling is None:
            self._decide(kept, self._record_of(begun, _undecided(MemoryClass.L4)))
        else:
            self._rule(kept, begun, ruling)

    def heard(self, outcome: Outcome, *, in_part: bool = False) -> tuple[str, ...]:
        """Apply a person's decision as soon as it is durable.

        `in_part`: the person removed lines of the text and admitted the others, so the text is not
        withheld. Returns the candidates that were denied before, and that are no longer withheld
        because a person released the same text now.
        """
        for kept in self._kept.values():
            begun = kept.waiting.get(outcome.candidate_id)
            if begun is not None and in_part:
                self._decide(kept, ClearedRecord(kept.principal, outcome.candidate_id))
            elif begun is not None:
                return self._rule(kept, begun, _ruling_of(outcome))
        return ()

    def _rule(self, kept: WithheldTexts, begun: UndecidedRecord, ruling: Ruling) -> tuple[str, ...]:
        self._decide(kept, _record_of(begun, ruling.told, ruling.version))
        if ruling.told.decision != Decision.ADMIT.value:
            return ()
        self._show_released(kept, begun)
        # A person's later decision counts: the denial of an equal text would withhold from the
        # agent the very memory that the person released.
        lifted: list[str] = []
        for other in self._kept.values():
            denied = other.denied_before(begun, ruling.version)
            for candidate_id in denied:
                self._decide(other, ClearedRecord(other.principal, candidate_id))
            lifted += denied
        return tuple(lifted)

    async def settled(self, principal: Principal, deadline_s: float) -> None:
        """Wait as `quiet` does, then apply persons' decisions from the store."""
        await self.quiet(principal.principal_id, deadline_s)
        await self._look_at_store(self._of(principal.principal_id), principal.tenant)

    def withholds(self, principal_id: PrincipalId) -> bool:
        """Whether any text is withheld from this principal, in any of its conversations."""
        kept = self._of(principal_id)
        return kept.withheld.any_in(Sight()) or bool(kept.texts)

    def carries(self, principal_id: PrincipalId, text: str) -> bool:
        """Whether a text contains refused words."""
        return self._asked(principal_id).of(text) is not None

    def refusal(
        self, principal_id: PrincipalId, call: ModelCall, conversation: Conversation = NOWHERE
    ) -> str | None:
        """The notice in place of a call that contains a whole refused text, or an order of one.

        Only a refused text that steers its reader, or that a person denied, counts. None for any
        other call.
        """
        given = call.unread if call.arguments is None else written(call.arguments)
        asking = self._asked(principal_id, conversation)
        return asking.of_the("call").of_call(f"{call.server or ''}\n{call.name}\n{given}")

    def sieved(self, principal_id: PrincipalId, value: Json) -> Json:
        """A JSON value without refused texts, for JSON outside conversations."""
        return sieved(value, self._asked(principal_id))

    def said(
        self,
        principal_id: PrincipalId,
        api: str,
        body: dict[str, Json],
        conversation: Conversation = NOWHERE,
    ) -> dict[str, Json]:
        """A whole reply on its way to the agent, without refused texts.

        The calls in the reply were judged before.
        """
        kept = self._of(principal_id)
        sight = Sight(conversation.sessions, by_model=True)
        if not (kept.convicted or kept.withheld.any_in(sight) or kept.texts):
            return body
        asking = self._asked(principal_id, conversation).of_the("reply", by_model=True)
        return sieved_reply(api, object_of(bare_of_tokens(body)), asking, asking.without_convicted)

    def reply(
        self, principal_id: PrincipalId, api: str, conversation: Conversation = NOWHERE
    ) -> ReplyFilter:
        """Make the filter for one reply on its way to the agent."""
        kept = self._of(principal_id)
        return ReplyFilter(api, ReplyWithholding(kept, self._printer, conversation))

    def _asked(
        self, principal_id: PrincipalId, conversation: Conversation = NOWHERE
    ) -> RequestWithholding:
        return RequestWithholding(self._of(principal_id), self._printer, conversation)


def _record_of(begun: UndecidedRecord, told: NoticeParts, version: int) -> Record:
    match told.decision:
        case "admit":
            return ClearedRecord(begun.principal, begun.candidate_id)
        case "hold":
            return HeldRecord(begun.principal, begun.candidate_id, told, version)
        case _ if told.reason is Reason.REPEATS_HIDDEN:
            # Requests lose the repeated sentence anyway; the candidate's other sentences stay.
            return ClearedRecord(begun.principal, begun.candidate_id)
        case _ if told.reason in _NO_REFUSALS and not begun.flagged:
            # The text is shown as it was while it waited, because a denial forbids only storing it.
            return ClearedRecord(begun.principal, begun.candidate_id)
        case _:
            return RefusedRecord(begun.principal, begun.candidate_id, told, version)


def _ruling_of(outcome: Outcome) -> Ruling:
    reason = outcome.reason or Reason.GATE_UNAVAILABLE
    told = NoticeParts(outcome.decision.value, reason, outcome.memory_class)
    return Ruling(told, outcome.version)


def _undecided(memory_class: MemoryClass) -> NoticeParts:
    return NoticeParts("error", Reason.GATE_UNAVAILABLE, memory_class)
