"""The composed sidecar before a scripted model, and a client that speaks all four APIs to it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from policy.model import Principal
from proxy.compose.app import Composition
from proxy.dialects.model.reading import list_of
from proxy.dialects.model.replies_withheld import ReplyFilter
from proxy.dialects.model.transcript import ModelCall, ModelReply
from proxy.dialects.sse import Event
from proxy.dialects.strict_json.tolerant import Json as AnyJson
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest
from tests.integration.models.server import ScriptedModel, scripted_model
from tests.integration.running import AGENT_KEY, Running, running
from tests.uncoupled import UnsafeUncoupled

Json = dict[str, Any]

MODEL_KEY = "provider-credential-of-the-sidecar"
APIS = ("anthropic", "chat", "responses", "gemini")
PATHS = {
    "anthropic": "/anthropic/v1/messages",
    "chat": "/openai/v1/chat/completions",
    "responses": "/openai/v1/responses",
    "gemini": "/gemini/v1beta/models/scripted:generateContent",
}
REFUSAL = "Not stored (class_floor, L1). Do not try again with the same text."


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Json:
        return msgspec.json.decode(self.raw, type=Json)


class Bench:
    """A sidecar, the model behind it, and requests to both."""

    def __init__(self, front: Running, model: ScriptedModel) -> None:
        self.front = front
        self.model = model

    async def send(
        self,
        method: str,
        path: str,
        body: Json | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = AGENT_KEY,
    ) -> Answer:
        raw = json.dumps(body).encode() if isinstance(body, dict) else body
        sent = {"Content-Type": "application/json", **(headers or {})}
        if key is not None:
            sent["X-Api-Key"] = key
        url = self.front.url + path
        async with self.front.client.request(method, url, data=raw, headers=sent) as got:
            named = {name.lower(): value for name, value in got.headers.items()}
            return Answer(status=got.status, headers=named, raw=await got.read())

    async def ask(self, api: str, body: Json, headers: Mapping[str, str] | None = None) -> Answer:
        return await self.send("POST", *sent_as(api, body), headers)

    async def ask_direct(self, api: str, body: Json) -> Answer:
        path, body = sent_as(api, body)
        path = path[path.index("/", 1) :]
        async with self.front.client.post(self.model.url + path, json=body) as got:
            named = {name.lower(): value for name, value in got.headers.items()}
            return Answer(status=got.status, headers=named, raw=await got.read())


def sent_as(api: str, body: Json) -> tuple[str, Json]:
    """The path and the body of a request: the path of one API says whether it streams."""
    if api != "gemini":
        return PATHS[api], body
    streamed = PATHS[api].replace(":generate", ":streamGenerate") + "?alt=sse"
    path = streamed if body.get("stream") else PATHS[api]
    return path, {key: body[key] for key in body if key != "stream"}


@asynccontextmanager
async def fronted(
    base: Path,
    composition: Composition | None = None,
    more: str = "",
    flags: Mapping[str, str] | None = None,
    beside: str = "",
) -> AsyncGenerator[Bench]:
    """A sidecar with `/anthropic`, `/openai` and `/gemini` before one scripted model.

    `more` is in each table, `beside` below them.
    """
    secrets = base / "provider-headers"
    secrets.write_text(f"Authorization: Bearer {MODEL_KEY}\n")
    secrets.chmod(0o600)
    async with scripted_model() as model:
        tables = "".join(
            f'[[model]]\nname = "{name}"\napi = "{name}"\nurl = "{model.url}"\n'
            f'headers_file = "{secrets}"\n{more}\n'
            for name in ("anthropic", "openai", "gemini")
        )
        async with running(base, composition, flags, tables + beside) as front:
            yield Bench(front, model)


def asking(
    api: str, prompt: str, *, stream: bool = False, tools: tuple[str, ...] = (), said: str = ""
) -> Json:
    """A request that holds one user turn, behind what she `said` in another one."""
    if api == "gemini":
        contents = [{"role": "user", "parts": [{"text": one}]} for one in (said, prompt) if one]
        declared = [{"name": name} for name in tools]
        offered = [{"functionDeclarations": declared}] if tools else []
        streams: Json = {"stream": True} if stream else {}
        return {"contents": contents, "tools": offered, **streams}
    body: Json = {"model": "scripted"}
    turns = [{"role": "user", "content": one} for one in (said, prompt) if one]
    if api == "anthropic":
        body |= {"max_tokens": 64, "messages": turns}
        body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
    elif api == "chat":
        body["messages"] = turns
        body["tools"] = [{"type": "function", "function": {"name": name}} for name in tools]
    else:
        body["input"] = turns if said else prompt
        body["tools"] = [{"type": "function", "name": name} for name in tools]
    return {**body, "stream": True} if stream else body


def shown(answer: Answer) -> str:
    """The answer, and its streamed texts and arguments put together."""
    text = answer.raw.decode()
    keys = "partial_json|arguments|delta|text|content|error"
    return text + "".join(re.findall(rf'"(?:{keys})": ?"((?:[^"\\]|\\.)*)"', text))


def call(name: str, **arguments: AnyJson) -> str:
    """The directive that makes the scripted model call a tool."""
    return f"CALL {name} {json.dumps(arguments)} ENDCALL"


class ScriptedFilter(ReplyFilter):
    """Takes the refused word out of every event that holds it whole."""

    def __init__(self, coupling: ScriptedCoupling) -> None:
        self._coupling = coupling

    def feed(self, event: Event) -> list[Event]:
        for word in self._coupling.refused:
            raw = event.raw.replace(word.encode(), b"[withheld]")
            data = None if event.data is None else event.data.replace(word, "[withheld]")
            event = Event(raw=raw, name=event.name, data=data)
        return [event]

    def end(self) -> list[Event]:
        return []


class ScriptedCoupling(UnsafeUncoupled):
    """Refuses calls whose arguments hold a word, and notes what it was asked."""

    def __init__(self, poison: str = "POISON") -> None:
        self.poison = poison
        self.refused: set[str] = set()  # words that were refused, and are carried from then on
        self.told: list[ModelReply] = []
        self.prepared: list[PrincipalRequest] = []

    async def prepare(self, asked: PrincipalRequest) -> PreparedRequest:
        self.prepared.append(asked)
        prepared = await super().prepare(asked)
        body = self.sieved(asked.principal, asked.body)
        assert isinstance(body, dict)
        return msgspec.structs.replace(prepared, body=body, session="s")

    async def judge(
        self, prepared: PreparedRequest, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        told = {call.call_id for reply in self.told for call in reply.calls}
        assert {call.call_id for call in calls} <= told, "noted before it is judged"
        bad = [self.poison in json.dumps(call.arguments) for call in calls]
        self.refused |= {self.poison} if any(bad) else set()
        return tuple(REFUSAL if one else None for one in bad)

    async def replied(self, prepared: PreparedRequest, reply: ModelReply) -> None:
        self.told.append(reply)

    def filter(self, prepared: PreparedRequest) -> ScriptedFilter:
        return ScriptedFilter(self)

    def sieved(self, principal: Principal, value: AnyJson) -> AnyJson:
        if isinstance(value, str):
            # JSON in a string stays JSON.
            return "[withheld]".join(value.split(self.poison)) if self.refused else value
        if isinstance(value, list):
            return [self.sieved(principal, one) for one in list_of(value)]
        if isinstance(value, dict):
            return {key: self.sieved(principal, one) for key, one in value.items()}
        return value


def coupled(coupling: UnsafeUncoupled) -> Composition:
    return Composition(couple=lambda _: coupling)
