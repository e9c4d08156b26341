"""Streamable HTTP through the front, in front of a small server: what passes, in both eras."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.mcp_bench import (
    WAIT_S,
    bench,
    call,
    modern,
    notification,
    request,
    until,
)
from tests.integration.mcp_server import Server, result, serving


@pytest.mark.parametrize("sse", [True, False])
async def test_a_session_from_its_beginning_to_its_end(sse: bool) -> None:  # noqa: FBT001
    server = Server()
    server.sse = sse
    async with serving(server), bench(server.url) as front:
        session = await front.initialize()
        answer = await front.post(call(1, "echo", a=1), mcp_session_id=session)
        assert answer.status == 200
        kind = "text/event-stream" if sse else "application/json"
        assert answer.headers["content-type"] == kind
        (message,) = answer.messages
        assert message == result(1, content=[{"type": "text", "text": '{"a": 1}'}])
        ended = await front.send("DELETE", front.headers(mcp_session_id=session))
        assert ended.status == 200
        assert (await front.post(call(2, "echo"), mcp_session_id=session)).status == 404
    assert server.sessions == {}


async def test_a_request_of_the_server_comes_on_the_stream_of_the_call() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        session = await front.initialize()
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(front.post(call(1, "ask"), mcp_session_id=session))
            await until(lambda: len(server.sessions[session].events) > 1)
            told = await front.post(result(1, roots=["r"]), mcp_session_id=session)
        assert told.status == 202
        first, last = asked.result().messages
        assert (first["id"], first["method"]) == (1, "roots/list")
        assert last["result"]["roots"] == {"roots": ["r"]}


async def test_progress_comes_before_the_result_under_the_servers_own_event_ids() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        session = await front.initialize()
        body = call("p", "progress")
        body["params"]["_meta"] = {"progressToken": 7}
        answer = await front.post(body, mcp_session_id=session)
        assert [message.get("id", "told") for message in answer.messages] == ["told"] * 3 + ["p"]
        sent = [str(number) for number, _ in server.sessions[session].events]
        assert [event.event_id for event in answer.events] == sent[1:]


async def test_what_belongs_to_no_call_comes_on_the_stream_that_listens() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        session = await front.initialize()
        note = notification("notifications/tools/list_changed")
        server.sessions[session].pushes.put_nowait(note)
        server.sessions[session].pushes.put_nowait(None)
        answer = await front.send("GET", front.headers(mcp_session_id=session))
        assert answer.messages == [note]


async def test_a_lost_stream_is_resumed_where_it_was_cut() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        session = await front.initialize()

        headers = front.headers(mcp_session_id=session)
        body = call("cut", "progress", wait=True)
        body["params"]["_meta"] = {"progressToken": 7}
        async with front.http.post(front.url + "/mcp/small", headers=headers, json=body) as got:
            await got.content.readuntil(b"\r\n\r\n")
            got.close()
        await until(lambda: not front.listener.in_flight)
        server.release.set()
        await until(lambda: len(server.sessions[session].events) > 4)
        server.sessions[session].pushes.put_nowait(None)
        answer = await front.send("GET", front.headers(mcp_session_id=session, last_event_id="2"))
        assert [event.event_id for event in answer.events if event.data] == ["3", "4", "5"]
        assert answer.messages[-1]["id"] == "cut"


async def test_a_cancelled_call_ends_its_stream_and_the_server_hears_of_it() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        session = await front.initialize()
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(front.post(call(1, "slow"), mcp_session_id=session))
            await asyncio.wait_for(server.started.wait(), WAIT_S)
            taken = notification("notifications/cancelled", requestId=1)
            assert (await front.post(taken, mcp_session_id=session)).status == 202
        assert slow.result().messages == []
        assert server.cancelled == [1]


async def test_a_server_without_sessions_needs_none() -> None:
    server = Server()
    server.named = False
    async with serving(server), bench(server.url) as front:
        first = await front.post(request(0, "initialize"))
        assert "mcp-session-id" not in first.headers
        async with asyncio.TaskGroup() as group:
            answers = [group.create_task(front.post(call(1, "echo", n=n))) for n in range(10)]
        texts = {done.result().messages[0]["result"]["content"][0]["text"] for done in answers}
        assert texts == {f'{{"n": {n}}}' for n in range(10)}


async def test_stateless_calls_with_the_same_id_do_not_meet() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        async with asyncio.TaskGroup() as group:
            answers = [
                group.create_task(front.stateless(modern(call(1, "echo", n=n)), who))
                for n in range(7)
                for who in ("ada", "bob")
            ]
        for number, done in enumerate(answers):
            answer = done.result()
            assert answer.status == 200
            (message,) = answer.messages
            assert message["result"]["content"][0]["text"] == f'{{"n": {number // 2}}}'
        heads = [one.headers for one in server.requests]
        assert {head["Mcp-Name"] for head in heads} == {"echo"}
        assert {head["MCP-Protocol-Version"] for head in heads} == {"2026-07-28"}


async def test_closing_the_stream_cancels_a_stateless_call() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        body = modern(call(1, "slow"))
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(front.stateless(body))
            await asyncio.wait_for(server.started.wait(), WAIT_S)
            slow.cancel()
        await asyncio.wait_for(server.closed.wait(), WAIT_S)


async def test_a_stateless_subscription_streams_until_its_client_leaves() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        body = modern(request("sub", "subscriptions/listen"))
        headers = {
            **front.headers(),
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "subscriptions/listen",
        }
        async with front.http.post(front.url + "/mcp/small", headers=headers, json=body) as got:
            assert got.headers["Content-Type"] == "text/event-stream"
            for _ in range(2):
                event = await asyncio.wait_for(got.content.readuntil(b"\r\n\r\n"), WAIT_S)
                assert b"list_changed" in event
            got.close()
        await until(lambda: not front.listener.in_flight)


async def test_the_servers_own_status_of_an_error_passes() -> None:
    async with serving(Server()) as server, bench(server.url) as front:
        answer = await front.stateless(modern(request(5, "unheard/of")))
        assert answer.status == 404
        assert answer.messages[0]["error"]["code"] == -32601
        assert answer.messages[0]["id"] == 5
