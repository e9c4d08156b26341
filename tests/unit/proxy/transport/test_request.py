"""The bytes of an answer: framed once, and never with a header that somebody slipped in."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from policy.verdict import InvariantBroken
from proxy.seams.operation import HttpReply
from proxy.transport.request import Received

if TYPE_CHECKING:
    from aiohttp.http_parser import RawRequestMessage
    from aiohttp.streams import StreamReader

    from proxy.transport.request import Connects


class Message(msgspec.Struct, kw_only=True):
    """What a parsed head says."""

    method: str = "POST"
    path: str = "/"
    version: tuple[int, int] = (1, 1)
    should_close: bool = False
    headers: CIMultiDictProxy[str] = msgspec.field(
        default_factory=lambda: CIMultiDictProxy(CIMultiDict[str]())
    )


def received(message: Message) -> Received:
    return Received(
        cast("RawRequestMessage", message),
        cast("StreamReader", None),
        cast("Connects", None),
    )


def answer(message: Message, reply: HttpReply, *, stays: bool = True) -> tuple[list[str], bytes]:
    data = received(message).rendered(reply, {"Server": "mnemogate"}, stays=stays)
    head, _, body = data.partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), body


def test_an_answer_has_its_length_its_date_and_its_body() -> None:
    head, body = answer(Message(), HttpReply(status=201, body=b"{}"))
    assert head[:2] == ["HTTP/1.1 201 Created", "Server: mnemogate"]
    assert head[2].startswith("Date: ")
    assert head[3:] == ["Content-Length: 2"]
    assert body == b"{}"


def test_a_connection_that_ends_is_announced_and_an_old_peer_is_told_of_one_that_stays() -> None:
    assert answer(Message(), HttpReply(status=200), stays=False)[0][-1] == "Connection: close"
    old = answer(Message(version=(1, 0)), HttpReply(status=200))[0]
    assert (old[0], old[-1]) == ("HTTP/1.0 200 OK", "Connection: keep-alive")


def test_an_answer_to_head_has_the_length_and_not_the_body() -> None:
    head, body = answer(Message(method="HEAD"), HttpReply(status=200, body=b"four"))
    assert "Content-Length: 4" in head
    assert body == b""


@pytest.mark.parametrize("status", [204, 304])
def test_what_has_no_body_has_no_length(status: int) -> None:
    head, body = answer(Message(), HttpReply(status=status, body=b"never"))
    assert not any(line.startswith("Content-Length") for line in head)
    assert body == b""


@pytest.mark.parametrize("text", ["a\r\nX-Other: b", "a\nb", "a\rb", "a\0b"])
def test_a_line_break_in_a_header_or_the_phrase_ends_the_process_and_sends_nothing(
    text: str,
) -> None:
    with pytest.raises(InvariantBroken):
        received(Message()).rendered(HttpReply(status=200), {"Retry-After": text}, stays=True)
    with pytest.raises(InvariantBroken):
        received(Message()).rendered(HttpReply(status=422, phrase=text), {}, stays=True)


def test_a_phrase_of_a_dialect_replaces_the_standard_one() -> None:
    reply = HttpReply(status=422, phrase="refused; do not retry")
    assert answer(Message(), reply)[0][0] == "HTTP/1.1 422 refused; do not retry"


def test_what_the_parser_said_of_the_connection_is_kept() -> None:
    assert received(Message()).stays
    assert not received(Message(should_close=True)).stays
