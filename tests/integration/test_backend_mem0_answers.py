"""What Mem0's server answers, and what of it counts: late writes, old texts, ids, odd memories."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from policy.model import Tenant
from proxy.backends.mem0_server.requests import LISTED_MAX, MARK
from proxy.compose.app import Composition
from proxy.fronts.backend_writes import TEND_S
from tests.integration.memory_servers.recorder import Fault
from tests.integration.operator_line import Line, line
from tests.integration.running import AGENT_KEY, OPERATOR_KEY
from tests.integration.test_backend_mem0 import GOOD, MORE, Gate, gated
from tests.integration.test_backend_purge import given_up
from tests.integration.test_cli_backend import counts
from tests.integration.turns import Clock, Turns
from tests.unit.proxy.backends.mem0_server.sample import ADAPTER, answer, memory
from tests.unit.proxy.guarded import STEERING

LATER = f"{GOOD}, at four"


async def check(gate: Gate) -> Line:
    return await line(gate.sidecar, "backend", "check", "mem0", "--json")


async def adopt(gate: Gate, *more: str) -> Line:
    return await line(gate.sidecar, "backend", "adopt", "mem0", "--json", *more)


async def added(gate: Gate, text: str, key: str = AGENT_KEY) -> str:
    """A new memory; the id that the server gave it."""
    status, said = await gate.add(text, key=key)
    assert status == 200, said
    memory_id: str = said["results"][0]["id"]
    return memory_id


async def test_nobody_adopts_the_late_write_of_another_tenant(tmp_path: Path) -> None:
    turns, clock = Turns(), Clock()
    async with gated(tmp_path, composition=Composition(wait=turns, clock_ns=clock)) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        gate.server.fault = Fault.NOT_DONE
        assert (await gate.add(GOOD, key=other))[0] == 502
        mark = json.loads(gate.server.writes[-1].body)["metadata"][MARK]
        gate.server.put(GOOD, metadata={MARK: mark})
        # While nobody knows what became of it, it is on its way.
        assert counts(await check(gate)) == {"unsettled": 1}
        gate.server.memories.clear()
        await given_up(turns, clock)
        assert gate.unsettled() == []
        late = gate.server.put(GOOD, metadata={MARK: mark})
        before = gate.server.put(MORE)
        done = await check(gate)
        assert counts(done) == {"hidden": 1, "foreign": 1}
        assert [one["key"] for one in done.data["differences"]] == [before]
        # Control: what has no mark is taken in.
        taken = (await adopt(gate)).data
        assert (taken["states"], taken["marked"], taken["known"]) == ({"unknown": 1}, 1, 0)
        said = await line(gate.sidecar, "backend", "adopt", "mem0")
        assert "1 more are not taken in: a gate sent it for one tenant" in said.out
        for key in (AGENT_KEY, other):
            assert GOOD not in await gate.texts(key)
            assert (await gate.ask("GET", f"/memories/{late}", key=key))[1] is None


async def test_the_operators_api_takes_in_nothing_that_bears_the_mark(tmp_path: Path) -> None:
    async with gated(tmp_path) as gate:
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        first = ADAPTER.listing(Tenant("default"))
        for mark, expected in (({MARK: "5" * 32}, 422), ({}, 200)):
            stands = answer({"results": [memory(text=GOOD, metadata=mark)]})
            (one,) = ADAPTER.listed(first, stands).memories
            items = [msgspec.to_builtins(one.item)]
            body = {"tenant": "default", "tool": "adopt", "items": items}
            async with gate.sidecar.client.post(
                f"{gate.sidecar.admin_url}/api/v1/backends/mem0/adopt", json=body, headers=headers
            ) as response:
                assert response.status == expected
                assert ("bears the gate's mark" in await response.text()) is bool(mark)


async def test_a_history_tells_only_what_is_let_in_and_live(tmp_path: Path) -> None:
    async with gated(tmp_path) as gate:
        memory_id = await added(gate, GOOD)
        place = f"/memories/{memory_id}"
        assert (await gate.ask("PUT", place, {"text": LATER}))[0] == 200
        # Control: both are live.
        told = (await gate.ask("GET", f"{place}/history"))[1]
        assert [(one["old_memory"], one["new_memory"]) for one in told] == [
            (None, GOOD),
            (GOOD, LATER),
        ]
        found = (await gate.operate("GET", "/memories"))["memories"]
        (first,) = (one["memory_id"] for one in found if one["text"] == GOOD)
        await gate.operate("POST", f"/memories/{first}/purge", {})
        assert (await gate.ask("GET", f"{place}/history"))[1] == []
        assert (await gate.ask("GET", place))[1]["memory"] == LATER


async def test_a_history_tells_nothing_that_a_memory_was_before_it_was_taken_in(
    tmp_path: Path,
) -> None:
    async with gated(tmp_path) as gate:
        memory_id = gate.server.put(STEERING)
        gate.server.change(memory_id, GOOD)
        place = f"/memories/{memory_id}"
        assert (await adopt(gate)).data["states"] == {"unknown": 1}
        assert (await gate.ask("GET", place))[1]["memory"] == GOOD
        assert (await gate.ask("PUT", place, {"text": LATER}))[0] == 200
        told = (await gate.ask("GET", f"{place}/history"))[1]
        assert [(one["old_memory"], one["new_memory"]) for one in told] == [(GOOD, LATER)]


async def test_a_deletion_by_a_users_id_is_refused_where_the_server_may_have_more(
    tmp_path: Path,
) -> None:
    async with gated(tmp_path) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        # The other tenant's takes a place in the list, and is hidden.
        await added(gate, MORE, other)
        own = await added(gate, GOOD)
        for number in range(LISTED_MAX - 2):
            gate.server.put(f"{GOOD} {number}", metadata={MARK: "5" * 32})
        status, said, _ = await gate.ask("DELETE", "/memories?user_id=bob")
        assert (status, "none was deleted" in said["detail"]) == (413, True)
        assert own in gate.server.memories
        # Control: one less, and the server has listed all of them.
        gate.server.memories.popitem()
        status, said, _ = await gate.ask("DELETE", "/memories?user_id=bob")
        assert (status, said) == (200, {"message": "All relevant memories deleted"})
        assert own not in gate.server.memories


async def test_an_answer_with_the_id_of_another_memory_files_nothing_under_it(
    tmp_path: Path,
) -> None:
    turns = Turns()
    async with gated(tmp_path, composition=Composition(wait=turns)) as gate:
        other = await gate.sidecar.key("other", tenant="other")
        theirs = await added(gate, GOOD)
        place = f"/memories/{theirs}"

        def forged(told: Any) -> object:  # noqa: ANN401 - an answer of any form
            if isinstance(told, dict) and told.get("results", [{}])[0].get("event"):
                return {"results": [{**told["results"][0], "id": theirs}]}
            return told

        gate.server.said_instead = forged
        status, said = await gate.add(MORE, key=other)
        assert (status, "looked up" in said["detail"]) == (502, True)
        assert gate.unsettled() == ["create"]
        assert (await gate.ask("GET", place, key=other))[1] is None
        assert (await gate.ask("PUT", place, {"text": "mine"}, other))[0] == 404
        assert (await gate.ask("GET", place))[1]["memory"] == GOOD
        # The look-up finds it by the mark, under the id that the server really gave it.
        await turns.turn(TEND_S)
        assert gate.unsettled() == []
        assert await gate.texts(other) == [MORE]
        assert await gate.texts() == [GOOD]


@pytest.mark.parametrize("odd", ["x" * 5_000, "x" * 36, "a\x1bb", "", 7, None, ["x"]])
async def test_one_odd_memory_is_withheld_and_counted_and_the_others_are_shown(
    tmp_path: Path, odd: object
) -> None:
    async with gated(tmp_path, more='tenant = "default"\n') as gate:
        memory_id = await added(gate, GOOD)
        gate.server.put("odd words")
        (last,) = [one for one in gate.server.memories.values() if one["memory"] == "odd words"]
        # Control: with an id of the server's own it is shown.
        assert await gate.texts() == [GOOD, "odd words"]
        last["id"] = odd
        assert await gate.texts() == [GOOD]
        for target in ("/memories?user_id=bob", "/memories"):
            status, said, _ = await gate.ask("GET", target)
            assert (status, [one["id"] for one in said["results"]]) == (200, [memory_id])
        (user,) = (await gate.ask("GET", "/entities"))[1]
        assert user["total_memories"] == 1
        done = await check(gate)
        assert (done.code, counts(done)) == (1, {"same": 1, "foreign": 1})
        assert [one["adoptable"] for one in done.data["differences"]] == [False]
        taken = (await adopt(gate)).data
        assert (taken["states"], taken["unreadable"], taken["known"]) == ({}, 1, 1)
        assert (await gate.ask("DELETE", "/memories?user_id=bob"))[0] == 200
        assert gate.server.texts() == ["odd words"]


async def test_nothing_that_nobody_has_read_goes_on(tmp_path: Path) -> None:
    def with_more(told: Any) -> object:  # noqa: ANN401 - an answer of any form
        more = isinstance(told, dict) and ("results" in told or "message" in told)
        return {**told, "relations": [STEERING]} if more else told

    async with gated(tmp_path) as gate:
        memory_id = await added(gate, GOOD)
        gate.server.said_instead = with_more
        message = {"role": "user", "content": MORE}
        asks: list[tuple[str, str, object]] = [
            ("POST", "/memories", {"messages": [message], "user_id": "bob", "infer": False}),
            ("POST", "/search", {"query": "review", "filters": {"user_id": "bob"}}),
            ("GET", "/memories?user_id=bob", None),
            ("PUT", f"/memories/{memory_id}", {"text": LATER}),
            ("DELETE", f"/memories/{memory_id}", None),
        ]
        for ask in asks:
            status, said, _ = await gate.ask(*ask)
            assert (status, "relations" in said, STEERING in str(said)) == (200, False, False), ask


async def test_words_of_any_member_are_judged_when_a_memory_is_taken_in(tmp_path: Path) -> None:
    async with gated(tmp_path, composition=Composition(wait=Turns())) as gate:
        gate.server.put(GOOD, actor_id="Ada, who keeps the bees")
        gate.server.put(MORE, actor_id=STEERING)
        assert await gate.texts() == [GOOD, MORE], "control: both stood there before the gate"
        states = json.loads((await adopt(gate)).out)["states"]
        assert states.pop("unknown") == states.popitem()[1] == 1
        # What was taken in says what was judged, so it is shown; an order beside a text is not.
        assert await gate.texts() == [GOOD]
        assert counts(await check(gate)).pop("same") == 1
