"""Requests that two readers could cut differently, and what this one answers to each.

Each case is what a peer sends in one segment. Where a request of an operator stands behind it, a
reader that finds another end of the first one would answer that, too.
"""

from __future__ import annotations

import gzip
from typing import Final

import msgspec

from tests.integration.http_bench import AGENT_KEY, OPERATOR_KEY


class Case(msgspec.Struct, frozen=True):
    """Bytes, and the statuses of all that is answered to them before the connection ends."""

    data: bytes
    statuses: tuple[int, ...] = (400,)


def _authorized(line: str, key: str = AGENT_KEY) -> bytes:
    return f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n".encode()


GET: Final = _authorized("GET /v1/whoami")
POST: Final = _authorized("POST /v1/search") + b"Content-Type: application/json\r\n"
BODY: Final = b'{"query":"zz"}'
BEHIND: Final = _authorized("GET /v1/whoami", OPERATOR_KEY) + b"\r\n"
WRONG: Final = b"x" * 25
_AGENT: Final = AGENT_KEY.encode()
_TE: Final = b"Transfer-Encoding: chunked\r\n"


def _chunks(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def _path(path: bytes) -> bytes:
    return GET.replace(b"/v1/whoami", path) + b"\r\n"


def _lengths(*lines: bytes) -> Case:
    """A body whose length is said in another way than once and in decimal digits."""
    return Case(POST + b"\r\n".join(lines) + b"\r\n\r\n" + BODY + BEHIND)


def _coded(coding: bytes) -> Case:
    return Case(POST + coding + b"\r\n\r\n" + _chunks(BODY) + BEHIND)


def _in_chunks(body: bytes) -> Case:
    return Case(POST + _TE + b"\r\n" + body + BEHIND)


LENGTHS: Final[dict[str, Case]] = {
    "length, then chunked": Case(
        POST + b"Content-Length: 4\r\n" + _TE + b"\r\n" + _chunks(BODY) + BEHIND
    ),
    "chunked, then length": Case(
        POST + _TE + b"Content-Length: 4\r\n\r\n" + _chunks(BODY) + BEHIND
    ),
    "two lengths that differ": _lengths(b"Content-Length: 14", b"Content-Length: 3"),
    "two equal lengths": _lengths(b"Content-Length: 14", b"Content-Length: 14"),
    "a list of lengths": _lengths(b"Content-Length: 14, 14"),
    "length with a plus": _lengths(b"Content-Length: +14"),
    "negative length": _lengths(b"Content-Length: -1"),
    "length in hex": _lengths(b"Content-Length: 0xe"),
    "length with an underscore": _lengths(b"Content-Length: 1_4"),
    "empty length": _lengths(b"Content-Length: "),
    "length beyond 64 bits": _lengths(b"Content-Length: 99999999999999999999999999"),
    "length in Arabic digits": _lengths("Content-Length: \u0661\u0664".encode()),
    "space before the colon of a length": _lengths(b"Content-Length : 14"),
    "folded length": _lengths(b"Content-Length:\r\n 14"),
}
CODINGS: Final[dict[str, Case]] = {
    "unknown coding": _coded(b"Transfer-Encoding: xchunked"),
    "chunked, then identity": _coded(b"Transfer-Encoding: chunked, identity"),
    "identity, then chunked": _coded(b"Transfer-Encoding: identity, chunked"),
    "gzip, then chunked": _coded(b"Transfer-Encoding: gzip, chunked"),
    "chunked, then chunked": _coded(b"Transfer-Encoding: chunked, chunked"),
    "coding twice": _coded(_TE + b"Transfer-Encoding: chunked"),
    "coding twice, mixed": _coded(_TE + b"Transfer-Encoding: x"),
    "quoted coding": _coded(b'Transfer-Encoding: "chunked"'),
    "vertical tab before the coding": _coded(b"Transfer-Encoding: \x0bchunked"),
    "space before the colon of a coding": _coded(b"Transfer-Encoding : chunked"),
    "coding with a parameter": _coded(b"Transfer-Encoding: chunked;q=1"),
    "chunked on 1.0": Case(
        POST.replace(b"/1.1", b"/1.0")
        + _TE
        + b"Connection: keep-alive\r\n\r\n"
        + _chunks(BODY)
        + BEHIND
    ),
    "chunked and a length on 1.0": Case(
        POST.replace(b"/1.1", b"/1.0")
        + _TE
        + b"Content-Length: 14\r\nConnection: keep-alive\r\n\r\n"
        + _chunks(BODY)
        + BEHIND
    ),
}
LINES: Final[dict[str, Case]] = {
    "bare LF everywhere": Case(
        (POST + b"Content-Length: 14\r\n\r\n").replace(b"\r\n", b"\n") + BODY + BEHIND
    ),
    "bare LF behind one header": _lengths(b"X: a\nContent-Length: 14"),
    "bare LF at the end of the head": Case(POST + b"Content-Length: 14\n\n" + BODY + BEHIND),
    "bare CR in a header": _lengths(b"X: a\rTransfer-Encoding: chunked", b"Content-Length: 14"),
    "bare CR at the end of the head": Case(POST + b"Content-Length: 14\r\r" + BODY + BEHIND),
    "folded header": _lengths(b"X: a\r\n b", b"Content-Length: 14"),
    "fold before the first header": Case(
        b"POST /v1/search HTTP/1.1\r\n Host: x\r\nHost: 127.0.0.1\r\nContent-Length: 14\r\n\r\n"
        + BODY
        + BEHIND
    ),
}
CHUNKS: Final[dict[str, Case]] = {
    "bare LF behind the size": _in_chunks(b"e\n" + BODY + b"\n0\n\n"),
    "bare LF behind the data": _in_chunks(b"e\r\n" + BODY + b"\n0\r\n\r\n"),
    "LF in an extension": _in_chunks(b"e;a\nb\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "negative size": _in_chunks(b"-e\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "size with 0x": _in_chunks(b"0xe\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "size with an underscore": _in_chunks(b"0_e\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "space behind the size": _in_chunks(b"e \r\n" + BODY + b"\r\n0\r\n\r\n"),
    "space before the size": _in_chunks(b" e\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "size beyond 64 bits": _in_chunks(b"1000000000000000e\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "size above the data": _in_chunks(b"f\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "size below the data": _in_chunks(b"d\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "no colon in a trailer": _in_chunks(b"e\r\n" + BODY + b"\r\n0\r\nX 1\r\n\r\n"),
    "request line for a trailer": _in_chunks(
        b"e\r\n" + BODY + b"\r\n0\r\nGET http://127.0.0.1/v1/whoami HTTP/1.1\r\n\r\n"
    ),
    "bare LF behind a trailer": _in_chunks(b"e\r\n" + BODY + b"\r\n0\r\nX: 1\n\r\n"),
    "endless trailer": _in_chunks(
        b"e\r\n" + BODY + b"\r\n0\r\n" + b"X: aaaaaaaaaaaaa\r\n" * 100_000
    ),
    "endless extension": _in_chunks(b"e;" + b"a" * 3_000_000),
}
BEHINDS: Final[dict[str, Case]] = {
    "garbage behind a body": Case(POST + b"Content-Length: 14\r\n\r\n" + BODY + b"XXXX\r\n\r\n"),
    "a request behind one that ends the connection": Case(
        GET + b"Connection: close\r\n\r\n" + BEHIND
    ),
    "each of two is answered by its own key": Case(
        GET + b"\r\n" + GET.replace(_AGENT, WRONG) + b"\r\n", (200, 401)
    ),
    "a wrong key ends the connection": Case(
        GET.replace(_AGENT, WRONG) + b"\r\n" + GET + b"\r\n", (401,)
    ),
    "nothing behind a malformed one is run": Case(
        b"GET /v1//whoami HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + BEHIND
    ),
    "a request as the body of a refused one": Case(
        POST.replace(_AGENT, WRONG)
        + b"Content-Length: %d\r\n\r\n" % len(BEHIND)
        + BEHIND
        + GET
        + b"\r\n",
        (401,),
    ),
    "a request as the body of a read": Case(
        GET + b"Content-Length: %d\r\n\r\n" % len(BEHIND) + BEHIND, (200,)
    ),
}
HOSTS: Final[dict[str, Case]] = {
    "no Host": Case(GET.replace(b"Host: 127.0.0.1\r\n", b"") + b"\r\n"),
    "two Hosts": Case(GET + b"Host: evil\r\n\r\n"),
    **{
        f"Host {host!r}": Case(GET.replace(b"Host: 127.0.0.1", b"Host: " + host) + b"\r\n", (421,))
        for host in (b"evil.example", b"127.0.0.1@evil", b"localhost.", b"127.1", b"")
    },
    **{
        f"two of {name.decode()}": Case(GET + name + b": a\r\n" + name + b": b\r\n\r\n")
        for name in (b"X-Api-Key", b"Mem0-User-ID", b"Idempotency-Key")
    },
    "two credentials": Case(GET + b"Authorization: Bearer " + _AGENT + b"\r\n\r\n"),
    "a list of credentials": Case(
        GET.replace(_AGENT, _AGENT + b", Bearer " + OPERATOR_KEY.encode()) + b"\r\n", (401,)
    ),
    "origin evil": Case(GET + b"Origin: https://evil.example\r\n\r\n", (403,)),
    "origin null": Case(GET + b"Origin: null\r\n\r\n", (403,)),
    "origin with another port": Case(GET + b"Origin: http://127.0.0.1:1\r\n\r\n", (403,)),
}
TARGETS: Final[dict[str, Case]] = {
    "absolute form": Case(_path(b"http://127.0.0.1/v1/whoami")),
    "absolute form of another": Case(_path(b"http://evil/v1/whoami")),
    "asterisk": Case(b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + BEHIND),
    "fragment": Case(_path(b"/v1/whoami#x")),
    "raw UTF-8": Case(_path("/v1/whoam\u00ed".encode())),
    "overlong UTF-8": Case(_path(b"/v1%c0%afwhoami")),
    "encoded NUL": Case(_path(b"/v1/whoami%00"), (422,)),
    "encoded line break": Case(_path(b"/v1/whoami%0d%0aX: y")),
    "dot segments": Case(_path(b"/x/../v1/whoami")),
    "encoded dot segments": Case(_path(b"/x/%2e%2e/v1/whoami")),
    "encoded slash": Case(_path(b"/v1%2fwhoami"), (404,)),
    "empty segment": Case(_path(b"//v1/whoami")),
    "encoded twice": Case(_path(b"/x/%252e%252e/v1/whoami"), (404,)),
    "space in the path": Case(_path(b"/v1/who ami")),
}
STARTS: Final[dict[str, Case]] = {
    "CONNECT": Case(b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + BEHIND, (405,)),
    "TRACE": Case(b"TRACE /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\nX: abc\r\n\r\n", (405,)),
    "PURGE": Case(GET.replace(b"GET", b"PURGE") + b"\r\n", (405,)),
    "lower-case method": Case(GET.replace(b"GET", b"get") + b"\r\n"),
    "HTTP/1.2": Case(GET.replace(b"/1.1", b"/1.2") + b"\r\n"),
    "HTTP/11": Case(GET.replace(b"/1.1", b"/11") + b"\r\n"),
    "HTTP/2.0": Case(GET.replace(b"/1.1", b"/2.0") + b"\r\n" + BEHIND),
    "HTTP/0.9 with a version": Case(GET.replace(b"/1.1", b"/0.9") + b"\r\n" + BEHIND),
    "HTTP/0.9": Case(b"GET /v1/whoami\r\n\r\n"),
    # Versions that aiohttp's parser knows of other protocols.
    "RTSP/1.0": Case(GET.replace(b"HTTP/1.1", b"RTSP/1.0") + b"\r\n" + BEHIND),
    "RTSP/1.0 with a body": Case(
        POST.replace(b"HTTP/1.1", b"RTSP/1.0") + b"Content-Length: 14\r\n\r\n" + BODY + BEHIND
    ),
    "ICE/1.0": Case(GET.replace(b"GET", b"SOURCE").replace(b"HTTP/1.1", b"ICE/1.0") + b"\r\n"),
    "preface of HTTP/2": Case(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "TLS": Case(bytes.fromhex("16030100c8010000c40303") + b"a" * 200),
    "tab in the request line": Case(GET.replace(b"GET /v1", b"GET\t/v1") + b"\r\n"),
    "space before the request": Case(b" " + GET + b"\r\n"),
}
HEADERS: Final[dict[str, Case]] = {
    "unknown expectation": Case(
        POST + b"Expect: 200-ok\r\nContent-Length: 14\r\n\r\n" + BODY + BEHIND, (417,)
    ),
    "expectation twice": Case(
        POST + b"Expect: 100-continue\r\n" * 2 + b"Content-Length: 14\r\n\r\n" + BODY + BEHIND
    ),
    "expectation of a stranger": Case(
        POST.replace(_AGENT, WRONG)
        + b"Expect: 100-continue\r\nContent-Length: 14\r\n\r\n"
        + BODY
        + BEHIND,
        (401,),
    ),
    "expectation without its body": Case(
        POST.replace(_AGENT, WRONG)
        + b"Expect: 100-continue\r\nContent-Length: 14\r\n\r\n"
        + BEHIND,
        (401,),
    ),
    "websocket": Case(GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + BEHIND, (426,)),
    "h2c": Case(
        GET
        + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n\r\n"
        + BEHIND
    ),
    "unknown coding of the body": Case(
        POST + b"Content-Encoding: lz4\r\nContent-Length: 14\r\n\r\n" + BODY + BEHIND, (415,)
    ),
    "a body that is not so coded": Case(
        POST + b"Content-Encoding: gzip\r\nContent-Length: 14\r\n\r\n" + BODY + GET + b"\r\n",
        (400, 200),
    ),
    "two headers for the coding": Case(
        POST + b"Content-Encoding: gzip\r\n" * 2 + b"Content-Length: 14\r\n\r\n" + BODY + BEHIND
    ),
    "NUL in a header": Case(GET + b"X: a\0b\r\n\r\n"),
    "NUL in a name": Case(GET + b"X\0: a\r\n\r\n"),
    "8-bit name": Case(GET + b"X\xe9: a\r\n\r\n"),
    "empty name": Case(GET + b": a\r\n\r\n"),
    "no colon": Case(GET + b"foo\r\n\r\n"),
    "space in a name": Case(GET + b"X Y: a\r\n\r\n"),
    "header of 200 KB": Case(GET + b"X: " + b"a" * 200_000 + b"\r\n\r\n", (431,)),
    "header of 9 KB": Case(GET + b"X: " + b"a" * 9_000 + b"\r\n\r\n" + BEHIND, (431,)),
    "target of 9 KB": Case(_path(b"/v1/" + b"a" * 9_000) + BEHIND, (414,)),
    "target of 60 KB": Case(_path(b"/v1/" + b"a" * 60_000) + BEHIND, (414,)),
    "key in Latin-1": Case(GET + b"X-Api-Key: \xe9\r\n\r\n" + BEHIND, (422,)),
    "70 headers": Case(GET + b"".join(b"X%d: a\r\n" % at for at in range(70)) + b"\r\n", (431,)),
    "head of 60 KB": Case(
        GET + b"".join(b"X%d: %s\r\n" % (at, b"a" * 1_000) for at in range(60)) + b"\r\n", (431,)
    ),
}
HONEST: Final[dict[str, Case]] = {
    "plain": Case(POST + b"Content-Length: 14\r\n\r\n" + BODY, (200,)),
    "length with leading zeros": Case(POST + b"Content-Length: 00014\r\n\r\n" + BODY, (200,)),
    "length between tabs": Case(POST + b"Content-Length:\t14\t\r\n\r\n" + BODY, (200,)),
    "chunked in mixed case": Case(
        POST + b"Transfer-Encoding: ChUnKeD\r\n\r\n" + _chunks(BODY), (200,)
    ),
    "chunk with an extension": Case(
        POST + _TE + b"\r\ne;a=b\r\n" + BODY + b"\r\n0\r\n\r\n", (200,)
    ),
    "size with zeros": Case(
        POST + _TE + b"\r\n0000000000000000000e\r\n" + BODY + b"\r\n0\r\n\r\n", (200,)
    ),
    "a request behind a body": Case(
        POST + b"Content-Length: 14\r\n\r\n" + BODY + GET + b"\r\n", (200, 200)
    ),
    "a request behind chunks": Case(
        POST + _TE + b"\r\n" + _chunks(BODY) + GET + b"\r\n", (200, 200)
    ),
    "many requests at once": Case((GET + b"\r\n") * 40, (200,) * 40),
    **{
        f"{name}, dropped": Case(
            POST + _TE + b"\r\ne\r\n" + BODY + b"\r\n0\r\n" + line + b"\r\n" + GET + b"\r\n",
            (200, 200),
        )
        for name, line in {
            "trailer": b"X-T: 1\r\n",
            "framing in a trailer": b"Content-Length: 5\r\nTransfer-Encoding: x\r\n",
            "credential in a trailer": b"Authorization: Bearer somebody\r\n",
        }.items()
    },
    "compressed body": Case(
        POST
        + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(BODY))
        + gzip.compress(BODY)
        + GET
        + b"\r\n",
        (200, 200),
    ),
    "header in Latin-1": Case(GET + b"X-Name: Jos\xe9\r\n\r\n" + GET + b"\r\n", (200, 200)),
    "no body and none said": Case(POST + _TE + b"\r\n0\r\n\r\n" + GET + b"\r\n", (422, 200)),
    "HEAD, then GET": Case(GET.replace(b"GET", b"HEAD") + b"\r\n" + GET + b"\r\n", (200, 200)),
    "HTTP/1.0 that stays": Case(
        (GET.replace(b"/1.1", b"/1.0") + b"Connection: keep-alive\r\n\r\n") * 2, (200, 200)
    ),
    "expectation": Case(
        POST + b"Expect: 100-continue\r\nContent-Length: 14\r\n\r\n" + BODY, (100, 200)
    ),
    "expectation on 1.0": Case(
        POST.replace(b"/1.1", b"/1.0")
        + b"Expect: 100-continue\r\nContent-Length: 14\r\n\r\n"
        + BODY,
        (200,),
    ),
    "encoded letter": Case(_path(b"/v1/who%61mi"), (200,)),
    "an ignored override": Case(GET + b"X-HTTP-Method-Override: DELETE\r\n\r\n", (200,)),
    "line breaks before": Case(b"\r\n\r\n" + GET + b"\r\n", (200,)),
}
REFUSED: Final = {
    **LENGTHS,
    **CODINGS,
    **LINES,
    **CHUNKS,
    **BEHINDS,
    **HOSTS,
    **TARGETS,
    **STARTS,
    **HEADERS,
}
