"""Writes to an upstream memory server: judged, sent once, and settled by the server's answer.

The sequence gives the guarantees: first the memories that a write would change are read, then each
memory is judged. An admitted one is an intent on disk before it is sent, and an outcome whose
answer is lost is looked up by a read (`proxy/settle/`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from policy.model import (
    CandidateId,
    ChangeKind,
    ForwardStatus,
    Principal,
    PrincipalId,
    Reads,
    Tenant,
)
from policy.verdict import InvariantBroken, Reason
from proxy.fronts.backend_server_front import BackendServerFront
from proxy.guard.key_owners import KeyOwners
from proxy.guard.local_guard import LocalGuard
from proxy.seams.faults import Busy, MalformedRequest, UpstreamError
from proxy.seams.guard import ITEMS_MAX, GuardedCall, Item, ItemVerdict, UnsettledItem
from proxy.seams.http_backend import Does, RoutedRequest, SendOutcome, SentMemory, ShownMemory
from proxy.seams.observations import observation_for
from proxy.seams.operation import HttpReply, HttpRequest
from proxy.settings.backend import Before
from proxy.settle.forwarder import UNDECIDED, Forwarder, admitted_of, judge
from proxy.settle.leftovers import Leftovers
from storage.ground.errors import StorageError

TEND_S: Final = 5.0
LATE_S: Final = 120.0
"""Seconds that a sent write which a read did not find may still arrive at the server."""
SETTLES: Final = PrincipalId("mnemogate:settle")
"""The principal that sends released items and looks up lost ones. No key has such a name."""
_MISSING: Final = 404
_FAILED: Final = 400
_SERVER_FAILED: Final = 500
_DONE: Final = range(200, 300)
MEMORIES_MAX: Final = 10_000
"""The most memories of one request."""
_TOO_MANY: Final = f"body: more than {MEMORIES_MAX} memories at once"
_NOT_KNOWN: Final = "the server behind did not say what stands there, so nothing was sent"
_TAKEN: Final = "another tenant has the memory under this key by now, so nothing was sent"
_LOOKED_UP: Final = "an earlier write of this is being looked up, so nothing was judged"
_UNTOLD: Final = "the server's answer does not say what became of this write, so it is looked up"
_NO_CREATE: Final = (
    "reads: with a floor for reads nothing is created on this server, which keeps one version "
    "under a key that its client names: the answer would tell what is below the floor"
)
_MOVED: Final = "something else stands there than when this was judged, so nothing was sent"


class BackendWrites:
    """Carries out writes and deletions of one server. Event loop only."""

    def __init__(
        self,
        behind: BackendServerFront,
        guard: LocalGuard,
        keys: KeyOwners,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._behind = behind
        self._guard = guard
        self._keys = keys
        self._spawn = spawn
        self.places = BackendPlaces(behind, keys)
        self._leftovers: dict[Tenant, Leftovers[SendOutcome]] = {}
        self._turn = asyncio.Lock()

    async def answer(
        self,
        principal: Principal,
        request: HttpRequest,
        routed: RoutedRequest,
        traceparent: str | None,
    ) -> HttpReply:
        """Judge and send a write or deletion; return the server's answer, or a refusal.

        Raises:
            MalformedRequest: The request cannot be read; nothing was judged, nothing was sent.
            UpstreamError: The server did not answer. If it may have the request, its items are
                looked up, and never sent again.
            StorageError: The gate cannot decide; nothing was sent.
        """
        await self._behind.check_version(self._keys, principal)
        async with self.places.turn(request):
            return await self._in_turn(principal, request, routed, traceparent)

    async def _in_turn(
        self,
        principal: Principal,
        request: HttpRequest,
        routed: RoutedRequest,
        traceparent: str | None,
    ) -> HttpReply:
        adapter = self._behind.adapter
        floored = principal.reads is not Reads.ALL
        # A removal, and a change of other parts alone, concern nothing that must not be seen.
        if floored or routed.does is Does.REMOVE or routed.changes_only:
            sendings = await self.places.standing(request, hidden_from=principal)
            merged = frozenset[str]()
        else:
            sendings, merged = await self.places.merged(request, principal)
        if floored and any(one.item.change is ChangeKind.CREATE for one in sendings):
            raise MalformedRequest(_NO_CREATE, status=403)
        sendings += await self._unseen(principal, request, sendings)
        if len(sendings) > MEMORIES_MAX:
            raise MalformedRequest(_TOO_MANY, status=413)
        if not sendings:
            return adapter.answer(request, (), ())
        judged = await self._judged(principal, routed, sendings, traceparent, unjudged=merged)
        admitted = {
            at: one.candidate_id
            for at, one in enumerate(judged)
            if one.decision == "admit" and one.candidate_id is not None
        }
        parts = [admitted] if admitted else []
        if routed.singly:
            parts = [{at: one} for at, one in admitted.items()]
        replies = await self._all_sent(principal, request, sendings, parts)
        shown = tuple(self._behind.shown(request, one) for one in replies)
        return adapter.answer(request, judged, shown)

    async def erase(
        self, principal: Principal, kept: UnsettledItem, unchanged: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Delete a memory on the server; return whether its API shows nothing of it now.

        `unchanged` returns whether the memory is still as it was; no other write under its key
        happens between that answer and the deletion. Raises what `answer` raises.
        """
        adapter = self._behind.adapter
        request = adapter.removal(kept)
        routed = adapter.classify(request)
        if routed is None:
            raise InvariantBroken("an adapter classifies the deletion that it built")
        await self._behind.check_version(self._keys, principal)
        async with self.places.turn(request):
            if not await unchanged():
                return False
            await self._in_turn(principal, request, routed, None)
            (gone,) = (one.item for one in adapter.named(request))
            asked = msgspec.structs.replace(
                kept, change=gone.change, arguments=gone.arguments, pieces=gone.pieces, key=gone.key
            )
            settling = HttpSettling(self._behind, self._guard, self.places, self._keys, principal)
            return await settling.look_up(asked) is ForwardStatus.DONE

    async def _unseen(
        self, principal: Principal, request: HttpRequest, found: tuple[SentMemory, ...]
    ) -> tuple[SentMemory, ...]:
        """Deletions by key of memories that the principal's tenant has but the read did not show.

        A memory may have expired on the server: without a deletion here its key would belong to the
        tenant for ever. Or it is hidden: then its deletion is judged and answered all the same.
        """
        seen = {one.item.key for one in found}
        named = [one for one in self._behind.adapter.named(request) if one.item.key not in seen]
        if not named:
            return ()
        asked = tuple(ShownMemory(key=one.item.key, strings=(), place=0) for one in named)
        name = self._behind.settings.name
        ours = await self._keys.belongs_to(principal, name, asked, forgotten=True)
        return tuple(one for one, own in zip(named, ours, strict=True) if own)

    async def tend(self, tenants: frozenset[Tenant]) -> None:
        """Send the released items, and look up the lost ones, of each tenant."""
        for tenant in tenants:
            leftovers = self._leftovers.get(tenant)
            if leftovers is None:
                principal = Principal(principal_id=SETTLES, tenant=tenant)
                settling = HttpSettling(
                    self._behind, self._guard, self.places, self._keys, principal
                )
                leftovers = Leftovers(self._forwarding(principal), settling, self._turn)
                self._leftovers[tenant] = leftovers
            await leftovers.round()

    def _forwarding(self, principal: Principal) -> Forwarder:
        return Forwarder(
            self._guard,
            principal,
            self._behind.settings.name,
            spawn=self._spawn,
            answer_seconds=self._behind.settings.answer_seconds,
            retry_seconds=TEND_S,
        )

    async def _judged(
        self,
        principal: Principal,
        routed: RoutedRequest,
        sendings: tuple[SentMemory, ...],
        traceparent: str | None,
        *,
        unjudged: frozenset[str],
    ) -> tuple[ItemVerdict, ...]:
        """Judge each item; return the verdicts in order.

        An item under a key in `unjudged`, or that only another tenant has, is answered as missing.
        """
        name = self._behind.settings.name
        asked = tuple(
            ShownMemory(key=one.item.key, strings=(), place=at) for at, one in enumerate(sendings)
        )
        # While an earlier write under the same key is unsettled, no one knows what this write would
        # be merged with, or replace.
        keys = tuple(one.item.key for one in sendings)
        if await self._keys.unsettled_keys(principal, name, keys):
            raise UpstreamError(_LOOKED_UP, sent=False)
        others = await self._keys.belongs_to_others(principal, name, asked)
        theirs = tuple(
            other or one.item.key in unjudged for one, other in zip(sendings, others, strict=True)
        )
        ours = await self._keys.belongs_to(principal, name, asked)
        items = tuple(
            _over(one, ours=own)
            for one, other, own in zip(sendings, theirs, ours, strict=True)
            if not other
        )
        verdicts: tuple[ItemVerdict, ...] = ()
        for begin in range(0, len(items), ITEMS_MAX):
            call = GuardedCall(
                server=name,
                tool=routed.operation,
                items=items[begin : begin + ITEMS_MAX],
                traceparent=traceparent,
            )
            try:
                verdicts += await judge(self._guard.judge, principal, call)
            except UNDECIDED:
                # The items that earlier calls of this loop admitted are not sent either.
                await self._forwarding(principal).settle(
                    admitted_of(verdicts), ForwardStatus.FAILED
                )
                raise
        rest = iter(verdicts)
        return tuple(
            _not_there(one.item) if other else next(rest)
            for one, other in zip(sendings, theirs, strict=True)
        )

    async def _all_sent(
        self,
        principal: Principal,
        request: HttpRequest,
        sendings: tuple[SentMemory, ...],
        parts: list[dict[int, CandidateId]],
    ) -> tuple[HttpReply, ...]:
        """Send the admitted items, each part in one request; return the server's answers.

        Once the server fails at a part, the later parts are not sent but recorded as failed.
        """
        forwarding = self._forwarding(principal)
        replies: list[HttpReply] = []
        waiting = deque(parts)
        try:
            while waiting:
                outgoing = self._behind.adapter.forward(request, sendings, waiting[0])
                if outgoing is None:
                    break
                admitted = waiting.popleft()
                ids = tuple(admitted.values())
                replies.append(await self._sent(forwarding, outgoing, ids))
                sent = tuple(sendings[at] for at in admitted)
                told = await self._settle(forwarding, principal, request, sent, ids, replies[-1])
                if replies[-1].status >= _SERVER_FAILED:
                    break
                if replies[-1].status in _DONE and not told:
                    raise UpstreamError(_UNTOLD)
        except asyncio.CancelledError:
            self._guard.abandon(_ids_of(waiting))
            waiting.clear()
            raise
        finally:
            await forwarding.settle(_ids_of(waiting), ForwardStatus.FAILED)
        return tuple(replies)

    async def _sent(
        self, forwarding: Forwarder, outgoing: HttpRequest, ids: tuple[CandidateId, ...]
    ) -> HttpReply:
        """Send a request once. If no answer arrives, settle its items before raising."""
        try:
            return await self._behind.ask(outgoing)
        except (Busy, MalformedRequest):
            await forwarding.settle(ids, ForwardStatus.FAILED)
            raise
        except UpstreamError as error:
            state = ForwardStatus.UNKNOWN if error.sent else ForwardStatus.FAILED
            await forwarding.settle(ids, state)
            raise
        except asyncio.CancelledError:
            # No one waits for the answer any more. The items stay intents, and are looked up.
            self._guard.abandon(ids)
            raise

    async def _settle(
        self,
        forwarding: Forwarder,
        principal: Principal,
        request: HttpRequest,
        sent: tuple[SentMemory, ...],
        ids: tuple[CandidateId, ...],
        reply: HttpReply,
    ) -> bool:
        """Record the outcome of each item; return whether the answer reports every outcome."""
        try:
            outcomes = self._behind.adapter.outcome(request, sent, reply)
        except MalformedRequest:
            outcomes = tuple(SendOutcome(state=ForwardStatus.UNKNOWN) for _ in sent)
        states: dict[ForwardStatus, list[CandidateId]] = {}
        for candidate_id, outcome in zip(ids, outcomes, strict=True):
            if outcome.key:
                self._guard.has_key(candidate_id, outcome.key)
            states.setdefault(outcome.state, []).append(candidate_id)
        for state, those in states.items():
            await forwarding.settle(tuple(those), state)
        # If the server returned the key of another memory, the store filed nothing under it, so
        # the answer does not report the outcome.
        given = tuple(ShownMemory(key=one.key, strings=(), place=0) for one in outcomes if one.key)
        ours = await self._keys.belongs_to(principal, self._behind.settings.name, given)
        return ForwardStatus.UNKNOWN not in states and all(ours)


