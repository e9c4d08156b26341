"""Mem0's API: any id that an add took names its memories in every route; and expired memories."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Running, running
from tests.integration.test_large_numbers import NATIVE, TOKEN, ask

BEARER: Final = NATIVE
IDS: Final = (
    *("a/b", "/leading", "trailing/", "a//b", "a/../b", "../v1/memories", "50%", "%2F", "a%2Fb"),
    *("what?", "a#b", "a&b=c", "Zoë 日本", "a b", "C:\\ada", "a;b", "user/ada", "...", "a+b"),
)
PAST: Final = "2020-01-31"
FACT: Final = "Ada's trial ended in January."


def part(name: str) -> str:
    """An id as `mem0ai` spells it in a path."""
    return quote(name, safe="")


async def added(live: Running, user: str, text: str = FACT, **more: object) -> str:
    body = {"messages": text, "user_id": user, "infer": False, **more}
    status, made = await ask(live, "POST", "/v1/memories/", body, **TOKEN)
    assert status == 200, made
    return str(made["results"][0]["id"])


async def listed(live: Running, user: str, **more: object) -> list[str]:
    body = {"filters": {"user_id": user}, **more}
    status, found = await ask(live, "POST", "/v2/memories/", body, **TOKEN)
    assert status == 200, found
    return [one["id"] for one in found["results"]]


@pytest.mark.parametrize("route", ["/v2/entities/user/{}/", "/mem0/entities/user/{}"])
async def test_an_id_that_was_taken_can_be_named_in_a_path(tmp_path: Path, route: str) -> None:
    headers = TOKEN if route.startswith("/v2") else BEARER
    async with running(tmp_path) as live:
        for user in IDS:
            await added(live, user, f"What {user} likes is tea.")
        for number, user in enumerate(IDS, start=1):
            assert len(await listed(live, user)) == 1
            path = route.format(part(user))
            status, answer = await ask(live, "DELETE", path, b"", **headers)
            assert status == 200, (user, answer)
            assert await listed(live, user) == [], user
            # The control: the path named this id and no other.
            assert len(await live.texts(AGENT_KEY)) == len(IDS) - number
        for user in (".", ".."):
            body = {"messages": FACT, "user_id": user}
            status, refused = await ask(live, "POST", "/v1/memories/", body, **TOKEN)
            assert status == 422, refused


async def test_an_encoded_separator_reaches_no_other_route(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        memory_id = await added(live, "ada")
        for method, path, headers in (
            ("DELETE", f"/v1/memories%2F{memory_id}/", TOKEN),
            ("DELETE", f"/v1%2Fmemories/{memory_id}/", TOKEN),
            ("DELETE", f"/v1/memories/x%2F..%2F{memory_id}/", TOKEN),
            ("DELETE", "/v2/entities%2Fuser/ada/", TOKEN),
            ("DELETE", "/v2/entities/user%2Fada/", TOKEN),
            ("DELETE", "/v2/entities/user/ada%2F/", TOKEN),
            ("DELETE", "/v2/entities/user/x%2F..%2Fada/", TOKEN),
            ("DELETE", f"/v1/memories%2f{memory_id}", BEARER),
            ("DELETE", f"/v1%5Cmemories%5C{memory_id}", BEARER),
            ("DELETE", "/mem0%2Fentities/user/ada", BEARER),
            ("POST", "/v1%2Fmemories", BEARER),
            ("GET", f"/v1/memories%2F{memory_id}", BEARER),
        ):
            status, answer = await ask(live, method, path, b"", **headers)
            assert status in {200, 400, 403, 404, 405, 422}, (path, answer)
            assert FACT not in str(answer)
            assert await listed(live, "ada") == [memory_id], path
        # The control: unencoded, the same words are the route.
        status, _ = await ask(live, "DELETE", "/v2/entities/user/ada/", b"", **TOKEN)
        assert status == 200
        assert await listed(live, "ada") == []


async def test_an_operator_names_a_principal_with_a_slash(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        key = await live.key(
            "team/agent",
        )
        assert (await live.write(key, {"text": FACT}))[0] == 201
        url = f"{live.admin_url}/api/v1/trust/{part('team/agent')}"
        headers = {"authorization": f"Bearer {OPERATOR_KEY}"}
        async with live.client.get(url, headers=headers) as answer:
            assert answer.status == 200, await answer.text()


async def test_an_expired_memory_is_read_by_its_id_shown_on_request_and_brought_back(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as live:
        gone = await added(live, "ada", expiration_date=PAST)
        kept = await added(live, "ada", "Ada lives in Lisbon.")
        assert await listed(live, "ada") == [kept]
        assert sorted(await listed(live, "ada", show_expired=True)) == sorted([gone, kept])
        for path, headers in ((f"/v1/memories/{gone}/", TOKEN), (f"/memories/{gone}", BEARER)):
            status, found = await ask(live, "GET", path, b"", **headers)
            assert (status, found["memory"], found["expiration_date"]) == (200, FACT, PAST)
        path = "/memories?user_id=ada&show_expired=true"
        _, found = await ask(live, "GET", path, b"", **BEARER)
        assert len(found["results"]) == 2
        for shows, count in ((True, 2), (False, 1)):
            search = {"query": "Ada", "filters": {"user_id": "ada"}, "show_expired": shows}
            _, found = await ask(live, "POST", "/v3/memories/search/", search, **TOKEN)
            assert len(found["results"]) == count
        # The control: on the native front an expired memory does not exist.
        assert (await ask(live, "GET", f"/v1/memories/{gone}", b"", **NATIVE))[0] == 404
        for method, body in (("PUT", {"text": "It lives."}), ("DELETE", b"")):
            status, _ = await ask(live, method, f"/v1/memories/{gone}", body, **NATIVE)
            assert status == 404
        # With a nonce the gate itself answers, and in the same way.
        body = {"text": "It lives.", "nonce": "n1"}
        status, answer = await ask(live, "PUT", f"/v1/memories/{gone}", body, **NATIVE)
        assert (status, answer["reason"]) == (404, "target_missing"), answer
        status, answer = await ask(
            live, "PUT", f"/v1/memories/{gone}/", {"expiration_date": None}, **TOKEN
        )
        assert status == 200, answer
        assert sorted(await listed(live, "ada")) == sorted([gone, kept])
        assert (await ask(live, "GET", f"/v1/memories/{gone}", b"", **NATIVE))[0] == 200


async def test_expired_memories_of_an_id_are_deleted_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        one = await added(live, "ada", expiration_date=PAST)
        two = await added(live, "ada", "Ada keeps bees.", expiration_date=PAST)
        assert (await ask(live, "DELETE", f"/v1/memories/{one}/", b"", **TOKEN))[0] == 200
        assert await listed(live, "ada", show_expired=True) == [two]
        assert (await ask(live, "DELETE", "/v2/entities/user/ada/", b"", **TOKEN))[0] == 200
        assert await listed(live, "ada", show_expired=True) == []
