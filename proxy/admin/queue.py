"""Lists held candidates, and decides them in groups: one principal's changes to one place.

An act (a person's decision) contains a digest of the lines that the person was shown; lines that
were proposed later stay pending.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from policy.labels.forwarded_call import call_of, place_of
from policy.lines import lines_of
from policy.model import Candidate, CandidateId, ChangeKind, PrincipalId
from proxy.admin.memories import had_read
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.review_decider import REVIEW, ReviewDecider, decision_words
from proxy.admin.rules_in_force import fired_in
from proxy.admin.views import extended, held_view, outcome_view
from proxy.admin.wire.review_queue import (
    BEGINNINGS_SHOWN,
    BYTES_SHOWN,
    DENY_LINES,
    DENY_MANY,
    GROUP,
    GROUPS,
    LINES_SHOWN,
    RELEASE_LINES,
    WAITING,
    Act,
    ActView,
    DeniedView,
    DenyMany,
    GroupList,
    GroupRow,
    GroupsQuery,
    GroupView,
    LineView,
    ReviewFilter,
    ReviewPage,
)
from proxy.admin.wire.route import BEGINNING_LEN_MIN, Empty, NoQuery
from proxy.admin.wire.store import (
    DENY,
    HELD,
    RELEASE,
    HeldView,
    OutcomeView,
)
from proxy.admin.wire.upkeep import FORGIVE, ForgivenView
from proxy.ledger.sessions import Sessions
from proxy.ledger.wire import OriginView
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.observations import Way
from proxy.withhold.withholding import Withholding
from storage.audit import culprit_of
from storage.features.lines import Forgive
from storage.features.upstream.upstream_state import UpstreamState
from storage.ground.errors import UnknownCandidate
from storage.interfaces import MemoryReader, MemoryWriter
from storage.values import Decision, Denial, HeldCandidate

BEGINNING_LEN: Final = 60
PAGE_LEN_MAX: Final = 1_000
# The most candidates that one transaction refuses. All are read before, so no more are given than
# the store has time for, which takes fewer where they are long.
DENIED_TOGETHER: Final = 8
_PAUSE_S_MAX: Final = 0.01


def stored_text(reader: MemoryReader, candidate: Candidate) -> str | None:
    """The present text of the memory that a candidate changes; None if it is new or hidden."""
    if candidate.memory_id is None or candidate.change is ChangeKind.CREATE:
        return None
    found = reader.get(candidate.tenant, candidate.memory_id)
    return None if found is None else found.text


class _Group(msgspec.Struct, kw_only=True):
    """The held candidates of one group, oldest first, and their changed lines, keyed by hash."""

    held: list[HeldCandidate]
    lines: dict[bytes, LineView]

    def digests(self) -> list[str]:
        """For each line, the digest of all lines up to and including that line."""
        hashed, found = hashlib.blake2b(digest_size=16), list[str]()
        for key in self.lines:
            hashed.update(key)
            found.append(hashed.hexdigest())
        return found


class Queue:
    """Lists held candidates, and releases or denies groups of them.

    Event loop only; contents are read in threads.
    """

    def __init__(
        self,
        reader: MemoryReader,
        deciding: ReviewDecider,
        surroundings: Environment,
        settle: Callable[[PrincipalId, CandidateId], Awaitable[object]],
        followed: UpstreamState,
    ) -> None:
        """`settle` records that a person wrote a released candidate to its server herself."""
        self._reader = reader
        self._deciding = deciding
        self._out = surroundings
        self._settle = settle
        self._followed = followed

    @route(WAITING)
    async def page(self, call: OperatorCall[ReviewFilter]) -> ReviewPage:
        """Held candidates that fit the filter, oldest first, each with its first characters."""
        asked = call.asked
        held = await asyncio.to_thread(self._reader.held)
        found = [one for one in held if asked.fits(one)]
        shown = found[: min(asked.limit, PAGE_LEN_MAX)]
        rows = await asyncio.to_thread(self._rows, shown)
        return ReviewPage(held=rows, total=len(found), waiting=len(held), fits=asked.said)

    @route(GROUP)
    async def group_asked(self, call: OperatorCall[NoQuery]) -> GroupView:
        """The lines that wait in a group, for an operator; see `group`."""
        return await self.group(call.argument)

    @route(RELEASE_LINES)
    async def release_asked(self, call: OperatorCall[Act]) -> ActView:
        """Release the lines of a group that an operator was shown."""
        return await self.release(call.argument, call.asked, call.operator)

    @route(DENY_LINES)
    async def deny_asked(self, call: OperatorCall[Act]) -> ActView:
        """Deny the lines of a group that an operator was shown."""
        return await self.deny(call.argument, call.asked, call.operator)

    async def group(self, subject: str) -> GroupView:
        """The lines that wait in a group, or, if `subject` is a candidate's id, in that candidate.

        Raises:
            NotFound: No held candidate belongs to this group, or has this id.
        """
        found = await asyncio.to_thread(self._group, subject)
        first = found.held[0]
        lines = tuple(found.lines.values())
        count = _fitting(lines)
        candidate = first.candidate
        return GroupView(
            group=first.group,
            tenant=first.tenant,
            principal=first.principal_id,
            place="" if candidate is None else place_of(candidate),
            shown=found.digests()[count - 1],
            lines=lines[:count],
            more=len(lines) - count,
        )

    @route(GROUPS)
    async def groups(self, call: OperatorCall[GroupsQuery]) -> GroupList:
        """The groups that wait, oldest first; only the shown ones are decrypted, in part."""
        return await asyncio.to_thread(self._groups, call.asked)

    def _groups(self, asked: GroupsQuery) -> GroupList:
        found: dict[str, list[HeldCandidate]] = {}
        held = self._reader.held()
        for one in held:
            found.setdefault(one.group, []).append(one)
        # `held` is oldest first, so the groups are in the order of their oldest candidates.
        named = [(f"{some[0].held_at_ms:015}-{group}", some) for group, some in found.items()]
        left = sorted(named, key=lambda one: one[0])
        if asked.after is not None:
            left = [one for one in left if one[0] > asked.after]
        rows = tuple(self._group_row(*one) for one in left[: asked.limit])
        more = len(left) > len(rows)
        return GroupList(groups=rows, total=len(found), waiting=len(held), more=more)

    def _group_row(self, cursor: str, held: list[HeldCandidate]) -> GroupRow:
        first = held[0]
        read = (self._reader.held_candidate(one.candidate_id) for one in held[:BEGINNINGS_SHOWN])
        some = [one.candidate for one in read if one is not None and one.candidate is not None]
        return GroupRow(
            cursor=cursor,
            group=first.group,
            first=first.candidate_id,
            tenant=first.tenant,
            principal=first.principal_id,
            place=place_of(some[0]) if some else "",
            waiting=len(held),
            after_reading=sum(one.after_reading for one in held),
            oldest_ms=first.held_at_ms,
            reasons=tuple(dict.fromkeys(one.reason for one in held)),
            origins=tuple(dict.fromkeys(one.origin for one in held if one.origin)),
            begins=tuple(map(_beginning, some)),
        )

    @route(DENY_MANY)
    async def deny_many(self, call: OperatorCall[DenyMany]) -> DeniedView:
        """Deny all held candidates that fit a filter and were held by `until_ms`, in one act.

        Raises:
            MalformedRequest: Another number of candidates fits than was given (status 409).
        """
        asked = call.asked
        held = await asyncio.to_thread(self._reader.held)
        fitting = [one for one in held if asked.fits(one) and one.held_at_ms <= asked.until_ms]
        if len(fitting) != asked.count:
            raise MalformedRequest(f"count: {len(fitting)} wait now that fit", status=409)
        denial = Denial(act=self._out.random_hex(8))
        ids = [one.candidate_id for one in fitting]
        denied = await self._denied(ids, call.operator, REVIEW, denial)
        return DeniedView(denied=denied, waiting=self._reader.status().held_count)

    async def release(self, subject: str, act: Act, by: PrincipalId, way: str = REVIEW) -> ActView:
        """Release the lines that were shown, except the lines that the person struck out.

        Raises:
            MalformedRequest: A line that was not shown is struck out.
            NotFound: The lines that were shown no longer wait.
            StorageError: A candidate could not be decided; the candidates before that one were.
        """
        found, shown = await asyncio.to_thread(self._shown, subject, act.shown)
        struck = frozenset(key for key, one in shown.items() if one.id in act.strike)
        if len(struck) != len(set(act.strike)):
            raise MalformedRequest("strike: a line that was not shown")
        whole = [one for one in found.held if shown.keys() >= set(one.lines)]
        parted = [one for one in whole if struck & set(one.lines)]
        # If two candidates contain the same line, the later release takes effect, so the candidate
        # with more lines is released last.
        plain = sorted((one for one in whole if one not in parted), key=lambda one: len(one.lines))
        done = await self._released([one.candidate_id for one in plain], by, way, act)
        denial = Denial(act=self._out.random_hex(8), struck=struck, applied=act.applied)
        refused = await self._denied([one.candidate_id for one in parted], by, way, denial)
        return msgspec.structs.replace(
            done,
            lines=tuple(one for key, one in shown.items() if key not in struck),
            denied=tuple(shown[key] for key in shown if key in struck),
            refused=done.refused + refused,
            waiting=len(found.held) - len(whole),
        )

    async def deny(self, subject: str, act: Act, by: PrincipalId, way: str = REVIEW) -> ActView:
        """Deny all lines that were shown; raises the errors of `release`."""
        found, shown = await asyncio.to_thread(self._shown, subject, act.shown)
        whole = [one.candidate_id for one in found.held if shown.keys() >= set(one.lines)]
        refused = await self._denied(whole, by, way, Denial(act=self._out.random_hex(8)))
        return ActView(
            lines=(),
            denied=tuple(shown.values()),
            refused=refused,
            waiting=len(found.held) - len(whole),
        )

    async def _denied(
        self, left: list[CandidateId], by: PrincipalId, way: str, denial: Denial
    ) -> int:
        refused = 0
        while left:
            some, left = left[:DENIED_TOGETHER], left[DENIED_TOGETHER:]
            started_ns = self._out.clock_ns()
            decided = await self._deciding.deny_many(some, by, way, denial)
            refused += sum(decided.values())
            left = [one for one in some if one not in decided] + left
            # After each batch the loop pauses for as long as the batch took, so that other requests
            # get half of the time.
            took_s = (self._out.clock_ns() - started_ns) / 1e9
            await self._out.wait(min(took_s, _PAUSE_S_MAX))
        return refused

    async def _released(
        self, chosen: Iterable[CandidateId], by: PrincipalId, way: str, act: Act
    ) -> ActView:
        counts = {"admit": 0, "reject": 0, "hold": 0}
        lifted: set[str] = set()
        ways: dict[str, int] = {}
        memory_ids: list[str] = []
        for one in chosen:
            try:
                ruled = await self._deciding.release(one, by, way)
            except UnknownCandidate:
                continue  # another person has decided it meanwhile
            counts[ruled.outcome.decision.value] += 1
            lifted |= set(ruled.lifted)
            if ruled.outcome.decision is not Decision.ADMIT:
                continue
            ways[ruled.way.value] = ways.get(ruled.way.value, 0) + 1
            if ruled.outcome.memory is not None:
                memory_ids.append(ruled.outcome.memory.memory_id)
            if act.applied and ruled.way is not Way.STORE:
                await self._settle(by, one)
        return ActView(
            lines=(),
            denied=(),
            admitted=counts["admit"],
            refused=counts["reject"],
            lifted=tuple(sorted(lifted)),
            ways=ways,
            memory_ids=tuple(memory_ids),
        )

    def _group(self, subject: str) -> _Group:
        """The group whose id begins with `subject`, or the candidate with this id as a group.

        Runs in a thread.
        """
        of_groups = [one for one in self._reader.held() if one.group.startswith(subject)]
        if len(subject) < BEGINNING_LEN_MIN or len({one.group for one in of_groups}) > 1:
            raise NotFound("several groups begin so, or the beginning is too short")
        ids = [one.candidate_id for one in of_groups]
        read = map(self._reader.held_candidate, ids or [CandidateId(subject)])
        held = [one for one in read if one is not None and one.candidate is not None]
        if not held:
            raise NotFound(f"nothing waits here any more{self._decision(subject)}")
        lines: dict[bytes, LineView] = {}
        for one in held:
            stored = stored_text(self._reader, _content(one))
            for key, line in zip(one.lines, lines_of(_content(one)), strict=True):
                known = LineView(
                    id=key.hex()[-16:],
                    text=line.text,
                    whole=line.whole,
                    comes=line.comes,
                    after_reading=False,
                    sessions=(),
                    candidates=(),
                    stored=stored,
                )
                before = lines.get(key, known)
                lines[key] = msgspec.structs.replace(
                    before,
                    after_reading=before.after_reading or one.after_reading,
                    sessions=(*dict.fromkeys((*before.sessions, one.session or "")),),
                    candidates=(*before.candidates, one.candidate_id),
                )
        return _Group(held=held, lines=lines)

    def _shown(self, subject: str, digest: str) -> tuple[_Group, dict[bytes, LineView]]:
        """The group, and those of its lines that a person was shown, identified by their digest.

        Runs in a thread.

        Raises:
            NotFound: No leading part of the lines that wait here has this digest.
        """
        found = self._group(subject)
        for count, one in enumerate(found.digests(), 1):
            if one == digest:
                return found, dict(tuple(found.lines.items())[:count])
        decision = self._decision(subject)
        raise NotFound(f"what was shown is no longer what waits, look again{decision}")

    def _decision(self, subject: str) -> str:
        """The last decision on a candidate or in a group, as the end of a sentence; or ""."""
        candidate_id = self._deciding.decided.get(subject, CandidateId(subject))
        found = self._followed.decided(candidate_id)
        return "" if found is None else decision_words(found.verdict)

    def _rows(self, shown: Iterable[HeldCandidate]) -> tuple[HeldView, ...]:
        """Views of held candidates for a listing, with the beginning of each candidate's text.

        Runs in a thread.
        """
        rows: list[HeldView] = []
        for one in shown:
            whole = self._reader.held_candidate(one.candidate_id)
            view = held_view(one if whole is None else whole)
            candidate = None if whole is None else whole.candidate
            begins = None if candidate is None else _beginning(candidate)
            rows.append(msgspec.structs.replace(view, begins=begins, text=None, metadata_json=None))
        return tuple(rows)


def _fitting(lines: tuple[LineView, ...]) -> int:
    """How many leading lines a person is shown at once: one at least."""
    size = 0
    for count, one in enumerate(lines):
        size += len(one.text.encode("utf-8", "replace"))
        if count and (count == LINES_SHOWN or size > BYTES_SHOWN):
            return count
    return len(lines)


def _content(held: HeldCandidate) -> Candidate:
    if held.candidate is None:
        raise NotFound("nothing waits here any more")
    return held.candidate


def _beginning(candidate: Candidate) -> str:
    """The first characters of the text to be stored; for a tool call, of its judged strings."""
    call = call_of(candidate)
    said = candidate.text or "" if call is None else " ".join(one for one in call.pieces if one)
    return said if len(said) <= BEGINNING_LEN else said[: BEGINNING_LEN - 1] + "…"


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Answers operators' calls about single candidates, one method per call. Event loop only."""

    reader: MemoryReader
    writer: MemoryWriter
    deciding: ReviewDecider
    ledger: Sessions
    # None if no model front is configured: then no text is withheld from model requests.
    withholding: Withholding | None

    @route(HELD)
    async def held(self, call: OperatorCall[NoQuery]) -> HeldView:
        """One held candidate with its content, and the words for which it is flagged, if any.

        Raises:
            NotFound: No held candidate has this id.
        """
        candidate_id = call.candidate_id
        found = self.reader.held_candidate(candidate_id)
        if found is None:
            raise NotFound("no candidate of that id is held")
        view = held_view(found)
        if found.candidate is None:
            return msgspec.structs.replace(view, had_read=had_read(self.ledger, candidate_id))
        said = (found.candidate.text, found.candidate.metadata_json)
        culprit = culprit_of(found.culprits, found.candidate)
        return msgspec.structs.replace(
            view,
            had_read=had_read(self.ledger, candidate_id, *said),
            fired=await asyncio.to_thread(fired_in, found.candidate),
            stored=await asyncio.to_thread(stored_text, self.reader, found.candidate),
            seen_in=None if culprit is None else extended(OriginView, culprit),
        )

    @route(RELEASE)
    async def release(self, call: OperatorCall[Empty]) -> OutcomeView:
        """Release a held candidate: the gate judges it again, now with a person's approval."""
        return outcome_view(await self.deciding.release(call.candidate_id, call.operator, REVIEW))

    @route(DENY)
    async def deny(self, call: OperatorCall[Empty]) -> OutcomeView:
        """Deny a held candidate; its content is destroyed."""
        return outcome_view(await self.deciding.deny(call.candidate_id, call.operator, REVIEW))

    @route(FORGIVE)
    async def forgive(self, call: OperatorCall[Empty]) -> ForgivenView:
        """Delete the record that a candidate's lines were denied, and stop withholding its text.

        Raises:
            NotFound: No line of this candidate is denied, and none of its text is withheld.
        """
        candidate_id, by = call.candidate_id, call.operator
        count, withholding = 1, self.withholding
        if withholding is not None and candidate_id in withholding.refused():
            count, leaf_index = await withholding.forgive(
                candidate_id, lambda: self.writer.order(Forgive(candidate_id, by))
            )
        elif candidate_id in await asyncio.to_thread(self.reader.denied):
            leaf_index = await self.writer.order(Forgive(candidate_id, by))
        else:
            raise NotFound(
                "nothing is denied or withheld under that id; what waits is released or denied"
            )
        return ForgivenView(candidate_id=candidate_id, candidates=count, leaf_index=leaf_index)
