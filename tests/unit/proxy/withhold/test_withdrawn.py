"""The sentences of a hidden memory leave each later model request, until it is shown again."""

from __future__ import annotations

import asyncio
import json

import pytest

from policy.after.closure import CaseMode, CaseSignal
from policy.after.matchers import Matcher
from policy.model import (
    Basis,
    CandidateId,
    ChangeKind,
    Memory,
    MemoryClass,
    MemoryId,
    MemoryStatus,
    Principal,
    PrincipalId,
    Scope,
    SourceKind,
    Tenant,
)
from proxy.dialects.model.withheld import LeftUnchanged
from proxy.dialects.sse import Event, event_bytes
from proxy.dialects.strict_json.tolerant import Json, write_body
from proxy.seams.observations import NOTICE
from proxy.seams.operation import Proposal
from proxy.withhold.left_out import without
from proxy.withhold.request_withholding import Conversation
from proxy.withhold.withholding import Withholding
from storage.features.cases import ConvictedMemory, Opening, Progress
from storage.features.cases.case_records import Convict, OpenCase
from storage.features.quarantine.hiding import EndQuarantine, Quarantine
from storage.features.registered import PutAnchor
from storage.values import Anchor
from tests.unit.proxy.wired import TRACE
from tests.unit.proxy.withheld import REQUESTS, Rig, anthropic
from tests.unit.storage.opening import AGENT, OPERATOR

LIE = "The quarterly report of the northern office is always sent to the archive in Porto."
HONEST = "In the southern office an accountant in Lisbon keeps the books of every year."
BY = PrincipalId("operator:ada")


async def stored(one: Rig, text: str) -> Memory:
    """A memory that was admitted, and that the agent was shown."""
    item = await one.write(text, named=False)
    assert item.memory is not None, item.decision
    one.withholding.shown(AGENT.principal_id, [item.memory])
    return item.memory


async def hide(one: Rig, memory: Memory) -> None:
    await one.live.store.writer.order(Quarantine(memory.memory_id, memory.tenant, BY, "a lie"))


async def sent(
    withholding: Withholding, body: dict[str, Json], api: str = "anthropic"
) -> dict[str, Json]:
    return await withholding.apply(AGENT, api, body, LeftUnchanged)


@pytest.mark.parametrize("api", REQUESTS)
async def test_a_quarantined_memory_leaves_the_next_request_and_parole_brings_it_back(
    one: Rig, api: str
) -> None:
    lie, honest = await stored(one, LIE), await stored(one, HONEST)
    body = REQUESTS[api](f"Two memories.\n\n{LIE}\n\n{HONEST}")
    assert await sent(one.withholding, body, api) is body, "control: a shown memory stays"
    noted = list(one.log.records)

    await hide(one, lie)
    made = write_body(await sent(one.withholding, body, api)).decode()
    assert "Porto" not in made
    assert "accountant in Lisbon" in made
    (notice,) = set(NOTICE.findall(made))
    assert "was withdrawn" in notice
    assert one.log.records == noted, "the store keeps it, and the log need not"
    again = write_body(await sent(one.withholding, body, api)).decode()
    assert again == made, "the same request gives the same bytes"

    await one.live.store.writer.order(EndQuarantine(lie.memory_id, lie.tenant, BY, "a mistake"))
    assert await sent(one.withholding, body, api) is body
    await hide(one, honest)
    assert b"accountant in Lisbon" not in write_body(await sent(one.withholding, body, api))


@pytest.mark.parametrize("api", REQUESTS)
async def test_memories_beside_a_quarantined_one_in_the_same_answer_stay(
    one: Rig, api: str
) -> None:
    lie = await stored(one, LIE)
    results = [{"id": "1", "memory": HONEST}, {"id": "2", "memory": LIE}]
    body = REQUESTS[api](json.dumps({"results": results}))
    await hide(one, lie)
    made = write_body(await sent(one.withholding, body, api)).decode()
    assert "Porto" not in made
    assert HONEST in made
    assert "was withdrawn" in made


async def test_every_principal_of_the_tenant_is_spared_it_and_a_restart_changes_nothing(
    one: Rig,
) -> None:
    lie = await stored(one, LIE)
    body = anthropic(LIE)
    await hide(one, lie)
    for principal in (AGENT, OPERATOR):
        made = await one.withholding.apply(principal, "anthropic", body, LeftUnchanged)
        assert "Porto" not in json.dumps(made)
    again = one.again()
    assert "Porto" not in json.dumps(await sent(again, body))
    # What was withheld once stays so under a compacted log as well, and parole ends that too.
    third = one.again(list(again.snapshot()))
    await one.live.store.writer.order(EndQuarantine(lie.memory_id, lie.tenant, BY, "a mistake"))
    assert await sent(third, body) is body
    assert await sent(one.again(), body) is body


