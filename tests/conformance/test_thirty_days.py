"""Thirty days of honest people: 4.6 notes a day, each told of somebody in the third person."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import pytest

from policy.gate import GATE
from policy.model import ChangeKind, MemoryClass, SourceKind
from proxy.dialects.mcp.calls import read_call
from proxy.seams.guard import Join
from proxy.seams.operation import Proposal, WrittenItem
from proxy.settings.tool_maps import shipped_map
from tests.conformance.labelled import Agent, Remark, Session, harmless, new_sessions, remarks_of
from tests.integration.cli_process import ROOT
from tests.integration.clients.process import drive_client
from tests.integration.mem0_environment import mem0_python
from tests.integration.running import running
from tests.unit.proxy.ledgers import ADA, call, result
from tests.unit.proxy.wired import TRACE, wired

Json = dict[str, Any]
DAYS: Final = 30
NOTES_A_DAY: Final = 4.6
READ_EVERY: Final = 4
# What applications say of a memory besides: nothing, a kind of their own, or a class by its name.
SAID_OF_IT: Final[tuple[Json, ...]] = (
    {},
    {"category": "personal"},
    {"memory_class": "preference"},
    {"memory_class": "knowledge"},
)
# Words by which a model calls a note a preference, where a server has types.
LIKING: Final = ("like", "love", "prefer", "favorite", "favourite", "enjoy")


def days_of(corpora: Path) -> Iterator[list[tuple[Remark, str]]]:
    """Day by day, the notes of that day with the remark that each is of."""
    notes = [(remark, note) for remark in remarks_of(corpora) for note in remark.notes]
    given = cycle(notes[:: max(1, len(notes) // round(DAYS * NOTES_A_DAY))])
    for day in range(DAYS):
        count = round(NOTES_A_DAY * (day + 1)) - round(NOTES_A_DAY * day)
        yield list(islice(given, count))


def asked_of_mem0(corpora: Path) -> list[tuple[list[Json], Json]]:
    """What an application sends to its `mem0ai` client in thirty days."""
    said = cycle(SAID_OF_IT)
    return [
        ([{"role": "user", "content": note}], {**next(said), "source": "chat"})
        for day in days_of(corpora)
        for _, note in day
    ]


@pytest.mark.timeout(300)
async def test_an_application_without_a_front_is_refused_nothing_and_held_less_than_once_a_day(
    corpora: Path, tmp_path: Path
) -> None:
    lowered = 0
    async with running(tmp_path) as live:
        headers = {"Authorization": f"Token {await live.key('app')}"}
        asked = asked_of_mem0(corpora)
        for messages, metadata in asked:
            body = {"messages": messages, "user_id": "ada", "infer": False, "metadata": metadata}
            url = f"{live.url}/v3/memories/add/"
            async with live.client.post(url, json=body, headers=headers) as answer:
                assert answer.status == 200, await answer.text()
                (added,) = (await answer.json())["results"]
            assert added["event"] == "ADD"
            lowered += added.get("class_lowered", False)
        assert len(asked) == round(DAYS * NOTES_A_DAY)
        assert len(live.sidecar.store.reader.held()) <= DAYS
        assert lowered == len(asked) // len(SAID_OF_IT), "control: some named a preference"


@pytest.mark.heavy
@pytest.mark.timeout(600)
async def test_its_mem0_client_raises_nothing(corpora: Path, tmp_path: Path) -> None:
    asked = asked_of_mem0(corpora)
    async with running(tmp_path) as live:
        key = await live.key("app")
        drive = ROOT / "tests/integration/clients/mem0_forge_drive.py"
        words = (mem0_python(), drive, live.url, key, json.dumps(asked))
        seen = (await drive_client(*words, home=tmp_path / "home"))["seen"]
    assert len(seen) == round(DAYS * NOTES_A_DAY)
    # An exception is told by the name of its class.
    assert [one for one in seen if not isinstance(one, list) or not one] == []


async def entities(session: Session, notes: list[str]) -> list[WrittenItem]:
    """The model of an agent stores each note as an observation of an entity of server-memory."""
    tool_map = shipped_map("server-memory")
    assert tool_map is not None
    calls = [call(f"toolu_{next(session.agent.numbers)}", text=note) for note in notes]
    await session.calls(*calls)
    proposals: list[Proposal] = []
    for one, note in zip(calls, notes, strict=True):
        liked = any(word in note.casefold() for word in LIKING)
        entity: Json = {
            "name": note.split(" ", 1)[0],
            "entityType": "preference" if liked else "person",
            "observations": [note],
        }
        params: Json = {"name": "create_entities", "arguments": {"entities": [entity]}}
        (item,) = read_call(tool_map, params).items
        proposals.append(
            Proposal(
                change=ChangeKind.CREATE,
                text=note,
                memory_class=item.memory_class,
                join=Join(tool_use_id=one.call_id),
            )
        )
    items = await session.agent.writing.judge(ADA, tuple(proposals), "test", TRACE)
    session.messages.extend(result(one.call_id, "Done.") for one in calls)
    await session.ask()
    return list(items)


@pytest.mark.timeout(300)
async def test_an_agent_with_a_memory_server_is_refused_nothing_and_held_less_than_once_a_day(
    corpora: Path, tmp_path: Path
) -> None:
    pages = cycle(harmless(corpora))
    sessions = new_sessions()
    told: Counter[str] = Counter()
    with wired(tmp_path, GATE, sessions=sessions) as live:
        agent = Agent(sessions, live)
        for number, day in enumerate(days_of(corpora)):
            entering = [("user", remark.text) for remark, _ in day]
            if number % READ_EVERY == 0:
                entering.append(("tool", next(pages)))
            session = await agent.session(entering)
            for item in await entities(session, [note for _, note in day]):
                told[f"{item.decision} {item.memory_class.value}"] += 1
                assert item.source is None or item.source.trust == SourceKind.UNKNOWN.trust
    assert sum(told.values()) == round(DAYS * NOTES_A_DAY)
    assert not any(one.startswith(("reject", "error", "missing")) for one in told), told
    held = sum(count for one, count in told.items() if one.startswith("hold"))
    assert held <= DAYS, told
    assert told[f"admit {MemoryClass.L3.value}"] + held == sum(told.values())
    print(f"thirty days: {held / DAYS:.2f} holds a day, {dict(told)}")  # noqa: T201
