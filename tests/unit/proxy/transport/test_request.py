"""An answer: framed once, and never with a header that somebody slipped in."""

from __future__ import annotations

import pytest

from policy.verdict import InvariantBroken
from proxy.seams.operation import HttpReply
from proxy.transport.request import response_of, stream_of


@pytest.mark.parametrize("text", ["a\r\nX-Other: b", "a\nb", "a\rb", "a\0b"])
def test_a_line_break_in_a_header_or_the_phrase_ends_the_process_and_sends_nothing(
    text: str,
) -> None:
    for made in (response_of, stream_of):
        with pytest.raises(InvariantBroken):
            made(HttpReply(status=200), {"Retry-After": text}, stays=True)
        with pytest.raises(InvariantBroken):
            made(HttpReply(status=422, phrase=text), {}, stays=True)


def test_an_answer_has_its_status_its_phrase_its_headers_and_its_body() -> None:
    reply = HttpReply(status=422, phrase="refused; do not retry", body=b"{}")
    made = response_of(reply, {"Server": "mnemogate"}, stays=True)
    assert (made.status, made.reason, made.body) == (422, "refused; do not retry", b"{}")
    assert made.headers["Server"] == "mnemogate"
    assert made.keep_alive is None


def test_a_connection_that_ends_is_announced() -> None:
    assert response_of(HttpReply(status=200), {}, stays=False).keep_alive is False
    assert stream_of(HttpReply(status=200), {}, stays=False).keep_alive is False


@pytest.mark.parametrize("status", [204, 304])
def test_what_has_no_body_is_sent_none(status: int) -> None:
    assert not response_of(HttpReply(status=status, body=b"never"), {}, stays=True).body
