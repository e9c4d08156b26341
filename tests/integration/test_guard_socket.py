"""The guard's seam for relays over a real sidecar: its own socket."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import aiohttp
import msgspec
import pytest

from policy import query
from policy.after.matchers import Grade
from policy.model import (
    CandidateId,
    ChangeKind,
    MemoryClass,
    MemoryId,
    Origin,
    PrincipalId,
    SourceKind,
)
from policy.verdict import Reason
from proxy.compose.app import Composition
from proxy.dialects.mcp.store.graph import RELATIONS
from proxy.guard.client import GuardClient
from proxy.guard.store_requests import require_store_request
from proxy.guard.wire import REQUEST_BYTES_MAX, SOCKET
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ForwardStatus, Guard, Join, PinnedTool, RefusedCall, RelayedText
from proxy.seams.operation import (
    DeleteWhere,
    GetMemory,
    GiveFeedback,
    ListMemories,
    Operation,
    Proposal,
    Search,
    SearchResult,
    Write,
    WriteResult,
)
from storage.ground.errors import OutcomeUnknown, StorageError, StoreUnavailable, UnknownCandidate
from storage.interfaces import Store
from storage.values import Outcome, Submission
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Running, running
from tests.unit.proxy.guarded import AGENT, GOOD, SERVER, STEERING, TENANT, call, item


class Gate:
    """A sidecar, and a relay's client of it."""

    def __init__(self, live: Running, client: GuardClient) -> None:
        self.live = live
        self.client = client


@asynccontextmanager
async def gated(base: Path) -> AsyncGenerator[Gate]:
    async with running(base) as live, GuardClient(live.state / SOCKET) as client:
        yield Gate(live, client)


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    async with gated(tmp_path) as one:
        yield one


async def test_a_call_is_judged_settled_and_read_over_the_socket(gate: Gate) -> None:
    guard: Guard = gate.client
    (judged,) = await guard.judge(AGENT, call(item(GOOD)))
    assert (judged.decision, judged.memory_class) == ("admit", MemoryClass.L3)
    assert judged.candidate_id is not None
    assert await guard.sift(AGENT, SERVER, (GOOD, "else")) == (True, False)
    assert await guard.unsettled(AGENT, SERVER) == ()
    await guard.settle(AGENT, SERVER, ((judged.candidate_id, ForwardStatus.DONE),))
    assert await guard.sift(AGENT, SERVER, (GOOD, "else")) == (False, False)
    assert gate.live.sidecar.store.reader.status().live_count == 1
    (held,) = await guard.judge(AGENT, call(item(STEERING)))
    assert (held.decision, held.reason) == ("hold", Reason.CLASS_FLOOR)
    assert held.candidate_id is not None
    assert (await guard.decided(AGENT, held.candidate_id)).decision == "hold"
    await guard.saw(AGENT, RelayedText(server="web", tool="search", call_id="c", texts=(GOOD,)))
    pins = await guard.pin(AGENT, SERVER, (PinnedTool(name="read", digest="0" * 64),))
    assert pins.approved


async def test_a_call_that_a_relay_refuses_is_counted_and_has_no_leaf(gate: Gate) -> None:
    audit = gate.live.sidecar.store.audit
    size, before = audit.head().size, await gate.live.operate("GET", "/verdicts")
    refused = RefusedCall(reason=Reason.UNKNOWN_TOOL)
    await gate.client.refused(AGENT, refused)
    after = await gate.live.operate("GET", "/verdicts")
    assert (before["decisions"], after["decisions"]) == ({}, {"reject": 1})
    assert audit.head().size == size


async def test_the_principal_is_the_peer_whatever_it_says(gate: Gate) -> None:
    (judged,) = await gate.client.judge(AGENT, call(item(STEERING)))
    (held,) = gate.live.sidecar.store.reader.held()
    assert held.candidate_id == judged.candidate_id
    assert held.principal_id == f"uid:{os.geteuid()}"


