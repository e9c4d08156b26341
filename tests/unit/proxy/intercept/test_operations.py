"""One operation of one principal: reads through the store's filters, bulk deletes item by item."""

from __future__ import annotations

import struct
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from policy.gate import GATE
from policy.model import (
    ChangeKind,
    Channel,
    MemoryId,
    Principal,
    PrincipalId,
    Reads,
    Scope,
    Tenant,
)
from policy.query import EVERYTHING
from proxy.aftermath.blame_search import BlameSearch
from proxy.aftermath.feedback import FeedbackIntake
from proxy.dialects.mcp.store.graph import ENTITIES, EntityMark, marked
from proxy.intercept.graphs import Graphs
from proxy.intercept.operations import BULK_NONCE_LEN_MAX, Operations, Window
from proxy.intercept.recall_notes import RecallNotes
from proxy.seams.cases import Signal
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import (
    DeleteWhere,
    FindInGraph,
    GetHistory,
    GetMemory,
    GetResult,
    GraphLookupResult,
    GraphOperation,
    GraphResult,
    HistoryResult,
    Identify,
    ListEntities,
    ListMemories,
    ListResult,
    Operation,
    Proposal,
    ReadGraph,
    Result,
    Search,
    SearchResult,
    ShownGraph,
    Write,
    WriteResult,
    memories_of,
    without_store_numbers,
)
from proxy.seams.recalls import Read, ReadAnswer, Shown
from proxy.withhold.screens import KnownRules, ScreenMaker
from storage.features.quarantine.hiding import Quarantine
from telemetry.events import ReadServed
from tests.unit.proxy.wired import TRACE, Wired, wired
from tests.unit.storage.opening import AGENT

RECALL_ID = "00c0ffee00000001"
NOT_THERE = MemoryId("00000000-0000-4000-8000-000000000000")
STRANGER = Principal(principal_id=PrincipalId("stranger"), tenant=Tenant("elsewhere"))


class NoCases(BlameSearch):
    def __init__(self) -> None:
        pass

    async def open_case(self, signal: Signal) -> str | None:
        del signal
        return None


class Recalls(RecallNotes):
    """Keeps what it hears, and how many reads were told to telemetry when it heard it."""

    def __init__(self) -> None:
        self.heard: list[tuple[Principal, Read, Shown, str]] = []

    def served(self, principal: Principal, answered: ReadAnswer, *, dialect: str) -> str:
        self.heard.append((principal, answered.read, answered.shown, dialect))
        return RECALL_ID


class Conversation:
    """A session, and the principal that speaks."""

    def __init__(self, live: Wired, session: Operations, recalls: Recalls) -> None:
        self.live = live
        self.heard = recalls.heard
        self._session = session

    async def ask(self, operation: Operation, principal: Principal = AGENT) -> Result:
        return await self._session.perform(principal, operation, dialect="native", trace=TRACE)

    async def graph(self, operation: GraphOperation, principal: Principal = AGENT) -> GraphResult:
        return await self._session.graph(principal, operation, dialect="mcp_store", trace=TRACE)

    async def serve(
        self, operation: Operation | GraphOperation, principal: Principal = AGENT
    ) -> Result | GraphResult:
        """As the gate's socket does."""
        if isinstance(operation, ReadGraph | FindInGraph):
            return await self.graph(operation, principal)
        return await self.ask(operation, principal)

    async def tell(self, *texts: str) -> list[MemoryId]:
        proposals = tuple(
            Proposal(change=ChangeKind.CREATE, text=text, scope=Scope(user_id="ada"))
            for text in texts
        )
        written = await self.ask(Write(proposals=proposals))
        assert isinstance(written, WriteResult)
        return [item.memory_id for item in written.items if item.memory_id is not None]


@contextmanager
def talking(root: Path, embedder: str = "static") -> Generator[Conversation]:
    with wired(root, GATE, embedder) as live, ThreadPoolExecutor(1) as executor:
        recalls = Recalls()
        session = Operations(
            reader=live.store.reader,
            writing=live.writing,
            embedder=live.embedder,
            surroundings=live.surroundings,
            executor=executor,
            recalls=recalls,
            graphs=Graphs(live.store.reader),
            window=Window(live.budgets, lambda: live.store.ruleset, live.surroundings.now_ms),
            feedback=FeedbackIntake(
                failures=live.store.failures,
                reader=live.store.reader,
                recalls=live.store.recalls,
                cases=NoCases(),
                surroundings=live.surroundings,
            ).take,
            screen=ScreenMaker(KnownRules(live.store.reader.anchors)).screen,
        )
        yield Conversation(live, session, recalls)