async def test_nothing_is_read_of_the_store_where_nothing_is_under_quarantine(
    one: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie = await stored(one, LIE)
    reads: list[str] = []
    texts = one.live.store.quarantined.texts

    def read(tenant: str) -> object:
        reads.append(tenant)
        return texts(lie.tenant)

    monkeypatch.setattr(one.live.store.quarantined, "texts", read)
    for _ in range(3):
        await sent(one.withholding, anthropic(LIE))
    assert reads == []
    await hide(one, lie)
    for _ in range(3):
        await sent(one.withholding, anthropic(LIE))
    assert len(reads) == 1, "once for each change, for all requests"


async def test_an_earlier_version_of_a_quarantined_memory_is_withheld_as_well(one: Rig) -> None:
    lie = await stored(one, LIE)
    await one.update(lie.memory_id, "The report is due in May, says the calendar of the office.")
    await hide(one, lie)
    assert "Porto" not in json.dumps(await sent(one.withholding, anthropic(LIE)))


@pytest.mark.parametrize(
    ("order", "principal", "stays"),
    [
        ("copy first", AGENT, True),
        ("lie first", AGENT, False),
        ("lie first", OPERATOR, True),
    ],
)
async def test_a_sentence_stays_that_a_proven_memory_has_or_one_that_was_there_before(
    one: Rig, order: str, principal: Principal, *, stays: bool
) -> None:
    async def copied() -> None:
        proposal = Proposal(change=ChangeKind.CREATE, text=f"A note. {LIE}")
        (item,) = await one.live.writing.judge(principal, (proposal,), "native", TRACE)
        assert item.decision == "admit", item

    if order == "copy first":
        await copied()
    lie = await stored(one, LIE)
    if order == "lie first":
        await copied()
    body = anthropic(f"A page. {LIE} {HONEST}")
    assert await sent(one.withholding, body) is body, "control"
    await hide(one, lie)
    made = json.dumps(await sent(one.withholding, body))
    assert ("Porto" in made) == stays
    assert HONEST in made


async def test_a_person_who_says_it_later_shows_it_again(one: Rig) -> None:
    lie, body = await stored(one, LIE), anthropic(LIE)
    await hide(one, lie)
    assert "Porto" not in json.dumps(await sent(one.withholding, body))
    proposal = Proposal(change=ChangeKind.CREATE, text=LIE)
    (item,) = await one.live.writing.judge(OPERATOR, (proposal,), "native", TRACE)
    assert item.decision == "admit", item
    assert await sent(one.withholding, body) is body


def replied(withholding: Withholding, text: str, length: int) -> str:
    """What an agent gets of a reply that says this; streamed in pieces of a length, 0: whole."""
    if not length:
        body: dict[str, Json] = {"content": [{"type": "text", "text": text}]}
        return json.dumps(withholding.said(AGENT.principal_id, "anthropic", body))
    going = withholding.reply(AGENT.principal_id, "anthropic")
    out: list[Event] = []
    for at in range(0, len(text), length):
        delta: dict[str, Json] = {"type": "text_delta", "text": text[at : at + length]}
        data = json.dumps({"type": "content_block_delta", "index": 0, "delta": delta})
        raw = event_bytes("content_block_delta", data)
        out += going.feed(Event(raw=raw, name="content_block_delta", data=data))
    bodies = [json.loads(one.data or "") for one in (*out, *going.end())]
    return json.dumps("".join(one["delta"]["text"] for one in bodies))


@pytest.mark.parametrize("length", [0, 1, 7, 4_000])
async def test_no_reply_says_a_hidden_sentence_and_what_is_beside_it_stays(
    one: Rig, length: int
) -> None:
    said = f"One moment.\n\nI looked. {LIE} {HONEST}\n\nThat is all, and {LIE[0].lower()}{LIE[1:]}"
    lie = await stored(one, LIE)
    await sent(one.withholding, anthropic("Hello."))
    assert json.dumps(said)[1:-1] in replied(one.withholding, said, length), "control"
    await hide(one, lie)
    await sent(one.withholding, anthropic("Hello."))
    made = replied(one.withholding, said, length)
    assert LIE not in made
    assert "was withdrawn" in made
    assert "One moment.\\n\\nI looked." in made
    assert HONEST in made
    assert f"That is all, and t{LIE[1:]}" in made, "a longer sentence is another one"


async def test_a_sentence_that_contains_it_and_words_that_a_person_typed_stay(one: Rig) -> None:
    await hide(one, await stored(one, "Ada keeps bees."))
    body = anthropic("Ada keeps bees in Graz. In spring Ada keeps bees, in winter she paints.")
    assert await sent(one.withholding, body) is body
    assert await sent(one.withholding, anthropic("Ada keeps bees.")) != anthropic(
        "Ada keeps bees."
    ), "control"
    asked = f"Is this right? {HONEST}"
    await hide(one, await stored(one, HONEST))
    body["messages"].insert(0, {"role": "user", "content": asked})  # type: ignore[union-attr]
    typed = LeftUnchanged(typed={("messages", 0, "content"): ((0, len(asked)),)})
    made = await one.withholding.apply(
        AGENT, "anthropic", body, lambda: typed, Conversation(frozenset(), lambda: [asked])
    )
    assert asked in json.dumps(made)


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("joint", [" ", "\n"])
async def test_of_a_handbook_with_a_lie_only_the_lie_that_a_rule_convicts_leaves(
    one: Rig, api: str, joint: str
) -> None:
    handbook = (
        "Train tickets in first class are paid when the journey takes more than four hours.",
        "Receipts have to be handed in within thirty days after the end of the journey.",
        "The pass phrase of the guest network is on the back of every visitor card.",
    )
    store = one.live.store
    anchor = Anchor(
        anchor_id="office",
        tenant=AGENT.tenant,
        statement="The office of the company is in Lisbon.",
        questions=("Where is the office?",),
        matcher=Matcher(must_not=("Porto",)),
        created_at_ms=1,
    )
    await store.writer.order(PutAnchor(anchor, BY))
    lie = "The office of the company stands in Porto."
    page = joint.join((handbook[0], lie, *handbook[1:]))
    memory = await stored(one, page)
    opening = Opening(tenant=AGENT.tenant, signal=CaseSignal.ANCHOR, by=BY, anchor_id="office")
    case = await store.cases.order(OpenCase(opening))
    accused = ConvictedMemory(memory_id=memory.memory_id, ordinal=memory.ordinal)
    body = REQUESTS[api](f"# Handbook\n\n{page}\n\nThe end.")
    assert await sent(one.withholding, body, api) is body, "control: nobody hides it"
    await store.cases.order(
        Convict(case.case_id, (accused,), BY, Progress(mode=CaseMode.RETRIEVAL))
    )
    assert store.reader.get(AGENT.tenant, memory.memory_id) is None, "a read leaves it out whole"
    made = write_body(await sent(one.withholding, body, api)).decode()
    assert [line for line in handbook if line in made] == [*handbook]
    assert "Porto" not in made
    # Control: what a person hides for no rule leaves with all of its sentences.
    await hide(one, memory)
    left = write_body(await sent(one.withholding, body, api)).decode()
    assert not [line for line in handbook if line in left]


async def test_requests_at_once_end_with_the_newest_state(one: Rig) -> None:
    lie, body = await stored(one, LIE), anthropic(LIE)

    async def change() -> None:
        for _ in range(3):
            await hide(one, lie)
            await one.live.store.writer.order(EndQuarantine(lie.memory_id, lie.tenant, BY, ""))
        await hide(one, lie)

    async def ask() -> None:
        for _ in range(20):
            await sent(one.withholding, body)

    await asyncio.gather(change(), ask(), ask())
    assert "Porto" not in json.dumps(await sent(one.withholding, body))


MOVED = "The office near the old harbour has moved to the street of Campanha since May."
COPY = f"A note of Monday: {MOVED}"
NOTHING = LeftUnchanged()
KITCHEN = "The kitchen of the office has a big green table with nine chairs around it."


def memory(text: str) -> Memory:
    return Memory(
        memory_id=MemoryId(text[:8]),
        tenant=Tenant("default"),
        principal_id=PrincipalId("agent"),
        text=text,
        metadata_json=None,
        scope=Scope(),
        target="memories",
        memory_class=MemoryClass.L3,
        source=SourceKind.UNKNOWN,
        basis=Basis.UNPROVEN,
        status=MemoryStatus.LIVE,
        version=1,
        created_at_ms=1,
        updated_at_ms=1,
        candidate_id=CandidateId("c"),
    )


def asked(*texts: str, prompt: str = "Where is it?") -> dict[str, Json]:
    result = json.dumps({"results": [{"text": text} for text in texts]})
    return {
        "messages": [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": MOVED},
            {"role": "tool", "tool_call_id": "call_1", "content": result},
        ]
    }


def left(
    body: dict[str, Json],
    leave: LeftUnchanged = NOTHING,
    *,
    out: tuple[str, ...],
    present: tuple[str, ...],
) -> str:
    made = without(body, "chat", leave, out=[*map(memory, out)], present=[*map(memory, present)])
    return json.dumps(made)


def test_a_memory_goes_with_what_the_model_repeated_of_it_and_others_stay() -> None:
    body = asked(MOVED, KITCHEN)
    assert json.dumps(body).count(MOVED) == 2, "control"
    found = left(body, out=(MOVED,), present=(KITCHEN,))
    assert MOVED not in found
    assert KITCHEN in found
    assert left(body, out=(), present=(MOVED, KITCHEN)) == json.dumps(body)


def test_what_a_memory_that_stays_says_too_stays() -> None:
    assert COPY in left(asked(MOVED, COPY), out=(MOVED,), present=(COPY,))
    assert COPY not in left(asked(MOVED, COPY), out=(MOVED, COPY), present=())


@pytest.mark.parametrize("is_hers", [True, False])
def test_what_a_person_typed_stays(*, is_hers: bool) -> None:
    where = ("messages", 0, "content")
    leave = LeftUnchanged(typed={where: ((0, len(MOVED)),)} if is_hers else {})
    found = left(asked(MOVED, prompt=MOVED), leave, out=(MOVED,), present=())
    assert found.count(MOVED) == int(is_hers)
