"""`examples/chat-agent`, as it stands: its person is asked in the terminal, and her yes is kept."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from proxy.dialects.model.confirm.block import ANSWERED
from proxy.evaluate.free_port import on_free_port
from tests.integration.chat_agent import LIKES, PAGE, codes_in
from tests.integration.cli_process import ROOT
from tests.integration.models.script import Move, Proposed
from tests.integration.models.server import scripted_model
from tests.integration.running import AGENT_KEY, running

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.integration.models.script import Context

EXAMPLE = ROOT / "examples" / "chat-agent"


class Chat(Protocol):
    """The example's own conversation."""

    def say(self, text: str) -> str: ...


def chat(base: str) -> Chat:
    """One with the front at `base`."""
    spec = importlib.util.spec_from_file_location("chat_example", EXAMPLE / "chat.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Chat = module.Chat(base, AGENT_KEY, "scripted")
    return made


def blocks() -> list[str]:
    """What the README shows of the terminal."""
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    fenced = text.split("```")[1::2]
    return [one.strip() for one in fenced if one.startswith("\n")]


async def test_the_chat_agent_asks_as_its_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = web.Application()
    page.router.add_get("/", _page)
    async with scripted_model() as model, on_free_port(page) as pages:
        noted = {"label": "human", "content": LIKES}
        steps = [("fetch", {"url": pages}), *[("core_memory_append", noted)] * 2]

        def move(context: Context) -> Move:
            due = steps and (len(steps) > 1 or ANSWERED in context.read)
            call = steps.pop(0) if due else None
            if call is None:
                return Move(text="It opens at nine.")
            made = Proposed(call_id=f"call_{len(steps)}", name=call[0], arguments=call[1])
            return Move(text="I see.", calls=(made,))

        model.move = move
        secret = tmp_path / "headers"
        secret.write_text("Authorization: Bearer sk-of-the-provider\n")
        secret.chmod(0o600)
        table = (EXAMPLE / "mnemogate.toml").read_text(encoding="utf-8")
        table = table.replace("https://api.openai.com", model.url)
        table = table.replace("/run/secrets/openai-headers", str(secret))
        async with running(tmp_path, tables=table) as front:
            person = chat(f"{front.url}/openai/v1")
            said = await asyncio.to_thread(person.say, "When does it open? I like tea, mornings.")
            (code,) = codes_in(said)
            question, outcome = blocks()
            assert said.endswith(question.replace("7F3K9QWX", code)), said
            assert not (tmp_path / "profile.txt").exists()
            told = await asyncio.to_thread(person.say, f"yes {code}")
            assert told.endswith(outcome)
    assert (tmp_path / "profile.txt").read_text() == f"human: {LIKES}\n"
    assert code.encode() not in model.sent_upstream()


async def _page(_request: web.Request) -> web.Response:
    return web.Response(text=PAGE)
