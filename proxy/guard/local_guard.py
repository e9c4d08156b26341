"""The guard that relays ask: turns their calls into candidates, and settles sent items.

Nothing in this file decides. The gate decides, on the writer's thread, and an admitted item is an
intent on disk before a relay may send it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from policy.bounded import Bounded
from policy.labels.effect import NOTHING, text_after
from policy.labels.forwarded_call import (
    MCP,
    PREFIXES,
    ForwardedCall,
    NotForwardable,
    call_of,
    target_of,
    texts_of,
)
from policy.model import (
    NAME_LEN_MAX,
    CandidateId,
    ChangeKind,
    Claims,
    MemoryId,
    Principal,
    PrincipalId,
    Scope,
    SourceKind,
    Tenant,
)
from policy.verdict import InvariantBroken, Reason
from proxy.dialects.mcp.pieces import arguments_of
from proxy.dialects.strict_json.in_text import odd_string
from proxy.dialects.strict_json.strict import canonical_json, decode_object
from proxy.guard.ahead import AdmittedAhead, Ahead
from proxy.guard.answer_sieve import AnswerSieve, ShowingNotes
from proxy.guard.sieve import Sieve
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, RateLimited
from proxy.seams.guard import (
    CallIdentity,
    ForwardStatus,
    GuardedCall,
    Item,
    ItemVerdict,
    PinnedTool,
    PinState,
    RefusedCall,
    RelayedText,
    UnsettledItem,
)
from proxy.seams.observations import MODEL_SERVERS, observation_for, way_of
from proxy.seams.operation import Proposal, WrittenItem
from storage.audit import class_lowered
from storage.features.pinned_tools import Pins
from storage.features.upstream.intents import Forwards
from storage.features.upstream.upstream_state import UpstreamState
from storage.ground.errors import StorageError, UnknownCandidate
from storage.values import ADOPTS, Decision, GuardedServer
from telemetry.events import TraceContext

if TYPE_CHECKING:
    from proxy.intercept.interceptor import Interceptor
    from proxy.ledger.sessions import Sessions

IN_FLIGHT_S: Final = 3_600.0
"""Seconds that an admitted item counts as being sent; after that its relay is taken to be gone."""
GONE_S: Final = 15.0
"""Seconds that a relay which lost its connection has to come back."""
IN_FLIGHT_MAX: Final = 100_000
_BUDGETS: Final = 9


class LocalGuard:
    """Judges and settles one protocol's calls on an open store (`Guard` and `GuardAhead`).

    Event loop only.
    """

    def __init__(
        self,
        *,
        dialect: str,
        target_prefix: str,
        writing: Interceptor,
        forwards: Forwards,
        followed: UpstreamState,
        pins: Pins,
        sieve: Sieve,
        ledger: Sessions,
        saw: Callable[[PrincipalId, RelayedText, str], Awaitable[None]] | None = None,
        surroundings: Environment,
        url_of: Callable[[CandidateId], str | None],
        showing: ShowingNotes,
        left_out: Callable[[Tenant, MemoryId], None] | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """All guards share `sieve` and `ledger`. `left_out` gets what the sieve newly hides.

        `saw` notes a text that a relay showed an agent; by default the ledger alone does.

        `url_of`: the page where a person may confirm a held candidate; None if none is served.
        """
        if target_prefix not in PREFIXES:
            # Without this prefix, a target would be judged as a memory of the gate's own store,
            # whose labels are trusted more.
            raise InvariantBroken("the policy knows no servers behind of this protocol")
        self._dialect = dialect
        self._target_prefix = target_prefix
        self._writing = writing
        self._forwards = forwards
        self._followed = followed
        self._pins = pins
        # Withholds parts of a server's answers.
        self.sifting = AnswerSieve(sieve, showing, left_out)
        self._ledger = ledger
        self._saw = saw or ledger.saw
        self._surroundings = surroundings
        self._url_of = url_of
        self._monotonic_s = monotonic_s
        # Items that a relay is sending now, each with the time until which the relay is trusted to
        # settle it.
        self._in_flight = Bounded[CandidateId, float](IN_FLIGHT_MAX)
        self._ahead = Ahead(monotonic_s)
        # The keys that a server gave to new memories whose outcome is not recorded yet.
        self._keys = Bounded[CandidateId, str](IN_FLIGHT_MAX)

    async def judge(self, principal: Principal, call: GuardedCall) -> tuple[ItemVerdict, ...]:
        """Judge a call that a relay is about to send; return one verdict per item, in order.

        An admitted item's intent is durable on return. If a model front admitted this very call,
        and the facts of that verdict still hold, the call is not judged a second time.

        Raises:
            MalformedRequest: An item cannot be a candidate; no item was staged.
            StorageError: Not one item could be judged.
        """
        taken = await self._taken_over(principal, call)
        return await self.judge_ahead(principal, call) if taken is None else taken

    async def _taken_over(
        self, principal: Principal, call: GuardedCall
    ) -> tuple[ItemVerdict, ...] | None:
        await self._end_overdue()
        one = self._ahead.find(principal, call)
        if one is None:
            return None
        behind = self._behind(principal, call.server)
        waiting = self._ahead.waiting(principal.tenant, call.server)
        stands = await asyncio.to_thread(self._forwards.unmoved, behind, one.candidate_ids, waiting)
        if not self._ahead.take(one):
            # Meanwhile the call's result arrived, or another relay took over the admission.
            return None
        if stands:
            for candidate_id in one.candidate_ids:
                self._launch(candidate_id)
            return one.judged
        # The facts that the admission was based on no longer hold, so the admission ends here and
        # the call has to be judged again.
        await self._end(one, ForwardStatus.FAILED)
        return None

    async def judge_ahead(self, principal: Principal, call: GuardedCall) -> tuple[ItemVerdict, ...]:
        """Judge a call for a front that sends nothing itself; return one verdict per item.

        Raises:
            MalformedRequest: An item cannot be a candidate; no item was staged.
            StorageError: Not one item could be judged.
        """
        proposals = [self._proposal(principal, call, item) for item in call.items]
        sendable = tuple(one for one in proposals if isinstance(one, Proposal))
        written: list[WrittenItem] = []
        if sendable:
            trace = self._trace(call)
            try:
                written = list(await self._writing.judge(principal, sendable, self._dialect, trace))
            except RateLimited:
                refused = [_refused(Reason.RATE_LIMITED, item) for item in call.items]
                return tuple(refused)
        judged: list[ItemVerdict] = []
        rest = iter(written)
        for one, item in zip(proposals, call.items, strict=True):
            answer = self._judged(next(rest)) if isinstance(one, Proposal) else _refused(one, item)
            judged.append(answer)
        return tuple(judged)

    def _proposal(self, principal: Principal, call: GuardedCall, item: Item) -> Proposal | Reason:
        if item.change is ChangeKind.PURGE:
            raise MalformedRequest("change: no tool of another server erases what is kept here")
        target = self._target(call.server)
        if len(target) > NAME_LEN_MAX:
            raise MalformedRequest("server: the name is too long")
        forwarded = ForwardedCall(
            tool=call.tool,
            arguments=item.arguments,
            key=item.key,
            pieces=item.pieces,
            effect=item.effect,
            blob=_digest(item.blob),
            labels=item.labels,
            place=item.place,
            came=item.came,
        )
        # Stored arguments are sent as they are stored after a release, so they must be canonical:
        # every server then decodes the same values as the gate.
        given = decode_object(item.arguments.encode(), each_judged=True)
        if canonical_json(given) != item.arguments:
            raise MalformedRequest("arguments: not canonical JSON")
        try:
            text, metadata_json = texts_of(forwarded)
        except NotForwardable as error:
            if error.oversize:
                return Reason.OVERSIZE
            raise MalformedRequest(str(error)) from None
        return Proposal(
            change=item.change,
            text=text,
            metadata_json=metadata_json,
            scope=Scope(user_id=item.scope_user),
            target=target,
            memory_class=item.memory_class,
            class_named=item.class_named,
            instructions=item.instructions,
            guarded_key=item.key,
            guarded_blob=item.blob,
            text_after=self._text_after(principal, call, item),
            extracted=call.server.startswith(MODEL_SERVERS),
            labels=item.labels,
            odd=self._odd(call, item),
            join=call.join,
            # A deletion has no text with an origin: its names only identify what to delete.
            culprits=()
            if item.change is ChangeKind.DELETE
            else self._ledger.culprits(principal.principal_id, text),
        )

    def _odd(self, call: GuardedCall, item: Item) -> str:
        """Which character of what an item brings may not be stored; "" where all of them may.

        A deletion brings nothing, and an edit nothing of the text that it takes away.
        """
        if item.change is ChangeKind.DELETE:
            return ""
        gone = {*range(item.came, len(item.pieces) if item.came != NOTHING else 0)}
        gone |= {NOTHING if item.effect is None else item.effect.old}
        pieces = ["" if number in gone else one for number, one in enumerate(item.pieces)]
        # Only an adapter in this process can know that a piece beside the arguments is on the
        # server already; what a relay says is a claim.
        beside: list[str] = pieces if self._target_prefix == MCP else []
        given = arguments_of(item.arguments, pieces)
        return odd_string([given, call.tool, item.key, item.scope_user, *beside], parses=True)

    def _text_after(self, principal: Principal, call: GuardedCall, item: Item) -> str | None:
        """The text after an edit; None if no earlier verdict recorded the text before it."""
        if item.change is not ChangeKind.UPDATE or not item.key or item.effect is None:
            return None
        before = self._forwards.text(self._behind(principal, call.server), item.key)
        return None if before is None else text_after(before, item.pieces, item.effect)

    def _judged(self, item: WrittenItem) -> ItemVerdict:
        # "missing" becomes "reject": a memory unknown to the gate may well exist on the server, so
        # it cannot be reported as gone.
        decision = "reject" if item.decision == "missing" else item.decision
        confirm_url = None
        if item.candidate_id is not None and decision == Decision.ADMIT.value:
            self._launch(item.candidate_id)
        elif item.candidate_id is not None and decision == Decision.HOLD.value:
            confirm_url = self._url_of(item.candidate_id)
        return ItemVerdict(
            decision=decision,
            candidate_id=item.candidate_id,
            memory_class=item.memory_class,
            observation=item.observation,
            reason=item.reason,
            step=item.step,
            confirm_url=confirm_url,
        )

    def _trace(self, call: GuardedCall | RefusedCall) -> TraceContext:
        given = call.traceparent
        return self._surroundings.traces.accept([] if given is None else [given])

    async def settle(
        self,
        principal: Principal,
        server: str,
        settled: tuple[tuple[CandidateId, ForwardStatus], ...],
    ) -> None:
        """Record the outcome of each sent item, as one result leaf of the audit log.

        A repeated report counts once.

        Raises:
            StorageError: The outcomes are not recorded; the items stay unsettled.
        """
        # Only items of this server are settled: no server may settle the items of another server.
        behind = self._behind(principal, server)
        keys = {one: self._keys[one] for one, _ in settled if one in self._keys}
        for candidate_id in await self._forwards.settle(behind, settled, keys):
            self._in_flight.pop(CandidateId(candidate_id), None)
            self._keys.pop(CandidateId(candidate_id), None)

    async def adopt(
        self,
        tenant: Tenant,
        server: str,
        tool: str,
        items: tuple[Item, ...],
        approved_by: PrincipalId | None = None,
    ) -> tuple[WrittenItem, ...]:
        """Judge memories that a server already has, as `unknown`; return the results, send nothing.

        The nonce of an item is made of its tenant, server and content, so that a repetition gets
        the first verdict again, and another tenant gets a verdict of its own. An item that is not
        admitted, such as a directive, stays as it is on the server.
        `approved_by` is a person who was shown all of each item: an item that would be held is
        then admitted, as that person's own words.

        Raises:
            MalformedRequest: An item cannot be a candidate; no item was staged.
            StorageError: Not every item is recorded; the call may be repeated.
        """
        # A trusted claim is a label that the operator vouches for, and no approval overrules it. So
        # an item that a person approves has no claim: the person decides on its text.
        asked = approved_by is not None
        claims = Claims.IGNORED if asked else Claims.TRUSTED
        principal = Principal(principal_id=ADOPTS, tenant=tenant, claims=claims)
        call = GuardedCall(server=server, tool=tool, items=items)
        proposals: list[Proposal] = []
        for item in items:
            proposal = self._proposal(principal, call, item)
            if isinstance(proposal, Reason) or item.change is not ChangeKind.CREATE:
                raise MalformedRequest("items: one is too large, or no new memory", status=413)
            said = f"{tenant}\0{server}\0{proposal.text}\0{proposal.metadata_json}"
            digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
            proposals.append(
                msgspec.structs.replace(
                    proposal,
                    nonce=self._writing.nonce(f"adopt-{'vouched-' if asked else ''}{digest}"),
                    claimed_source=None if asked else SourceKind.UNKNOWN,
                    # No agent wrote this item now, so no agent named its class.
                    class_named=proposal.class_named and not asked,
                    approved_by=approved_by,
                    culprits=(),
                    # The server has the item already, so its characters come from no one now.
                    odd="",
                )
            )
        trace = self._trace(call)
        return await self._writing.judge(principal, tuple(proposals), self._dialect, trace)

    # ---- calls that are admitted before they reach a relay ---------------------------------------

    def server_of(self, principal: Principal, host_name: str) -> str | None:
        """The name under which this principal's relays know a server; None if no relay serves it.

        `host_name` is the name that the agent's host gives to the server.
        """
        return self._ahead.server_of(principal, host_name)

    def joined(self, principal: Principal, made: CallIdentity) -> bool:
        """Whether a call that a host's hook reports was admitted before the agent got it."""
        return self._ahead.joined(principal, made)

    async def hand_over(
        self,
        principal: Principal,
        made: CallIdentity,
        call: GuardedCall,
        judged: tuple[ItemVerdict, ...],
    ) -> None:
        """Record that the agent is about to get this call; all of its items are admitted."""
        before = self._ahead.add(principal, made, call, judged)
        if before is not None and not before.late:
            # If the outcome cannot be recorded, the items of the displaced call stay unsettled, and
            # are looked up.
            with contextlib.suppress(StorageError):
                await self._end(before, ForwardStatus.UNKNOWN)

    def handed_over(self, principal: Principal) -> frozenset[str]:
        """The ids of this principal's calls that wait for a relay or a result."""
        return self._ahead.call_ids(principal)

    async def ended(self, principal: Principal, call_id: str, state: ForwardStatus) -> None:
        """Record the outcome of a call that was handed over, unless a relay has taken it.

        Raises:
            StorageError: The outcome is not recorded; the call may be repeated.
        """
        await self._end_overdue()
        one = self._ahead.get(principal, call_id)
        if one is None or not self._ahead.take(one):
            return
        try:
            await self._end(one, state)
        except StorageError:
            self._ahead.keep(one)
            raise

    async def _end(self, one: AdmittedAhead, state: ForwardStatus) -> None:
        settled = tuple((candidate_id, state) for candidate_id in one.candidate_ids)
        await self.settle(one.principal, one.server, settled)

    async def _end_overdue(self) -> None:
        for one in self._ahead.overdue():
            # A failure is ignored: an item without a recorded outcome is looked up at the next
            # start.
            with contextlib.suppress(StorageError):
                await self._end(one, ForwardStatus.UNKNOWN)

    async def sift(
        self,
        principal: Principal,
        server: str,
        strings: tuple[str, ...],
        seen: RelayedText | None = None,
    ) -> tuple[bool, ...]:
        """For each string of a server's answer: True if it is withheld; if none, record `seen`.

        Raises:
            StorageError: The answer is unknown; withhold all of it.
        """
        flags = await self.sifting.sift(principal, self._target(server), strings)
        if seen is not None and seen.texts and not any(flags):
            with contextlib.suppress(StorageError):
                await self.saw(principal, seen)
        return flags

    def has_key(self, candidate_id: CandidateId, key: str) -> None:
        """Note the key that the server gave a sent memory, until its outcome is recorded."""
        self._keys[candidate_id] = key

    async def refused(self, principal: Principal, call: RefusedCall) -> None:
        """Record a call that was refused unjudged, for telemetry alone."""
        trace = self._trace(call)
        self._writing.refused(principal, call, self._dialect, trace)

    async def saw(self, principal: Principal, segment: RelayedText) -> None:
        """Note a text in the agent's context, as a possible origin of the agent's later writes.

        Raises:
            MalformedRequest: The label is above `tool_result`, which no relay can vouch for.
        """
        if segment.kind.trust > SourceKind.TOOL_RESULT.trust:
            raise MalformedRequest("kind: a relay brings what tools and servers say")
        await self._saw(principal.principal_id, segment, principal.tenant)

    async def pin(
        self, principal: Principal, server: str, tools: tuple[PinnedTool, ...]
    ) -> PinState:
        """Compare a server's tools with the approved ones; its first list counts as approved.

        Raises:
            MalformedRequest: Two tools share a name.
            StorageError: The answer is unknown; refuse its tools.
        """
        if len({tool.name for tool in tools}) < len(tools):
            raise MalformedRequest("tools: a name is given twice")
        pairs = tuple((tool.name, tool.digest) for tool in tools)
        pinned = await self._pins.see(principal.tenant, server, pairs)
        self._ahead.named(principal, server)
        return PinState(approved=not pinned.changed, changed=pinned.changed)

    async def unsettled(self, principal: Principal, server: str) -> tuple[UnsettledItem, ...]:
        """Items to send (released by a person) or to look up (the server's answer was lost).

        An item to send is returned to one caller only, which has to send and settle it.

        Raises:
            StorageError: The answer is unknown.
        """
        behind = self._behind(principal, server)
        self._land_overdue()
        found = [
            one
            for one in self._forwards.pending(behind.tenant, behind.target)
            if one.candidate_id not in self._in_flight
        ]
        waiting = tuple(one.candidate_id for one in found if not one.sent)
        claimed: frozenset[str] = frozenset()
        if waiting:
            claimed = await self._forwards.claim(behind, waiting)
        given: list[UnsettledItem] = []
        for one in found:
            call = call_of(one.candidate)
            if call is None or not (one.sent or one.candidate_id in claimed):
                continue
            if not one.sent:
                self._launch(one.candidate_id)
            given.append(
                UnsettledItem(
                    candidate_id=one.candidate_id,
                    tool=call.tool,
                    change=one.candidate.change,
                    arguments=call.arguments,
                    pieces=call.pieces,
                    key=call.key,
                    sent=one.sent,
                    # Only the very bytes that were judged with the item go with it.
                    blob=one.blob if _digest(one.blob) == call.blob else b"",
                )
            )
        return tuple(given)

    async def decided(self, principal: Principal, candidate_id: CandidateId) -> ItemVerdict:
        """The decision on a held candidate: still "hold", or a person's decision.

        Raises:
            UnknownCandidate: No candidate of that id is this tenant's.
            StorageError: The answer is unknown.
        """
        found = await asyncio.to_thread(self._followed.decided, candidate_id)
        if found is None or found.intercepted.tenant != principal.tenant:
            raise UnknownCandidate("no candidate of that id")
        leaf = found.verdict
        decision = leaf.decision.value
        reason = None if leaf.decision is Decision.ADMIT else leaf.reason
        return ItemVerdict(
            decision=decision,
            candidate_id=candidate_id,
            memory_class=leaf.memory_class,
            observation=observation_for(
                decision,
                reason,
                leaf.memory_class,
                found.intercepted.change,
                lowered=class_lowered(found.intercepted, leaf),
                page=self._surroundings.page.of(candidate_id),
                way=way_of(found.intercepted.target),
                again=True,
            ),
            reason=reason,
            step=leaf.step,
        )

    def abandon(self, candidate_ids: tuple[CandidateId, ...]) -> None:
        """Note that the relay that was sending the given items has gone.

        Unless the relay comes back soon, the items are looked up.
        """
        for candidate_id in candidate_ids:
            if candidate_id in self._in_flight:
                self._in_flight[candidate_id] = self._monotonic_s() + GONE_S

    def resume(self, candidate_ids: tuple[CandidateId, ...]) -> None:
        """Note that a relay came back, so that its items are not looked up yet."""
        for candidate_id in candidate_ids:
            if candidate_id in self._in_flight:
                self._launch(candidate_id)

    def _target(self, server: str) -> str:
        return target_of(self._target_prefix, server)

    def _behind(self, principal: Principal, server: str) -> GuardedServer:
        target = self._target(server)
        return GuardedServer(tenant=principal.tenant, target=target, by=principal.principal_id)

    def _launch(self, candidate_id: CandidateId) -> None:
        self._in_flight[candidate_id] = self._monotonic_s() + IN_FLIGHT_S

    def _land_overdue(self) -> None:
        now_s = self._monotonic_s()
        for candidate_id, until_s in tuple(self._in_flight.items()):
            if until_s <= now_s:
                del self._in_flight[candidate_id]


def _digest(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest() if blob else ""


def _refused(reason: Reason, item: Item) -> ItemVerdict:
    """The refusal of an item that never reached the gate: nothing was staged or logged."""
    return ItemVerdict(
        decision=Decision.REJECT.value,
        candidate_id=None,
        memory_class=item.memory_class,
        observation=observation_for(Decision.REJECT.value, reason, item.memory_class),
        reason=reason,
        step=_BUDGETS,
    )