async def test_each_read_answers_and_tells_how_many_records_left(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        first, _ = await talk.tell("Tea is at four.", "The train is late.")
        told = len(talk.live.events)
        found = await talk.ask(Search(query="Tea is at four.", limit=1))
        assert isinstance(found, SearchResult)
        assert [hit.memory.memory_id for hit in found.hits] == [first]
        listed = await talk.ask(ListMemories())
        assert isinstance(listed, ListResult)
        assert listed.total == 2
        got = await talk.ask(GetMemory(memory_id=first))
        assert isinstance(got, GetResult)
        assert got.memory is not None
        history = await talk.ask(GetHistory(memory_id=first))
        assert isinstance(history, HistoryResult)
        assert [(one.version, one.leaf_index) for one in history.entries] == [(0, -1)]
        await talk.ask(ListEntities())
        reads = [event for event in talk.live.events[told:] if isinstance(event, ReadServed)]
        assert {read.recall_id for read in reads} == {RECALL_ID}
        assert [(read.operation, read.record_count) for read in reads] == [
            ("search_memory", 1),
            ("list_memories", 2),
            ("get_memory", 1),
            ("get_history", 1),
            ("list_entities", 1),
        ]


async def test_each_read_is_heard_before_it_is_served_and_nothing_else_is(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        (first,) = await talk.tell("Tea is at four.")
        reads = (
            Search(query="Tea is at four."),
            ListMemories(),
            GetMemory(memory_id=first),
            GetHistory(memory_id=first),
            ListEntities(),
        )
        answers = [await talk.ask(read) for read in reads]
        # A read is heard of before its answer has the id that the ledger gave it.
        assert isinstance(answers[0], SearchResult)
        assert answers[0].recall_id == RECALL_ID
        answers[0] = SearchResult(hits=answers[0].hits)
        with pytest.raises(MalformedRequest):
            await talk.ask(Search())
        await talk.ask(Identify())
        heard = [(*one[:2], without_store_numbers(one[2]), *one[3:]) for one in talk.heard]
        assert heard == [
            (AGENT, read, answer, "native") for read, answer in zip(reads, answers, strict=True)
        ]
        assert [len(memories_of(shown)) for _, _, shown, _ in talk.heard] == [1, 1, 1, 0, 0]


async def test_another_tenant_reads_and_deletes_nothing(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        (first,) = await talk.tell("Tea is at four.")
        got = await talk.ask(GetMemory(memory_id=first), STRANGER)
        found = await talk.ask(Search(query="Tea is at four."), STRANGER)
        gone = await talk.ask(DeleteWhere(where=EVERYTHING), STRANGER)
        assert got == GetResult(memory=None)
        assert found == SearchResult(hits=(), recall_id=RECALL_ID)
        assert gone == WriteResult(items=())
        assert await talk.ask(GetMemory(memory_id=first)) != GetResult(memory=None), "control"


async def test_a_bulk_delete_is_one_verdict_per_memory_and_can_be_repeated(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        ids = await talk.tell("Tea is at four.", "The train is late.")
        bulk = DeleteWhere(where=EVERYTHING, nonce="n" * BULK_NONCE_LEN_MAX)
        gone = await talk.ask(bulk)
        assert isinstance(gone, WriteResult)
        assert {item.memory_id for item in gone.items} == set(ids)
        assert {item.decision for item in gone.items} == {"admit"}
        assert await talk.ask(bulk) == WriteResult(items=())
        too_long = DeleteWhere(where=EVERYTHING, nonce="n" * (BULK_NONCE_LEN_MAX + 1))
        with pytest.raises(MalformedRequest, match="nonce"):
            await talk.ask(too_long)


async def test_only_an_operator_is_told_where_a_change_stands_in_the_store(tmp_path: Path) -> None:
    operator = msgspec.structs.replace(AGENT, channel=Channel.OPERATOR)
    with talking(tmp_path) as talk:
        await talk.tell("Tea is at four.")
        write = Write(proposals=(Proposal(change=ChangeKind.CREATE, text="Tea is at five."),))
        told = await talk.ask(write)
        assert isinstance(told, WriteResult)
        [item] = told.items
        assert item.memory is not None
        assert (item.version, item.leaf_index, item.memory.version) == (0, 0, 0)
        purge = Proposal(change=ChangeKind.PURGE, memory_id=item.memory_id)
        purged = await talk.ask(Write(proposals=(purge,)), operator)
        assert isinstance(purged, WriteResult)
        status = talk.live.store.reader.status()
        at = [(one.version, one.leaf_index) for one in purged.items]
        assert at == [(3, status.leaf_count - 1)], "control"


async def test_a_search_needs_what_the_store_can_search_by(tmp_path: Path) -> None:
    with talking(tmp_path / "static") as talk, pytest.raises(MalformedRequest, match="query"):
        await talk.ask(Search())
    with talking(tmp_path / "client", "client:2") as talk:
        with pytest.raises(MalformedRequest, match="vector"):
            await talk.ask(Search(query="tea"))
        found = await talk.ask(Search(vector=struct.pack("<2f", 3.0, 4.0)))
        assert found == SearchResult(hits=(), recall_id=RECALL_ID)


async def test_what_a_client_files_under_its_own_key_is_one_memory_of_its_tenant(
    tmp_path: Path,
) -> None:
    def put(text: str, key: str = "k") -> Proposal:
        return Proposal(change=ChangeKind.CREATE, text=text, own_key=key)

    with talking(tmp_path) as talk:
        both = await talk.ask(Write(proposals=(put("Tea is at four."), put("Tea is at five."))))
        assert isinstance(both, WriteResult)
        ids = {item.memory_id for item in both.items}
        assert len(ids) == 1
        got = await talk.ask(GetMemory(own_key="k"))
        assert isinstance(got, GetResult)
        assert got.memory is not None
        assert (got.memory.text, {got.memory.memory_id}) == ("Tea is at five.", ids)
        listed = await talk.ask(ListMemories())
        assert listed == ListResult(total=1, memories=(got.memory,))
        assert await talk.ask(GetMemory(own_key="k"), STRANGER) == GetResult(memory=None)
        assert await talk.ask(GetMemory(own_key="other")) == GetResult(memory=None)
        assert await talk.ask(GetMemory()) == GetResult(memory=None)
        gone = Write(proposals=(Proposal(change=ChangeKind.DELETE, own_key="k"),))
        for decision in ("admit", "missing"):
            told = await talk.ask(gone)
            assert isinstance(told, WriteResult)
            assert [item.decision for item in told.items] == [decision]
        assert await talk.ask(GetMemory(own_key="k")) == GetResult(memory=None)


async def test_a_memory_with_a_time_to_live_ends_by_itself(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        now_ms = talk.live.surroundings.now_ms()
        put = Proposal(change=ChangeKind.CREATE, text="Tea is at four.", own_key="k", ttl_ms=90_000)
        await talk.ask(Write(proposals=(put,)))
        got = await talk.ask(GetMemory(own_key="k"))
        assert isinstance(got, GetResult)
        assert got.memory is not None
        assert got.memory.expires_at is not None
        ends = datetime.fromisoformat(got.memory.expires_at).timestamp() * 1_000
        assert now_ms + 90_000 <= round(ends) <= talk.live.surroundings.now_ms() + 90_000


def _entity(name: str) -> Proposal:
    mark = EntityMark(name=name, entity_type="person")
    return Proposal(
        change=ChangeKind.CREATE, text=f"{name} person", metadata_json=marked(mark), target=ENTITIES
    )


async def test_a_graph_has_nothing_below_the_floor_and_a_call_finds_nothing_there(
    tmp_path: Path,
) -> None:
    person = Principal(principal_id=PrincipalId("ann"), tenant=AGENT.tenant, channel=Channel.USER)
    floored = msgspec.structs.replace(AGENT, reads=Reads.USER_INPUT)
    with talking(tmp_path) as talk:
        hers = await talk.ask(Write(proposals=(_entity("Ada"),)), person)
        assert isinstance(hers, WriteResult)
        await talk.ask(Write(proposals=(_entity("Bank"),)))

        async def names(principal: Principal, asked: GraphOperation) -> list[str]:
            found = await talk.graph(asked, principal)
            assert isinstance(found, ShownGraph | GraphLookupResult)
            return [one.name for one in found.entities]

        for asked in (ReadGraph(), FindInGraph(names=("Ada", "Bank")), ReadGraph(query="a")):
            assert await names(AGENT, asked) == ["Ada", "Bank"], "control"
            assert await names(floored, asked) == ["Ada"]
        known = hers.items[0].memory_id
        assert known is not None
        at = hers.items[0].memory
        assert at is not None
        await talk.live.store.writer.order(Quarantine(known, AGENT.tenant, person.principal_id))
        assert await names(floored, ReadGraph()) == []


async def test_a_change_without_a_text_is_not_answered_with_what_is_below(tmp_path: Path) -> None:
    floored = msgspec.structs.replace(AGENT, reads=Reads.USER_INPUT)
    with talking(tmp_path) as talk:
        (below,) = await talk.tell("Tea is at four.")
        change = Proposal(
            change=ChangeKind.UPDATE, memory_id=below, metadata_json='{"n":1}', nonce="n-1"
        )
        never = msgspec.structs.replace(change, memory_id=NOT_THERE, nonce="n-2")
        found: list[tuple[object, ...]] = []
        for one in (change, never):
            written = await talk.ask(Write(proposals=(one,)), floored)
            assert isinstance(written, WriteResult)
            (item,) = written.items
            found.append((item.decision, item.reason, item.memory_id, item.memory))
        assert found[0] == found[1]
        assert found[0][0] == "missing"
        written = await talk.ask(Write(proposals=(msgspec.structs.replace(change, nonce="n-3"),)))
        assert isinstance(written, WriteResult)
        assert written.items[0].memory is not None, "control"
