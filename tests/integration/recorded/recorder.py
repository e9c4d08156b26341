"""One client at a time, and everything it sees written down without what chance put into it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.integration.recorded.recording import Leaf, Recording, Sent, Step
from tests.integration.recorded.world import World
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Running

Json = dict[str, Any]
BETWEEN_STEPS_S: Final = 1.25
PAGE_LEN: Final = 1_000

# Sums of single precision are not the same on every processor.
_SCORE: Final = re.compile(r'("(?:score|similarity|distance)":\s?)(-?\d+\.\d+(?:e-?\d+)?)')
_VERSION: Final = re.compile(r"(aiohttp|Python)/\d[\w.+]*")
# Pages of a database file.
_ROOM: Final = re.compile(r'("bytes_(?:used|saved|free)":\s?)\d+')
# How full a disk is, how fast a thread wrote its log, and how long anything took.
_CHANCE: Final = re.compile(r"mnemogate_(store_used_bytes|telemetry_)|\w+_(bucket|sum|created)\b")

# That a stream is alive, every so many seconds.
_PING: Final = ": ping\n\n"

SentUpstream = tuple[str, "Mapping[str, str]", bytes]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One answer as a client sees it, for the next step."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:  # noqa: ANN401 - the steps know what they asked for
        return json.loads(self.raw)


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    request: str
    body: object
    headers: Mapping[str, str]
    halfway: Callable[[bytes], Awaitable[None]] | None = None


def no_upstream() -> list[SentUpstream]:
    """What a life without servers behind sends there."""
    return []


class Recorder:
    """Asks one request after the other, and keeps what came of it.

    `upstream` gives what servers behind were sent since it was asked last. `places` are addresses
    and paths that another run has others for, with the word that stands for each.
    """

    def __init__(
        self,
        on: Running,
        world: World,
        places: Mapping[str, str],
        upstream: Callable[[], Sequence[SentUpstream]] = no_upstream,
    ) -> None:
        self._on = on
        self._world = world
        self._upstream = upstream
        addresses = {on.url: "http://data", on.admin_url: "http://admin"}
        bare = {url.removeprefix("http://"): word[7:] for url, word in addresses.items()}
        self._places = {**addresses, **bare, **places}
        self._steps: dict[str, Step | None] = {}

    @property
    def on(self) -> Running:
        return self._on

    async def ask(
        self,
        name: str,
        request: str,
        body: object = None,
        *,
        key: str | None = AGENT_KEY,
        headers: Mapping[str, str] | None = None,
        halfway: Callable[[bytes], Awaitable[None]] | None = None,
    ) -> Seen:
        """One step on the data listener; `request` is a method and a path.

        `halfway` takes the first event of an answer that is a stream, before the rest is read.
        """
        given = {"Authorization": f"Bearer {key}"} if key is not None else {}
        asked = _Asked(
            url=self._on.url,
            request=request,
            body=body,
            headers={**given, **(headers or {})},
            halfway=halfway,
        )
        return await self._step(name, asked)

    def note(self, name: str, request: str, answer: bytes) -> None:
        """One step that went another way than over HTTP."""
        assert name not in self._steps, f"two steps are named {name}"
        self._steps[name] = Step(
            name=name,
            request=request,
            status="",
            headers="",
            body=self._text(answer),
            upstream=tuple(self._sent(one) for one in self._upstream()),
        )

    async def operate(
        self, name: str, request: str, body: object = None, key: str | None = OPERATOR_KEY
    ) -> Seen:
        given = {"Authorization": f"Bearer {key}"} if key is not None else {}
        asked = _Asked(url=self._on.admin_url, request=request, body=body, headers=given)
        return await self._step(name, asked)

    def _is_settled(self, candidate_id: str) -> bool:
        pending = self._on.sidecar.store.forwards.pending()
        return all(one.candidate_id != candidate_id for one in pending)

    async def _step(self, name: str, asked: _Asked) -> Seen:
        assert name not in self._steps, f"two steps are named {name}"
        self._world.clock.passes(BETWEEN_STEPS_S)
        # In the order in which they begin: one may be taken while another is under way.
        self._steps[name] = None
        seen, self._steps[name] = await self._asked(name, asked)
        return seen

    async def _asked(self, name: str, asked: _Asked) -> tuple[Seen, Step]:
        method, _, path = asked.request.partition(" ")
        body = asked.body
        raw = body if isinstance(body, bytes) else None if body is None else _json(body)
        given = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "life"}
        given |= asked.headers
        if raw is not None:
            given.setdefault("Content-Type", "application/json")
        url = asked.url + path
        async with self._on.client.request(method, url, data=raw, headers=given) as got:
            answer = b""
            if asked.halfway is not None:
                answer = await got.content.readuntil(b"\r\n\r\n")
                await self._world.quiet()
                await asked.halfway(answer)
            answer += await got.read()
            heads = [(key.decode(), value.decode()) for key, value in got.raw_headers]
            status = _status(got.status, got.reason or "")
        if path.endswith("/release"):
            # A release is sent beside its answer; what came of that belongs to the step.
            candidate_id = path.split("/")[-2]
            await self._world.until(lambda: self._is_settled(candidate_id))
        # A happening is counted behind the last byte of its answer.
        await self._world.quiet()
        step = Step(
            name=name,
            request=self._plain(asked.request),
            status=status,
            headers=self._headers(heads, answer),
            body=self._text(answer),
            upstream=tuple(self._sent(one) for one in self._upstream()),
        )
        named = {key.lower(): value for key, value in heads}
        return Seen(status=got.status, headers=named, raw=answer), step

    async def recording(self) -> Recording:
        """The life so far, with the audit log and the counters as they are now."""
        metrics = await self._looked_up("/metrics")
        leaves = await self._looked_up(f"/api/v1/audit/leaves?offset=0&limit={PAGE_LEN}")
        head = await self._looked_up("/api/v1/audit/checkpoint")
        return Recording(
            steps=tuple(step for step in self._steps.values() if step is not None),
            leaves=tuple(_leaf(one) for one in leaves.body["leaves"]),
            checkpoint=head.body["checkpoint"],
            counters=_counters(metrics.raw.decode()),
        )

    async def _looked_up(self, path: str) -> Seen:
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        asked = _Asked(url=self._on.admin_url, request=f"GET {path}", body=None, headers=headers)
        seen, _ = await self._asked("", asked)
        assert seen.status == 200, seen.raw
        return seen

    def _sent(self, sent: SentUpstream) -> Sent:
        request, headers, raw = sent
        return Sent(
            request=self._plain(request),
            headers=self._headers(list(headers.items()), raw),
            body=self._text(raw),
        )

    def _headers(self, found: list[tuple[str, str]], body: bytes) -> str:
        lengths = {str(len(body)): str(len(self._text(body).encode()))}
        lines = [f"{name}: {self._header(name, value, lengths)}" for name, value in found]
        return "\n".join(lines)

    def _header(self, name: str, value: str, lengths: Mapping[str, str]) -> str:
        match name.lower():
            case "date":
                return "now"
            case "content-length":
                # Of the body as it is written down, where it is that of the body as it came.
                return lengths.get(value, value)
            case _:
                return self._plain(_VERSION.sub(r"\1", value))

    def _text(self, raw: bytes) -> str:
        text = self._plain(raw.decode().replace(_PING, ""))
        text = _SCORE.sub(lambda found: f"{found[1]}{float(found[2]):.4f}", text)
        return _ROOM.sub(r"\g<1>0", text)

    def _plain(self, text: str) -> str:
        for place, word in self._places.items():
            text = text.replace(place, word)
        return text


def _json(body: object) -> bytes:
    return json.dumps(body).encode()


def _status(status: int, phrase: str) -> str:
    # The usual phrases are the interpreter's, and not those of its next version.
    usual = status in {one.value for one in HTTPStatus} and HTTPStatus(status).phrase
    return str(status) if phrase == usual else f"{status} {phrase}"


def _leaf(found: Json) -> Leaf:
    raw = base64.b64decode(found["data_base64"])
    fields = {name: value for name, value in found["fields"].items() if value is not None}
    return Leaf(fields=fields, sha256=hashlib.sha256(raw).hexdigest())


def _counters(exposition: str) -> dict[str, str]:
    lines = [line for line in exposition.splitlines() if line and not line.startswith("#")]
    pairs = [line.rsplit(" ", 1) for line in lines if _CHANCE.match(line) is None]
    return {name: value for [name, value] in pairs}


def places_of(base: Path) -> dict[str, str]:
    """What stands for the folder of a life."""
    return {str(base): "/base"}
