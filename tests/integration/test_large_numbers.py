"""Integers of 64 bits and all finite doubles, written, read and filtered through each own API."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.integration.running import AGENT_KEY, Running, running

CLOCK_NS: Final = 1_764_381_234_567_890_123  # of time.time_ns()
SNOWFLAKE: Final = 1_328_112_384_000_000_001
NUMBERS: Final[tuple[float, ...]] = (
    *(CLOCK_NS, SNOWFLAKE, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 1 - 2**64),
    *(10**16, 1e16 + 2, 2.0**63 + 2048, 1e22, 1.7976931348623157e308, -1e300, 5e-324, 1.5, 1),
)
TOO_LARGE: Final = (
    b"18446744073709551616",
    b"-18446744073709551616",
    b"1e999",
    b"NaN",
    b"Infinity",
)

FITS: Final = {
    "eq": operator.eq,
    "in": operator.eq,
    "gte": operator.ge,
    "lte": operator.le,
}


async def ask(live: Running, method: str, path: str, body: object, **headers: str) -> Any:  # noqa: ANN401 - any JSON
    """Status and decoded body of a request whose body is bytes or a value."""
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    given = {"content-type": "application/json", **headers}
    async with live.client.request(method, live.url + path, data=raw, headers=given) as answer:
        return answer.status, msgspec.json.decode(await answer.read() or b"null")


def same(found: object, sent: float) -> bool:
    """Whether a number came back as it was sent, an integer as an integer."""
    return found == sent and (type(found) is type(sent) or abs(sent) < 2**53)


NATIVE: Final = {"authorization": f"Bearer {AGENT_KEY}"}
TOKEN: Final = {"authorization": f"Token {AGENT_KEY}"}
LANGGRAPH: Final = {"x-api-key": AGENT_KEY}


async def test_native_metadata_has_the_number_that_was_sent(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        for place, number in enumerate(NUMBERS):
            body = {"text": f"Order {place} was paid.", "metadata": {"at": [number]}}
            status, made = await ask(live, "POST", "/v1/memories", body, **NATIVE)
            assert status == 201, made
            _, read = await ask(live, "GET", f"/v1/memories/{made['id']}", b"", **NATIVE)
            assert same(read["metadata"]["at"][0], number), (read, number)
        for text in TOO_LARGE:
            raw = b'{"text":"One more order.","metadata":{"at":%s}}' % text
            status, refused = await ask(live, "POST", "/v1/memories", raw, **NATIVE)
            assert status == 422, (text, refused)
            assert any(word in refused["detail"] for word in ("2^64", "double", "NaN")), refused
        assert len(await live.texts(AGENT_KEY)) == len(NUMBERS)


async def test_mem0_filters_compare_large_numbers_as_numbers(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        for place, number in enumerate(NUMBERS):
            body = {
                "messages": f"Order {place} was paid.",
                "user_id": "ada",
                "infer": False,
                "metadata": {"at": number},
            }
            status, made = await ask(live, "POST", "/v1/memories/", body, **TOKEN)
            assert status == 200, made
        for number in NUMBERS:
            for compare in ("eq", "gte", "lte", "in"):
                value: object = [number] if compare == "in" else number
                filters = {"AND": [{"user_id": "ada"}, {"metadata": {"at": {compare: value}}}]}
                body = {"filters": filters, "page_size": 100}
                _, found = await ask(live, "POST", "/v2/memories/", body, **TOKEN)
                shown = [one["metadata"]["at"] for one in found["results"]]
                wanted = [one for one in NUMBERS if FITS[compare](one, number)]
                assert sorted(shown) == sorted(wanted), (compare, number)
                assert any(same(one, number) for one in shown)
        # A float and an integer of one value are one number, in a filter.
        filters = {"AND": [{"user_id": "ada"}, {"metadata": {"at": 1e16}}]}
        _, found = await ask(live, "POST", "/v2/memories/", {"filters": filters}, **TOKEN)
        assert [one["metadata"]["at"] for one in found["results"]] == [10**16]


async def test_langgraph_items_have_and_are_found_by_large_numbers(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        for place, number in enumerate(NUMBERS):
            item = {"namespace": ["orders"], "key": f"k{place}", "value": {"at": number}}
            status, answer = await ask(live, "PUT", "/store/items", item, **LANGGRAPH)
            assert status == 204, answer
            path = f"/store/items?namespace=orders&key=k{place}"
            _, read = await ask(live, "GET", path, b"", **LANGGRAPH)
            assert same(read["value"]["at"], number), read
        for number in NUMBERS:
            asked = {"namespace_prefix": ["orders"], "filter": {"at": number}, "limit": 50}
            _, found = await ask(live, "POST", "/store/items/search", asked, **LANGGRAPH)
            assert any(same(one["value"]["at"], number) for one in found["items"]), found
            assert len(found["items"]) == NUMBERS.count(number)
        for text in TOO_LARGE:
            raw = b'{"namespace":["orders"],"key":"no","value":{"at":%s}}' % text
            status, refused = await ask(live, "PUT", "/store/items", raw, **LANGGRAPH)
            assert status == 422, (text, refused)


@pytest.mark.parametrize("member", ["limit", "offset"])
async def test_a_large_number_where_a_small_one_belongs_is_refused_or_names_nothing(
    tmp_path: Path, member: str
) -> None:
    async with running(tmp_path) as live:
        item = {"namespace": ["orders"], "key": "k", "value": {"at": 1}}
        await ask(live, "PUT", "/store/items", item, **LANGGRAPH)
        for number in (2**63, 2**64 - 1, 1e300):
            for path in ("/store/items/search", "/store/namespaces"):
                asked = {member: number}
                status, _ = await ask(live, "POST", path, asked, **LANGGRAPH)
                assert status in {200, 422}, (path, number)
        ids = {"user_id": "ada", "page": 2**64 - 1}
        status, _ = await ask(live, "POST", "/v2/memories/", {"filters": ids}, **TOKEN)
        assert status == 422
        vector = {"text": "One.", "vector": [1e300, 1.0]}
        status, _ = await ask(live, "POST", "/v1/memories", vector, **NATIVE)
        assert status == 422
