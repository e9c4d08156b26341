"""Searches memories for operators, and shows them views of what is stored; no agent has these."""

from __future__ import annotations

import asyncio
import importlib.resources
from collections import Counter
from functools import partial

import msgspec

from policy.model import Hit, MemoryId, PrincipalId, Tenant
from policy.query import EVERYTHING
from policy.trust.score import soft_score
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.views import extended
from proxy.admin.wire.route import PAGE_MAX, TenantQuery
from proxy.admin.wire.views import (
    ORIGINS,
    PREFERENCES,
    RANK,
    SEARCH,
    TOPICS,
    FoundMemory,
    FoundPage,
    OriginList,
    PreferenceList,
    PreferencesRequest,
    SearchRequest,
    SelectionRequest,
    TopicList,
    TopicsRequest,
)
from proxy.embed.embedding import takes_client_vectors
from proxy.seams.environment import Embedder
from proxy.seams.faults import MalformedRequest
from storage.features.failures import FAILURES_MAX, Failures
from storage.features.recalls.ledger import RecallLedger
from storage.features.views import Categories, RankTrial
from storage.features.views.rank_trial import READS_MAX, rank_trial
from storage.features.views.tenant_views import Views
from storage.interfaces import MemoryReader
from storage.questions import ANSWER_BYTES_MAX, AnswerRoom, Selection


class Insight(msgspec.Struct, frozen=True):
    """Answers operators' searches, one method per call. Event loop only; threads do the walks."""

    reader: MemoryReader
    views: Views
    recalls: RecallLedger
    failures: Failures
    embedder: Embedder

    @route(SEARCH)
    async def search(self, call: OperatorCall[SearchRequest]) -> FoundPage:
        """The memories of a selection that a text asks for, best first; or all of them.

        Raises:
            MalformedRequest: A text was given, and the store embeds no text.
            UnknownMemory: The memory to be like does not exist, or has no vector.
        """
        asked, selection = call.asked, selection_of(call.asked)
        tenant, end, chosen = selection.tenant, asked.offset + asked.limit, None
        if asked.text is None or asked.hidden or not selection.whole_tenant:
            chosen = await asyncio.to_thread(self.views.select, selection, hidden=asked.hidden)
        if asked.text is None:
            near = chosen or {}
            page = list(near)[asked.offset : end]
            memories = await asyncio.to_thread(self.recalls.memories, tenant, page)
            fitting = AnswerRoom(ANSWER_BYTES_MAX).taken(memories.values())
            listed = (extended(FoundMemory, one, cosine=near[one.ordinal]) for one in fitting)
            return FoundPage(memories=tuple(listed), total=len(near))
        if takes_client_vectors(self.embedder):
            raise MalformedRequest("text: this store embeds no text")
        (vector,) = self.embedder.embed([asked.text])
        words = self.reader.words(tenant, asked.text)
        among = None if chosen is None else tuple(chosen)
        searched = partial(self.reader.searched, words=words, among=among)
        found = await asyncio.to_thread(searched, tenant, vector, EVERYTHING, end, -1.0)
        return FoundPage(memories=tuple(map(_found, found.hits[asked.offset :])))

    @route(ORIGINS)
    async def origins(self, call: OperatorCall[SelectionRequest]) -> OriginList:
        """What each origin brought in, and what the newest `PAGE_MAX` reads showed of it."""
        asked, tenant = call.asked, Tenant(call.asked.tenant)
        reads = await asyncio.to_thread(
            self.recalls.recalls, tenant, since_ms=asked.since_ms or 0, limit=PAGE_MAX
        )
        shown = Counter(hit.ordinal for read in reads for hit in read.hits)
        found = await asyncio.to_thread(self.views.origins, selection_of(asked), shown)
        scores = {
            ("principal", str(name)): soft_score(one) for name, one in self.reader.all_trust()
        }
        scores |= {
            ("tool", f"{one.server}/{one.tool}"): soft_score(one.state)
            for one in self.reader.all_origins()
            if one.tenant == tenant
        }
        for origin in found:
            origin.trust = scores.get((origin.by, origin.name))
        return OriginList(origins=found[:PAGE_MAX], reads=len(reads))

    @route(TOPICS)
    async def topics(self, call: OperatorCall[TopicsRequest]) -> TopicList:
        """The topics of the live memories of a selection, computed now."""
        selection = selection_of(call.asked)
        found = await asyncio.to_thread(self.views.topics, selection, call.asked.count)
        return TopicList(topics=found)

    @route(PREFERENCES)
    async def preferences(self, call: OperatorCall[PreferencesRequest]) -> PreferenceList:
        """The choices that the live memories of a selection name; the first `PAGE_MAX`.

        Raises:
            MalformedRequest: The categories are no TOML of categories.
        """
        shipped = importlib.resources.files("proxy.admin").joinpath("categories.toml")
        text = call.asked.categories or shipped.read_text("utf-8")
        try:
            categories = msgspec.toml.decode(text, type=Categories)
        except msgspec.DecodeError as error:
            raise MalformedRequest(f"categories: {error}") from error
        selection = selection_of(call.asked)
        found = await asyncio.to_thread(self.views.preferences, selection, categories)
        return PreferenceList(preferences=found[:PAGE_MAX])

    @route(RANK)
    async def rank(self, call: OperatorCall[TenantQuery]) -> RankTrial:
        """What ranking by people's feedback would change, from the newest `READS_MAX` reads."""
        tenant = Tenant(call.asked.tenant)
        reads = await asyncio.to_thread(self.recalls.recalls, tenant, limit=READS_MAX)
        marks = await asyncio.to_thread(self.failures.newest, tenant, FAILURES_MAX)
        return await asyncio.to_thread(rank_trial, reads, marks)


def selection_of(asked: SelectionRequest, *, with_descendants: bool = False) -> Selection:
    """The selection that a request names.

    Raises:
        MalformedRequest: An origin has no server.
    """
    server, _, tool = (asked.origin or "").partition("/")
    if asked.origin is not None and not server:
        raise MalformedRequest("an origin is SERVER or SERVER/TOOL")
    return Selection(
        tenant=Tenant(asked.tenant),
        principal_id=None if asked.principal is None else PrincipalId(asked.principal),
        server=server or None,
        tool=tool or None,
        session=asked.session,
        under=asked.under,
        label=asked.label,
        like=None if asked.like is None else MemoryId(asked.like),
        above=asked.above,
        since_ms=asked.since_ms,
        with_descendants=with_descendants,
    )


def _found(hit: Hit) -> FoundMemory:
    parts = {} if hit.ranking is None else msgspec.structs.asdict(hit.ranking)
    return extended(FoundMemory, hit.memory, score=hit.score, **parts)
