"""Ways around the gate at `/mcp/<server>`, and servers behind that do not behave."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from proxy.mcp.http.hub import HubLimits
from tests.integration.http_bench import LIMITS
from tests.integration.mcp_bench import (
    KEYS,
    META,
    Answer,
    McpBench,
    bench,
    call,
    modern,
    notification,
    request,
    stateless_head,
    until,
)
from tests.integration.mcp_server import Server, result, serving

GOOD = modern(call(1, "remember", region="eu"))


@pytest.mark.parametrize(
    "changed",
    [
        {"Mcp-Name": "recall"},
        {"Mcp-Method": "tools/list"},
        {"MCP-Protocol-Version": "2025-11-25"},
        {"MCP-Protocol-Version": "2027-01-01"},
        {"Mcp-Param-Region": "us"},
    ],
)
async def test_a_head_that_contradicts_its_body_goes_nowhere(changed: dict[str, str]) -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        answer = await front.stateless(GOOD, **changed)
        assert answer.status == 400
        assert answer.messages[0]["error"]["code"] == -32020
        assert answer.messages[0]["id"] == 1
        assert server.bodies == []
        assert (await front.stateless(GOOD, **{"Mcp-Param-Region": "eu"})).status == 200, "control"
        assert server.requests[0].headers["Mcp-Param-Region"] == "eu"


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps([call(1, "echo")]).encode(),
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","result":{}}',
        b"",
    ],
)
async def test_what_two_readers_read_differently_goes_nowhere(raw: bytes) -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        session = await front.initialize()
        count = len(server.bodies)
        answer = await front.post(raw, mcp_session_id=session)
        assert answer.status == 400
        assert answer.messages[0]["error"]["code"] in (-32600, -32700)
        assert len(server.bodies) == count


async def test_a_session_is_its_principals_and_for_others_not_there() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        session = await front.initialize("ada")
        count = len(server.requests)
        answers = [
            await front.post(call(1, "echo"), "bob", mcp_session_id=session),
            await front.send("GET", front.headers("bob", mcp_session_id=session)),
            await front.send("DELETE", front.headers("bob", mcp_session_id=session)),
        ]
        invented = await front.post(call(1, "echo"), "bob", mcp_session_id="nobodys")
        assert [answer.status for answer in answers] == [404, 404, 404]
        assert answers[0].body == invented.body
        assert len(server.requests) == count
        mine = await front.post(call(1, "echo"), "ada", mcp_session_id=session)
        assert mine.status == 200, "control"


async def test_a_server_that_names_one_session_for_two_principals_gets_one() -> None:
    server = Server()

    async def same(_request: web.Request, body: dict[str, Any]) -> web.StreamResponse | None:
        if body.get("method") != "initialize":
            return None
        return web.json_response(result(body["id"]), headers={"Mcp-Session-Id": "the-one"})

    server.script = same
    async with serving(server), bench(server.url) as front:
        ada = await front.post(request(0, "initialize"), "ada")
        assert ada.headers["mcp-session-id"] == "the-one"
        bob = await front.post(request(0, "initialize"), "bob")
        assert "mcp-session-id" not in bob.headers
        assert "error" in bob.messages[0]
        assert (await front.post(call(1, "echo"), "bob", mcp_session_id="the-one")).status == 404


async def test_nobody_without_a_key_a_name_or_the_right_page_is_served() -> None:
    allowed = frozenset({"ada"})
    async with serving(Server()) as server, bench(server.url, principals=allowed) as front:
        body = request(0, "initialize")
        assert (await front.post(body, None)).status == 401
        assert (await front.post(body, None, authorization="Bearer mg_wrong")).status == 401
        assert (await front.post(body, None, x_api_key="wrong")).status == 401
        assert (await front.post(body, "bob")).status == 404
        assert (await front.post(body, origin="http://evil.example")).status == 403
        assert (await front.post(body, host="evil.example")).status == 421
        assert (await front.send("POST", front.headers(), body, "/mcp/other")).status == 404
        assert (await front.send("POST", front.headers(), body, "/mcp/small/x")).status == 404
        assert (await front.send("POST", front.headers(), body, "/mcp/small?a=b")).status == 400
        assert (await front.send("PUT", front.headers(), body)).status == 405
        assert (await front.post(b"x" * (LIMITS.body_bytes_max + 1))).status == 413
        assert (await front.post(body, content_type="text/plain")).status == 415
        assert server.requests == []
        assert (await front.post(body)).status == 200, "control"


async def test_the_newer_era_has_one_method() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        session = await front.initialize()
        count = len(server.requests)
        for method in ("GET", "DELETE"):
            headers = front.headers(mcp_session_id=session, mcp_protocol_version="2026-07-28")
            answer = await front.send(method, headers)
            assert (answer.status, answer.headers["allow"]) == (405, "POST")
        told = notification("notifications/cancelled", requestId=1)
        headers = front.headers(mcp_protocol_version="2026-07-28")
        assert (await front.send("POST", headers, told)).status == 202
        assert len(server.requests) == count


async def test_our_key_ends_here_and_another_credential_passes() -> None:
    injected = (("X-Upstream-Key", "only-ours"),)
    async with serving(Server()) as server, bench(server.url, headers=injected) as front:
        await front.stateless(GOOD)
        await front.stateless(GOOD, **{"X-Api-Key": KEYS["ada"]})
        await front.stateless(
            GOOD,
            **{
                "X-Api-Key": KEYS["ada"],
                "Authorization": "Bearer oauth-token",
                "X-Upstream-Key": "theirs",
                "Cookie": "a=b",
            },
        )
        for one in server.requests:
            assert KEYS["ada"] not in str(one.headers)
            assert one.headers["X-Upstream-Key"] == "only-ours"
            assert "Cookie" not in one.headers
        sent = [one.headers.get("Authorization") for one in server.requests]
        assert sent == [None, None, "Bearer oauth-token"]


async def test_a_refusal_for_a_credential_of_the_server_reaches_the_client() -> None:
    server = Server()

    async def refuse(_request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
        wants = 'Bearer resource_metadata="https://x/"'
        return web.Response(status=401, headers={"WWW-Authenticate": wants}, text="secret")

    server.script = refuse
    async with serving(server), bench(server.url) as front:
        answer = await front.stateless(GOOD)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer resource_metadata")
        assert b"secret" not in answer.body


@pytest.mark.parametrize("status", [200, 400])
async def test_headers_of_the_server_are_no_way_to_read(status: int) -> None:
    server = Server()

    async def tell(_request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        said = {
            "X-Memory": "a quiet secret",
            "Link": "<memory:a quiet secret>",
            "WWW-Authenticate": 'Bearer error="a quiet secret"',
            "Retry-After": "a quiet secret",
            "MCP-Protocol-Version": "a quiet secret",
            "Mcp-Session-Id": "aquietsecret",
        }
        return web.json_response(result(body["id"]), headers=said, status=status)

    server.script = tell
    async with serving(server), bench(server.url, remembers=True) as front:
        front.guard.withheld.add("quiet secret")
        answer = await front.stateless(modern(request(1, "resources/list")))
        assert answer.status == status
        assert "quiet" not in str(answer.headers)


async def test_when_to_come_back_is_passed_on() -> None:
    server = Server()

    async def later(_request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
        return web.Response(status=429, headers={"Retry-After": "7"})

    server.script = later
    async with serving(server), bench(server.url) as front:
        answer = await front.stateless(GOOD)
        assert (answer.status, answer.headers["retry-after"]) == (429, "7")


async def _redirect(_request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
    raise web.HTTPTemporaryRedirect("/elsewhere")


async def _never(_request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


async def _failed(_request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(status=500, text="Traceback: the secret")


async def _bomb(_request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
    packed = gzip.compress(b" " * 50_000_000 + b"{}")
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    return web.Response(body=packed, headers=headers)


async def _huge(_request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response(result(body["id"], text="x" * 2_000_000))


async def _batch(_request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response([result(body["id"], secret=1)])


async def _other_id(_request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response(result("another", secret=1))


async def _page(_request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text="<p>secret", content_type="text/html")


async def _accepted(_request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(status=202)


def _stream(*pieces: bytes) -> Callable[..., Awaitable[web.StreamResponse]]:
    async def streamed(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        if request.transport is not None:
            request.transport.abort()
        return response

    return streamed


BROKEN: dict[str, Callable[..., Awaitable[web.StreamResponse]]] = {
    "redirect": _redirect,
    "never": _never,
    "failed": _failed,
    "bomb": _bomb,
    "huge": _huge,
    "batch": _batch,
    "other id": _other_id,
    "page": _page,
    "accepted": _accepted,
    "dies before an event": _stream(),
    "dies in an event": _stream(b'data: {"jsonrpc":"2.0","id":1,"resul'),
    "ends an event with a comment": _stream(b": ping\n\n"),
    "no text": _stream(b"event: \xff\n\n"),
    "another name": _stream(b'event: secret\ndata: {"secret":1}\n\n'),
    "result without its end": _stream(b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n'),
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("stateless", [True, False])
async def test_whatever_the_server_does_its_client_gets_one_honest_answer(
    how: str,
    stateless: bool,  # noqa: FBT001 - both eras
) -> None:
    server = Server()
    async with serving(server), bench(server.url) as front:
        session = "" if stateless else await front.initialize()
        server.script = BROKEN[how]
        answer = await _asked(front, session)
        assert answer.status == 200
        (message,) = answer.messages
        assert message["id"] == 1
        assert message["error"]["code"] in (-32000, -32600)
        assert b"secret" not in answer.body
        server.script = None
        again = await _asked(front, session)
        assert "result" in again.messages[0], "control: the next call is as good as ever"


async def _asked(front: McpBench, session: str) -> Answer:
    if not session:
        return await front.stateless(GOOD)
    return await front.post(call(1, "echo"), mcp_session_id=session)


async def test_a_second_result_and_one_for_nobody_are_dropped() -> None:
    server = Server()
    twice = b'data: {"jsonrpc":"2.0","id":1,"result":{"n":%d}}\n\n'
    stray = b'data: {"jsonrpc":"2.0","id":9,"result":{"secret":1}}\n\n'
    async with serving(server), bench(server.url) as front:
        session = await front.initialize()
        server.script = _stream(stray, twice % 1, twice % 2, stray)
        answer = await front.post(call(1, "echo"), mcp_session_id=session)
        assert [message["result"] for message in answer.messages] == [{"n": 1}]


async def test_a_session_that_the_server_forgot_is_forgotten() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        session = await front.initialize()
        server.sessions.clear()
        first = await front.post(call(1, "echo"), mcp_session_id=session)
        assert first.status == 404
        assert first.messages[0]["error"]["message"] == "Session not found"
        count = len(server.requests)
        second = await front.post(call(1, "echo"), mcp_session_id=session)
        assert (second.status, len(server.requests)) == (404, count)
        assert await front.initialize() != ""


async def test_the_control_lands_in_both_eras() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        session = await front.initialize()
        await front.post(call(1, "echo"), mcp_session_id=session)
        await front.stateless(GOOD)
        assert [body["method"] for body in server.bodies[-2:]] == ["tools/call"] * 2
        assert stateless_head(GOOD)["MCP-Protocol-Version"] in META.values()


async def test_a_resumed_stream_is_no_way_to_read_what_is_withheld() -> None:
    async with serving(Server()) as server, bench(server.url, remembers=True) as front:
        session = await front.initialize()
        body = request("read", "resources/read", uri="memory://all")
        first = await front.post(body, mcp_session_id=session)
        assert "a quiet secret" in str(first.messages), "control"
        server.sessions[session].pushes.put_nowait(None)
        resumed = front.headers(mcp_session_id=session, last_event_id="1")
        again = await front.send("GET", resumed)
        assert again.messages == first.messages, "control: it comes again"
        front.guard.withheld.add("quiet secret")
        server.sessions[session].pushes.put_nowait(None)
        answer = await front.send("GET", resumed)
        assert answer.messages[-1]["id"] == "read"
        assert b"quiet secret" not in answer.body


async def test_streams_that_stay_open_are_counted_per_principal_and_in_all() -> None:
    limits = HubLimits(streams_max=2)
    async with serving(Server()) as server, bench(server.url, limits=limits) as front:
        session = await front.initialize()
        listening = modern(request("s", "subscriptions/listen"))
        headers = front.headers(mcp_session_id=session)
        url = front.url + "/mcp/small"
        head = {**front.headers(), **stateless_head(listening)}
        async with (
            front.http.get(url, headers=headers),
            front.http.post(url, headers=head, json=listening),
        ):
            assert (await front.send("GET", headers)).status == 503
            assert (await front.stateless(listening)).status == 503
            assert (await front.stateless(GOOD)).status == 200, "control: a call is no stream"
        await until(lambda: not front.listener.in_flight)
        async with front.http.get(url, headers=headers) as again:
            assert again.status == 200
