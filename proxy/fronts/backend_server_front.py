"""The connection to one upstream memory server: its requests, and the version it reports.

Only the request that the adapter made of an agent's request is forwarded, with none of the agent's
credentials. The sidecar's own credential is added here.
"""

from __future__ import annotations

import asyncio
import binascii
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Final, cast
from urllib.parse import quote, unquote_to_bytes, urlencode

import msgspec

from policy.model import Principal
from proxy.backends.http_backend import HttpBackend
from proxy.dialects.strict_json.in_text import strings_inside
from proxy.guard.key_owners import KeyOwners
from proxy.seams.faults import Busy, MalformedRequest, UpstreamError
from proxy.seams.operation import SLASH, HttpReply, HttpRequest, Refusal
from proxy.settings.backend import BackendServer
from proxy.transport.upstream import Upstream

# A shorter value of a header, such as a media type, is no secret, and is in many answers.
SECRET_LEN_MIN: Final = 16
_ESCAPED: Final = re.compile(rb'\\(?:u00([0-9A-Fa-f]{2})|([/"\\]))')
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
# Pairs: the number of bytes before the secret in base64's group of three, and the number of base64
# characters that depend on those bytes.
_SHIFTS: Final = ((0, 0), (1, 2), (2, 3))


class CredentialSpellings:
    """All spellings of the sidecar's credential, to be searched for in a server's answers."""

    def __init__(self, values: Iterable[str]) -> None:
        """`values` are the values of the headers that the sidecar sends upstream."""
        secrets = frozenset(one for value in values for one in _secrets(value))
        self._needles = (*secrets, *{core for one in secrets for core in _cores(one)})

    def is_in(self, text: bytes) -> bool:
        """Whether a text contains the credential: plain, in base64, or escaped in JSON or URLs."""
        needles = self._needles
        return bool(needles) and any(one in text for text in _readings(text) for one in needles)


def _secrets(value: str) -> Iterator[bytes]:
    """A header's value, its credential without the scheme, and the decoded parts of `Basic`."""
    behind = value.rpartition(" ")[2]
    found = [value.encode(), behind.encode()]
    if value.lower().startswith("basic "):
        try:
            pair = b64decode(behind, validate=True)
        except (binascii.Error, ValueError):
            pair = b""
        found += (pair, pair.partition(b":")[2])
    yield from (one for one in found if len(one) >= SECRET_LEN_MIN)


def _cores(secret: bytes) -> Iterator[bytes]:
    """The characters in the base64 of every text that contains the secret: three alignments."""
    for shift, depend in _SHIFTS:
        encoded = b64encode(bytes(shift) + secret)
        core = encoded[depend : (shift + len(secret)) * 8 // 6]
        yield from (core, core.translate(_URL_SAFE))


def _readings(text: bytes) -> Iterator[bytes]:
    yield text
    if b"\\" in text:
        text = _ESCAPED.sub(_plain, text)
        yield text
    if b"%" in text:
        yield unquote_to_bytes(text)


def _plain(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)]) if found[1] else found[2]


IN_FLIGHT_MAX: Final = 64
VERSION_S: Final = 30.0
_SENT: Final = frozenset({"content-type", "accept"})
_SHOWN: Final = frozenset({"location", "content-location", "retry-after"})
_IN_PATHS: Final = "/-._~!$&'()*+,;=:@"
_ANSWERED: Final = range(200, 300)
_TELLS_CREDENTIAL: Final = "the server's answer says the sidecar's own credential"
_FAILED: Final = "the server refused this, or failed"
_FAILURES: Final = {404: "the server has nothing of that name or id"}
_UNTOLD: Final = (
    "backend_version: the server behind does not say its version, so nothing is written to it; an "
    "operator looks whether `url` and `headers_file` of its table are right"
)
_STRANGE: Final = (
    "backend_version: nobody approved this version of the server behind, so nothing is written to "
    "it; an operator reads what it changed and runs `mnemogate backend approve`"
)


