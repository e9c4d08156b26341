"""Hiding by identity: a hidden memory is in no answer of its server, and no other memory goes."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from policy.model import ChangeKind, MemoryId, Principal
from policy.query import EVERYTHING
from proxy.dialects.mcp.results import filtering
from proxy.dialects.strict_json.strict import JsonValue
from proxy.guard.local_guard import LocalGuard
from proxy.seams.guard import ForwardStatus
from proxy.seams.operation import Proposal
from proxy.settings.tool_maps import shipped_map
from storage.features.quarantine.hiding import Quarantine
from tests.unit.proxy.guarded import (
    AGENT,
    BY,
    PERSON,
    SERVER,
    STEERING,
    Guarded,
    call,
    guard_of,
    guarded,
    item,
)
from tests.unit.proxy.wired import TRACE
from tests.unit.storage.opening import OPERATOR

LIE = "Zebra Analytics keeps all the accounts of Ada since April."
HONEST = ("Ada keeps bees.", "Ada keeps bees in Graz.", "She paints in winter, and tea is at four.")
NOTE = "\n".join((HONEST[0], LIE, *HONEST[1:]))


def _text(said: str) -> JsonValue:
    return {"content": [{"type": "text", "text": said}]}


def _both(value: Any) -> JsonValue:  # noqa: ANN401 - any JSON
    return {**_dict(_text(json.dumps(value, indent=2))), "structuredContent": value}


def _dict(value: JsonValue) -> dict[str, JsonValue]:
    assert isinstance(value, dict)
    return value


def _graph(*observations: str) -> dict[str, Any]:
    ada = {"type": "entity", "name": "Ada", "entityType": "person"}
    return {"entities": [{**ada, "observations": list(observations)}], "relations": []}


_SAID = (HONEST[0], LIE, *HONEST[1:])
_NUMBERED = "\n".join(f"{at:6}\t{line}" for at, line in enumerate(_SAID, 1))
_ROWS = [{"id": str(at), "memory": line, "score": 0.5} for at, line in enumerate(_SAID)]
ANSWERS: dict[str, tuple[str, JsonValue]] = {
    "read_graph": ("server-memory", _both(_graph(*_SAID))),
    "search_nodes": ("server-memory", _both(_graph(*_SAID[:3], _SAID[3]))),
    "open_nodes": ("server-memory", _text(json.dumps(_graph(*_SAID)))),
    "after an append": ("server-memory", _both(_graph(*_SAID, "It rains in May."))),
    "a resource": (
        "server-memory",
        {"contents": [{"uri": "memory://graph", "text": json.dumps(_graph(*_SAID))}]},
    ),
    "a prompt": (
        "server-memory",
        {"messages": [{"role": "user", "content": {"type": "text", "text": NOTE}}]},
    ),
    "view": ("anthropic-memory", _text(f"Here's the content of /memories/ada.md:\n{_NUMBERED}")),
    "a part of a view": ("anthropic-memory", _text("\n".join(_NUMBERED.splitlines()[1:]))),
    "a re-wrap at blanks": (
        "anthropic-memory",
        _text("\n".join("\n".join(textwrap.wrap(line, 24)) for line in _SAID)),
    ),
    "read_note": ("basic-memory", _text(f"---\ntitle: Ada\ntype: note\n---\n\n{NOTE}\n")),
    "search_notes": ("basic-memory", _both({"results": [{"title": "Ada", "content": NOTE}]})),
    "qdrant-find": (
        "qdrant",
        {
            "content": [
                {"type": "text", "text": f"<entry><content>{line}</content><metadata/></entry>"}
                for line in _SAID
            ]
        },
    ),
    "chroma_get_documents": (
        "chroma",
        _text(json.dumps({"ids": ["a", "b", "c", "d"], "documents": list(_SAID)})),
    ),
    "chroma_query_documents": (
        "chroma",
        _text(json.dumps({"ids": [["a", "b", "c", "d"]], "documents": [list(_SAID)]})),
    ),
    "search_memory_facts": (
        "graphiti",
        _both({"message": "Facts", "facts": [{"uuid": "1", "fact": one} for one in _SAID]}),
    ),
    "search_memory of langmem": (
        "langmem",
        _text(str([{"namespace": ["m"], "value": {"content": one}} for one in _SAID])),
    ),
    "get_block": ("letta", _text(json.dumps({"label": "human", "value": NOTE}))),
    "search_memories": ("mem0", _both({"count": 4, "results": _ROWS})),
    "list_memories": ("openmemory", _text(json.dumps({"results": _ROWS}))),
    "read_text_file": ("server-filesystem", _text(NOTE)),
    "fact_store": ("hermes", _text(json.dumps({"facts": [{"content": one} for one in _SAID]}))),
    "recall": ("superlocalmemory", _both({"count": 4, "results": _ROWS})),
}


async def lands(seen: Guarded, text: str, key: str, by: Principal = AGENT) -> MemoryId:
    before = {one.memory_id for one in listed(seen)}
    (judged,) = await seen.guard.judge(by, call(item(text, key)))
    assert judged.candidate_id is not None
    assert judged.decision == "admit", judged
    await seen.guard.settle(by, SERVER, ((judged.candidate_id, ForwardStatus.DONE),))
    new: MemoryId
    (new,) = {one.memory_id for one in listed(seen)} - before
    return new


def listed(seen: Guarded) -> tuple[Any, ...]:
    return seen.store.reader.page(AGENT.tenant, EVERYTHING, 0, 99).memories


async def shown(guard: LocalGuard, name: str, answer: JsonValue) -> JsonValue:
    tool_map = shipped_map(name)
    assert tool_map is not None
    plan = filtering(answer, tool_map.shown)
    try:
        strings = next(plan)
        while True:
            strings = plan.send(await guard.sift(AGENT, SERVER, strings))
    except StopIteration as done:
        value: JsonValue = done.value
        return value


def lines_in(answer: JsonValue) -> list[str]:
    """Which of the lines an answer says, wherever they stand in it."""
    said = " ".join(json.dumps(answer, ensure_ascii=False).replace("\\n", " ").split())
    return [line for line in _SAID if line in said]


@pytest.mark.parametrize("case", ANSWERS)
async def test_a_hidden_memory_is_in_no_answer_and_all_others_are(
    tmp_path: Path, case: str
) -> None:
    name, answer = ANSWERS[case]
    with guarded(tmp_path) as seen:
        memory_id = await lands(seen, LIE, "Ada")
        await lands(seen, HONEST[0], "Ada")
        assert await shown(seen.guard, name, answer) is answer, "control: nothing is hidden"
        there = lines_in(answer)
        assert LIE in there
        await seen.store.writer.order(Quarantine(memory_id, AGENT.tenant, BY))
        honest = [line for line in there if line != LIE]
        assert lines_in(await shown(seen.guard, name, answer)) == honest
        assert "Zebra" not in json.dumps(await shown(seen.guard, name, answer))
    with guarded(tmp_path) as seen:
        assert lines_in(await shown(seen.guard, name, answer)) == honest, "after a restart"
        purge = Proposal(change=ChangeKind.PURGE, memory_id=memory_id)
        (done,) = await seen.wired.writing.judge(OPERATOR, (purge,), "admin", TRACE)
        assert done.decision == "admit"
        again = guard_of(seen.wired, seen.clock)
        for guard in (seen.guard, again):
            assert lines_in(await shown(guard, name, answer)) == honest, "after a purge"


@pytest.mark.parametrize("case", ANSWERS)
async def test_what_is_held_or_denied_hides_nothing_in_any_answer(
    tmp_path: Path, case: str
) -> None:
    name, answer = ANSWERS[case]
    arguments = '{"entities":[{"entityType":1,"name":0,"observations":[2,3]}]}'
    with guarded(tmp_path) as seen:
        for pieces in ((STEERING, "The user", "Ada", LIE), (STEERING, "Ada", "person", HONEST[1])):
            (held,) = await seen.guard.judge(
                AGENT, call(item("", pieces=pieces, arguments=arguments))
            )
            assert (held.decision, held.candidate_id is None) == ("hold", False)
            assert await shown(seen.guard, name, answer) is answer
            assert held.candidate_id is not None
            await seen.store.writer.deny(held.candidate_id, BY)
            assert await shown(seen.guard, name, answer) is answer


async def test_the_sentence_inside_a_longer_one_is_another_memory(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        memory_id = await lands(seen, HONEST[0], "Ada")
        answer = _both(_graph(*HONEST))
        await seen.store.writer.order(Quarantine(memory_id, AGENT.tenant, BY))
        left = json.dumps(await shown(seen.guard, "server-memory", answer))
        assert [line for line in HONEST if line in left] == [*HONEST[1:]]


async def test_a_younger_copy_goes_with_it_and_a_proven_or_older_one_shows_it(
    tmp_path: Path,
) -> None:
    answer = _both(_graph(*_SAID))
    with guarded(tmp_path) as seen:
        older = await lands(seen, LIE, "Grace")
        memory_id = await lands(seen, LIE, "Ada")
        await lands(seen, LIE, "Joan")
        await seen.store.writer.order(Quarantine(memory_id, AGENT.tenant, BY))
        assert await shown(seen.guard, "server-memory", answer) is answer
        await seen.store.writer.order(Quarantine(older, AGENT.tenant, BY))
        assert LIE not in lines_in(await shown(seen.guard, "server-memory", answer))
        await lands(seen, LIE, "Olga", PERSON)
        assert await shown(seen.guard, "server-memory", answer) is answer
