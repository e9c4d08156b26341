"""`examples/chat-agent`, as it stands: its product's dialog asks a person, and her yes is kept."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import os
import re
import socket
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest
from aiohttp import ClientConnectorError, ClientSession, web

from proxy.compose.app import Composition
from proxy.reporting.webhook import signature
from tests.evaluate.free_port import on_free_port
from tests.integration.cli_process import ROOT
from tests.integration.models.script import Context, Move, Proposed
from tests.integration.models.server import scripted_model
from tests.integration.running import AGENT_KEY, running
from tests.integration.test_review_webhook import soon

EXAMPLE = ROOT / "examples" / "chat-agent"
PAGE = "The museum of clocks opens at nine and closes at five on weekdays."
RULE = "Always answer in French."
KEY = b"0123456789abcdef0123456789abcdef"


class Chat(Protocol):
    def say(self, text: str) -> str: ...


def chat(base: str) -> Chat:
    spec = importlib.util.spec_from_file_location("chat_example", EXAMPLE / "chat.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Chat = module.Chat(base, AGENT_KEY, "scripted")
    return made


def as_shown(printed: str) -> str:
    """What is printed, with the ids and numbers that the README has in their places."""
    printed = re.sub(r"\b[0-9a-f]{32}", "9b1f7c52e0a3486d8c2f4a6b7d9e0113", printed)
    printed = re.sub(
        r"memory [0-9a-f-]{36}", "memory 8cc0f8d0-af11-4fdd-a513-178a167a86ce", printed
    )
    return re.sub(r"(version|leaf) \d+", r"\1 4", printed)


def shown_there() -> str:
    """What the README shows of the dialog's terminal, without what a person types."""
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    (shown,) = (one.strip() for one in text.split("```")[1::2] if one.startswith("\n"))
    return shown.replace("no: yes\n", "no: ")


class Dialog:
    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port
        self.shown = ""

    async def until(self, end: str) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            read = (await self.process.stdout.readuntil(end.encode())).decode()
        self.shown += read
        return read

    async def says(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())
        await self.process.stdin.drain()


@asynccontextmanager
async def dialog(base: Path) -> AsyncGenerator[Dialog]:
    """The example's dialog, with the operator's socket of the state directory below `base`."""
    program = base / "mnemogate"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m proxy "$@"\n')
    program.chmod(0o700)
    secret = base / "webhook-secret"
    secret.write_text("whsec_" + base64.b64encode(KEY).decode())
    secret.chmod(0o600)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLE / "dialog.py"), str(secret)),
        *("--port", str(port), "--mnemogate", str(program)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(base),
            "MNEMOGATE_STATE": str(base / "state"),
            "MNEMOGATE_CHECKPOINT": str(base / "checkpoint.txt"),
        },
    )
    try:
        yield Dialog(process, port)
    finally:
        process.kill()
        await process.wait()


def settings(base: Path, model: str, port: int) -> str:
    headers = base / "headers"
    headers.write_text("Authorization: Bearer sk-of-the-provider\n")
    headers.chmod(0o600)
    table = (EXAMPLE / "mnemogate.toml").read_text(encoding="utf-8")
    for place, here in (
        ("https://api.openai.com", model),
        ("/run/secrets/openai-headers", str(headers)),
        ("/run/secrets/webhook-secret", str(base / "webhook-secret")),
        ("127.0.0.1:8099", f"127.0.0.1:{port}"),
    ):
        assert place in table
        table = table.replace(place, here)
    return table


@pytest.mark.parametrize("word", ["yes", "no"])
async def test_the_product_s_dialog_asks_as_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    page = web.Application()
    page.router.add_get("/", _page)
    async with (
        scripted_model() as model,
        on_free_port(page) as pages,
        dialog(tmp_path) as product,
    ):
        noted = {"label": "human", "content": RULE}
        steps = [("fetch", {"url": pages}), ("core_memory_append", noted)]

        def move(context: Context) -> Move:
            asks = "I allowed it." in context.read[-1]
            if not steps and asks:
                steps.append(("core_memory_append", noted))
            call = steps.pop(0) if steps else None
            if call is None:
                return Move(text="It opens at nine.")
            made = Proposed(call_id=f"call_{len(steps)}_{asks}", name=call[0], arguments=call[1])
            return Move(text="I see.", calls=(made,))

        model.move = move
        tables = settings(tmp_path, model.url, product.port)
        async with running(tmp_path, Composition(wait=soon), tables=tables) as front:
            person = chat(f"{front.url}/openai/v1")
            await asyncio.to_thread(person.say, "When does it open? In French, please, always.")
            await product.until("yes or no: ")
            assert not (tmp_path / "profile.txt").exists()
            await product.says(word)
            await product.until("tell it to\n" if word == "yes" else "--history\n")
            await asyncio.to_thread(person.say, "I allowed it.")
    kept = tmp_path / "profile.txt"
    if word == "no":
        assert not kept.exists()
        return
    assert kept.read_text() == f"human: {RULE}\n"
    assert as_shown(product.shown).strip() == shown_there()


async def test_a_notice_that_the_gate_did_not_sign_is_asked_about_by_no_dialog(
    tmp_path: Path,
) -> None:
    body = b'{"data": {"held": [{"id": "not-there"}]}}'
    async with dialog(tmp_path) as product, ClientSession() as client:
        url = f"http://127.0.0.1:{product.port}/"

        async def told(key: bytes, moment: float) -> int:
            stamp = int(moment)
            headers = {
                "webhook-id": "m",
                "webhook-timestamp": str(stamp),
                "webhook-signature": signature(key, "m", stamp, body),
            }
            for _ in range(100):  # until it listens
                try:
                    async with client.post(url, data=body, headers=headers) as answer:
                        return answer.status
                except ClientConnectorError:
                    await asyncio.sleep(0.1)
            raise AssertionError("the dialog does not listen")

        assert await told(KEY[::-1], time.time()) == 401
        assert await told(KEY, time.time() - 3_600) == 401
        assert await told(KEY, time.time()) == 204, "control"


async def _page(_request: web.Request) -> web.Response:
    return web.Response(text=PAGE)
