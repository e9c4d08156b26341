"""One answer is bounded, pages go on behind it, and answers nobody reads do not fill the memory."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tests.integration.running import AGENT_KEY, Running, running

TEXT = "x" * 60_000
ROOM = 1 << 20


async def _fill(live: Running, count: int) -> None:
    for number in range(count):
        status, body = await live.write(AGENT_KEY, {"text": f"{number} {TEXT}", "user_id": "ada"})
        assert status == 201, body


async def _walk(live: Running, where: str) -> tuple[list[str], list[int]]:
    """Every text, page after page, and how many came with each."""
    texts: list[str] = []
    sizes: list[int] = []
    while True:
        path = f"/v1/memories?limit=1000&offset={len(texts)}{where}"
        status, page = await live.call("GET", path, AGENT_KEY)
        assert status == 200
        assert page["total"] == 40
        sizes.append(len(page["memories"]))
        texts.extend(item["text"] for item in page["memories"])
        if len(texts) >= page["total"]:
            return texts, sizes


async def test_a_page_is_cut_where_it_is_full_and_the_next_goes_on_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as live:
        await _fill(live, 40)
        texts, sizes = await _walk(live, "")
        assert sizes == [40]  # control: there is room for them in one answer
        monkeypatch.setattr("storage.read.reader.ANSWER_BYTES_MAX", ROOM)
        for where in ("", "&user_id=ada"):
            again, sizes = await _walk(live, where)
            assert again == texts, "none is left out, and none comes twice"
            assert max(sizes) * len(TEXT) <= ROOM
            assert min(sizes) >= 1
        status, found = await live.call(
            "POST", "/v1/search", AGENT_KEY, {"query": "x", "limit": 40}
        )
        assert status == 200
        assert 0 < len(found["results"]) * len(TEXT) <= ROOM
        # A client that goes on by the number of the page would miss what was cut: it is told.
        headers = {"Authorization": f"Token {AGENT_KEY}"}
        url = live.url + "/v2/memories/"
        body = {"filters": {"user_id": "ada"}}
        async with live.client.post(
            url + "?page=1&page_size=40", json=body, headers=headers
        ) as answer:
            assert answer.status == 422, await answer.text()
        async with live.client.post(
            url + "?page=1&page_size=10", json=body, headers=headers
        ) as answer:
            assert answer.status == 200, await answer.text()
        # A bulk delete reaches all of them nevertheless.
        status, done = await live.call("DELETE", "/v1/memories?user_id=ada", AGENT_KEY)
        assert (status, done["admitted"]) == (200, 40), done


async def test_a_list_of_ids_is_cut_where_it_is_full_and_goes_on_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as live:
        for number in range(25):
            body = {"text": f"Fact {number}.", "user_id": f"{number:03d}" + "n" * 100}
            assert (await live.write(AGENT_KEY, body))[0] == 201
        _, whole = await live.call("GET", "/v1/entities", AGENT_KEY)
        # Control: there is room for them in one answer.
        assert (whole["total"], len(whole["entities"])) == (25, 25)
        headers = {"Authorization": f"Token {AGENT_KEY}"}
        async with live.client.get(live.url + "/v1/entities/", headers=headers) as answer:
            assert answer.status == 200, await answer.text()
        monkeypatch.setattr("storage.read.reader.ANSWER_BYTES_MAX", 4_000)
        pieces: list[object] = []
        answers = 0
        while len(pieces) < 25:
            status, page = await live.call("GET", f"/v1/entities?offset={len(pieces)}", AGENT_KEY)
            assert (status, page["total"]) == (200, 25)
            assert 1 <= len(page["entities"]) <= 11
            pieces.extend(page["entities"])
            answers += 1
        assert pieces == whole["entities"], "none is left out, and none comes twice"
        assert answers > 2
        assert (await live.call("GET", "/v1/entities?offset=25", AGENT_KEY))[1]["entities"] == []
        # A client that cannot go on is told, and not given a part for the whole.
        async with live.client.get(live.url + "/v1/entities/", headers=headers) as answer:
            assert answer.status == 422, await answer.text()


async def test_answers_that_nobody_reads_end_at_a_limit_and_writes_go_on(tmp_path: Path) -> None:
    limit = 16 * 1024 * 1024
    async with running(tmp_path, flags={"unread_bytes_max": str(limit)}) as live:
        await _fill(live, 40)
        listener = live.sidecar.data
        assert listener is not None
        ask = (
            f"GET /v1/memories?limit=1000 HTTP/1.1\r\nHost: {listener.host}\r\n"
            f"Authorization: Bearer {AGENT_KEY}\r\n\r\n"
        ).encode()
        peers: list[socket.socket] = []
        for _ in range(20):
            peer = socket.socket()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            peer.settimeout(0)
            await asyncio.get_running_loop().sock_connect(peer, (listener.host, listener.port))
            # One after the other: what the kernel keeps by itself is full after a few.
            await asyncio.get_running_loop().sock_sendall(peer, ask * 8)
            peers.append(peer)
        statuses: list[int] = []
        while 503 not in statuses and len(statuses) < 40:
            status, _ = await live.call("GET", "/v1/memories?limit=1000", AGENT_KEY)
            statuses.append(status)
        assert 503 in statuses
        assert (await live.write(AGENT_KEY, {"text": "Ada likes tea."}))[0] == 201
        assert (await live.call("GET", "/v1/memories?limit=1", AGENT_KEY))[0] == 200
        for peer in peers:
            peer.close()
        status, page = await live.call("GET", "/v1/memories?limit=1000", AGENT_KEY)
        assert (status, page["total"]) == (200, 41), "room comes back with the connections"
