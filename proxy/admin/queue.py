"""Held candidates, selected by a filter and decided in one act.

A selection is frozen before it is acted on, so that a person decides on the candidates that were
shown, not on those that arrived meanwhile. Only exactly equal texts are released together, never
similar ones: five hundred honest lines and one with poison behind the sixtieth character are
similar.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec import UNSET

from policy.canonical import canonical_bytes
from policy.labels.derive import read_candidate
from policy.labels.forwarded_call import call_of
from policy.model import CandidateId, ChangeKind, MemoryClass, PrincipalId
from proxy.admin.persons_word import REVIEW
from proxy.admin.views import filed_under, held_view
from proxy.admin.wire.review_queue import (
    ONE_BY_ONE,
    DecidedMany,
    ReviewFilter,
    ReviewPage,
    Selection,
)
from proxy.seams.faults import MalformedRequest, NotFound
from storage.errors import UnknownCandidate
from storage.values import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.model import Candidate
    from proxy.admin.persons_word import Deciding
    from proxy.admin.wire.store import HeldView
    from proxy.seams.surroundings import Surroundings
    from storage.interfaces import MemoryReader
    from storage.values import HeldCandidate

FROZEN_S: Final = 15 * 60
SELECTIONS_MAX: Final = 32
BEGINNING_LEN: Final = 60
PAGE_LEN_MAX: Final = 1_000
# The most candidates refused in one transaction; the store may take fewer, to keep it short.
DENIED_TOGETHER: Final = 32
_PAUSE_S_MAX: Final = 0.01
_EVERYBODYS: Final = frozenset({MemoryClass.L3, MemoryClass.L4})


class _Frozen(NamedTuple):
    """The state that a candidate had when it was selected."""

    candidate_id: CandidateId
    content: bytes
    memory_class: MemoryClass
    change: ChangeKind | None
    target_version: int


class _Selection(NamedTuple):
    chosen: tuple[_Frozen, ...]
    rules: str
    until_ms: int
    # The id that the filter `same` named, if it was given: then all selected candidates have that
    # candidate's text. Otherwise None.
    same: str | None


class Queue:
    """Lists, selects and decides held candidates. Event loop only; contents are read in threads.

    It keeps a keyed hash of each content, never the content.
    """

    def __init__(
        self, reader: MemoryReader, deciding: Deciding, surroundings: Surroundings
    ) -> None:
        self._reader = reader
        self._deciding = deciding
        self._out = surroundings
        self._key = secrets.token_bytes(32)
        self._contents: dict[CandidateId, bytes] = {}
        self._selections: dict[str, _Selection] = {}

    async def page(self, asked: ReviewFilter) -> ReviewPage:
        """Held candidates that fit the filter, oldest first, each with its first characters.

        Raises:
            NotFound: No held candidate has the id in `same`.
        """
        found, waiting = await self._found(asked)
        shown = found[: min(asked.limit, PAGE_LEN_MAX)]
        rows = await asyncio.to_thread(self._rows, shown)
        return ReviewPage(held=rows, total=len(found), waiting=waiting, fits=asked.said)

    async def select(self, asked: ReviewFilter) -> Selection:
        """Freeze the candidates that fit, for 15 minutes; the digest names exactly this selection.

        Raises:
            MalformedRequest: The filter is empty.
            NotFound: No held candidate has the id in `same`, or none fits the filter.
        """
        if not asked.narrows:
            raise MalformedRequest("filter: say which; everything at once has no short form")
        found, waiting = await self._found(asked)
        frozen = await asyncio.to_thread(self._all_frozen, found)
        if not frozen:
            raise NotFound(f"0 of {waiting} waiting fit {asked.said}")
        now_ms = self._out.now_ms()
        rules = self._reader.status().ruleset_digest
        hashed = hashlib.blake2b(msgspec.msgpack.encode((rules, frozen)), key=self._key)
        digest = hashed.hexdigest()[:32]
        alive = {name: one for name, one in self._selections.items() if one.until_ms > now_ms}
        if digest not in alive and len(alive) >= SELECTIONS_MAX:
            del alive[min(alive, key=lambda name: alive[name].until_ms)]
        until_ms = now_ms + FROZEN_S * 1000
        selection = _Selection(frozen, rules, until_ms, asked.same)
        self._selections = alive | {digest: selection}
        return Selection(
            digest=digest,
            count=len(frozen),
            until_ms=until_ms,
            releasable=self._releasable(selection),
        )

    def _releasable(self, selection: _Selection) -> bool:
        """Whether all candidates of the selection may be released together."""
        same = selection.same
        one = None if same is None else self._reader.held_candidate(CandidateId(same))
        return all(_is_plain(each) for each in selection.chosen) and _is_harmless(one)

    async def deny(self, digest: str, by: PrincipalId) -> DecidedMany:
        """Refuse the candidates of a selection that are unchanged.

        Raises:
            NotFound: There is no such selection, or it has expired.
            StorageError: A candidate could not be decided; those before it were.
        """
        selection = self._taken(digest)
        refused = 0
        changed: list[str] = []
        left = selection.chosen
        while left:
            some, left = left[:DENIED_TOGETHER], left[DENIED_TOGETHER:]
            started_ns = self._out.clock_ns()
            as_they_were = await asyncio.to_thread(self._unchanged, selection, some)
            decided = await self._deciding.deny_many(as_they_were, by, REVIEW)
            refused += sum(decided.values())
            unasked = set(as_they_were) - decided.keys()
            left = tuple(one for one in some if one.candidate_id in unasked) + left
            changed += [
                one.candidate_id
                for one in some
                if one.candidate_id not in unasked and not decided.get(one.candidate_id)
            ]
            # After each batch pause for as long as it took, so that other requests get half of the
            # time.
            took_s = (self._out.clock_ns() - started_ns) / 1e9
            await self._out.wait(min(took_s, _PAUSE_S_MAX))
        return DecidedMany(admitted=0, refused=refused, changed=tuple(changed))

    def _unchanged(
        self, selection: _Selection, some: tuple[_Frozen, ...]
    ) -> tuple[CandidateId, ...]:
        """The candidates that did not change since they were selected. Run it in a thread."""
        if self._reader.status().ruleset_digest != selection.rules:
            return ()
        return tuple(one.candidate_id for one in some if self._frozen(one.candidate_id) == one)

    async def release(self, digest: str, by: PrincipalId) -> DecidedMany:
        """Release the unchanged candidates of a selection: one text, exactly equal.

        Raises:
            MalformedRequest: The selection was not made by `same`, or contains a candidate that
                must be decided singly.
            NotFound: There is no such selection, or it has expired.
            StorageError: A candidate could not be decided; those before it were.
        """
        selection = self._taken(digest)
        if selection.same is None:
            raise MalformedRequest(
                "release: only what says exactly the same is let in together; choose it by `same`"
            )
        if not self._releasable(selection):
            raise MalformedRequest(f"release: {ONE_BY_ONE}")
        return await self._released(selection, by)

    def _taken(self, digest: str) -> _Selection:
        selection = self._selections.get(digest)
        if selection is None or selection.until_ms <= self._out.now_ms():
            raise NotFound("no such selection, or it is older than 15 minutes: choose again")
        return selection

    async def _released(self, selection: _Selection, by: PrincipalId) -> DecidedMany:
        counts = {"admit": 0, "reject": 0, "hold": 0}
        changed: list[str] = []
        lifted: set[str] = set()
        ways: dict[str, int] = {}
        for one in selection.chosen:
            if not await asyncio.to_thread(self._unchanged, selection, (one,)):
                changed.append(one.candidate_id)
                continue
            try:
                ruled = await self._deciding.release(one.candidate_id, by, REVIEW)
            except UnknownCandidate:
                changed.append(one.candidate_id)
                continue
            counts[ruled.outcome.decision.value] += 1
            if ruled.outcome.decision is Decision.ADMIT:
                ways[ruled.way.value] = ways.get(ruled.way.value, 0) + 1
            lifted |= set(ruled.lifted)
        return DecidedMany(
            admitted=counts["admit"],
            refused=counts["reject"],
            changed=tuple(changed),
            lifted=tuple(sorted(lifted)),
            ways=ways,
        )

    async def same_as(self, candidate_id: CandidateId) -> tuple[str, ...]:
        """The other held candidates whose content equals that of this one.

        There are none if this one is not held.
        """
        await asyncio.to_thread(self._learn, await asyncio.to_thread(self._reader.held))
        content = self._contents.get(candidate_id)
        return tuple(
            one
            for one, other in self._contents.items()
            if content is not None and other == content and one != candidate_id
        )

    async def _found(self, asked: ReviewFilter) -> tuple[list[HeldCandidate], int]:
        """The held candidates that fit a filter, and the number of all held candidates."""
        held = await asyncio.to_thread(self._reader.held)
        await asyncio.to_thread(self._learn, held)
        same = None
        if asked.same is not None:
            same = self._contents.get(CandidateId(asked.same))
            if same is None:
                raise NotFound("no candidate of that id is held")
        found = [
            one
            for one in held
            if asked.fits(one) and (same is None or self._contents.get(one.candidate_id) == same)
        ]
        return found, len(held)

    def _learn(self, held: Iterable[HeldCandidate]) -> None:
        """Compute the hashes of new candidates' contents, and forget those of decided ones.

        Runs in a thread.
        """
        known = self._contents
        ids = [one.candidate_id for one in held]
        came = self._reader.held_contents([one for one in ids if one not in known])
        learnt = known | {one: self._hash(candidate) for one, candidate in came.items()}
        self._contents = {one: learnt[one] for one in ids if one in learnt}

    def _hash(self, candidate: Candidate) -> bytes:
        # The hash covers the content, not the requester or the nonce.
        bare = msgspec.structs.replace(candidate, principal_id=PrincipalId("-"), nonce="-")
        return hashlib.blake2b(canonical_bytes(bare), key=self._key, digest_size=32).digest()

    def _all_frozen(self, found: Iterable[HeldCandidate]) -> tuple[_Frozen, ...]:
        frozen = (self._frozen(one.candidate_id) for one in found)
        return tuple(one for one in frozen if one is not None)

    def _frozen(self, candidate_id: CandidateId) -> _Frozen | None:
        held = self._reader.held_candidate(candidate_id)
        candidate = None if held is None else held.candidate
        if held is None or candidate is None:
            return None
        stored = None
        if candidate.memory_id is not None:
            stored = self._reader.get(candidate.tenant, candidate.memory_id)
        return _Frozen(
            candidate_id=candidate_id,
            content=self._hash(candidate),
            memory_class=held.memory_class,
            change=candidate.change,
            target_version=0 if stored is None else stored.version,
        )

    def _rows(self, shown: Iterable[HeldCandidate]) -> tuple[HeldView, ...]:
        """The rows in which a listing shows these held candidates. Runs in a thread."""
        counts: dict[bytes, int] = {}
        for content in self._contents.values():
            counts[content] = counts.get(content, 0) + 1
        rows: list[HeldView] = []
        for one in shown:
            whole = self._reader.held_candidate(one.candidate_id)
            candidate = None if whole is None else whole.candidate
            content = self._contents.get(one.candidate_id, b"")
            rows.append(
                msgspec.structs.replace(
                    held_view(one),
                    begins=None if candidate is None else _beginning(candidate),
                    same=counts.get(content, 1),
                    change=None if candidate is None else candidate.change,
                    filed_under=UNSET if candidate is None else filed_under(candidate) or UNSET,
                )
            )
        return tuple(rows)


def _beginning(candidate: Candidate) -> str:
    """The first characters of the text to be stored; for a tool call, of its meaningful parts."""
    call = call_of(candidate)
    said = candidate.text or "" if call is None else " ".join(one for one in call.pieces if one)
    return said if len(said) <= BEGINNING_LEN else said[: BEGINNING_LEN - 1] + "…"


def _is_plain(one: _Frozen) -> bool:
    return one.memory_class in _EVERYBODYS and one.change is ChangeKind.CREATE


def _is_harmless(held: HeldCandidate | None) -> bool:
    candidate = None if held is None else held.candidate
    return candidate is not None and not read_candidate(candidate).flagged