async def test_refusals_come_back_as_what_they_are(gate: Gate) -> None:
    with pytest.raises(MalformedRequest) as refused:
        await gate.client.judge(AGENT, call(item(GOOD, arguments='{"b": "the secret"}')))
    assert "secret" not in refused.value.detail
    with pytest.raises(UnknownCandidate):
        await gate.client.decided(AGENT, CandidateId("0" * 32))


async def test_what_is_long_is_divided_and_comes_back_in_order(gate: Gate) -> None:
    strings = tuple(f"{number} " + "x" * 40_000 for number in range(100))
    assert sum(map(len, strings)) > 3 * REQUEST_BYTES_MAX
    (judged,) = await gate.client.judge(AGENT, call(item(GOOD)))
    assert judged.decision == "admit"
    sifted = await gate.client.sift(AGENT, SERVER, (*strings, GOOD, "y" * (3 * REQUEST_BYTES_MAX)))
    assert sifted == (*(False for _ in strings), True, False)
    items = tuple(item("z" * 40_000 + str(number)) for number in range(60))
    many = await gate.client.judge(AGENT, call(*items))
    assert len(many) == 60
    assert {one.decision for one in many} <= {"admit", "reject"}


async def test_a_relay_that_dies_leaves_its_items_and_one_that_stays_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.guard.local_guard.GONE_S", 0.0)
    # Of another process: one of the gate's own ends with the gate.
    async with gated(tmp_path) as gate:
        async with GuardClient(gate.live.state / SOCKET) as other:
            (judged,) = await other.judge(AGENT, call(item(GOOD)))
            assert await gate.client.unsettled(AGENT, SERVER) == ()
        found = await gate.client.unsettled(AGENT, SERVER)
        while not found:
            found = await gate.client.unsettled(AGENT, SERVER)
    assert [(one.candidate_id, one.sent) for one in found] == [(judged.candidate_id, True)]


