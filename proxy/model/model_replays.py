"""Replays a request whose reply was wrong, with some memories removed from the request.

The newest requests are kept for replays, in memory alone. Each is encrypted under its own key,
which is dropped with the request, so that bytes left in freed memory cannot be read. A request is
dropped after an hour, with the incident that used it, or with the process.

A replay returns the words of the model's new reply and nothing else. The tool calls of the new
reply are neither judged nor made.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from policy.model import Memory, Tenant
from proxy.dialects.model.api import APIS, RESPONSES
from proxy.dialects.model.reading import list_of, object_of
from proxy.dialects.model.transcript import Where
from proxy.dialects.model.withheld import LeftUnchanged
from proxy.dialects.strict_json.tolerant import Json, read_body, write_body
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest
from proxy.model.upstream_model import REPLY_BYTES_MAX
from proxy.seams.environment import Serving
from proxy.seams.faults import MalformedRequest, UpstreamError
from proxy.settings.after import ReplaySettings
from proxy.settings.model import ModelUpstream
from proxy.transport.upstream import Upstream, UpstreamLimits
from proxy.withhold.left_out import without

KEPT_S: Final = 3_600.0
"""Seconds for which a request is kept, unless a newer one takes its place earlier."""
OF_SESSION_MAX: Final = 32
"""The number of requests of one session that are kept: the newest ones."""
BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of all kept requests together; the oldest requests are dropped first."""
_BYTES_OF_TOKEN: Final = 4
_REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024
_DAY_MS: Final = 86_400_000
_NONCE_LEN: Final = 12
_OK: Final = 200
# Headers that tell how to parse a body. None is a credential: the `[[model]]` table has its own.
_MEANT: Final = frozenset({"anthropic-version", "anthropic-beta", "openai-beta"})
# Types of tools whose calls the client executes. A tool of type `namespace` groups other tools.
_OWN_TOOLS: Final = frozenset({"function", "custom"})
# With these members of a request the provider stores a conversation, or runs tools of its own: MCP
# servers, or the tools of a stored prompt.
_HOSTED: Final = ("conversation", "mcp_servers", "prompt", "container")
# Members that are only valid for a reply that is streamed or made in the background.
_FOR_STREAMS: Final = frozenset({"stream_options", "background"})
_STEADY: Final[dict[str, Json]] = {
    "stream": False,
    "n": 1,
    "candidateCount": 1,
    "temperature": 0,
}
_CONFIG: Final = "generationConfig"
_API_BY_NAME: Final = {one.name: one for one in APIS}


class _Request(msgspec.Struct, frozen=True, array_like=True):
    """One whole request to a model API; the last three fields are those of `LeftUnchanged`."""

    target: str
    headers: dict[str, str]
    body: bytes
    typed: tuple[tuple[Where, tuple[tuple[int, int], ...]], ...]
    trusted: tuple[Where, ...]
    stands: tuple[str, ...]


class _KeptRequest(msgspec.Struct, frozen=True):
    """One encrypted request, its key, and the facts that are needed without decrypting it."""

    upstream: str
    api: str
    session: tuple[str, str]
    key: bytes
    data: bytes
    ends: asyncio.TimerHandle


_Name: TypeAlias = "tuple[Tenant, str]"
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Request)


def meant(headers: dict[str, str]) -> dict[str, str]:
    """The headers of a request that a replay sends again."""
    return {name: value for name, value in headers.items() if name in _MEANT}


