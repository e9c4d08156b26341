"""Claude Code, unmodified, answers wrongly from its memory, and rightly after one feedback."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from policy.model import Channel, Tenant
from tests.integration.hosts.agents import served
from tests.integration.hosts.fronted import Fronted, fronted
from tests.integration.hosts.guarded import command_table
from tests.integration.hosts.hosts import ClaudeCode, Settings
from tests.integration.hosts.messages_model import MessagesModel
from tests.integration.hosts.scene import Scene, entity
from tests.integration.hosts.script import calling
from tests.integration.mcp_bench import Answer, call, modern, stateless_head
from tests.integration.running import AGENT_KEY, Running

pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=2), pytest.mark.timeout(600)]

LIES: Final = ("The office moved to Porto in May.", "Porto is where the office is now.")
TRUTH: Final = "The office has been in Lisbon for ten years."
READ: Final = calling(("memory/read_graph", {}))


class Believer(MessagesModel):
    """Answers from what it read, and believes a lie rather than the truth."""

    def _content(self, body: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
        content, stop = super()._content(body)
        if stop == "end_turn" and body.get("tools"):
            read = json.dumps(body["messages"])
            place = next((one for one in ("Porto", "Lisbon") if one in read), "nowhere")
            content = [{"type": "text", "text": f"FINAL: the office is in {place}."}]
        return content, stop


async def _remember(live: Running, name: str, text: str) -> None:
    body = modern(call(1, "create_entities", **entity(name, "fact", text)))
    headers = {
        "Accept": "application/json, text/event-stream",
        "X-Api-Key": AGENT_KEY,
        **stateless_head(body),
    }
    async with live.client.post(f"{live.url}/mcp/memory", json=body, headers=headers) as got:
        (message,) = Answer(got.status, dict(got.headers), await got.read()).messages
    assert message["result"].get("isError") is not True, message


async def _answer(host: ClaudeCode, at: Fronted, home: Path) -> str:
    servers = served(at, ("memory",))
    environment = {"ANTHROPIC_API_KEY": at.key, "MCP_CONNECTION_NONBLOCKING": "0"}
    settings = Settings(
        text=host.settings(servers), servers=tuple(servers), environment=environment
    )
    prompt = f"Where is the office?\n{READ}"
    printed = await host.run(prompt, home, at.url, settings)
    return str(json.loads(printed.out)["result"])


async def _ended(live: Running, incident: str) -> str:
    async with asyncio.timeout(60):
        while True:
            state = str((await live.operate("GET", f"/incidents/{incident}"))["state"])
            if state not in {"opened", "reproduced", "convicted"}:
                return state
            await asyncio.sleep(0.05)


async def test_one_feedback_takes_the_lies_out_of_what_claude_code_reads_next(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, "nothing")
    home = tmp_path / "home"
    await asyncio.to_thread(home.mkdir)
    host = ClaudeCode()
    tables = {"memory": command_table(scene.memory_words(), map="server-memory")}
    async with fronted(tmp_path / "ours", Believer(), mcp=tables) as at:
        live = at.sidecar
        for number, text in enumerate((TRUTH, *LIES)):
            await _remember(live, f"note {number}", text)
        assert "Porto" in await _answer(host, at, home)
        assert "Porto" in await _answer(host, at, home), "control: while nobody says so, it stays"

        recalls = await asyncio.to_thread(live.sidecar.store.recalls.recalls, Tenant("default"))
        person = await live.key("ada", channel=Channel.USER)
        said = {"recall_id": recalls[0].recall_id, "verdict": "wrong", "forbid": "Porto"}
        status, noted = await live.call("POST", "/v1/feedback", person, said)
        assert status == 200, noted
        assert await _ended(live, noted["incident"]) == "healed"

        before = len(at.upstream.exchanges)
        assert "Lisbon" in await _answer(host, at, home)
        later = b"".join(one.asked for one in at.upstream.exchanges[before:])
    assert TRUTH.encode() in later, "the same search finds what stays"
    assert b"Porto" not in later
    assert "Porto" in scene.memory_file.read_text(encoding="utf-8"), "the server keeps its file"