async def test_a_gate_that_is_gone_is_said_to_be_and_one_that_came_back_answers(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as live:
        client = GuardClient(live.state / SOCKET)
        async with client:
            assert await client.sift(AGENT, SERVER, ("a",)) == (False,)
    async with GuardClient(tmp_path / "state" / SOCKET) as client:
        with pytest.raises(StoreUnavailable):
            await client.judge(AGENT, call(item(GOOD)))
        async with running(tmp_path):
            (judged,) = await client.judge(AGENT, call(item(GOOD)))
            assert judged.decision == "admit"


async def test_an_answer_that_does_not_come_is_an_unknown_outcome(tmp_path: Path) -> None:
    path = tmp_path / "gate.sock"

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    server = await asyncio.start_unix_server(swallow, path)
    async with server, GuardClient(path, answer_s=2.0) as client:
        with pytest.raises(OutcomeUnknown):
            await client.judge(AGENT, call(item(GOOD)))


async def test_questions_of_a_relay_share_a_connection_and_find_the_next_gate(
    tmp_path: Path,
) -> None:
    between = tmp_path / "between.sock"
    made: list[asyncio.StreamWriter] = []

    async def piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, to_gate = await asyncio.open_unix_connection(tmp_path / "state" / SOCKET)
        except OSError:
            writer.close()
            return
        made.append(writer)

        async def copied(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65_536):
                target.write(data)
            target.close()

        await asyncio.gather(copied(reader, to_gate), copied(there, writer))

    async with await asyncio.start_unix_server(piped, between), GuardClient(between) as client:
        async with running(tmp_path):
            for _ in range(20):
                assert await client.sift(AGENT, SERVER, (GOOD,)) == (False,)
            assert len(made) <= 2, "one to be present on, one for questions"
        async with running(tmp_path):
            (judged,) = await client.judge(AGENT, call(item(GOOD)))
            assert judged.decision == "admit", "the one to the gate that ended is not used"


async def test_nobody_but_the_guard_says_what_is_known_of_a_text(gate: Gate) -> None:
    claims = Proposal(change=ChangeKind.CREATE, text=STEERING, text_after=GOOD)
    with pytest.raises(MalformedRequest):
        await gate.client.perform(Write(proposals=(claims,)))


async def _approves_nothing(gate: Gate) -> None:
    order = Proposal(change=ChangeKind.CREATE, text=STEERING, memory_class=MemoryClass.L1)
    approved = msgspec.structs.replace(order, approved_by=PrincipalId("alice"))
    with pytest.raises(MalformedRequest):
        await gate.client.perform(Write(proposals=(approved,)))
    # Control: without a person's name in it the same order is judged, and does not land.
    written = await gate.client.perform(Write(proposals=(order,)))
    assert isinstance(written, WriteResult)
    assert written.items[0].decision != "admit"


NOTE = Proposal(change=ChangeKind.CREATE, text=GOOD)
GONE = Proposal(change=ChangeKind.DELETE, memory_id=MemoryId(str(UUID(int=1))))
EVERY = query.AllOf(parts=())


async def test_an_operation_on_our_own_store_runs_as_the_peer(gate: Gate) -> None:
    marked = msgspec.structs.replace(NOTE, target=RELATIONS, metadata_json='{"a":1}')
    written = await gate.client.perform(Write(proposals=(marked,)))
    assert isinstance(written, WriteResult)
    (one,) = written.items
    assert one.memory is not None
    assert one.memory.principal_id == f"uid:{os.geteuid()}"
    found = await gate.client.perform(Search(query=GOOD))
    assert isinstance(found, SearchResult)
    assert [hit.memory.text for hit in found.hits] == [GOOD]
    missing = await gate.client.perform(Write(proposals=(GONE,)))
    assert isinstance(missing, WriteResult)
    assert missing.items[0].decision == "missing"
    await _approves_nothing(gate)


@pytest.mark.parametrize(
    "operation",
    [
        *(
            Write(proposals=(msgspec.structs.replace(NOTE, **fields),))
            for fields in (
                {"change": ChangeKind.PURGE, "memory_id": GONE.memory_id},
                {"change": ChangeKind.UPDATE, "memory_id": GONE.memory_id},
                {"memory_id": MemoryId("../x")},
                {"text": ""},
                {"text": "x" * 65_537},
                {"metadata_json": "{"},
                {"metadata_json": "[1]"},
                {"metadata_json": '{"a":1,"a":2}'},
                {"target": "notes"},
                {"target": "mcp/notes"},
                {"guarded_key": "Ada"},
                {"class_named": True},
                {"claimed_source": SourceKind.OPERATOR},
                {"culprits": (Origin(kind=SourceKind.OPERATOR),)},
                {"expires_at": "never"},
                {"role": "\x1b[2J"},
                {"nonce": "n-1"},
                {"labels": (0,)},
                {"join": Join(tool_use_id="w1")},
            )
        ),
        Write(proposals=(msgspec.structs.replace(GONE, memory_id=MemoryId("../x")),)),
        Write(proposals=()),
        Write(proposals=(NOTE,) * 1_001),
        Search(query=GOOD, limit=-1),
        Search(query=GOOD, limit=10**9),
        Search(query=GOOD, threshold=2.0),
        Search(),
        ListMemories(offset=-5),
        DeleteWhere(where=EVERY),
        GetMemory(memory_id=GONE.memory_id or MemoryId("")),
        GiveFeedback(grade=Grade.WRONG, memory_id="x", expect=("(a+)+$",)),
    ],
)
def test_what_store_mode_does_not_ask_is_refused(operation: Operation) -> None:
    with pytest.raises(MalformedRequest):
        require_store_request(operation)
    require_store_request(Write(proposals=(NOTE, GONE)))


async def test_a_relay_brings_no_words_of_a_person(gate: Gate) -> None:
    for kind in SourceKind:
        segment = RelayedText(server="web", tool="t", call_id="c", texts=(GOOD,), kind=kind)
        if kind.trust <= SourceKind.TOOL_RESULT.trust:
            await gate.client.saw(AGENT, segment)
            continue
        with pytest.raises(MalformedRequest):
            await gate.client.saw(AGENT, segment)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/guard/1/judge", b"{}", 422),
        ("/guard/1/judge", b'{"server":"a","tool":"b","items":[]}', 422),
        ("/guard/1/decided", b'{"candidate_id":"../../etc"}', 422),
        ("/guard/1/nothing", b"{}", 404),
        ("/guard/2/judge", b"{}", 404),
        ("/v1/memories", b"{}", 404),
    ],
)
async def test_what_the_seam_does_not_know_is_refused(
    gate: Gate, path: str, body: bytes, status: int
) -> None:
    connector = aiohttp.UnixConnector(path=str(gate.live.state / SOCKET))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(f"http://localhost{path}", data=body) as response,
    ):
        assert response.status == status


