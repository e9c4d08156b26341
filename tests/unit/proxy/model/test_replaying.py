"""Requests are kept for a replay in memory alone, sealed, and no longer or more than is said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import msgspec
import pytest

from policy.model import MemoryId
from proxy.dialects.model.api import CHAT, RESPONSES
from proxy.dialects.model.transcript import ModelRequest
from proxy.dialects.strict_json.tolerant import Json
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest
from proxy.model.model_replays import OF_SESSION_MAX, ModelReplays, meant
from proxy.settings.after import ReplaySettings
from proxy.settings.model import ModelUpstream
from storage.features.recalls import InContext
from tests.conformance.canary import new_canary
from tests.unit.storage.opening import AGENT

TENANT = AGENT.tenant


class _Table:
    """As much of a `[[model]]` table as keeping a request takes."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
async def replays() -> AsyncGenerator[ModelReplays]:
    tables: tuple[ModelUpstream, ...] = (_Table("openai"), _Table("other"))  # type: ignore[assignment]
    settings = ReplaySettings(models=frozenset({"openai"}), asks_max=2, day_asks_max=3)
    made = ModelReplays(tables, settings, lambda: 0)
    yield made
    made.close()


def prepared(text: str = "x", session: str = "s", **fields: object) -> PreparedRequest:
    asked: dict[str, object] = {"principal": AGENT, "api": CHAT, "upstream": "openai", "body": {}}
    context = InContext(ordinal=1, memory_id=MemoryId("m"), recall_id="", spans=())
    return PreparedRequest(
        asked=PrincipalRequest(trace=None, maps=None, **(asked | fields)),  # type: ignore[arg-type]
        request=ModelRequest(system=(), prefix=("messages",), turns=(), catalogue=()),
        body={"messages": [{"role": "user", "content": text}]},
        session=session,
        memories=(context,),
    )


async def test_the_newest_requests_of_each_session_are_kept(replays: ModelReplays) -> None:
    replays.keep(prepared(session="other"), "first")
    for number in range(OF_SESSION_MAX + 1):
        replays.keep(prepared(), f"reply {number}")
    kept = [replays.has("openai", TENANT, f"reply {at}") for at in range(OF_SESSION_MAX + 1)]
    assert kept == [False, *[True] * OF_SESSION_MAX]
    assert replays.has("openai", TENANT, "first"), "another session's requests stay"
    replays.close()
    assert not replays.has("openai", TENANT, "first")


async def test_all_requests_together_have_no_more_than_their_bytes(
    replays: ModelReplays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.model.model_replays.BYTES_MAX", 10_000)
    for number in range(4):
        replays.keep(prepared("x" * 4_000), f"reply {number}")
    assert [replays.has("openai", TENANT, f"reply {at}") for at in range(4)] == [
        False,
        False,
        True,
        True,
    ]


async def test_a_request_is_gone_when_its_time_is_over(
    replays: ModelReplays, monkeypatch: pytest.MonkeyPatch
) -> None:
    replays.keep(prepared(), "stays")
    monkeypatch.setattr("proxy.model.model_replays.KEPT_S", 0.0)
    replays.keep(prepared(), "goes")
    assert replays.has("openai", TENANT, "goes"), "control: it was kept"
    # The loop's timers fire in the order of their times, so this one is behind the request's own.
    await asyncio.sleep(0.01)
    assert not replays.has("openai", TENANT, "goes")
    assert replays.has("openai", TENANT, "stays")


async def test_a_kept_request_is_encrypted_and_another_model_or_tenant_has_none(
    replays: ModelReplays,
) -> None:
    canary = new_canary()
    replays.keep(prepared(canary), "reply")
    assert canary not in repr(vars(replays))
    assert replays.has("openai", TENANT, "reply")
    assert not replays.has("other", TENANT, "reply")
    assert not replays.has("openai", TENANT.__class__("elsewhere"), "reply")
    replays.keep(prepared(upstream="other"), "another")
    replays.keep(prepared(extracts=True), "another")
    assert not replays.has("other", TENANT, "another")
    assert not replays.has("openai", TENANT, "another")


def test_no_credential_is_kept_with_a_request() -> None:
    sent = {"authorization": "Bearer x", "x-api-key": "y", "anthropic-version": "2023-06-01"}
    assert meant(sent) == {"anthropic-version": "2023-06-01"}


TOOL: Json = {"type": "mcp", "server_url": "https://crm.example/mcp", "authorization": "Bearer x"}


BODIES: list[tuple[dict[str, Json], bool]] = [
    ({"tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]}, True),
    ({"tools": [{"name": "f", "input_schema": {}}]}, True),
    ({"tools": [{"type": "namespace", "tools": [{"type": "function"}]}]}, True),
    ({"tools": [{"type": "function", "name": "f"}, TOOL]}, False),
    ({"tools": [{"type": "namespace", "tools": [TOOL]}]}, False),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, False),
    ({"mcp_servers": [{"url": "https://crm.example/mcp"}]}, False),
    ({"web_search_options": {}}, False),
    ({"conversation": "conv_1"}, False),
]


@pytest.mark.parametrize(("body", "kept"), BODIES)
async def test_a_request_with_a_tool_that_the_provider_runs_is_not_kept(
    replays: ModelReplays, body: dict[str, Json], *, kept: bool
) -> None:
    given = prepared()
    whole: dict[str, Json] = {**given.body, **body}
    request = (RESPONSES if "tools" in body else CHAT).read_request(whole)
    replays.keep(msgspec.structs.replace(given, body=whole, request=request), "reply")
    assert replays.has("openai", TENANT, "reply") is kept