class BackendPlaces:
    """Reads the places on the server that requests write to, and locks each during a write."""

    def __init__(self, behind: BackendServerFront, keys: KeyOwners) -> None:
        self._behind = behind
        self._keys = keys
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, request: HttpRequest) -> AbstractAsyncContextManager[None]:
        """The lock of a request's place, held from the read of the place until the write's answer.

        It keeps two writes to one place from being judged at the same time: each could be harmless
        beside the present content, though the server merges both; or each could count as the first
        one. A place is the request's folder, or else the read that comes before its verdict.

        Raises:
            MalformedRequest: The request cannot be read.
        """
        place = self.name(request)
        return self._turns.setdefault(place, asyncio.Lock()) if place else nullcontext()

    def name(self, request: HttpRequest) -> str:
        """The name of the place that a request writes to; "" if it need not wait for others."""
        adapter = self._behind.adapter
        place = adapter.folder(request)
        question = None if place else adapter.first(request)
        if question is not None:
            place = msgspec.json.encode((question.path, question.query, question.body)).decode()
        return place

    async def standing(
        self, request: HttpRequest, hidden_from: Principal | None = None
    ) -> tuple[SentMemory, ...]:
        """The memories that the request concerns, merged with the present content of the server.

        A memory that must not be shown to `hidden_from` does not exist: no filter finds it, and its
        key is answered as one that no one has.

        Raises:
            MalformedRequest: The request or the answer cannot be read.
            UpstreamError: The server did not report the present content.
            Busy: Too many requests to this server are unanswered.
        """
        question, known = await self._known(request)
        sendings = self._behind.adapter.items(request, known)
        if question is None or known is None or hidden_from is None:
            return sendings
        # `items` gets the whole answer first, so that it notices a cut one: without the hidden
        # memories a cut answer would look whole.
        seen = await self._seen_by(hidden_from, question, known)
        return sendings if seen is known else self._behind.adapter.items(request, seen)

    async def merged(
        self, request: HttpRequest, principal: Principal
    ) -> tuple[tuple[SentMemory, ...], frozenset[str]]:
        """As `standing`, with the keys of memories that would be merged with hidden text.

        A verdict on a merged text would reveal its hidden words, one guess after the other.

        Raises:
            MalformedRequest, UpstreamError, Busy: As for `standing`.
        """
        question, known = await self._known(request)
        sendings = self._behind.adapter.items(request, known)
        if question is None or known is None:
            return sendings, frozenset()
        seen = await self._seen_by(principal, question, known, by_keys=True)
        alone = {one.item.key: one.item.pieces for one in self._behind.adapter.items(request, seen)}
        pairs = ((one.item.key, one.item.pieces) for one in sendings)
        return sendings, frozenset(key for key, pieces in pairs if alone.get(key) != pieces)

    async def _known(self, request: HttpRequest) -> tuple[HttpRequest | None, HttpReply | None]:
        question = self._behind.adapter.first(request)
        known = None if question is None else await self._behind.ask(question)
        if known is not None and known.status >= _FAILED and known.status != _MISSING:
            raise UpstreamError(_NOT_KNOWN)
        return question, known

    async def _seen_by(
        self,
        principal: Principal,
        question: HttpRequest,
        known: HttpReply,
        *,
        by_keys: bool = False,
    ) -> HttpReply:
        """The answer without hidden memories; `by_keys`: without those hidden by key alone."""
        if known.status >= _FAILED:
            return known
        adapter, settings = self._behind.adapter, self._behind.settings
        shown = adapter.shown(question, known)
        if not shown:
            return known
        if by_keys:
            shown = tuple(msgspec.structs.replace(one, strings=()) for one in shown)
        hidden = await self._keys.hides(
            principal, settings.name, shown, hides_unknown=settings.before is Before.HIDE
        )
        dropped = frozenset(one.place for one, hides in zip(shown, hidden, strict=True) if hides)
        return adapter.without(question, known, dropped) if dropped else known


