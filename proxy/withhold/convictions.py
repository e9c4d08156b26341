"""The sentences of convicted memories: removed from model requests, and not to be stored again.

A sentence of a quarantined memory is hidden unless a proven memory has the same sentence, or a
memory that is older than the quarantined one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from threading import Lock
from typing import Final, NamedTuple

import msgspec

from policy.labels.forwarded_call import call_of
from policy.model import Candidate, MemoryClass, Tenant
from policy.query import EVERYTHING
from policy.withheld.pieces import (
    EVER,
    Piece,
    count_of,
    digest_of,
    hidden_pieces,
    pieces_in,
    pieces_of,
    runs_of,
)
from proxy.withhold.screens import ScreenMaker
from proxy.withhold.texts import strings_of
from storage.features.quarantine.quarantined_memories import QuarantinedMemories
from storage.interfaces import MemoryReader

CLEAN_MAX: Final = 32_768
_NO_LIMIT: Final = 1 << 62


class HiddenVersion(NamedTuple):
    """One hidden version of a memory: the id of the candidate that wrote it, and its class."""

    candidate_id: str
    memory_class: MemoryClass


class ConvictedSentences:
    """The sentences of one tenant's convicted memories that are hidden. Event loop only."""

    def __init__(
        self, pieces: dict[Piece, HiddenVersion], refused: frozenset[Piece] = frozenset()
    ) -> None:
        """`refused` are the pieces that no unproven candidate may repeat."""
        self._pieces = pieces
        self._refused = refused
        self._refused_counts = {count_of(piece) for piece in refused}
        self._counts = {count_of(piece) for piece in pieces}
        # The digests of texts that were found to have no hidden sentence.
        self._clean: set[bytes] = set()

    def __bool__(self) -> bool:
        """Whether any sentence is hidden."""
        return bool(self._pieces)

    def repeated_by(self, candidate: Candidate) -> bool:
        """Whether a candidate has a sentence that no unproven candidate may repeat."""
        if not self._refused:
            return False
        found = (pieces_in(text, self._refused_counts) for text in said_by(candidate))
        return not self._refused.isdisjoint(chain.from_iterable(found))

    def spared(self, text: str, instead: Callable[[HiddenVersion], str]) -> str:
        """The text with a notice in place of each hidden sentence; the same object without any."""
        name = digest_of(text)
        if name in self._clean:
            return text
        left = text
        while (found := self._first(left)) is not None:
            left = self._less(left, instead) or instead(found)
        if left is text:
            if len(self._clean) >= CLEAN_MAX:
                self._clean.clear()
            self._clean.add(name)
        return left

    def _first(self, text: str) -> HiddenVersion | None:
        found = (self._pieces.get(one) for one in pieces_in(text, self._counts))
        return next((one for one in found if one is not None), None)

    def _less(self, text: str, instead: Callable[[HiddenVersion], str]) -> str:
        for runs in runs_of(text):
            gone = [
                (span, instead(found))
                for run, spans in runs.items()
                if (found := self._first(run)) is not None
                for span in spans
            ]
            if gone:
                (start, end), notice = max(gone)
                run = text[start:end]
                return text[:start] + run.replace(run.strip(), notice) + text[end:]
        return ""


NOTHING: Final = ConvictedSentences({})


class _Wanted(NamedTuple):
    """A sentence of a hidden memory, and the age below which another memory exempts it."""

    until: int
    # None for a memory that was purged.
    withdrawn: HiddenVersion | None


class _OfTenant(msgspec.Struct):
    """What was read about one tenant's sentences, with the store's counters at that time."""

    changes: int = -1
    leaf_count: int = -1
    wanted: dict[Piece, _Wanted] = {}
    # For each live row, keyed by its ordinal: its age, and the sentences of `wanted` that it has.
    showing: dict[int, tuple[int, frozenset[Piece]]] = {}
    seen: object = None
    convicted: ConvictedSentences = NOTHING
    opened: frozenset[Piece] = frozenset()


