"""Unmodified SDKs in a chat in which a person is asked: the model reads none of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from proxy.dialects.model.confirm.block import ANSWERED, HEADING, Outcomes
from tests.integration.chat_agent import CONFIRM, FOUND, LIKES, PAGE, noting
from tests.integration.clients.environments import python_environment
from tests.integration.clients.process import drive_client
from tests.integration.model_bench import Bench, fronted
from tests.integration.running import AGENT_KEY
from tests.integration.test_model_clients import ANTHROPIC, OPENAI

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]
Json = dict[str, Any]
_ADDRESS = re.compile(rb"http://127\.0\.0\.1:\d+/confirm/[0-9a-f]{32}")
DRIVE = Path(__file__).parent / "clients" / "confirm_drive.py"


async def driven(bench: Bench, api: str, how: str, home: Path) -> Json:
    package, version = ("anthropic", ANTHROPIC) if api == "anthropic" else ("openai", OPENAI)
    environment = {
        "ANTHROPIC_BASE_URL": f"{bench.front.url}/anthropic",
        "ANTHROPIC_API_KEY": AGENT_KEY,
        "OPENAI_BASE_URL": f"{bench.front.url}/openai/v1",
        "OPENAI_API_KEY": AGENT_KEY,
    }
    interpreter = python_environment(package, version)
    words = (str(interpreter), str(DRIVE), api, how, ANSWERED)
    return await drive_client(*words, home=home, environment=environment)


def _bodies(bench: Bench) -> list[bytes]:
    """What the model was sent, without the addresses of pages: port and ids are of one run."""
    return [_ADDRESS.sub(b"(the page)", one.raw) for one in bench.model.requests]


@pytest.mark.parametrize("api", ["anthropic", "chat", "responses"])
@pytest.mark.parametrize(
    ("how", "texts"), [("whole", (LIKES,)), ("stream", (LIKES, PAGE, FOUND))], ids=["one", "three"]
)
async def test_a_person_decides_in_the_chat_and_the_model_reads_none_of_it(
    tmp_path: Path, api: str, how: str, texts: tuple[str, ...]
) -> None:
    home = tmp_path / "home"
    (tmp_path / "asked").mkdir()
    (tmp_path / "not asked").mkdir()
    async with fronted(tmp_path / "asked", more=CONFIRM) as bench:
        bench.model.move = noting(texts)
        seen = await driven(bench, api, how, home)
        left = bench.front.sidecar.store.reader.held()
        bodies = _bodies(bench)
        sent = bench.model.sent_upstream().decode()
    assert len(seen["codes"]) == len(texts), seen
    assert seen["told"].endswith(Outcomes.ALLOWED), seen
    assert HEADING not in seen["last"]
    assert left == ()
    for ours in (HEADING, *seen["codes"], "Mnemogate:"):
        assert ours not in sent
    assert sent.count(ANSWERED) == 2, "her answer in two requests, and one fixed sentence for it"
    if how == "whole":
        return
    async with fronted(tmp_path / "not asked") as bench:
        bench.model.move = noting(texts)
        plain = await driven(bench, api, how, home)
        assert bodies == _bodies(bench), "a provider's cache holds"
        assert plain["codes"] == []
        assert len(bench.front.sidecar.store.reader.held()) == len(texts), "control"
