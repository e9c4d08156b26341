"""A head has one reading, or none; where its body of chunks ends; which names it may address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from multidict import CIMultiDict

from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import SLASH, segment_of
from proxy.transport.head import (
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    LINE_BYTES_MAX,
    READ_HEADERS,
    Chunks,
    HostRules,
    Unframed,
)
from tests.fuzz.heads import taken

READ = (
    *("Authorization", "Content-Length", "Content-Type", "Host", "Idempotency-Key", "Origin"),
    *("Transfer-Encoding", "X-Api-Key"),
)


@pytest.mark.parametrize("name", READ)
def test_a_header_that_says_who_or_what_is_sent_once(name: str) -> None:
    once = CIMultiDict({"Host": "localhost"}) if name != "Host" else CIMultiDict[str]()
    once.add(name, "one")
    assert taken("GET", "/v1/whoami", once).headers[name.lower()] == "one"
    once.add(name.upper(), "two")
    with pytest.raises(MalformedRequest) as caught:
        taken("GET", "/v1/whoami", once)
    assert caught.value.status == 400


def test_other_headers_are_joined_in_their_order() -> None:
    headers: CIMultiDict[str] = CIMultiDict()
    headers.add("Tracestate", "a=1")
    headers.add("tracestate", "b=2")
    assert taken("GET", "/", headers).headers == {"tracestate": "a=1, b=2"}


LATIN_1 = b"Jos\xe9".decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("value", [LATIN_1, "\U000e0041", "a\ufffeb"])
def test_a_header_that_no_one_reads_may_have_any_text_and_one_that_is_read_may_not(
    value: str,
) -> None:
    given = CIMultiDict(
        {"X-Name": value, "Cookie": value, "X-Request-Id": value, "X-Other": "Jos\u00e9"}
    )
    assert taken("GET", "/", given).headers == {"x-other": "Jos\u00e9"}
    for name in (*READ, "Mnemogate-Key", "Mcp-Name", "Mcp-Param-City"):
        with pytest.raises(MalformedRequest) as caught:
            taken("GET", "/", CIMultiDict({name: value}))
        assert caught.value.status == 422
        assert caught.value.detail.startswith(name.lower())


def _named_where_read() -> set[str]:
    """The header names that the program looks up, where they stand as they are."""
    found: set[str] = set()
    for path in (Path(__file__).parents[4] / "proxy").rglob("*.py"):
        if path.parts[-2:] == ("transport", "upstream.py"):
            continue
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r'headers(?:\.get\(|\[|\.pop\()"([a-z-]+)"', text))
        for pair in re.findall(r'\.key\("([a-z-]+)"|key_header(?:: str)? = "([a-z-]+)"', text):
            found |= set(filter(None, pair))
    return found


def test_each_header_that_is_looked_up_is_among_those_that_are_read() -> None:
    named = _named_where_read()
    assert {"authorization", "content-type", "x-chroma-token", "idempotency-key"} <= named
    # What an answer has is no request's; what is only compared with one value needs no other.
    # A cookie of odd text is left out: no session has it. An `Accept` of odd text asks for no page.
    allowed = {"accept", "cookie", "mcp-session-id", "traceparent", "upgrade"}
    assert {name for name in named if READ_HEADERS.fullmatch(name) is None} <= allowed


def test_too_many_headers_or_one_that_is_too_large_are_431() -> None:
    name = "X-Large"
    most = {name: "a" * HEADER_BYTES_MAX}
    assert len(taken("GET", "/", CIMultiDict(most)).headers) == 1
    many = {f"X-{at}": "a" for at in range(HEADERS_MAX)}
    assert len(taken("GET", "/", CIMultiDict(many)).headers) == HEADERS_MAX
    for headers in ({name: most[name] + "a"}, {**many, name: "a"}):
        with pytest.raises(MalformedRequest) as caught:
            taken("GET", "/", CIMultiDict(headers))
        assert caught.value.status == 431


@pytest.mark.parametrize(
    "target",
    [
        "/v1\\memories",
        "/v1//memories",
        "/v1/../memories",
        "/v1/%2e%2e/memories",
        "/v1/./memories",
        "/v1/%00",
        "/v1/%ff",
        "/v1/%e2%80%ae",
        "http://localhost/v1/memories",
        "*",
        "/v1/memories#fragment",
        "/v1/memories?a=%ff",
        "/" + "a" * 4_096,
    ],
)
def test_a_target_with_two_readings_is_refused(target: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        taken("GET", target, CIMultiDict())
    assert caught.value.status in {400, 414, 422}


def test_an_encoded_separator_is_a_part_of_its_segment() -> None:
    head = taken("DELETE", "/v2/entities/user/%2Fa%2f..%2Fb%5Cc%252F/", CIMultiDict())
    assert head.path.split("/") == [
        "",
        "v2",
        "entities",
        "user",
        f"{SLASH}a{SLASH}..{SLASH}b\\c%2F",
        "",
    ]
    assert segment_of(head.path.split("/")[4]) == "/a/../b\\c%2F"
    # What stands for it cannot be sent.
    for target in ("/v2/entities/user/a%1Fb/", "/v2/entities/user/a\x1fb/"):
        with pytest.raises(MalformedRequest):
            taken("DELETE", target, CIMultiDict())


def test_a_path_is_decoded_once() -> None:
    head = taken("GET", "/v1/%6demories/%2541?a=%2B&b=", CIMultiDict())
    assert (head.path, head.query) == ("/v1/memories/%41", (("a", "+"), ("b", "")))


RULES = HostRules.of(("memory.internal",), ("https://console.example",), "10.0.0.5")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:7077",
        "127.0.0.1:1",
        "[::1]",
        "[::1]:7077",
        "memory.internal",
        "10.0.0.5:80",
    ],
)
def test_own_names_are_served(host: str) -> None:
    RULES.check({"host": host})


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "127.0.0.1.nip.io",
        "localhost:70770000",
        "localhost:",
        "localhost, evil.example",
        "[::1",
        "0.0.0.0",  # noqa: S104 - a host that is asked for, not bound
    ],
)
def test_foreign_names_are_misdirected(host: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        RULES.check({"host": host})
    assert caught.value.status == 421


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "", "http://console.example", "http://localhost"]
)
def test_foreign_pages_are_refused(origin: str) -> None:
    RULES.check({"host": "localhost", "origin": "https://console.example"})
    with pytest.raises(MalformedRequest) as caught:
        RULES.check({"host": "localhost", "origin": origin})
    assert caught.value.status == 403


CONTENT = b"wxyz0123456789"
WHOLE = b"4;a=b\r\nwxyz\r\n00A\r\n0123456789\r\n0\r\n\r\n"


TRAILERS = b"Digest: a: b\r\nAuthorization: Bearer somebody\r\nTransfer-Encoding:\r\n"


@pytest.mark.parametrize("trailers", [b"", TRAILERS], ids=["none", "trailers"])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1_000])
def test_it_ends_at_its_last_byte_however_it_comes_and_without_trailers(
    step: int, trailers: bytes
) -> None:
    chunks, taken, kept = Chunks(), 0, b""
    whole = WHOLE[:-2] + trailers + b"\r\n"
    data = whole + b"GET / HTTP/1.1\r\n"
    while not chunks.ended:
        count, part = chunks.through(data[taken : taken + step])
        taken += count
        kept += part
    assert taken == len(whole)
    assert kept == CONTENT
    assert chunks.through(b"more") == (0, b"")


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"4\nwxyz",
        b"-4\r\n",
        b"0x4\r\n",
        b"4 \r\n",
        b" 4\r\n",
        b"0_4\r\n",
        b"1000000000000000\r\n",
        b"4;a\0\r\n",
        b"4;a\nb\r\n",
        b"4\r\nwxyzv\r\n",
        b"4\r\nwxyz\n",
        b"0\r\nno colon\r\n",
        b"0\r\n folded: 1\r\n",
        b"0\r\nGET http://localhost/ HTTP/1.1\r\n",
        b"0\r\nX : 1\r\n",
        b"0\r\n: 1\r\n",
        b"0\r\nX: 1\n",
        b"0\r\nX: 1\rY: 2\r\n",
        b"0\r\nX: \0\r\n",
        b"0\r\nX: " + b"a" * LINE_BYTES_MAX,
        b"4; a\r\n",
        b"4;;\r\n",
        b"4;\t\r\n",
        b'4;a="b\r\n',
        b"4;a=\x80\r\n",
        b"4;" + b"a" * LINE_BYTES_MAX,
    ],
)
def test_what_another_reader_could_cut_elsewhere_is_refused(data: bytes) -> None:
    with pytest.raises(Unframed):
        Chunks().through(data)


def test_what_is_long_and_not_too_long_is_taken() -> None:
    data = b"1;" + b"a" * (LINE_BYTES_MAX - 3) + b"\r\nx\r\n0\r\n"
    chunks = Chunks()
    assert chunks.through(data + b"\r\n") == (len(data) + 2, b"x")
    assert chunks.ended