class ModelReplays:
    """Keeps requests and replays them (`ReplaysModels`). Event loop only; one replay at a time."""

    def __init__(
        self,
        models: tuple[ModelUpstream, ...],
        settings: ReplaySettings,
        now_ms: Callable[[], int],
        holds: Callable[[], bool] = lambda: True,
    ) -> None:
        """While `holds` is false, nothing is replayed: another process may hold the store."""
        self._models = {one.name: one for one in models if one.name in settings.models}
        self._settings = settings
        self._now_ms = now_ms
        self._holds = holds
        self._kept: OrderedDict[_Name, _KeptRequest] = OrderedDict()
        self._bytes = 0
        self._asked_ms: deque[int] = deque()
        # The tokens that the replays about a reply cost: all of them, and the dearest one.
        self._spent: dict[_Name, tuple[int, int]] = {}
        self._asking = asyncio.Semaphore(1)

    # ---- keeping requests ------------------------------------------------------------------------

    def keeps(self, asked: PrincipalRequest) -> bool:
        """Whether requests of this one's API and `[[model]]` table are kept for replays."""
        known = asked.upstream in self._models and asked.api.name in _API_BY_NAME
        return known and not asked.extracts

    def keep(self, prepared: PreparedRequest, reply_id: str) -> None:
        """Keep a reply's request, if it contains memories and a replay of it has no side effect."""
        asked = prepared.asked
        name = (asked.principal.tenant, reply_id)
        if not self.keeps(asked) or not reply_id or not prepared.memories or name in self._kept:
            return
        if prepared.request.searches or _runs_alone(prepared.body):
            return
        body = write_body(prepared.body)
        if len(body) > _REQUEST_BYTES_MAX:
            return
        leave = prepared.leave
        request = _Request(
            target=asked.target,
            headers=asked.headers,
            body=body,
            typed=tuple(leave.typed.items()),
            trusted=tuple(leave.trusted),
            stands=leave.stands,
        )
        key, nonce = AESGCM.generate_key(256), secrets.token_bytes(_NONCE_LEN)
        data = nonce + AESGCM(key).encrypt(nonce, _ENCODER.encode(request), None)
        session = (asked.principal.principal_id, prepared.session)
        ends = asyncio.get_running_loop().call_later(KEPT_S, self._forget, name)
        self._kept[name] = _KeptRequest(asked.upstream, asked.api.name, session, key, data, ends)
        self._bytes += len(data)
        of_session = [other for other, one in self._kept.items() if one.session == session]
        for other in of_session[:-OF_SESSION_MAX]:
            self._forget(other)
        while self._bytes > BYTES_MAX:
            self._forget(next(iter(self._kept)))

    def _forget(self, name: _Name) -> None:
        gone = self._kept.pop(name, None)
        if gone is not None:
            gone.ends.cancel()
            self._spent.pop(name, None)
            self._bytes -= len(gone.data)

    def close(self) -> None:
        """Forget every request."""
        for name in tuple(self._kept):
            self._forget(name)

    # ---- replaying requests ----------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        """The names of the `[[model]]` tables whose requests may be replayed."""
        return tuple(self._models)

    def has(self, name: str, tenant: Tenant, reply_id: str) -> bool:
        """Whether the request of a reply is kept, and was sent to the `[[model]]` table `name`."""
        kept = self._kept.get((tenant, reply_id))
        return kept is not None and kept.upstream == name

    def forget(self, tenant: Tenant, reply_id: str) -> None:
        """Forget the request of a reply, because the incident about the reply is over."""
        self._forget((tenant, reply_id))

    def asks_left(self) -> int:
        """How many replays may be made for one incident that begins now."""
        day, now_ms = self._asked_ms, self._now_ms()
        while day and day[0] <= now_ms - _DAY_MS:
            day.popleft()
        return min(self._settings.asks_max, self._settings.day_asks_max - len(day))

    def affords(self, tenant: Tenant, reply_id: str) -> bool:
        """Whether one more replay about a reply stays within the limit of tokens.

        A replay is expected to cost as much as the dearest one before it, and the first one a token
        for each four bytes of the request.
        """
        kept = self._kept.get((tenant, reply_id))
        if kept is None:
            return True
        expected = (0, len(kept.data) // _BYTES_OF_TOKEN)
        return sum(self._spent.get((tenant, reply_id), expected)) <= self._settings.tokens_max

    def _spend(self, name: _Name, tokens: int) -> None:
        if name in self._kept:
            total, dearest = self._spent.get(name, (0, 0))
            self._spent[name] = (total + tokens, max(dearest, tokens))

    async def said(
        self, tenant: Tenant, reply_id: str, present: Sequence[Memory], out: Sequence[Memory]
    ) -> tuple[str, ...] | None:
        """Replay a request without the memories `out`; return the words of the new reply.

        None if the request is not kept, no replay is left, or the model answers with no words.
        """
        name = (tenant, reply_id)
        kept = self._kept.get(name)
        if kept is None or self.asks_left() <= 0:
            return None
        self._asked_ms.append(self._now_ms())
        nonce, data = kept.data[:_NONCE_LEN], kept.data[_NONCE_LEN:]
        request = _DECODER.decode(AESGCM(kept.key).decrypt(nonce, data, None))
        body = await asyncio.to_thread(_once_more, request, kept.api, present, out)
        table, seconds = self._models[kept.upstream], self._settings.answer_seconds
        limits = UpstreamLimits(
            head_seconds=seconds,
            body_seconds=seconds,
            body_bytes_max=REPLY_BYTES_MAX,
            connections_max=1,
        )
        headers = {**request.headers, "content-type": "application/json"}
        cost = len(body) // _BYTES_OF_TOKEN
        try:
            async with (
                self._asking,
                asyncio.timeout(seconds),
                Upstream(
                    table.url,
                    headers=table.headers,
                    limits=limits,
                    way=table,
                    serving=Serving(holds=self._holds),
                ) as upstream,
                upstream.send("POST", headers, body, request.target) as reply,
            ):
                if reply.status != _OK:
                    return None
                raw = await upstream.whole(reply)
                answer = read_body(raw)
                cost = _tokens_of(answer) or (len(body) + len(raw)) // _BYTES_OF_TOKEN
                said = _API_BY_NAME[kept.api].read_reply(answer)
        except (TimeoutError, UpstreamError, MalformedRequest, OSError):
            return None
        finally:
            self._spend(name, cost)
        texts = tuple(text for text in said.said if text.strip())
        # A reply without words calls a tool, and what the model says after that call is unknown.
        return texts or None


def _tokens_of(reply: dict[str, Json]) -> int:
    """The tokens that a reply cost, as its provider reports; 0 if it reports none."""
    usage = object_of(reply.get("usage"))
    counts = {name: count for name, count in usage.items() if type(count) is int and count > 0}
    return counts.get("total_tokens") or sum(
        count for name, count in counts.items() if name.endswith("_tokens")
    )


def _runs_alone(body: dict[str, Json]) -> bool:
    """Whether sending a request again may do more than make the model speak.

    It may if the request offers a tool that the provider runs by itself, with the tool's
    credentials in the request, or if it belongs to a conversation that the provider stores. A tool
    of an unknown type counts as one that the provider runs.
    """
    return any(body.get(key) for key in _HOSTED) or any(map(_is_hosted, list_of(body.get("tools"))))


def _is_hosted(tool: Json) -> bool:
    kind = object_of(tool).get("type", "custom")
    if kind == "namespace":
        return any(map(_is_hosted, list_of(object_of(tool).get("tools"))))
    return kind not in _OWN_TOOLS


def _once_more(
    request: _Request, api: str, present: Sequence[Memory], out: Sequence[Memory]
) -> bytes:
    """The body of a replay: a kept request without the memories `out`, and without streaming."""
    leave = LeftUnchanged(
        typed=dict(request.typed), trusted=frozenset(request.trusted), stands=request.stands
    )
    body = without(read_body(request.body), api, leave, out=out, present=present)
    made = _steady({name: value for name, value in body.items() if name not in _FOR_STREAMS})
    if _CONFIG in made:
        made[_CONFIG] = _steady(object_of(made[_CONFIG]))
    if "store" in made or api == RESPONSES.name:
        # The Responses API stores each reply unless it is told not to.
        made["store"] = False
    return write_body(made)


def _steady(settings: dict[str, Json]) -> dict[str, Json]:
    """The settings of one whole reply that varies as little as it can.

    Some models refuse a temperature, so each setting is only changed where the agent gave it.
    """
    return {name: _STEADY.get(name, value) for name, value in settings.items()}