class HttpSettling:
    """Sends and looks up a tenant's unsettled items on a server (`proxy.settle.leftovers.Backend`).

    Event loop only.
    """

    def __init__(
        self,
        behind: BackendServerFront,
        guard: LocalGuard,
        places: BackendPlaces,
        keys: KeyOwners,
        principal: Principal,
    ) -> None:
        self._behind = behind
        self._guard = guard
        self._places = places
        self._keys = keys
        self._principal = principal
        # Sent items that a read did not find, each with the time of the first such read.
        self._missing: dict[CandidateId, float] = {}

    async def is_ready(self) -> bool:
        """Whether the server answers, and is of a version that may be written to."""
        try:
            await self._behind.check_version(self._keys, self._principal)
        except (UpstreamError, MalformedRequest, Busy):
            return False
        return True

    def turn(self, item: UnsettledItem) -> AbstractAsyncContextManager[None]:
        """The lock of the item's place on the server (`BackendPlaces.turn`)."""
        try:
            return self._places.turn(self._behind.adapter.released(item, item.blob))
        except MalformedRequest:
            # An item that makes no request is not sent, so no other write has to wait for it.
            return nullcontext()

    async def send(self, item: UnsettledItem) -> SendOutcome | None:
        """Send one released item once; return its outcome, or None if no answer arrived.

        Raises:
            MalformedRequest: The item cannot be rebuilt, its key belongs to another tenant by now,
                or the server's content differs from what the person saw; nothing was sent.
        """
        request = self._behind.adapter.released(item, item.blob)
        asked = (ShownMemory(key=item.key, strings=(), place=0),)
        name = self._behind.settings.name
        try:
            theirs = await self._keys.belongs_to_others(self._principal, name, asked)
            found = await self._places.standing(request)
        except (UpstreamError, Busy, StorageError):
            raise MalformedRequest(_NOT_KNOWN) from None
        if any(theirs):
            raise MalformedRequest(_TAKEN)
        if not found and item.change is ChangeKind.DELETE:
            return SendOutcome(state=ForwardStatus.DONE)
        if [_seen(one.item) for one in found] != [_seen(item)]:
            raise MalformedRequest(_MOVED)
        outgoing = self._behind.adapter.forward(request, found, {0: item.candidate_id})
        if outgoing is None:
            raise MalformedRequest(_MOVED)
        return await self._answered(item, request, outgoing)

    async def _answered(
        self, item: UnsettledItem, request: HttpRequest, outgoing: HttpRequest
    ) -> SendOutcome | None:
        adapter = self._behind.adapter
        try:
            reply = await self._behind.ask(outgoing)
        except (UpstreamError, Busy):
            return None
        sending = SentMemory(
            item=Item(
                change=item.change, arguments=item.arguments, pieces=item.pieces, key=item.key
            ),
            blob=item.blob,
        )
        try:
            outcome = adapter.outcome(request, (sending,), reply)[0]
        except MalformedRequest:
            return None
        return self._with_key(item, outcome)

    def outcome(self, reply: SendOutcome) -> ForwardStatus:
        """The outcome in a reply of `send`."""
        return reply.state

    async def look_up(self, item: UnsettledItem) -> ForwardStatus | None:
        """Look up a sent item's outcome on the server; return None while it is unknown."""
        adapter = self._behind.adapter
        try:
            question = adapter.question(item)
            reply = None if question is None else await self._behind.ask(question)
            told = None if reply is None else adapter.told(item, reply)
            if told is not None and told.state is ForwardStatus.FAILED:
                if self._may_arrive(item.candidate_id):
                    return None
                # After a crash, the item may have no record that its answer was lost. With such a
                # record the key stays closed, in case the write arrives after all.
                lost = ((item.candidate_id, ForwardStatus.UNKNOWN),)
                await self._guard.settle(self._principal, self._behind.settings.name, lost)
        except (UpstreamError, MalformedRequest, Busy, StorageError):
            return None
        if told is None:
            return None
        self._missing.pop(item.candidate_id, None)
        return self._with_key(item, told).state

    def _may_arrive(self, candidate_id: CandidateId) -> bool:
        """Whether a write that a read did not find may still be on its way."""
        now_s = self._behind.now_s()
        return now_s < self._missing.setdefault(candidate_id, now_s) + LATE_S

    def _with_key(self, item: UnsettledItem, outcome: SendOutcome) -> SendOutcome:
        if outcome.key:
            self._guard.has_key(item.candidate_id, outcome.key)
        return outcome


def _ids_of(parts: Iterable[Mapping[int, CandidateId]]) -> tuple[CandidateId, ...]:
    return tuple(one for part in parts for one in part.values())


def _over(sending: SentMemory, *, ours: bool) -> Item:
    """The item to judge: an update if the gate knows a memory under its key, else as it is."""
    change = sending.item.change
    if ours and change is ChangeKind.CREATE:
        change = ChangeKind.UPDATE
    return msgspec.structs.replace(sending.item, blob=sending.blob, change=change)


def _seen(item: Item | UnsettledItem) -> tuple[ChangeKind, str, list[str]]:
    """What a person is shown of an item; sorted, because a kept request may have another order."""
    return item.change, item.key, sorted(item.pieces)


def _not_there(item: Item) -> ItemVerdict:
    reason = Reason.TARGET_MISSING
    return ItemVerdict(
        decision="reject",
        candidate_id=None,
        memory_class=item.memory_class,
        observation=observation_for("reject", reason, item.memory_class),
        reason=reason,
    )
