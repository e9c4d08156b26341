"""A server that the sidecar runs itself, served over HTTP: sessions, one shared process, deaths."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy.mcp.http.child import ServerCommandLine
from proxy.mcp.http.hub import HubLimits
from tests.integration.mcp_bench import (
    WAIT_S,
    Answer,
    McpBench,
    bench,
    call,
    modern,
    notification,
    records,
    request,
    until,
)

PROGRAM = Path(__file__).with_name("mcp_stdio_server.py")


def command(tmp_path: Path) -> ServerCommandLine:
    return ServerCommandLine(
        words=(sys.executable, str(PROGRAM)),
        environment={"MEMO": str(tmp_path / "cancelled"), "PATH": "/usr/bin:/bin"},
        directory=str(tmp_path),
    )


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def said(answer: Answer) -> Any:  # noqa: ANN401 - any JSON
    assert answer.status == 200, answer.body
    return json.loads(answer.messages[-1]["result"]["content"][0]["text"])


async def who(front: McpBench, session: str, principal: str = "ada") -> dict[str, Any]:
    found: dict[str, Any] = said(
        await front.post(call(9, "who"), principal, mcp_session_id=session)
    )
    return found


async def test_each_session_has_its_own_process_with_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMOGATE_OPERATOR_KEY", "secret")
    async with bench(command(tmp_path)) as front:
        ada, bob = await front.initialize("ada"), await front.initialize("bob")
        mine, theirs = await who(front, ada), await who(front, bob, "bob")
        assert mine["pid"] != theirs["pid"]
        assert mine["cwd"] == str(tmp_path)
        assert set(mine["env"]) == {"MEMO"}
        assert (await front.post(call(1, "echo"), "bob", mcp_session_id=ada)).status == 404
        ended = await front.send("DELETE", front.headers(mcp_session_id=ada))
        assert ended.status == 200
        await until(lambda: not lives(mine["pid"]))
        assert (await front.post(call(1, "echo"), mcp_session_id=ada)).status == 404
        assert lives(theirs["pid"]), "control"
    assert not lives(theirs["pid"])


async def test_progress_and_requests_of_the_server_come_on_the_stream_of_the_call(
    tmp_path: Path,
) -> None:
    async with bench(command(tmp_path)) as front:
        session = await front.initialize()
        body = call(1, "progress")
        body["params"]["_meta"] = {"progressToken": "t"}
        answer = await front.post(body, mcp_session_id=session)
        methods = [message.get("method") for message in answer.messages]
        assert methods[-2:] == ["notifications/progress", None]
        headers = front.headers(mcp_session_id=session)
        url = front.url + "/mcp/small"
        async with front.http.post(url, headers=headers, json=call(2, "ask")) as got:
            event = await asyncio.wait_for(got.content.readuntil(b"\r\n\r\n"), WAIT_S)
            assert b"roots/list" in event
            reply = {"jsonrpc": "2.0", "id": 77, "result": {"roots": ["r"]}}
            assert (await front.post(reply, mcp_session_id=session)).status == 202
            rest = await asyncio.wait_for(got.content.read(), WAIT_S)
        assert b"roots" in rest


async def test_what_belongs_to_no_call_waits_for_a_stream(tmp_path: Path) -> None:
    async with bench(command(tmp_path)) as front:
        session = await front.initialize()
        headers = front.headers(mcp_session_id=session)
        async with front.http.get(front.url + "/mcp/small", headers=headers) as got:
            event = await asyncio.wait_for(got.content.readuntil(b"\r\n\r\n"), WAIT_S)
            assert b"list_changed" in event
            got.close()


async def test_a_server_that_dies_in_a_call_is_told_of_and_started_anew(tmp_path: Path) -> None:
    async with bench(command(tmp_path)) as front:
        session = await front.initialize()
        before = await who(front, session)
        answer = await front.post(call(1, "die"), mcp_session_id=session)
        assert answer.messages[0]["error"]["code"] == -32000
        assert (await front.post(call(2, "echo"), mcp_session_id=session)).status == 404
        after = await who(front, await front.initialize())
        assert after["pid"] != before["pid"]


async def test_stateless_exchanges_share_one_process_per_principal(tmp_path: Path) -> None:
    async with bench(command(tmp_path)) as front:
        pids = {
            name: {said(await front.stateless(modern(call(1, "who")), name))["pid"] for _ in "123"}
            for name in ("ada", "bob")
        }
        assert {len(found) for found in pids.values()} == {1}
        assert pids["ada"] != pids["bob"]
        async with asyncio.TaskGroup() as group:
            answers = [
                group.create_task(
                    front.stateless(modern(call("same", "late", n=n, seconds=0.05 * (5 - n))))
                )
                for n in range(5)
            ]
        for number, done in enumerate(answers):
            assert done.result().messages[0]["id"] == "same"
            assert said(done.result())["n"] == number


async def test_progress_of_stateless_calls_finds_its_own_stream(tmp_path: Path) -> None:
    async with bench(command(tmp_path)) as front:

        async def one(token: str | int) -> Answer:
            body = modern(call(1, "progress"))
            body["params"]["_meta"] = {**body["params"]["_meta"], "progressToken": token}
            return await front.stateless(body)

        async with asyncio.TaskGroup() as group:
            answers = [(token, group.create_task(one(token))) for token in ("a", 1, "1", 2)]
        for token, done in answers:
            told, last = done.result().messages
            assert told["params"]["progressToken"] == token
            assert last["id"] == 1


async def test_closing_the_stream_cancels_at_the_shared_process(tmp_path: Path) -> None:
    async with bench(command(tmp_path)) as front:
        said(await front.stateless(modern(call(1, "echo"))))
        async with asyncio.TaskGroup() as group:
            body = modern(call("mine", "late", seconds=60))
            slow = group.create_task(front.stateless(body))
            await until((tmp_path / "cancelled-started").exists)
            slow.cancel()
        await until((tmp_path / "cancelled").exists)
        assert json.loads((tmp_path / "cancelled").read_text()) > 1, "the number it knows it by"


async def test_a_shared_process_that_dies_is_told_of_and_started_anew(tmp_path: Path) -> None:
    async with bench(command(tmp_path)) as front:
        before = said(await front.stateless(modern(call(1, "who"))))["pid"]
        answer = await front.stateless(modern(call(1, "die")))
        assert answer.messages[0]["error"]["code"] == -32000
        after = said(await front.stateless(modern(call(1, "who"))))["pid"]
        assert before != after


async def test_statuses_of_the_newer_era_are_made_where_no_server_has_them(tmp_path: Path) -> None:
    async with bench(command(tmp_path)) as front:
        answer = await front.stateless(modern(request(1, "unheard/of")))
        assert answer.status == 404
        session = await front.initialize()
        older = await front.post(request(1, "unheard/of"), mcp_session_id=session)
        assert older.status == 200


async def test_no_session_no_service_and_the_number_of_processes_is_bounded(
    tmp_path: Path,
) -> None:
    limits = HubLimits(sessions_max=2)
    async with bench(command(tmp_path), limits=limits) as front:
        refused = await front.post(call(1, "echo"))
        assert refused.status == 400
        first = await front.initialize()
        pid = (await who(front, first))["pid"]
        await front.initialize()
        third = await front.initialize()
        assert (await who(front, third))["pid"]
        await until(lambda: not lives(pid))
        assert (await front.post(call(1, "echo"), mcp_session_id=first)).status == 404
        busy = [front.headers(mcp_session_id=third)]
        async with front.http.get(front.url + "/mcp/small", headers=busy[0]):
            other = await front.post(request(0, "initialize"), "bob")
            assert other.status == 503


async def test_a_server_that_never_answers_holds_a_call_for_so_long_and_no_longer(
    tmp_path: Path,
) -> None:
    async with bench(command(tmp_path), limits=HubLimits(call_seconds=1.0)) as front:
        session = await front.initialize()
        older = await front.post(call(1, "late", seconds=60), mcp_session_id=session)
        said(await front.stateless(modern(call(1, "echo"))))
        newer = await front.stateless(modern(call(1, "late", seconds=60)))
        assert [one.messages[-1]["error"]["code"] for one in (older, newer)] == [-32000, -32000]
        assert said(await front.post(call(2, "echo", n=1), mcp_session_id=session)) == {"n": 1}


async def test_an_idle_session_ends_with_its_process(tmp_path: Path) -> None:
    async with bench(command(tmp_path), limits=HubLimits(idle_seconds=0.0)) as front:
        session = await front.initialize()
        pid = (await who(front, session))["pid"]
        front.hub.sweep()
        await until(lambda: not lives(pid))


async def test_a_command_that_cannot_be_started_is_an_honest_answer(tmp_path: Path) -> None:
    missing = ServerCommandLine(words=("/does/not/exist",), environment={}, directory="/")
    async with bench(missing) as front:
        older = await front.post(request(1, "initialize"))
        assert (older.status, older.messages[0]["error"]["code"]) == (200, -32000)
        listed = await front.stateless(modern(request(1, "tools/list")))
        assert (listed.status, listed.messages[0]["error"]["code"]) == (200, -32000)
        called = await front.stateless(modern(call(1, "echo")))
        assert called.messages[0]["result"]["isError"] is True


async def test_nothing_is_written_to_a_server_once_another_process_may_hold_the_store(
    tmp_path: Path,
) -> None:
    held = [True]
    fenced = msgspec.structs.replace(command(tmp_path), holds=lambda: bool(held))
    started = tmp_path / "cancelled-started"
    async with bench(fenced) as front:
        session = await front.initialize()
        held.clear()
        answer = await front.post(call(1, "late", seconds=0), mcp_session_id=session)
        assert answer.messages[-1]["error"]["code"] == -32000
        shared = await front.stateless(modern(call(1, "late", seconds=0)))
        assert shared.messages[0]["result"]["isError"] is True
        assert not started.exists()
        # Control: the holder's call arrives.
        held.append(True)
        await front.post(call(1, "late", seconds=0), mcp_session_id=await front.initialize())
        assert started.exists()


async def test_what_a_server_complains_about_is_not_in_our_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with bench(command(tmp_path)) as front:
        await front.initialize()
    messages = [(record.getMessage(), vars(record)) for record in caplog.records]
    assert any(text.startswith("mcp server wrote") for text, _ in messages), "control"
    assert "complaint" not in str(messages)


async def test_cancelled_in_the_older_era_reaches_the_process(tmp_path: Path) -> None:
    async with bench(command(tmp_path)) as front:
        session = await front.initialize()
        async with asyncio.TaskGroup() as group:
            body = call("x", "late", seconds=60)
            slow = group.create_task(front.post(body, mcp_session_id=session))
            await until((tmp_path / "cancelled-started").exists)
            taken = notification("notifications/cancelled", requestId="x")
            assert (await front.post(taken, mcp_session_id=session)).status == 202
        assert [message for message in slow.result().messages if "id" in message] == []
        await until((tmp_path / "cancelled").exists)


async def test_the_processes_behind_a_key_end_with_it(tmp_path: Path) -> None:
    async with bench(command(tmp_path)) as front:
        pids: dict[str, set[int]] = {}
        for name in ("ada", "bob"):
            session = await who(front, await front.initialize(name), name)
            shared = said(await front.stateless(modern(call(1, "who")), name))
            pids[name] = {session["pid"], shared["pid"]}
            assert len(pids[name]) == 2
        (ended,) = (one for one in records() if one.key_id == "ada")
        with front.authenticator.ending(ended):
            pass
        await until(lambda: not any(lives(pid) for pid in pids["ada"]))
        assert all(lives(pid) for pid in pids["bob"]), "control"
