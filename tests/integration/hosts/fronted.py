"""A model URL for an agent: the scripted model's own, or the sidecar's, recorded on each side.

agent --[agent]--> sidecar --[upstream]--> model        guarded
agent --[agent]--> model                                direct
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from proxy.compose.app import Composition
from proxy.settings.values import Raw
from tests.integration.hosts.guarded import Table, settings_text
from tests.integration.hosts.http_tee import HttpExchange, HttpTee, http_tee
from tests.integration.hosts.script import ANTHROPIC, GEMINI, OPENAI, ModelServer, serving
from tests.integration.hosts.views import Value
from tests.integration.running import AGENT_KEY, Running, running

# What the operator has and no agent: it goes upstream in the place of the agent's own key.
PROVIDER_KEY: Final = "provider-key-0123456789"
_CREDENTIAL: Final = {
    ANTHROPIC: f"x-api-key: {PROVIDER_KEY}\n",
    OPENAI: f"Authorization: Bearer {PROVIDER_KEY}\n",
    GEMINI: f"x-goog-api-key: {PROVIDER_KEY}\n",
}
_NO_TEXT: Final = {"type", "role", "id"}


class Fronted(NamedTuple):
    """What an agent is given, and what both sides of it said."""

    url: str  # for the agent: without `/v1`
    key: str
    agent: HttpTee
    upstream: HttpTee
    model: ModelServer
    live: Running | None

    @property
    def sidecar(self) -> Running:
        assert self.live is not None
        return self.live


@asynccontextmanager
async def direct(model: ModelServer) -> AsyncGenerator[Fronted]:
    """The model as the agent has it without us."""
    async with serving(model), http_tee(model.url) as tee:
        yield Fronted(tee.url, "nothing", tee, tee, model, None)


@asynccontextmanager
async def fronted(
    base: Path,
    model: ModelServer,
    *,
    mcp: Mapping[str, Table] | None = None,
    flags: Mapping[str, Raw] | None = None,
    before: Callable[[], Awaitable[None]] | None = None,
    composition: Composition | None = None,
    more: Table | None = None,
) -> AsyncGenerator[Fronted]:
    """The same model behind a sidecar, whose home is `base`; it alone has the provider's key.

    `before` is awaited when a request has come to the model, before it answers. `more` stands in
    the model's table.
    """
    api = model.api
    async with serving(model, before), http_tee(model.url) as upstream:
        headers = base / "headers.txt"
        headers.parent.mkdir(parents=True, exist_ok=True)
        headers.write_text(_CREDENTIAL[api], encoding="utf-8")
        headers.chmod(0o600)
        table: Table = {"api": api, "url": upstream.url, "headers_file": str(headers)}
        table |= more or {}
        text = settings_text({"model": {api: table}, "mcp": mcp or {}})
        async with (
            running(base, composition, flags, text) as live,
            http_tee(live.url) as agent,
        ):
            yield Fronted(f"{agent.url}/{api}", AGENT_KEY, agent, upstream, model, live)


def answered(exchanges: Sequence[HttpExchange]) -> str:
    """All that was answered: as it was written, and the pieces of each stream put together."""
    parts: list[str] = []
    for one in exchanges:
        parts += [repr(one.headers), one.body.decode("utf-8", "replace")]
        pieces = [piece for event in one.messages() for piece in _pieces(event)]
        parts.append("".join(pieces))
    return "\n".join(parts)


def asked(exchanges: Sequence[HttpExchange]) -> str:
    """All that was asked, as it was written."""
    return "\n".join(one.asked.decode("utf-8", "replace") for one in exchanges)


def _pieces(event: bytes) -> Iterator[str]:
    """The text in what an event adds to a stream: whatever stands below a `delta`."""
    try:
        yield from _strings_below(json.loads(event), added=False)
    except ValueError:
        return


def _strings_below(value: Value, *, added: bool) -> Iterator[str]:
    if isinstance(value, str):
        if added:
            yield value
    elif isinstance(value, list):
        for one in value:
            yield from _strings_below(one, added=added)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name in _NO_TEXT:
                continue
            yield from _strings_below(one, added=added or name == "delta")