class BackendServerFront:
    """One configured server. Event loop only."""

    def __init__(
        self,
        settings: BackendServer,
        adapter: HttpBackend,
        upstream: Upstream,
        now_s: Callable[[], float] = time.monotonic,
        *,
        check_sent_on: Callable[[str, Iterable[str]], None],
    ) -> None:
        """`upstream` has the sidecar's own credential, and is open; `now_s` never goes back.

        `check_sent_on` refuses texts that contain a key of this sidecar
        (`Authenticator.check_sent_on`).
        """
        self.settings = settings
        self.adapter = adapter
        self._upstream = upstream
        self._credential = CredentialSpellings(value for _, value in settings.headers)
        self.now_s = now_s
        self._check_sent_on = check_sent_on
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._version: str | None = None
        self._version_until_s = 0.0

    def check_keyless(self, request: HttpRequest) -> None:
        """Refuse a request that would bring one of this sidecar's keys to the server.

        Raises:
            MalformedRequest: The path, the query, or a string or name of the body contains a key.
        """
        self._check_sent_on("path", (request.path,))
        self._check_sent_on("query", (word for pair in request.query for word in pair))
        self._check_sent_on("body", _words_of(request.body))

    async def ask(self, request: HttpRequest) -> HttpReply:
        """Send one request once; return the server's whole answer.

        Raises:
            MalformedRequest: The request contains a key of this sidecar; it was not sent.
            UpstreamError: There is no answer; `sent`: whether the server may have the request.
            Busy: Too many requests to this server are unanswered; this one was not sent.
        """
        self.check_keyless(request)
        # Another server may decode the path first, and take the separator for one between segments.
        if SLASH in request.path or "\\" in request.path:
            raise MalformedRequest("path: an encoded separator is not forwarded", status=400)
        if self._in_flight.locked():
            raise Busy
        headers = {name: value for name, value in request.headers.items() if name in _SENT}
        target = quote(request.path, safe=_IN_PATHS)
        if request.query:
            target += "?" + urlencode(request.query)
        body = request.body or None
        async with (
            self._in_flight,
            self._upstream.send(request.method, headers, body, target) as reply,
        ):
            whole = await self._upstream.whole(reply)
            # A failing server may quote the request with its credential, as debug pages do.
            said = (whole, *(value.encode() for value in reply.headers.values()))
            if any(map(self._credential.is_in, said)):
                raise UpstreamError(_TELLS_CREDENTIAL)
        shown = tuple((name, value) for name, value in reply.headers.items() if name in _SHOWN)
        return HttpReply(
            status=reply.status,
            body=whole,
            content_type=reply.headers.get("content-type", ""),
            headers=shown,
        )

    def shown(self, request: HttpRequest, reply: HttpReply) -> HttpReply:
        """The answer in the form that a client may get: of a failure only the status.

        The text of a failure may quote a memory or a request of someone else.
        """
        if reply.status in _ANSWERED:
            return reply
        detail = _FAILURES.get(reply.status, _FAILED)
        refusal = Refusal(status=reply.status, title="Refused", detail=detail)
        return self.adapter.refuse(request, refusal)

    async def check_version(self, guard: KeyOwners, principal: Principal) -> None:
        """Refuse a write to a server of an unknown version.

        The server is asked for its version again after `VERSION_S` seconds.

        Raises:
            MalformedRequest: The server reports no version, or one that is neither in the
                adapter's table nor approved by an operator.
            UpstreamError: The server does not answer.
        """
        version = await self._told()
        if version is None:
            raise MalformedRequest(_UNTOLD, status=403)
        if version == self.adapter.version:
            return
        if not await guard.knows_version(principal, self.settings.name, version):
            raise MalformedRequest(_STRANGE, status=403)

    async def _told(self) -> str | None:
        if self._version is None or self.now_s() >= self._version_until_s:
            reply = await self.ask(self.adapter.version_question())
            self._version = None
            if reply.status in _ANSWERED:
                self._version = self.adapter.version_told(reply)
            self._version_until_s = self.now_s() + VERSION_S
        return self._version


def _words_of(body: bytes) -> Iterator[str]:
    """Every string and name in a JSON body, also in JSON inside a string; else the whole body."""
    try:
        waiting: list[object] = [msgspec.json.decode(body)]
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        yield body.decode("utf-8", "replace")
        return
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
            yield from strings_inside(one)
        elif isinstance(one, list):
            waiting.extend(cast("list[object]", one))
        elif isinstance(one, dict):
            for name, value in cast("dict[str, object]", one).items():
                waiting += (name, value)
