"""Whoever lost a stream gets the rest of it, and nobody gets the rest of somebody else's."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from aiohttp import web

from tests.integration.mcp_bench import bench, call
from tests.integration.mcp_server import Server, Session, serving

SECRET = "what Ada alone was told"


class Careless(Server):
    """Replays by the id of an event alone, whoever asks: as widely used stores of events do."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[str, bytes]] = []
        self.asked: list[str | None] = []

    async def send(
        self, response: web.StreamResponse, session: Session, message: dict[str, Any]
    ) -> None:
        event_id = f"event-{len(self.log) + 1}"
        data = json.dumps(message).encode()
        session.events.append((len(self.log), data))
        self.log.append((event_id, data))
        with contextlib.suppress(ConnectionError):
            raw = b"event: message\r\nid: %b\r\ndata: %b\r\n\r\n" % (event_id.encode(), data)
            await response.write(raw)

    async def get(self, request: web.Request) -> web.StreamResponse:
        last = request.headers.get("Last-Event-ID")
        self.asked.append(last)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        names = [name for name, _ in self.log]
        for name, data in self.log[names.index(last) + 1 :] if last in names else []:
            await response.write(b"id: %b\ndata: %b\n\n" % (name.encode(), data))
        return response


async def test_the_events_of_another_session_are_not_replayed() -> None:
    server = Careless()
    async with serving(server), bench(server.url, remembers=True) as front:
        bob = await front.initialize("bob")
        await front.post(call(1, "read_graph", x="hello"), "bob", mcp_session_id=bob)
        ada = await front.initialize("ada")
        await front.post(call(1, "read_graph", x="hello"), "ada", mcp_session_id=ada)
        seen_by_ada = server.log[-1][0]
        await front.post(call(1, "read_graph", x=SECRET), "ada", mcp_session_id=ada)
        # The control: behind us it would be replayed to anybody.
        async with front.http.get(
            server.url, headers={"Mcp-Session-Id": bob, "Last-Event-ID": seen_by_ada}
        ) as open_to_all:
            assert SECRET in await open_to_all.text()
        server.asked.clear()
        answer = await front.send(
            "GET", front.headers("bob", mcp_session_id=bob, last_event_id=seen_by_ada)
        )
        assert SECRET.encode() not in answer.body
        assert (answer.status, server.asked) == (400, [])
        assert answer.messages[0]["error"]["message"].startswith("last-event-id: ")
        # Her own she gets.
        mine = await front.send(
            "GET", front.headers("ada", mcp_session_id=ada, last_event_id=seen_by_ada)
        )
        assert (mine.status, server.asked) == (200, [seen_by_ada])
        assert SECRET in json.dumps(mine.messages)


async def test_a_call_is_no_way_to_resume() -> None:
    server = Careless()
    async with serving(server), bench(server.url) as front:
        session = await front.initialize()
        await front.post(call(1, "echo"), mcp_session_id=session, last_event_id="event-1")
        assert server.bodies[-1]["method"] == "tools/call"
        assert "Last-Event-ID" not in server.requests[-1].headers
