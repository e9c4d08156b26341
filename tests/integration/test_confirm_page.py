"""The page where a person decides a held candidate: who may see it, what it shows, what it does."""

from __future__ import annotations

import asyncio
import os
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import pytest

from policy.model import ChangeKind
from proxy.compose.app import Composition
from proxy.guard.client import GuardClient
from proxy.guard.wire import SOCKET
from proxy.seams.guard import Judged, Segment
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Running, running
from tests.unit.proxy.guarded import AGENT, SERVER, STEERING, call, item

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HOSTILE = (
    f"{STEERING}</pre><script>alert(1)</script><img src=x onerror=alert(2)>\n"
    "inv\u200bisible &amp; \"quoted\" 'single'"
)


class Clock:
    def __init__(self) -> None:
        self.now_ns = 1_790_000_000_000_000_000

    def __call__(self) -> int:
        return self.now_ns


class Held(NamedTuple):
    live: Running
    judged: Judged
    url: str
    clock: Clock

    async def get(self, url: str | None = None) -> tuple[int, str, dict[str, str]]:
        async with self.live.client.get(url or self.url) as response:
            return response.status, await response.text(), dict(response.headers)

    async def post(self, form: dict[str, str], **headers: str) -> tuple[int, str]:
        url = self.url.partition("?")[0]
        async with self.live.client.post(url, data=form, headers=headers) as response:
            return response.status, await response.text()

    @property
    def code(self) -> str:
        return self.url.partition("?code=")[2]

    @property
    def waiting(self) -> int:
        return len(self.live.sidecar.store.reader.held())


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Held]:
    clock = Clock()
    composition = Composition(clock_ns=clock, monotonic_ns=clock)
    async with running(tmp_path, composition) as live, GuardClient(live.state / SOCKET) as guard:
        segment = Segment(server="web", tool="search", call_id="toolu_1", texts=(HOSTILE,))
        await guard.saw(AGENT, segment)
        (judged,) = await guard.judge(AGENT, call(item(HOSTILE)))
        assert judged.decision == "hold"
        assert judged.confirm_url is not None
        yield Held(live, judged, judged.confirm_url, clock)
        assert live.sidecar.store.reader.check().problems == ()


async def test_the_candidate_is_shown_as_text_and_nothing_in_it_acts(held: Held) -> None:
    status, page, headers = await held.get()
    assert status == 200
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "&amp;amp;" in page
    assert "inv<mark>U+200B</mark>isible" in page
    assert not re.search(r"<(script|img|iframe|object|embed|link|a|svg)[\s>]", page)
    assert "L2 (identity, preference or procedure)" in page, "what it becomes if she agrees"
    assert "L1" not in page
    assert "web, tool search, call toolu_1" in page
    assert "class_floor" in page
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["Cache-Control"] == "no-store"
    assert "Set-Cookie" not in headers
    assert held.waiting == 1, "reading decides nothing"


async def test_who_has_the_link_remembers_it_once_and_the_relay_gets_it(held: Held) -> None:
    status, page = await held.post({"code": held.code, "decision": "approve"})
    assert (status, "remembered as L2" in page) == (200, True)
    assert held.waiting == 0
    (released,) = await held.live.sidecar.guard.unsettled(AGENT, SERVER)
    assert (released.sent, released.pieces[-1]) == (False, HOSTILE)
    again, text = await held.post({"code": held.code, "decision": "approve"})
    assert (again, "Nothing waits here any more" in text) == (410, True)
    assert (await held.get())[0] == 410


async def test_who_has_the_link_may_say_no(held: Held) -> None:
    status, page = await held.post({"code": held.code, "decision": "deny"})
    assert (status, "not remembered" in page) == (200, True)
    assert held.judged.candidate_id is not None
    decided = await held.live.sidecar.guard.decided(AGENT, held.judged.candidate_id)
    assert decided.decision == "reject"
    assert await held.live.sidecar.guard.unsettled(AGENT, SERVER) == ()