async def test_an_operator_sees_what_is_unsettled_and_says_what_he_found(gate: Gate) -> None:
    (judged,) = await gate.client.judge(AGENT, call(item(GOOD)))
    assert judged.candidate_id is not None
    await gate.client.settle(AGENT, SERVER, ((judged.candidate_id, ForwardStatus.UNKNOWN),))
    listed = await gate.live.operate("GET", "/unsettled")
    (one,) = listed["unsettled"]
    assert (one["candidate_id"], one["state"]) == (judged.candidate_id, "lost")
    assert GOOD not in str(listed)
    path = f"/unsettled/{judged.candidate_id}/resolve"
    for key, status in ((AGENT_KEY, 403), (OPERATOR_KEY, 200), (OPERATOR_KEY, 404)):
        await gate.live.operate("POST", path, {"done": True}, key=key, status=status)
    assert gate.live.sidecar.store.reader.status().live_count == 1


_IDS = re.compile(r"[0-9a-f]{32}|[0-9a-f-]{36}|[0-9]{13}|127\.0\.0\.1:[0-9]+|(?<=code=)[\w.~-]+")
TARGET = f"mcp/{SERVER}"
BOUND = """
[[principals]]
id = "desk"
tenant = "acme"
uid = {uid}
"""


@asynccontextmanager
async def at_the_socket(
    base: Path, tables: str = "", composition: Composition | None = None
) -> AsyncGenerator[tuple[Running, GuardClient]]:
    async with (
        running(base, composition, tables=tables) as live,
        GuardClient(live.state / SOCKET) as client,
    ):
        yield live, client


async def said(asked: Coroutine[object, object, object]) -> str:
    """What came of a question, without what differs from run to run."""
    try:
        found = repr(await asked)
    except (MalformedRequest, StorageError) as error:
        detail = error.detail if isinstance(error, MalformedRequest) else error
        found = f"{type(error).__name__}: {detail}"
    return _IDS.sub("*", found)