class Convictions:
    """The convicted sentences of each tenant, read again when something changed."""

    def __init__(
        self, quarantined: QuarantinedMemories, reader: MemoryReader, rules: ScreenMaker
    ) -> None:
        self._quarantined = quarantined
        self._reader = reader
        self._rules = rules
        self._known: dict[Tenant, _OfTenant] = {}
        self._reading = Lock()

    async def of(self, tenant: Tenant) -> ConvictedSentences:
        """The convicted sentences of a tenant; the same object while they are the same.

        Raises:
            StorageError: The store cannot be read, so what is hidden is not known.
        """
        if not self._quarantined.changes:
            return NOTHING
        known = self._known.get(tenant)
        if known is not None and self._is_current(known):
            return known.convicted
        return await asyncio.to_thread(self._read, tenant)

    def _is_current(self, known: _OfTenant) -> bool:
        if known.changes != self._quarantined.changes:
            return False
        return not known.wanted or known.leaf_count == self._reader.status().leaf_count

    def _read(self, tenant: Tenant) -> ConvictedSentences:
        with self._reading:
            known = self._known.setdefault(tenant, _OfTenant())
            # The counters are read before the data, so that a change in between is read next time.
            leaf_count, changes = self._reader.status().leaf_count, self._quarantined.changes
            if known.changes != changes:
                self._read_wanted(known, tenant)
            if known.wanted:
                self._read_showing(known, tenant)
            known.leaf_count, known.changes = leaf_count, changes
            return known.convicted

    def _read_wanted(self, known: _OfTenant, tenant: Tenant) -> None:
        # A sentence that is only a memory's name, or that convicted no memory, may be repeated.
        purged = self._quarantined.purged(tenant)
        wanted = {one: _Wanted(until, None) for one, until in purged.items() if until != EVER}
        for one in self._quarantined.texts(tenant):
            texts = said_by(one.candidate)
            if one.rule_ids:
                texts = self._rules.convicting(tenant, texts, one.rule_ids)
            call = call_of(one.candidate)
            withdrawn = HiddenVersion(one.candidate_id, one.memory_class)
            pieces = hidden_pieces(texts, "" if call is None else call.key, one.ordinal)
            for piece, until in pieces.items():
                if until != EVER and (piece not in wanted or wanted[piece].until > until):
                    wanted[piece] = _Wanted(until, withdrawn)
        known.wanted = wanted
        known.showing, known.seen, known.opened = {}, None, frozenset()
        known.convicted = _convicted(known)

    def _read_showing(self, known: _OfTenant, tenant: Tenant) -> None:
        turnover = self._reader.turnover(tenant, EVERYTHING, known.seen, _NO_LIMIT)
        if turnover is None:
            return
        known.seen = turnover.seen
        for ordinal in turnover.gone:
            known.showing.pop(ordinal, None)
        for ordinal, memory in turnover.came:
            has = pieces_of((memory.text, *strings_of(memory.metadata_json))) & known.wanted.keys()
            if has:
                known.showing[ordinal] = (-1 if memory.source.proven else ordinal, has)
        opened = frozenset(
            piece
            for age, pieces in known.showing.values()
            for piece in pieces
            if age < known.wanted[piece].until
        )
        if opened != known.opened:
            known.opened = opened
            known.convicted = _convicted(known)


def _convicted(known: _OfTenant) -> ConvictedSentences:
    hidden = {piece: one for piece, one in known.wanted.items() if piece not in known.opened}
    leaving = {piece: one.withdrawn for piece, one in hidden.items() if one.withdrawn is not None}
    return ConvictedSentences(leaving, frozenset(hidden))


def said_by(candidate: Candidate) -> tuple[str, ...]:
    """The texts that a candidate adds to its memory, metadata included."""
    call = call_of(candidate)
    if call is not None:
        return call.said
    return (candidate.text or "", *strings_of(candidate.metadata_json))
