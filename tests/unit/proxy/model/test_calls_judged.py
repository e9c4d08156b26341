"""Calls of a model that write memory are judged before its agent sees them, over a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from policy.model import ChangeKind, Principal, PrincipalId
from policy.query import EVERYTHING
from policy.verdict import Reason
from proxy.dialects.model.api import ANTHROPIC
from proxy.dialects.model.memory_tools import OfferedTools
from proxy.dialects.model.tools import DeclaredTool, tools_of
from proxy.dialects.model.transcript import ModelCall
from proxy.dialects.strict_json.tolerant import Json
from proxy.ledger.unmapped_tools import UnmappedTools
from proxy.model.call_judge import CallJudge, ReplyJudge
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest
from proxy.seams.observations import observation_of_call
from proxy.settings.tool_maps import maps_of_models
from telemetry.propagation import format_traceparent
from tests.evaluate.unsafe import unsafe_gate_without
from tests.uncoupled import UnsafeUncoupled
from tests.unit.proxy.guarded import AGENT, BY, GOOD, OTHER, PERSON, STEERING, Guarded, guarded
from tests.unit.proxy.mcp.guarding import MemoryGuard
from tests.unit.proxy.model.asking import FILES, HERMES, call, create, offering, result
from tests.unit.proxy.wired import TRACE

MAPS = maps_of_models(None)
SECOND = "The pump in hall four was replaced in March"
FILES_AT = "model/anthropic-memory"


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Guarded]:
    with guarded(tmp_path) as parts:
        yield parts
        assert parts.store.reader.check().problems == ()


def _veto(seen: Guarded) -> CallJudge:
    return CallJudge(seen.guard)


async def _one(
    veto: CallJudge, one: ModelCall, *tools: Json, principal: Principal = AGENT
) -> str | None:
    catalogue = OfferedTools(tools_of(offering(*(tools or (FILES, HERMES)))), MAPS)
    (text,) = await veto.judge(principal, catalogue, (one,))
    return text


def _shown(seen: Guarded) -> list[str]:
    page = seen.store.reader.page(AGENT.tenant, EVERYTHING, 0, 100)
    return [memory.text for memory in page.memories]


def _waiting(seen: Guarded) -> list[tuple[str, bool]]:
    return [(one.candidate.target, one.sent) for one in seen.store.forwards.pending()]


async def test_an_admitted_call_goes_on_and_its_result_makes_it_a_memory(seen: Guarded) -> None:
    veto, one = _veto(seen), create(GOOD)
    assert await _one(veto, one) is None
    # The intent is on disk before the agent hears of the call; no read shows it.
    assert _waiting(seen) == [(f"mcp/{FILES_AT}", True)]
    assert _shown(seen) == []
    await veto.results(AGENT, result(one))
    assert _waiting(seen) == []
    assert [GOOD in text for text in _shown(seen)] == [True]


async def test_a_result_that_says_error_ends_the_intent(seen: Guarded) -> None:
    veto, one = _veto(seen), create(GOOD)
    assert await _one(veto, one) is None
    await veto.results(AGENT, result(one, "disk full", is_error=True))
    assert (_waiting(seen), _shown(seen)) == ([], [])


async def test_a_result_of_another_principal_settles_nothing(seen: Guarded) -> None:
    veto, one = _veto(seen), create(GOOD)
    assert await _one(veto, one) is None
    await veto.results(OTHER, result(one))
    assert len(_waiting(seen)) == 1


async def test_what_steers_is_withheld_and_leaves_nothing(seen: Guarded) -> None:
    before = seen.store.reader.status()
    text = await _one(_veto(seen), create(STEERING))
    assert text is not None
    assert text.startswith("Not stored")
    assert "Zebra" not in text
    after = seen.store.reader.status()
    assert (after.version, _waiting(seen), _shown(seen)) == (before.version, [], [])


async def test_the_same_call_goes_on_where_the_wall_is_taken_away(tmp_path: Path) -> None:
    with guarded(tmp_path, unsafe_gate_without(frozenset(range(1, 11)) - {4, 7})) as bare:
        veto, one = _veto(bare), create(STEERING)
        assert await _one(veto, one) is None
        await veto.results(AGENT, result(one))
        assert [STEERING in text for text in _shown(bare)] == [True]


@pytest.mark.parametrize(
    "one",
    [
        call("notebook", command="view", path="/memories"),
        call("Bash", command="ls"),
        call("not_offered", text="x"),
    ],
)
async def test_reads_and_strangers_pass(seen: Guarded, one: ModelCall) -> None:
    bash: Json = {"type": "function", "name": "Bash", "parameters": {"properties": {"command": {}}}}
    tools = (bash,) if one.name == "not_offered" else (bash, FILES)
    assert await _one(_veto(seen), one, *tools) is None
    assert _waiting(seen) == []


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (call("notebook", command="burn", path="/memories/a"), Reason.CALL_MALFORMED),
        (call("notebook", command="create", path="/memories/a"), Reason.CALL_MALFORMED),
        (call("notebook", command="create", path=3, file_text="tea"), Reason.CALL_MALFORMED),
        (
            call("notebook", command="create", path="/m", file_text='{"a":"\\ud800"}'),
            Reason.CALL_MALFORMED,
        ),
        (call("notebook"), Reason.CALL_MALFORMED),  # arguments that are no object
        (call("Notebook", command="create", path="/m", file_text="tea"), Reason.UNKNOWN_TOOL),
    ],
)
async def test_what_cannot_be_read_is_not_called(
    seen: Guarded, one: ModelCall, reason: Reason | None
) -> None:
    text = await _one(_veto(seen), one)
    assert (text or "").startswith("" if reason is None else observation_of_call(reason))
    assert _waiting(seen) == []


async def test_an_agent_may_not_call_what_administers(seen: Guarded) -> None:
    tools: list[Json] = [
        {"name": "add_memory", "input_schema": {"properties": {"text": {}}}},
        {"name": "delete_all_memories", "input_schema": {"properties": {"user_id": {}}}},
    ]
    one = call("delete_all_memories", user_id="ada")
    veto = _veto(seen)
    assert await _one(veto, one, *tools) == observation_of_call(Reason.ADMIN_TOOL)
    assert await _one(veto, one, *tools, principal=PERSON) is None


def _batch(*operations: Json) -> ModelCall:
    return call("memory", target="memory", operations=[*operations])


async def test_one_refused_item_stops_its_call_and_the_others_are_not_kept(seen: Guarded) -> None:
    veto = _veto(seen)
    good: Json = {"action": "add", "content": GOOD}
    text = await _one(veto, _batch(good, {"action": "add", "content": STEERING}))
    assert text is not None
    assert text.startswith("Item 2 of 2: Not stored")
    assert (_waiting(seen), _shown(seen)) == ([], [])
    one = _batch(good, {"action": "add", "content": SECOND})
    assert await _one(veto, one) is None
    await veto.results(AGENT, result(one, '{"success": true}'))
    assert sorted(_shown(seen)) == sorted([GOOD, SECOND])


async def test_parallel_calls_of_one_reply_are_judged_each(seen: Guarded) -> None:
    veto = _veto(seen)
    catalogue = OfferedTools(tools_of(offering(FILES)), MAPS)
    texts = await veto.judge(AGENT, catalogue, (create(GOOD), create(STEERING), create(SECOND)))
    assert [text is None for text in texts] == [True, False, True]
    assert len(_waiting(seen)) == 2


async def test_what_was_stored_may_be_removed_by_its_whole_text_and_other_text_waits(
    seen: Guarded,
) -> None:
    veto, one = _veto(seen), call("memory", action="add", target="memory", content=GOOD)
    assert await _one(veto, one) is None
    await veto.results(AGENT, result(one))
    assert len(_shown(seen)) == 1
    held = await _one(veto, call("memory", action="remove", target="memory", old_text="tea"))
    assert (held or "").startswith("Not deleted yet")
    gone = call("memory", action="remove", target="memory", old_text=GOOD)
    assert await _one(veto, gone) is None
    await veto.results(AGENT, result(gone))
    assert _shown(seen) == []


async def test_a_removal_that_carries_operations_is_none(seen: Guarded) -> None:
    sly = call(
        "memory",
        action="remove",
        target="memory",
        old_text="x",
        operations=[{"action": "add", "content": STEERING}],
    )
    text = await _one(_veto(seen), sly)
    assert (text or "").startswith(observation_of_call(Reason.CALL_MALFORMED))


async def _held(seen: Guarded, veto: CallJudge) -> ModelCall:
    """A change of what nobody has seen waits for a person."""
    one = call("notebook", command="delete", path="/memories/old.md")
    assert (await _one(veto, one) or "").startswith("Not deleted yet")
    return one


async def test_what_waits_is_asked_about_once(seen: Guarded) -> None:
    veto = _veto(seen)
    one = await _held(seen, veto)
    # Another conversation of the same agent proposes it again: it is told that nothing more waits.
    again = await _one(veto, one) or ""
    assert ": the same deletion already waits for a person. " in again
    assert seen.store.reader.status().held_count == 1
    # Somebody else's same call is his own candidate, and he learns of nobody else's.
    third = msgspec.structs.replace(AGENT, principal_id=PrincipalId("agent-3"))
    assert ": the deletion waits for a person. " in (await _one(veto, one, principal=third) or "")
    assert seen.store.reader.status().held_count == 2


async def test_what_a_person_released_goes_on_once(seen: Guarded) -> None:
    veto = _veto(seen)
    await _held(seen, veto)
    (held,) = seen.store.reader.held(AGENT.tenant)
    await seen.store.writer.release(held.candidate_id, BY)
    one = call("notebook", command="delete", path="/memories/old.md")
    assert await _one(veto, one) is None
    await veto.results(AGENT, result(one))
    assert _waiting(seen) == []
    # The release is spent: the same call is judged anew.
    await _held(seen, veto)


async def test_what_a_person_denied_stays_denied(seen: Guarded) -> None:
    veto = _veto(seen)
    await _held(seen, veto)
    (held,) = seen.store.reader.held(AGENT.tenant)
    await seen.store.writer.deny(held.candidate_id, BY)
    text = await _one(veto, call("notebook", command="delete", path="/memories/old.md"))
    assert Reason.DENIED_BY_PERSON.value in (text or "")


async def test_without_a_catalogue_what_reads_as_a_memory_write_is_judged(seen: Guarded) -> None:
    later: dict[str, Json] = {"messages": [], "thread": {"type": "continue"}}
    lost = OfferedTools(tools_of(later), MAPS)
    (text,) = await _veto(seen).judge(AGENT, lost, (create(STEERING, name="whatever"),))
    assert (text or "").startswith("Not stored")


class _Coupled(UnsafeUncoupled):
    """Judges calls as the coupling of a model front does; `withheld` is refused of every call."""

    def __init__(self, judging: ReplyJudge, withheld: str | None = None) -> None:
        self._judging = judging
        self._refused = withheld

    async def prepare(self, asked: PrincipalRequest) -> PreparedRequest:
        await self._judging.results(asked)
        return await super().prepare(asked)

    async def judge(
        self, prepared: PreparedRequest, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        return await self._judging.judge(prepared, calls, lambda _: self._refused)


async def test_the_results_of_a_request_count_before_it_goes_on(seen: Guarded) -> None:
    veto, one = _veto(seen), create(GOOD)
    coupling = _Coupled(ReplyJudge(veto, UnmappedTools(), UnmappedTools(), set()))
    asked = PrincipalRequest(
        principal=AGENT, api=ANTHROPIC, body=offering(FILES), trace=TRACE, maps=MAPS
    )
    prepared = await coupling.prepare(asked)
    assert await coupling.judge(prepared, (one, create(STEERING))) != (None, None)
    assert len(_waiting(seen)) == 1
    await coupling.prepare(msgspec.structs.replace(asked, body=result(one)))
    assert _waiting(seen) == []


async def test_a_tool_that_speaks_of_memory_and_has_no_map_is_named_once(
    seen: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    unmapped = UnmappedTools()
    coupling = _Coupled(ReplyJudge(_veto(seen), unmapped, UnmappedTools(), set()))
    tool: Json = {"name": "save_memory", "input_schema": {"properties": {"note": {}}}}
    body = offering(tool, {"name": "Bash", "input_schema": {"properties": {}}}, FILES)
    asked = PrincipalRequest(principal=AGENT, api=ANTHROPIC, body=body, trace=TRACE, maps=MAPS)
    prepared = await coupling.prepare(asked)
    for _ in range(2):
        assert await coupling.judge(prepared, (call("save_memory", note=STEERING),)) == (None,)
    assert [vars(one)["fields"] for one in caplog.records] == [
        {"tool": "save_memory", "session": prepared.session}
    ]
    assert [one.arguments for one in unmapped.all()] == [("note",)]


PROGRAMS: Final[tuple[Json, ...]] = (
    {"name": "exec", "input_schema": {"properties": {"code": {}, "title": {}}}},
    {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]},
)


@pytest.mark.parametrize("tool", PROGRAMS)
async def test_a_tool_that_runs_programs_is_named_once_and_its_programs_are_not_parsed(
    seen: Guarded, caplog: pytest.LogCaptureFixture, tool: Json
) -> None:
    unmapped, programs = UnmappedTools(), UnmappedTools()
    coupling = _Coupled(ReplyJudge(_veto(seen), unmapped, programs, set()))
    shell: Json = {"name": "exec", "input_schema": {"properties": {"command": {}}}}
    for offered, count in ((shell, 0), (tool, 1), (tool, 1)):
        body = offering(offered)
        asked = PrincipalRequest(
            principal=AGENT, api=ANTHROPIC, body=body, trace=TRACE, maps=maps_of_models(None)
        )
        prepared = await coupling.prepare(asked)
        program = call("exec", code=f"write({{path: 'MEMORY.md', content: '{STEERING}'}})")
        assert await coupling.judge(prepared, (program,)) == (None,)
        assert len(caplog.records) == count, "control: a shell is none"
    assert [one.tool.rpartition("/")[2] for one in programs.all()] == ["exec"]
    assert unmapped.all() == ()


@pytest.mark.parametrize("action", ["create", "cancel"])
async def test_a_standing_order_waits_also_by_another_tool(seen: Guarded, action: str) -> None:
    args: dict[str, Json] = {"action": action, "id": "7", "description": STEERING}
    wrapped: dict[str, Json] = {"id": "openclaw:memory-core:intent", "args": args}
    for name, given in (("intent", args), ("tool_call", wrapped)):
        one = ModelCall(call_id=name, name=name, arguments=given)
        catalogue = OfferedTools((DeclaredTool(name=one.name),), maps_of_models(None))
        (text,) = await _veto(seen).judge(AGENT, catalogue, (one,))
        assert text is not None, one
    listed: Json = {"action": "list"}
    one = call("tool_call", id="intent", args=listed)
    catalogue = OfferedTools((DeclaredTool(name="tool_call"),), maps_of_models(None))
    assert await _veto(seen).judge(AGENT, catalogue, (one,)) == (None,), "control: a read"


async def test_a_person_s_key_whose_model_calls_tools_is_named_once(
    seen: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    named = set[PrincipalId]()
    coupling = _Coupled(ReplyJudge(_veto(seen), UnmappedTools(), UnmappedTools(), named))
    for who in (PERSON, AGENT, PERSON):
        asked = PrincipalRequest(
            principal=who, api=ANTHROPIC, body=offering(FILES), trace=TRACE, maps=MAPS
        )
        prepared = await coupling.prepare(asked)
        await coupling.judge(prepared, ())
        assert named == ({PERSON.principal_id} if len(caplog.records) else set()), "no call"
        await coupling.judge(prepared, (call("Bash", command="ls"),))
    assert named == {PERSON.principal_id}, "control: an agent's own key is not named"
    assert [vars(one)["fields"] for one in caplog.records] == [{"principal": PERSON.principal_id}]


async def test_what_is_admitted_here_and_refused_elsewhere_is_no_intent(seen: Guarded) -> None:
    coupling = _Coupled(
        ReplyJudge(_veto(seen), UnmappedTools(), UnmappedTools(), set()), "Withheld."
    )
    asked = PrincipalRequest(
        principal=AGENT, api=ANTHROPIC, body=offering(FILES), trace=TRACE, maps=MAPS
    )
    prepared = await coupling.prepare(asked)
    texts = await coupling.judge(prepared, (create(GOOD), create(STEERING), call("Bash", a="b")))
    assert texts[0] == "Withheld."
    assert (texts[1] or "").startswith("Not stored")
    assert (_waiting(seen), _shown(seen)) == ([], [])


def _server_tools(server: str) -> list[Json]:
    properties = {
        "create_entities": "entities",
        "add_observations": "observations",
        "read_graph": "_",
    }
    return [
        {"name": f"mcp__{server}__{name}", "input_schema": {"properties": {argument: {}}}}
        for name, argument in properties.items()
    ]


def _entity(server: str, text: str) -> ModelCall:
    entity: Json = {"name": "Ada", "entityType": "person", "observations": [text]}
    return call(f"mcp__{server}__create_entities", entities=[entity])


def _observation(server: str, text: str) -> ModelCall:
    observation: Json = {"entityName": "Ada", "contents": [text]}
    return call(f"mcp__{server}__add_observations", observations=[observation])


async def test_a_server_that_a_relay_serves_is_judged_here_under_the_relay_s_name(
    seen: Guarded,
) -> None:
    veto = _veto(seen)
    await seen.guard.pin(AGENT, "KB", ())
    text = await _one(veto, _entity("kb", STEERING), *_server_tools("kb"))
    assert (text or "").startswith("Not stored")
    assert await _one(veto, _entity("kb", GOOD), *_server_tools("kb")) is None
    # Control: the relay of another agent, and that of another server, do not judge these calls.
    one = _entity("kb", GOOD)
    assert await _one(veto, one, *_server_tools("kb"), principal=OTHER) is None
    assert await _one(veto, _observation("kb2", GOOD), *_server_tools("kb2")) is None
    targets = {one.candidate.target for one in seen.store.forwards.pending()}
    assert targets == {"mcp/KB", "mcp/model/server-memory"}


async def test_the_guard_is_told_which_call_it_is() -> None:
    guard = MemoryGuard()
    one = create(GOOD)
    assert await _one(CallJudge(guard), one) is None
    (judged,) = guard.judged
    assert (judged.server, judged.tool) == (FILES_AT, "memory")
    assert judged.join.tool_use_id == one.call_id
    assert [item.change for item in judged.items] == [ChangeKind.CREATE]


async def test_a_gate_that_cannot_answer_is_a_refusal() -> None:
    guard = MemoryGuard()
    guard.broken = True
    veto = CallJudge(guard)
    assert await _one(veto, create(GOOD)) == observation_of_call(Reason.GATE_UNAVAILABLE)


async def test_a_result_that_cannot_be_recorded_is_told_again() -> None:
    guard = MemoryGuard()
    veto, one = CallJudge(guard), create(GOOD)
    assert await _one(veto, one) is None
    guard.settle_broken = True
    await veto.results(AGENT, result(one))
    guard.settle_broken = False
    await veto.results(AGENT, result(one))
    assert len(guard.settled) == 1
    await veto.results(AGENT, result(one))
    assert len(guard.settled) == 1


async def test_a_verdict_is_a_child_of_the_model_request_that_asked_for_the_write() -> None:
    guard = MemoryGuard()
    coupling = _Coupled(ReplyJudge(CallJudge(guard), UnmappedTools(), UnmappedTools(), set()))
    asked = PrincipalRequest(
        principal=AGENT, api=ANTHROPIC, body=offering(FILES), trace=TRACE, maps=MAPS
    )
    await coupling.judge(await coupling.prepare(asked), (create(GOOD),))
    (judged,) = guard.judged
    assert judged.traceparent == format_traceparent(TRACE)


async def test_what_waited_in_vain_is_judged_anew(
    seen: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.write.held_queue.HELD_PER_PRINCIPAL_MAX", 1)
    veto = _veto(seen)
    first = await _held(seen, veto)
    another = call("notebook", command="delete", path="/memories/older.md")
    assert (await _one(veto, another) or "").startswith("Not deleted yet")
    # The first one was never denied, so it waits again instead of being refused for good.
    assert (await _one(veto, first) or "").startswith("Not deleted yet")