async def test_the_operator_s_key_shows_and_decides(held: Held) -> None:
    bare = held.url.partition("?")[0]
    status, page, _ = await held.get(bare)
    assert (status, "zebra" in page.lower()) == (200, False), "nothing without a key"
    status, page = await held.post({"key": OPERATOR_KEY, "decision": "show"})
    assert (status, "Zebra" in page) == (200, True)
    code = re.search(r'name="code" value="([^"]+)"', page)
    assert code is not None
    assert (await held.post({"code": code[1], "decision": "approve"}))[0] == 200
    assert held.waiting == 0


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({}, 403),
        ({"decision": "approve"}, 403),
        ({"code": "", "decision": "approve"}, 403),
        ({"code": "A" * 200, "decision": "approve"}, 403),
        ({"code": "A" * 2_000, "decision": "approve"}, 403),
        ({"key": AGENT_KEY, "decision": "approve"}, 403),
        ({"key": "wrong", "decision": "show"}, 403),
        ({"key": "", "decision": "approve"}, 403),
        ({"key": OPERATOR_KEY, "decision": "perhaps"}, 422),
        ({"key": OPERATOR_KEY}, 422),
        ({"decision": "approve", "filler": "x" * 5_000}, 413),
    ],
)
async def test_nobody_else_sees_or_decides(held: Held, form: dict[str, str], status: int) -> None:
    answered, page = await held.post(form)
    assert answered == status
    assert "zebra" not in page.lower()
    assert held.waiting == 1


async def test_a_link_is_for_one_candidate_and_for_a_time(held: Held) -> None:
    second = item(STEERING, key="Grace", change=ChangeKind.CREATE)
    async with GuardClient(held.live.state / SOCKET) as guard:
        (other,) = await guard.judge(AGENT, call(second))
    assert other.confirm_url is not None
    assert other.confirm_url.partition("?")[0] != held.url.partition("?")[0]
    foreign = other.confirm_url.partition("?code=")[2]
    status, page = await held.post({"code": foreign, "decision": "approve"})
    assert (status, "another candidate" in page) == (403, True)
    flipped = ("B" if held.code[0] == "A" else "A") + held.code[1:]
    assert (await held.post({"code": flipped, "decision": "approve"}))[0] == 403
    held.clock.now_ns += 901 * 1_000_000_000
    status, page = await held.post({"code": held.code, "decision": "approve"})
    assert (status, "expired" in page) == (403, True)
    assert held.waiting == 2


async def test_a_foreign_page_cannot_send_the_form_and_our_own_can(held: Held) -> None:
    form = {"code": held.code, "decision": "approve"}
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        status, _ = await held.post(form, Origin=origin)
        assert status == 403
    assert held.waiting == 1
    status, _ = await held.post(form, Origin=held.live.admin_url)
    assert status == 200
    assert held.waiting == 0


async def test_whoever_could_not_decide_anyway_is_sent_to_a_page_that_wants_the_key(
    held: Held, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert held.code, "control: a relay of the gate's own uid gets a link that decides"
    second = item(STEERING, key="Grace", change=ChangeKind.CREATE)
    # A relay over HTTP has the agent's key, which the agent has as well.
    (judged,) = await held.live.sidecar.guard.judge(AGENT, call(second))
    assert judged.confirm_url == f"{held.live.admin_url}/confirm/{judged.candidate_id}"
    status, page, _ = await held.get(judged.confirm_url)
    assert (status, "operator's key" in page, "zebra" in page.lower()) == (200, True, False)
    # So has a wrapper of another uid that the operator has bound.
    (tmp_path / "b").mkdir()
    monkeypatch.setattr(
        "proxy.compose.services.os", SimpleNamespace(geteuid=lambda: os.geteuid() + 1)
    )
    async with running(tmp_path / "b") as live, GuardClient(live.state / SOCKET) as guard:
        (foreign,) = await guard.judge(AGENT, call(second))
        assert foreign.confirm_url == f"{live.admin_url}/confirm/{foreign.candidate_id}"


async def test_the_link_is_in_nothing_that_the_model_is_shown(held: Held) -> None:
    assert held.code not in held.judged.observation
    assert "http" not in held.judged.observation
    status, _, _ = await held.get(f"{held.live.admin_url}/confirm/{'0' * 32}?code={held.code}")
    assert status == 410


async def test_a_form_in_chunks_is_cut_off_where_a_declared_one_is(held: Held) -> None:
    admin = held.live.sidecar.admin
    assert admin is not None
    path = held.url.partition("?")[0].removeprefix(held.live.admin_url)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    form = f"decision=show&key={OPERATOR_KEY}&filler=".encode().ljust(1_000, b"x")
    whole = b"%x\r\n%s\r\n0\r\n\r\n" % (len(form), form)
    for body, status in ((b"8000\r\n" + b"x" * 20_000, b"413"), (whole, b"200")):
        reader, writer = await asyncio.open_connection(admin.host, admin.port)
        writer.write(head.encode() + body)
        # The rest never comes: what has come is refused before its time is over.
        answer = await asyncio.wait_for(reader.read(64), 10.0)
        writer.close()
        assert answer.split(b" ")[1] == status
    assert held.waiting == 1