async def conversation(client: GuardClient) -> list[str]:
    """All that a relay may ask, and what none may, as it is answered."""
    many = msgspec.structs.replace(call(item(GOOD)), items=(item(GOOD),) * 257)
    long = msgspec.structs.replace(item(GOOD), key="k" * 2_000)
    tools = (PinnedTool(name="read", digest="0" * 64),)
    other = (PinnedTool(name="read", digest="1" * 64),)
    (admitted,) = await client.judge(AGENT, call(item(GOOD)))
    assert admitted.candidate_id is not None
    settled = ((admitted.candidate_id, ForwardStatus.DONE),)
    nonsense = ((CandidateId("none of that form"), ForwardStatus.DONE),)
    asked = (
        client.sift(AGENT, SERVER, (GOOD, "else")),
        client.settle(AGENT, SERVER, settled),
        client.settle(AGENT, SERVER, nonsense),
        client.sift(AGENT, SERVER, (GOOD, "else")),
        client.judge(AGENT, call(item(STEERING))),
        client.judge(AGENT, many),
        client.judge(AGENT, call(long)),
        client.judge(AGENT, call(item(GOOD, arguments='{"b": 1}'))),
        client.sift(AGENT, SERVER, (STEERING,)),
        client.sift(AGENT, "s" * 300, (GOOD,)),
        client.saw(AGENT, RelayedText(server="web", tool="search", call_id="c", texts=(GOOD,))),
        client.pin(AGENT, SERVER, tools),
        client.pin(AGENT, SERVER, other),
        client.pin(AGENT, SERVER, tools * 2),
        client.pin(AGENT, SERVER, (PinnedTool(name="read", digest="not one"),)),
        client.unsettled(AGENT, SERVER),
        client.decided(AGENT, CandidateId("0" * 32)),
        client.decided(AGENT, CandidateId("../../etc")),
        client.perform(Write(proposals=(Proposal(change=ChangeKind.CREATE, text_after=GOOD),))),
        client.perform(
            Write(proposals=(Proposal(change=ChangeKind.PURGE, memory_id=MemoryId("m")),))
        ),
        client.perform(ListMemories(limit=5)),
    )
    return [_IDS.sub("*", repr(admitted)), *[await said(one) for one in asked]]


@pytest.mark.parametrize("tables", ["", BOUND.format(uid=os.geteuid())], ids=["uid", "bound"])
async def test_each_question_is_answered_to_the_principal_of_the_peer(
    tmp_path: Path, tables: str
) -> None:
    async with at_the_socket(tmp_path, tables) as (live, client):
        told = await conversation(client)
        (held,) = live.sidecar.store.reader.held()
    principal = f"{held.tenant}/{held.principal_id}"
    assert principal == ("acme/desk" if tables else f"default/uid:{os.geteuid()}")
    for kind in ("decision='hold'", "MalformedRequest", "UnknownCandidate", "?code=*"):
        assert any(kind in one for one in told), kind


class Stopped:
    """The store's writer; it waits before it takes anything."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.done = asyncio.Event()

    async def submit(self, submission: Submission) -> Outcome:
        self.asked.set()
        await self.go.wait()
        outcome = await self._store.writer.submit(submission)
        self.done.set()
        return outcome


async def test_what_is_admitted_for_a_relay_that_stopped_waiting_is_not_sent(
    tmp_path: Path,
) -> None:
    made: list[Stopped] = []

    def stopped(store: Store) -> Stopped:
        made.append(Stopped(store))
        return made[0]

    async with at_the_socket(tmp_path, composition=Composition(placing=stopped)) as (live, client):
        (writer,), forwards = made, live.sidecar.store.forwards
        asked = asyncio.ensure_future(client.judge(AGENT, call(item(GOOD))))
        await writer.asked.wait()
        asked.cancel()
        writer.go.set()
        await writer.done.wait()
        async with asyncio.timeout(30):
            while forwards.pending(TENANT, TARGET):  # noqa: ASYNC110 - looked at from outside
                await asyncio.sleep(0.001)
        (judged,) = await client.judge(AGENT, call(item(GOOD)))
        assert judged.decision == "admit"
        assert forwards.pending(TENANT, TARGET), "the control: who waits has it to send"


async def test_a_release_reaches_a_relay_that_asks_for_nothing(gate: Gate) -> None:
    (held,) = await gate.client.judge(AGENT, call(item(STEERING)))
    woken = 0
    # Its connection is the first announcement; that one may come before or after the first look.
    async with asyncio.timeout(30):
        while True:
            released = gate.client.releases.next
            given = await gate.client.unsettled(AGENT, SERVER)
            if given:
                break
            if woken == 0:
                await gate.live.operate("POST", f"/review/{held.candidate_id}/release", {})
            await released.wait()
            woken += 1
    assert [(one.candidate_id, one.sent) for one in given] == [(held.candidate_id, False)]
    assert woken in {1, 2}, "control: it was not there before the announcement"
