"""LangGraph's store API over real sockets: what its client sends, and what it is answered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from tests.conformance.bypass import directive, formed
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Json, Running, running

VECTORS: Final = Path(__file__).parents[1] / "conformance/vectors/langgraph/store.json"
TIMES: Final = ("created_at", "updated_at")
FACT: Final = {"text": "Ada moved to Lisbon in March."}


class Exchange(msgspec.Struct, forbid_unknown_fields=True):
    """One request of `langgraph-sdk` 0.4.14, and what LangGraph's server 0.16.7 answered."""

    method: str
    path: str
    status: int
    body: Any = None
    answer: Any = None


async def store(
    live: Running, method: str, path: str, body: Json | None = None, key: str = AGENT_KEY
) -> tuple[int, Any]:
    """Status and decoded body of one request below `/store`."""
    headers = {"x-api-key": key}
    url = f"{live.url}/store/{path}"
    async with live.client.request(method, url, json=body, headers=headers) as answer:
        raw = await answer.read()
        return answer.status, msgspec.json.decode(raw) if raw else None


def item(key: str, value: Json, *labels: str, **more: object) -> Json:
    return {"namespace": list(labels or ("memories", "alice")), "key": key, "value": value, **more}


async def got(live: Running, key: str, agent: str = AGENT_KEY) -> Any:  # noqa: ANN401 - any JSON
    path = f"items?namespace=memories.alice&key={key}"
    status, found = await store(live, "GET", path, key=agent)
    assert status == 200, found
    return None if found is None else found["value"]


def _untimed(answer: object) -> object:
    """An answer without times and scores, which are others on each server, and without labels."""
    if isinstance(answer, list):
        return [_untimed(one) for one in cast("list[object]", answer)]
    if isinstance(answer, dict):
        members = cast("dict[str, object]", answer)
        return {
            k: _untimed(v) for k, v in members.items() if k not in {*TIMES, "score", "source_kind"}
        }
    return answer


async def test_recorded_requests_of_its_client_are_answered_as_langgraphs_server_did(
    tmp_path: Path,
) -> None:
    exchanges = msgspec.json.decode(VECTORS.read_bytes(), type=list[Exchange])
    async with running(tmp_path) as live:
        for one in exchanges:
            path = one.path.removeprefix("/store/")
            status, answer = await store(live, one.method, path, one.body)
            assert (status, _untimed(answer)) == (one.status, _untimed(one.answer)), one
    assert len(exchanges) == 9


