"""Codex with a ChatGPT login, before a provider that is named OpenAI: it sends its bodies in zstd.

The login is made up, and no provider is asked.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from proxy.seams.faults import MalformedRequest
from proxy.transport import listener
from tests.integration.clients.process import run_client
from tests.integration.hosts.fronted import PROVIDER_KEY, fronted
from tests.integration.hosts.hosts import CODEX_OWN_MODEL, UNSAFE_SHELL, codex_program
from tests.integration.hosts.http_tee import http_tee
from tests.integration.hosts.responses_model import ResponsesModel
from tests.integration.hosts.script import calling
from tests.integration.running import AGENT_KEY

pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=0), pytest.mark.timeout(600)]
CONFIG: Final = """\
model = "{model}"
model_provider = "mnemogate"
[model_providers.mnemogate]
name = "OpenAI"
base_url = "{url}/openai/v1"
wire_api = "responses"
requires_openai_auth = true
http_headers = {{ "Mnemogate-Key" = "{key}" }}
"""
ACCOUNT: Final = {
    "chatgpt_plan_type": "pro",
    "chatgpt_user_id": "u",
    "chatgpt_account_id": "a",
}
ZSTD: Final = bytes.fromhex("28b52ffd")
EXPIRES_S: Final = 4_102_444_800  # in the year 2100
CLAIM: Final = "https://api.openai.com/auth"


class Watched(ResponsesModel):
    """The scripted model, with the heads and the bytes of its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.heads: list[Mapping[str, str]] = []
        self.raw: list[bytes] = []

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        self.heads.append(request.headers)
        self.raw.append(await request.read())
        return await super()._responses(request)


def token(**claims: object) -> str:
    """A token with the form of one, which no one signed."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return ".".join((part({"alg": "none", "typ": "JWT"}), part(claims), "c2ln"))


def logged_in(home: Path, url: str, model: str) -> None:
    settings = home / ".codex"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text(
        CONFIG.format(url=url, key=AGENT_KEY, model=model), encoding="utf-8"
    )
    login: dict[str, Any] = {
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": None,
        "last_refresh": "2026-11-28T14:00:00Z",
        "tokens": {
            "id_token": token(email="ada@example.org", exp=EXPIRES_S, **{CLAIM: ACCOUNT}),
            "access_token": token(exp=EXPIRES_S, **{CLAIM: ACCOUNT}),
            "refresh_token": "r",
            "account_id": "a",
        },
    }
    (settings / "auth.json").write_text(json.dumps(login), encoding="utf-8")


async def asked(tmp_path: Path, model: Watched, name: str = "gpt-5.5") -> tuple[int, str]:
    """Exit code and output of a session of Codex of two turns; its model runs a command."""
    home = tmp_path / "home"
    flags = ("--skip-git-repo-check", "--json", UNSAFE_SHELL)
    command = calling(("/exec_command", {"cmd": "echo one"}))
    async with (
        fronted(tmp_path / "ours", model) as at,
        http_tee(at.sidecar.url, opens=False) as tee,
    ):
        await asyncio.to_thread(logged_in, home, tee.url, name)
        code, out, _ = await run_client(codex_program(), "exec", *flags, command, home=home)
        again = ("exec", "resume", "--last", *flags, "Thank you.")
        if code == 0:
            code, _, _ = await run_client(codex_program(), *again, home=home)
    turns = [one for one in tee.exchanges if one.path.endswith("/responses") and one.status == 200]
    assert all(one.asked.startswith(ZSTD) for one in turns), "control: Codex does compress them"
    answers = [one.body for one in at.upstream.exchanges if one.method == "POST"]
    assert [one.body for one in turns] == answers, "byte for byte"
    return code, out


@pytest.mark.parametrize("name", ["gpt-5.5", CODEX_OWN_MODEL])
async def test_codex_with_a_login_works_and_its_model_gets_plain_bodies(
    tmp_path: Path, name: str
) -> None:
    model = Watched()
    code, out = await asked(tmp_path, model, name)
    assert code == 0, out
    assert "FINAL: 1 calls made." in out
    assert len(model.requests) == 3
    for head, raw in zip(model.heads, model.raw, strict=True):
        assert "Content-Encoding" not in head
        assert head["Content-Length"] == str(len(raw))
        assert json.loads(raw)["model"] == name
        assert PROVIDER_KEY not in str(head), "its login is forwarded, not the sidecar's key"


async def test_control_codex_with_a_login_is_dead_where_no_body_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(header: str) -> tuple[str, ...]:
        if header:
            raise MalformedRequest("content-encoding: send the body as it is", status=415)
        return ()

    monkeypatch.setattr(listener, "codings_of", unread)
    model = Watched()
    code, out = await asked(tmp_path, model)
    assert code != 0
    assert "unsupported_media_type" in out
    assert model.requests == []
