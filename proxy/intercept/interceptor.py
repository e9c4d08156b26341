"""Makes a candidate of each proposal, gathers its evidence, and waits for its verdict.

This is the interceptor (docs/architecture.md#the-life-of-a-write): it mints the candidate id and
the nonce, computes the digest over all fields, derives the true source, and submits the candidate
to the one writer. No byte of the candidate is sent anywhere before its verdict.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Final, Protocol

import msgspec

from policy.canonical import canonical_bytes, digest_of
from policy.facts import BudgetState
from policy.labels.derive import (
    NOTHING_READ,
    Seen,
    derive_provenance,
    is_lowered,
    named_class,
    read_beside,
    read_candidate,
)
from policy.labels.forwarded_call import PREFIXES
from policy.model import (
    Candidate,
    CandidateId,
    ChangeKind,
    Memory,
    MemoryId,
    Principal,
    PrincipalId,
    Reading,
    Reads,
    SourceKind,
    Tenant,
    meet,
)
from policy.ruleset import Budgets, OverBudget, Ruleset
from policy.trust.score import OutcomeKind, Reported
from policy.verdict import Reason
from proxy.dialects.strict_json.in_text import odd_string, strings_inside
from proxy.embed.embedding import takes_client_vectors, unit_vector
from proxy.intercept.budgets import Sizes, WriteCounts, sizes_of
from proxy.intercept.shadow import (
    Recallable,
    Shadow,
    TokenVerifier,
    seen_of,
    shown_of,
    stored_of,
)
from proxy.intercept.verdict_events import (
    VerdictPlace,
    refused_event,
    rooted,
    undecided_event,
    verdict_event,
)
from proxy.intercept.written import judged, not_judged, within_one_answer
from proxy.ledger.sessions import Sessions
from proxy.seams.access import access_of
from proxy.seams.environment import Embedder, Environment
from proxy.seams.faults import MalformedRequest, RateLimited
from proxy.seams.guard import RefusedCall
from proxy.seams.operation import Proposal, WrittenItem
from proxy.seams.pace import LARGE
from proxy.withhold.convictions import Convictions
from proxy.withhold.withholding import Withholding
from storage.features.trust import RecordOutcome
from storage.ground.errors import OutcomeUnknown, StorageError, StoreUnavailable
from storage.interfaces import MemoryReader, MemoryWriter
from storage.values import Decision, Outcome, Submission
from telemetry.events import TraceContext, VerdictRecorded
from telemetry.propagation import recorded_id

_WEIGHT: Final = attrgetter("weight")
_TOO_LARGE: Final = 2**62
# A factor for the cost of reading metadata: each string is read by itself, and once more joined to
# the one before it.
_METADATA_TIMES: Final = 4
# The most texts embedded in one call: embedding many short ones takes long as well.
_EMBEDDED_LEN: Final = 16
# The most candidates judged together, so that a batch of thousands does not fill the writer's
# queue.
CHUNK_LEN = 256
# Of a text as JSON: all that may stand for another character than white space or printable ASCII.
_TO_BE_READ: Final = re.compile(rb"[^ -~]|\\[ubf]")


class Submits(Protocol):
    """The part of the writer that the interceptor uses."""

    async def submit(self, submission: Submission) -> Outcome:
        """Queue one candidate for the writer; return its verdict (`MemoryWriter.submit`)."""
        ...


class _Intercepted(msgspec.Struct, frozen=True, kw_only=True):
    submission: Submission
    seen: Seen | None
    trace: TraceContext
    started_ns: int
    # The verdicts of the request so far, which are reported together.
    events: list[VerdictRecorded]


class _Prepared(msgspec.Struct, frozen=True):
    """A proposal that can become a candidate, with the evidence gathered so far.

    `lineage` is the lowest label of the proposal's parent memories; None if it has none.
    """

    proposal: Proposal
    vector: bytes
    lineage: SourceKind | None
    # Whether the text is small enough. A larger text is rejected without being read.
    fits: bool
    sizes: Sizes


class Interceptor:
    """Turns proposals into verdicts, in the proposals' order. Event loop only."""

    def __init__(
        self,
        *,
        writer: Submits,
        reader: MemoryReader,
        embedder: Embedder,
        shadow: Shadow,
        budgets: WriteCounts,
        tokens: TokenVerifier,
        ruleset: Callable[[], Ruleset],
        sessions: Sessions | None,
        watches: Withholding | None,
        outcomes: MemoryWriter,
        convictions: Convictions,
        surroundings: Environment,
    ) -> None:
        """`sessions` is the ledger, which records what entered each context.

        `watches` is withholding, which is called with each candidate before its verdict. Both are
        None where no model front is configured, because no one sees then what enters a context.
        """
        self._writer = writer
        self._reader = reader
        self._embedder = embedder
        self._takes_vectors = takes_client_vectors(embedder)
        self._shadow = shadow
        self._budgets = budgets
        self._tokens = tokens
        self._ruleset = ruleset
        self._sessions = sessions
        self._watches = watches
        self._outcomes = outcomes
        self._convictions = convictions
        self._out = surroundings
        self._incarnation = reader.status().incarnation

    async def judge(
        self,
        principal: Principal,
        proposals: tuple[Proposal, ...],
        dialect: str,
        trace: TraceContext,
    ) -> tuple[WrittenItem, ...]:
        """Judge proposals; return one item with its verdict per proposal, in order.

        Each item of a batch is judged by itself, so a bad one does not stop the others. One with a
        character that may not be stored is refused before it becomes a candidate.

        Raises:
            MalformedRequest: A proposal cannot become a candidate; none of them was staged.
            StoreUnavailable: Not one item could be judged.
            OutcomeUnknown: Not one item has a known outcome.
            RateLimited: The principal's window has no room for all of them; none was staged.
        """
        odd = {at: why for at, one in enumerate(proposals) if (why := _odd(one))}
        if odd:
            refused = self._refused(principal, proposals, odd, dialect, trace)
            fine = tuple(one for at, one in enumerate(proposals) if at not in odd)
            judged = iter(await self.judge(principal, fine, dialect, trace) if fine else ())
            return tuple(refused.get(at) or next(judged) for at in range(len(proposals)))
        owner, rules, started_ns = principal.principal_id, self._ruleset(), self._out.clock_ns()
        limits = rules.budgets
        sizes = [
            sizes_of(one.text, one.metadata_json, ids_count=len(one.derived_from))
            for one in proposals
        ]
        kept = 0
        if limits.over_rate is OverBudget.REJECT:
            kept = sum(map(_WEIGHT, sizes))
            now_ms = started_ns // 1_000_000
            try:
                self._budgets.keep_room(owner, kept, limits, now_ms)
            except RateLimited:
                await self._full(principal, limits, now_ms)
                raise
        alone = len(proposals) == 1
        items: list[WrittenItem | StorageError] = []
        events: list[VerdictRecorded] = []
        try:
            # A malformed one is found before the first is judged: no admitted write is undone.
            prepared = await self._prepared(principal, proposals, sizes, limits)
            for start in range(0, len(prepared), CHUNK_LEN):
                chunk: list[_Intercepted | WrittenItem] = []
                for one in prepared[start : start + CHUNK_LEN]:
                    made = await self._intercept(principal, one, trace, events, rules, started_ns)
                    chunk.append(made)
                    kept -= one.sizes.weight if isinstance(made, _Intercepted) else 0
                    if not alone:
                        await self._out.pace.step(owner)
                        started_ns = self._out.clock_ns()
                items.extend(await self._verdicts(chunk, dialect, alone=alone))
        finally:
            self._budgets.give_back(owner, kept)
            for event in events if alone else rooted(events, trace, self._out.random_hex):
                self._out.record(event)
        failures = [item for item in items if isinstance(item, StorageError)]
        if failures and len(failures) == len(items):
            raise failures[0]
        return within_one_answer(
            [
                not_judged(proposal, "error", Reason.GATE_UNAVAILABLE)
                if isinstance(item, StorageError)
                else item
                for proposal, item in zip(proposals, items, strict=True)
            ]
        )

    def _refused(
        self,
        principal: Principal,
        proposals: tuple[Proposal, ...],
        odd: Mapping[int, str],
        dialect: str,
        trace: TraceContext,
    ) -> dict[int, WrittenItem]:
        """Refuse the proposals at the places in `odd`, which maps each place to the cause."""
        refused = dict[int, WrittenItem]()
        for at, why in odd.items():
            one = proposals[at]
            self.refused(principal, one, dialect, trace)
            refused[at] = not_judged(one, "reject", Reason.CHARACTER_REFUSED, f"{why}. ")
        return refused

    def refused(
        self, by: Principal, what: Proposal | RefusedCall, dialect: str, trace: TraceContext
    ) -> None:
        """Record for telemetry what was refused before it became a candidate."""
        span = self._span(trace, dialect, self._out.clock_ns())
        self._out.record(refused_event(what, by, span))

    def _span(self, trace: TraceContext, dialect: str, started_ns: int) -> VerdictPlace:
        return VerdictPlace(
            context=trace,
            dialect=dialect,
            started_ns=started_ns,
            ended_ns=self._out.clock_ns(),
            epoch=self._ruleset().epoch,
        )

    async def _full(self, principal: Principal, limits: Budgets, now_ms: int) -> None:
        """Report a burst if the principal has filled many windows in a row."""
        if not self._budgets.sustained(principal.principal_id, limits, now_ms):
            return
        # A report that cannot be recorded now is made again after the next full window.
        with contextlib.suppress(StorageError):
            burst = Reported(
                kind=OutcomeKind.SUSTAINED_BURST,
                principal_id=principal.principal_id,
                tenant=principal.tenant,
            )
            await self._outcomes.order(RecordOutcome(burst))

    async def _prepared(
        self,
        principal: Principal,
        proposals: tuple[Proposal, ...],
        sizes: list[Sizes],
        limits: Budgets,
    ) -> list[_Prepared]:
        """The proposals, with the evidence that is gathered before the first one is judged."""
        owner = principal.principal_id
        texts = [one.text for one in proposals if one.text is not None]
        embedded = iter([] if self._takes_vectors else await self._embedded(owner, texts))
        # The labels of the parents found so far, because a batch names the same ones repeatedly.
        known: dict[MemoryId, SourceKind] = {}
        prepared: list[_Prepared] = []
        alone = len(proposals) == 1
        for one, size in zip(proposals, sizes, strict=True):
            if one.guarded_key is None and one.target.startswith(PREFIXES):
                raise MalformedRequest("target: names a server behind, which only its relay may do")
            vector = self._vector(one, embedded)
            lineage = self._lineage(principal.tenant, one, known)
            fits = (
                size.text_bytes <= limits.text_bytes_max
                and size.metadata_bytes <= limits.metadata_bytes_max
            )
            prepared.append(_Prepared(one, vector, lineage, fits, size))
            if not alone:
                await self._out.pace.step(owner)
        return prepared

    async def _verdicts(
        self, chunk: list[_Intercepted | WrittenItem], dialect: str, *, alone: bool
    ) -> list[WrittenItem | StorageError]:
        try:
            if self._watches is not None:
                chunk = await self._watched(chunk, self._watches)
        except StorageError as failure:
            return [failure for _ in chunk]
        if len(chunk) == 1:
            return [await self._verdict(chunk[0], dialect, alone=alone)]
        async with asyncio.TaskGroup() as group:
            # Tasks start in the order they are made, and `submit` queues before it waits, so the
            # writer sees the proposals in the client's order.
            tasks = [group.create_task(self._verdict(one, dialect, alone=alone)) for one in chunk]
        return [task.result() for task in tasks]

    async def _watched(
        self, chunk: list[_Intercepted | WrittenItem], watches: Withholding
    ) -> list[_Intercepted | WrittenItem]:
        """Report the candidates to withholding; return the candidates, which it may change."""
        found = [one.submission for one in chunk if isinstance(one, _Intercepted)]
        given = iter(await watches.begun(found))
        return [
            one
            if isinstance(one, WrittenItem)
            else msgspec.structs.replace(one, submission=next(given))
            for one in chunk
        ]

    def _vector(self, proposal: Proposal, embedded: Iterator[bytes]) -> bytes:
        """The vector of a proposal: its client's own, or the next embedding; b"" for none."""
        if self._takes_vectors:
            # A tool of another memory server sends no vector. If this store takes only clients'
            # vectors, a memory of such a server is in listings, but no search finds it.
            guarded = proposal.guarded_key is not None
            return b"" if guarded else _client_vector(proposal, self._embedder.dimension)
        if proposal.vector is not None:
            # Vectors of two models never mix in one search.
            raise MalformedRequest("vector: this store embeds texts itself; send none")
        return b"" if proposal.text is None else next(embedded)

    async def _embedded(self, owner: PrincipalId, texts: list[str]) -> list[bytes]:
        found: list[bytes] = []
        for start in range(0, len(texts), _EMBEDDED_LEN):
            some = texts[start : start + _EMBEDDED_LEN]
            size = sum(map(len, some))
            embed = self._embedder.embed
            found += (
                await self._out.pace.aside(owner, size, embed, some)
                if size > LARGE
                else embed(some)
            )
            if len(texts) > _EMBEDDED_LEN:
                await self._out.pace.step(owner)
        return found

    async def _intercept(
        self,
        principal: Principal,
        prepared: _Prepared,
        trace: TraceContext,
        events: list[VerdictRecorded],
        rules: Ruleset,
        started_ns: int,
    ) -> _Intercepted | WrittenItem:
        proposal, vector = prepared.proposal, prepared.vector
        if self._absent(principal, proposal):
            return not_judged(proposal, "missing", Reason.TARGET_MISSING)
        candidate = self._candidate(principal, proposal, vector)
        canonical = canonical_bytes(candidate)
        reading = NOTHING_READ
        if prepared.fits:
            size = len(candidate.text or "") + _METADATA_TIMES * len(candidate.metadata_json or "")
            size += len(proposal.text_after or "")
            owner = principal.principal_id
            reading = await self._out.pace.aside(owner, size, _read, candidate, proposal.text_after)
        now_ms = started_ns // 1_000_000
        # Where the ruleset holds writes beyond the window instead of refusing them.
        limits = rules.budgets
        holds = limits.over_rate is not OverBudget.REJECT
        if holds and self._budgets.is_full(principal.principal_id, limits, now_ms):
            await self._full(principal, limits, now_ms)
        # The stored memory is read once. The gate gets the version that was read, and checks that
        # this is still the memory's version.
        stored = stored_of(self._reader.at(Reads.ALL, expired=proposal.expired), candidate)
        token = self._tokens.verify(proposal.promotion_token, candidate, stored, now_ms)
        seen = seen_of(self._sessions, candidate, proposal)
        convicted = await self._convictions.of(principal.tenant)
        submission = Submission(
            candidate_id=CandidateId(self._out.random_hex(16)),
            candidate=candidate,
            canonical=canonical,
            digest=digest_of(canonical),
            provenance=derive_provenance(
                principal,
                candidate,
                prepared.lineage,
                seen,
                culprits=proposal.culprits,
                extracted=proposal.extracted,
            ),
            text_after=proposal.text_after,
            intercepted_at_ms=now_ms,
            reading=reading,
            token=token.state,
            token_key=token.key,
            shadow=self._shadow.probe(
                principal.tenant,
                shown_of(candidate, vector, stored) if prepared.fits else Recallable(text=None),
                rules.anchors.outrank_margin,
            ),
            repeats_hidden=prepared.fits and convicted.repeated_by(candidate),
            seen_version=proposal.approved_version or (0 if stored is None else stored.version),
            budget=self._measured(prepared, candidate, stored, limits, now_ms),
            vector=vector,
            embedder_id=self._embedder.embedder_id,
            trace_id=recorded_id(trace),
            guarded_key=proposal.guarded_key,
            guarded_blob=proposal.guarded_blob,
            approved_by=proposal.approved_by,
            welcome=access_of(principal).stands,
        )
        return _Intercepted(
            submission=submission, seen=seen, trace=trace, started_ns=started_ns, events=events
        )

    def _measured(
        self,
        prepared: _Prepared,
        candidate: Candidate,
        stored: Memory | None,
        limits: Budgets,
        now_ms: int,
    ) -> BudgetState:
        # An update without a text writes the memory's stored text once more, so the size of the
        # stored text counts too.
        sizes = prepared.sizes
        if stored is not None and candidate.text is None:
            sizes = msgspec.structs.replace(
                sizes, weight=sizes.weight + sizes_of(stored.text).weight - 1
            )
        owner = candidate.principal_id
        budget = self._budgets.measure(owner, sizes, prepared.vector, limits, now_ms)
        if prepared.fits:
            return budget
        # The text was not read, because it is too long. It counts as too large even if a reload has
        # raised the limit before the verdict.
        return msgspec.structs.replace(budget, text_bytes=_TOO_LARGE)

    def _absent(self, principal: Principal, proposal: Proposal) -> bool:
        """Whether the memory that the proposal would change does not exist.

        False if the client sent a nonce, so that the gate answers: a repeated delete must get its
        first verdict again, and not the answer that the memory is gone.
        """
        # A deleted memory can still be purged, because its bytes may still have to be erased.
        elsewhere = proposal.change in {ChangeKind.CREATE, ChangeKind.PURGE}
        if elsewhere or proposal.nonce is not None or proposal.guarded_key is not None:
            return False
        memory_id = proposal.memory_id
        reader = self._reader.at(Reads.ALL, expired=proposal.expired)
        return memory_id is None or reader.source(principal.tenant, memory_id) is None

    def nonce(self, name: str) -> str:
        """A nonce for this store, made of a name that the caller chooses.

        A second write under the same name gets the first write's verdict.
        """
        return f"{self._incarnation}:{name}"

    def _candidate(self, principal: Principal, proposal: Proposal, vector: bytes) -> Candidate:
        nonce = proposal.nonce or self.nonce(self._out.random_hex(16))
        return Candidate(
            change=proposal.change,
            principal_id=principal.principal_id,
            tenant=principal.tenant,
            nonce=nonce,
            target=proposal.target,
            memory_id=proposal.memory_id,
            text=proposal.text,
            metadata_json=proposal.metadata_json,
            scope=proposal.scope,
            memory_class=proposal.memory_class,
            class_named=proposal.class_named,
            claimed_source=proposal.claimed_source,
            role=proposal.role,
            actor=proposal.actor,
            derived_from=proposal.derived_from,
            expires_at=proposal.expires_at,
            vector_sha256=hashlib.sha256(vector).hexdigest() if proposal.vector else None,
            instructions=proposal.instructions,
        )

    def _lineage(
        self, tenant: Tenant, proposal: Proposal, known: dict[MemoryId, SourceKind]
    ) -> SourceKind | None:
        """The lowest label among the memories in `derived_from`; None if it is empty."""
        lowest: SourceKind | None = None
        for memory_id in dict.fromkeys(map(MemoryId, proposal.derived_from)):
            source = known.get(memory_id) or self._reader.source(tenant, memory_id)
            if source is None:
                raise MalformedRequest("derived_from: names a memory that is not there")
            known[memory_id] = source
            lowest = source if lowest is None else meet(lowest, source)
        return lowest

    async def _verdict(
        self, intercepted: _Intercepted | WrittenItem, dialect: str, *, alone: bool
    ) -> WrittenItem | StorageError:
        if isinstance(intercepted, WrittenItem):
            return intercepted
        submission = intercepted.submission
        result: Outcome | StorageError
        heard: Outcome | StorageError | None = None
        try:
            result = heard = await self._writer.submit(submission)
        except (StoreUnavailable, OutcomeUnknown) as failure:
            result = heard = failure
        finally:
            if self._watches is not None:
                self._watches.ended(submission, heard)
        span = self._span(intercepted.trace, dialect, intercepted.started_ns)
        if isinstance(result, StorageError):
            intercepted.events.append(undecided_event(submission, result, span))
            return result
        candidate, admitted = submission.candidate, result.decision is Decision.ADMIT
        lowered = is_lowered(candidate.change, named_class(candidate), result.memory_class)
        intercepted.events.append(verdict_event(submission, result, span, lowered=lowered))
        memory_id = self._shown(candidate, result)
        page = None if admitted else self._out.page.of(result.candidate_id)
        written = judged(candidate, result, memory_id, page, lowered=lowered)
        if self._sessions is not None and intercepted.seen is not None:
            self._sessions.wrote(candidate.principal_id, intercepted.seen, result)
        # Other requests may run after each answer is built: all items of a batch are decided at
        # about the same time, and building their answers in one go would block the loop.
        if not alone:
            await self._out.pace.step(candidate.principal_id)
        return written

    def _shown(self, candidate: Candidate, outcome: Outcome) -> MemoryId | None:
        """The id that an answer may contain: only an id that the store itself assigned.

        Any other id is the client's own text. A refusal that repeats it would return it to the
        model, and sixteen bytes in hex have room for a password.
        """
        if outcome.memory is not None:
            return outcome.memory.memory_id
        memory_id = candidate.memory_id
        if memory_id is None or outcome.decision is Decision.ADMIT:
            return memory_id
        there = self._reader.source(candidate.tenant, memory_id) is not None
        return memory_id if there else None


def _read(candidate: Candidate, text_after: str | None) -> Reading:
    """The text of a candidate in the form that the gate matches.

    It includes `text_after`, the whole text that results from an edit.
    """
    reading = read_candidate(candidate)
    return reading if text_after is None else read_beside(reading, text_after)


def _odd(proposal: Proposal) -> str:
    """Which character of a proposal may not be stored, and where it is; "" if all of them may."""
    if proposal.guarded_key is not None:
        return proposal.odd
    try:
        written = msgspec.json.encode(proposal)
    except UnicodeEncodeError:
        written = b"\\u"  # half of a surrogate pair
    if not _TO_BE_READ.search(written):
        return ""
    given = msgspec.structs.asdict(proposal) | msgspec.structs.asdict(proposal.scope)
    given |= {"metadata_json": None, "metadata": [*strings_inside(proposal.metadata_json or "")]}
    return odd_string(given, parses=False)


def _client_vector(proposal: Proposal, dimension: int) -> bytes:
    if (proposal.text is None) != (proposal.vector is None):
        raise MalformedRequest("vector: this store takes one with each text, and none without")
    return b"" if proposal.vector is None else unit_vector(proposal.vector, dimension)