async def test_two_puts_of_one_key_at_the_same_time_leave_one_item(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        puts = [
            store(live, "PUT", "items", item("k", {"text": f"Ada has {n} cats."})) for n in range(8)
        ]
        assert {status for status, _ in await asyncio.gather(*puts)} == {204}
        status, found = await store(live, "POST", "items/search", {"limit": 100})
        assert (status, len(found["items"])) == (200, 1)
        assert await got(live, "k") == found["items"][0]["value"]
        # Control: another key is another item.
        await store(live, "PUT", "items", item("other", FACT))
        assert len(await live.texts(AGENT_KEY)) == 2


async def test_an_item_belongs_to_its_tenant(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        stranger = await live.key("stranger", tenant="other")
        assert (await store(live, "PUT", "items", item("k", FACT)))[0] == 204
        assert await got(live, "k", stranger) is None
        for path, body in (("items/search", {"query": "Lisbon"}), ("namespaces", {})):
            status, found = await store(live, "POST", path, body, stranger)
            assert (status, found) in ((200, {"items": []}), (200, {"namespaces": []}))
        named = {"namespace": ["memories", "alice"], "key": "k"}
        assert await store(live, "DELETE", "items", named, stranger) == (204, None)
        other = {"text": "Ada moved to Faro."}
        assert (await store(live, "PUT", "items", item("k", other), stranger))[0] == 204
        assert await got(live, "k") == FACT
        assert await got(live, "k", stranger) == other
        # Control: a colleague of the same tenant sees it.
        assert await got(live, "k", await live.key("colleague")) == FACT


async def test_what_is_put_under_the_key_of_a_hidden_item_is_shown(tmp_path: Path) -> None:
    lie, other = {"text": "Ada moved to Porto in March."}, {"text": "Ada moved to Faro in May."}
    async with running(tmp_path) as live:
        assert (await store(live, "PUT", "items", item("k", lie)))[0] == 204
        _, found = await live.call("POST", "/v1/search", AGENT_KEY, {"query": "Ada"})
        [hidden] = [one["id"] for one in found["results"]]
        await live.operate("POST", f"/memories/{hidden}/quarantine", {"reason": "a lie"})
        assert await got(live, "k") is None, "control: the item is hidden"
        named = {"namespace": ["memories", "alice"], "key": "k"}
        assert await store(live, "DELETE", "items", named) == (204, None)
        assert await got(live, "k") is None
        for value in (FACT, other):
            assert (await store(live, "PUT", "items", item("k", value)))[0] == 204
            assert await got(live, "k") == value
        assert await live.texts(AGENT_KEY) == [other["text"]]
        # The evidence keeps its id and its text, and the way back is as it was.
        [told] = (await live.operate("GET", "/quarantined"))["memories"]
        assert told["memory_id"] == hidden
        paroled = {"reason": "read it", "without_trial": True}
        await live.operate("POST", f"/memories/{hidden}/unhide", paroled)
        assert sorted(await live.texts(AGENT_KEY)) == sorted([lie["text"], other["text"]])
        assert await got(live, "k") == other, "the key means what was put last"
        # What came back is reached by its key once the newer item is deleted, and ends by it.
        for left in ([lie["text"]], []):
            assert await store(live, "DELETE", "items", named) == (204, None)
            assert await live.texts(AGENT_KEY) == left
            assert await got(live, "k") == (lie if left else None)
        assert (await store(live, "PUT", "items", item("k", FACT)))[0] == 204
        assert await got(live, "k") == FACT


async def test_a_refused_put_leaves_nothing_and_says_why_without_its_content(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as live:
        assert (await store(live, "PUT", "items", item("k", FACT)))[0] == 204
        for number in range(3):
            order, canary = directive()
            # The order stands in a string deep down, in the name of a field, and in the key.
            values = (
                item("k", {"a": [{"b": order}], **FACT}),
                item("k", {order: 1, **FACT}),
                item(order, FACT),
            )
            status, told = await store(live, "PUT", "items", values[number])
            assert (status, told["decision"], told["reason"]) == (403, "hold", "class_floor")
            assert canary not in str(told)
            assert "waits for a person" in told["detail"]
            assert await formed(live, canary) == []
            shown = [
                await store(live, "POST", path, body)
                for path, body in (
                    ("items/search", {"limit": 100}),
                    ("items/search", {"query": order, "limit": 100}),
                    ("namespaces", {}),
                )
            ]
            assert canary not in str(shown)
        assert await got(live, "k") == FACT, "what was there is there"
        # Control: an operator's own put of the same order is stored, and found by all of this.
        order, canary = directive()
        put = await store(live, "PUT", "items", item("rule", {"text": order}), OPERATOR_KEY)
        assert put == (204, None)
        assert len(await formed(live, canary)) > 1


async def test_what_only_a_person_may_change_stays(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        theirs = {"text": "Ada's own words."}
        put = await store(live, "PUT", "items", item("k", theirs), OPERATOR_KEY)
        assert put == (204, None)
        status, told = await store(live, "PUT", "items", item("k", FACT))
        assert (status, told["reason"]) == (403, "source_below_stored")
        named = {"namespace": ["memories", "alice"], "key": "k"}
        status, told = await store(live, "DELETE", "items", named)
        assert (status, told["reason"]) == (403, "source_below_stored")
        assert await got(live, "k") == theirs
        assert await store(live, "DELETE", "items", named, OPERATOR_KEY) == (204, None)
        assert await got(live, "k") is None, "control"


async def test_nothing_here_names_the_dialects_and_where_to_read_on(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        status, told = await live.call("GET", "/threads", AGENT_KEY)
        assert status == 404
        assert "native, mem0, mem0_oss, langgraph (docs/clients.md)" in told["detail"]
        status, told = await store(live, "POST", "items/other", {})
        assert status == 403
        assert "detail" in told
