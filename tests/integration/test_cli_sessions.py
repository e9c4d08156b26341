"""`mnemogate session`: what a person is shown of a session, and that kill -9 takes none of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp

from proxy.dialects.mcp.maps import parse_map
from tests.integration.cli_process import DEADLINE_S, ROOT, Place
from tests.integration.model_bench import asking, call
from tests.integration.models.server import ScriptedModel, scripted_model

Json = dict[str, Any]
SAID = "I prefer trains over planes for any trip under six hours."
PAGE = "The museum of clocks opens at nine and closes at five on weekdays."


class Served:
    """A `mnemogate run` process with a model front, and an agent that talks to it."""

    def __init__(self, place: Place, process: subprocess.Popen[str], ready: Json) -> None:
        self.place = place
        self.process = process
        self.ready = ready

    def agent_key(self) -> str:
        return str(next(k["key"] for k in self.ready["first_keys"] if k["channel"] == "agent"))

    async def post(self, key: str, path: str, body: Json) -> tuple[int, Json]:
        headers = {"X-Api-Key": key, "X-Claude-Code-Session-Id": "one"}
        if path.startswith("/v1/memories"):
            headers = {"Authorization": f"Bearer {key}"}
        url = f"{self.ready['data']}{path}"
        async with (
            aiohttp.ClientSession() as client,
            client.post(url, json=body, headers=headers) as answer,
        ):
            return answer.status, await answer.json()

    async def command(self, *words: str) -> Any:  # noqa: ANN401 - what `--json` printed
        done = await asyncio.to_thread(self.place.command, *words, "--json")
        assert done.code == 0, done.err
        return done.data


def started(place: Place, config: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-P", "-m", "proxy", "run", "--json", "--config", str(config)),
            *("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
        ],
        cwd="/",
        env=place.environment() | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextlib.asynccontextmanager
async def served(place: Place, model: ScriptedModel) -> AsyncGenerator[Served]:
    """The process, ended by whoever asks for it, at the latest at the end of the block."""
    place.root.mkdir(exist_ok=True)
    config = place.root / "mnemogate.toml"
    table = f'name = "anthropic"\napi = "anthropic"\nurl = "{model.url}"\n'
    config.write_text(f"[[model]]\n{table}")
    config.chmod(0o600)
    process = started(place, config)
    assert process.stdout is not None
    try:
        line = await asyncio.to_thread(process.stdout.readline)
        assert line, process.communicate(timeout=DEADLINE_S)[1]
        yield Served(place, process, json.loads(line))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.communicate, None, DEADLINE_S)


def answered(body: Json, call_id: str) -> Json:
    """The next request: the fetch that the model asked for, and the page."""
    use = {"type": "tool_use", "id": call_id, "name": "fetch", "input": {"url": "x"}}
    said = {"type": "text", "text": "I call fetch"}
    got = {"type": "tool_result", "tool_use_id": call_id, "content": PAGE}
    more = [{"role": "assistant", "content": [said, use]}, {"role": "user", "content": [got]}]
    return {**body, "messages": [*body["messages"], *more]}


async def read_a_page(sidecar: Served, key: str) -> None:
    body = asking("anthropic", call("fetch", url="x"), tools=("fetch",), said=SAID)
    status, reply = await sidecar.post(key, "/anthropic/v1/messages", body)
    assert status == 200, reply
    (use,) = [block for block in reply["content"] if block["type"] == "tool_use"]
    status, reply = await sidecar.post(key, "/anthropic/v1/messages", answered(body, use["id"]))
    assert status == 200, reply


async def note_of_a_page(sidecar: Served, key: str) -> None:
    """A session that reads a page, and whose model then keeps the page in its memory tool."""
    kept = call("memory", command="create", path="/memories/notes.md", file_text=PAGE)
    prompt = f"{call('fetch', url='x')} THEN {kept}"
    body = asking("anthropic", prompt, tools=("fetch",), said=SAID)
    body["tools"] = [*body["tools"], {"type": "memory_20250818", "name": "memory"}]
    for _ in range(2):
        status, reply = await sidecar.post(key, "/anthropic/v1/messages", body)
        assert status == 200, reply
        (use,) = [block for block in reply["content"] if block["type"] == "tool_use"]
        answer = PAGE if use["name"] == "fetch" else "File created successfully."
        got = {"type": "tool_result", "tool_use_id": use["id"], "content": answer}
        more = [{"role": "assistant", "content": reply["content"]}]
        more.append({"role": "user", "content": [got]})
        body = {**body, "messages": [*body["messages"], *more]}
    status, reply = await sidecar.post(key, "/anthropic/v1/messages", body)
    assert status == 200, reply


async def test_a_session_whose_history_was_not_seen_has_read(tmp_path: Path) -> None:
    place = Place(root=tmp_path)
    async with scripted_model() as model, served(place, model) as sidecar:
        key = sidecar.agent_key()
        status, _ = await sidecar.post(key, "/anthropic/v1/messages", asking("anthropic", SAID))
        assert status == 200
        assert (await sidecar.command("session", "show"))["has_read"] is False, "control"
        body = asking("anthropic", call("fetch", url="x"), tools=("fetch",), said=SAID)
        status, _ = await sidecar.post(key, "/anthropic/v1/messages", answered(body, "never_made"))
        assert status == 200
        shown = await sidecar.command("session", "show")
        assert shown["has_read"] is True
        assert next(one["channel"] for one in shown["segments"] if one["reads"]) == "history"


async def test_a_session_is_shown_with_what_entered_it_and_what_each_write_came_from(
    tmp_path: Path,
) -> None:
    place = Place(root=tmp_path)
    async with scripted_model() as model, served(place, model) as sidecar:
        key = sidecar.agent_key()
        await read_a_page(sidecar, key)
        status, _ = await sidecar.post(key, "/v1/memories", {"text": PAGE, "class": "L1"})
        assert status == 403
        listed = await sidecar.command("session", "list")
        (row,) = listed["sessions"]
        assert (row["has_read"], row["writes"], row["open_calls"]) == (True, 0, 0)
        shown = await sidecar.command("session", "show", row["session"][:12])
        assert shown == await sidecar.command("session", "show"), "the one used last"
        channels = [segment["channel"] for segment in shown["segments"]]
        assert channels == ["user", "user", "model", "model", "call", "tool", "model"]
        (page,) = [segment for segment in shown["segments"] if segment["channel"] == "tool"]
        assert (page["reads"], page["tool"], page["characters"]) == (True, "fetch", 66)
        assert [one["channel"] for one in shown["segments"] if one["reads"]] == ["tool"]
        assert shown["read_origins"] == ["fetch"]
        (unplaced,) = listed["unplaced"]
        read = unplaced["write"]
        assert (read["source"], read["basis"], read["decision"]) == (
            *("unknown", "unproven"),
            "reject",
        )
        assert (read["called"], read["after_reading"]) == (False, True)
        assert read["derived_from"][0]["tool"] == "fetch"
        told = await asyncio.to_thread(place.command, "session", "list")
        assert "no session is known to have made" in told.out
        told = await asyncio.to_thread(place.command, "session", "show")
        assert "foreign text of fetch" in told.out
        for text in (SAID, PAGE):
            assert text not in told.out
            assert text not in json.dumps(shown)
        missing = await asyncio.to_thread(place.command, "session", "show", "f" * 32)
        assert missing.code != 0
        assert "no session of that id is known" in missing.err


async def test_a_tool_that_speaks_of_memory_and_has_no_map_is_named_wherever_a_person_looks(
    tmp_path: Path,
) -> None:
    place = Place(root=tmp_path)
    async with scripted_model() as model, served(place, model) as sidecar:
        body = asking("anthropic", call("save_memory", note=SAID), tools=("save_memory",))
        body["tools"][0]["input_schema"]["properties"] = {"note": {"type": "string"}}
        status, _ = await sidecar.post(sidecar.agent_key(), "/anthropic/v1/messages", body)
        assert status == 200
        keys = {one["channel"]: one["key"] for one in sidecar.ready["first_keys"]}
        url = f"{sidecar.ready['admin']}/api/v1/status"
        headers = {"Authorization": f"Bearer {keys['operator']}"}
        async with aiohttp.ClientSession() as client, client.get(url, headers=headers) as got:
            named = (await got.json())["unmapped_tools"]
        assert named == [{"tool": "save_memory", "arguments": ["note"]}]
        aim = ("--data", sidecar.ready["data"], "--admin", sidecar.ready["admin"])
        told = await asyncio.to_thread(place.command, "doctor", *aim)
        _, _, warned = told.out.partition("no hole, but look at these:\n")
        assert re.search(r"^warn model\.memory_tools$", warned, re.MULTILINE)
        assert "`mnemogate mcp map` for save_memory" in told.out
        written = (await sidecar.command("mcp", "map", "save_memory"))["map"]
        assert parse_map(written, "skeleton").tools["save_memory"].texts == ("note",)
        missing = await asyncio.to_thread(place.command, "mcp", "map", "remember")
        assert missing.code != 0
        assert "mnemogate doctor" in missing.err


async def test_kill_9_washes_nothing(tmp_path: Path) -> None:
    place = Place(root=tmp_path)
    async with scripted_model() as model:
        async with served(place, model) as sidecar:
            key = sidecar.agent_key()
            await read_a_page(sidecar, key)
            before = await sidecar.command("session", "show")
            sidecar.process.kill()
            await asyncio.to_thread(sidecar.process.wait)
        async with served(place, model) as sidecar:
            assert await sidecar.command("session", "show") == before
            status, _ = await sidecar.post(key, "/v1/memories", {"text": PAGE, "class": "L3"})
            assert status == 201
            ((one,),) = [(await sidecar.command("session", "list"))["unplaced"]]
            assert (one["write"]["source"], one["write"]["after_reading"]) == ("unknown", True)


async def test_in_a_restored_state_what_no_session_explains_had_read_for_a_day(
    tmp_path: Path,
) -> None:
    (tmp_path / "old").mkdir()
    place, new = Place(root=tmp_path / "old"), Place(root=tmp_path / "new")
    async with scripted_model() as model:
        async with served(place, model) as sidecar:
            key = sidecar.agent_key()
            status, _ = await sidecar.post(key, "/anthropic/v1/messages", asking("anthropic", SAID))
            assert status == 200
            status, _ = await sidecar.post(key, "/v1/memories", {"text": SAID})
            assert status == 201
            (one,) = (await sidecar.command("session", "list"))["unplaced"]
            assert one["write"]["after_reading"] is False, "control"
            words = ("backup", str(tmp_path / "backup"), "--with-secrets")
            done = await asyncio.to_thread(place.command, *words)
            assert done.code == 0, done.err
        new.root.mkdir()
        done = await asyncio.to_thread(new.command, "restore", str(tmp_path / "backup"))
        assert done.code == 0, done.err
        async with served(new, model) as sidecar:
            listed = await sidecar.command("session", "list")
            assert listed["sessions"] == []
            assert listed["lost_until_ms"] is not None
            status, _ = await sidecar.post(key, "/anthropic/v1/messages", asking("anthropic", SAID))
            assert status == 200
            assert (await sidecar.command("session", "show"))["has_read"] is False
            status, _ = await sidecar.post(key, "/v1/memories", {"text": PAGE})
            assert status == 201
            (one,) = (await sidecar.command("session", "list"))["unplaced"]
            assert one["write"]["after_reading"] is True
