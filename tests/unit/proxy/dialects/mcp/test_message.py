"""One message: bytes to a value and back; and the id of what cannot be read."""

from __future__ import annotations

import json

import pytest

from proxy.dialects.mcp.message import (
    Era,
    MessageKind,
    NotRelayed,
    TopLevelId,
    error_answer,
    parse,
    result_answer,
)

META = b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'


@pytest.mark.parametrize(
    ("raw", "kind", "era"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"a"}', MessageKind.REQUEST, Era.HANDSHAKE),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"a","params":null}',
            MessageKind.REQUEST,
            Era.HANDSHAKE,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"a","params":{%s}}' % META,
            MessageKind.REQUEST,
            Era.STATELESS,
        ),
        (b'{"jsonrpc":"2.0","method":"a"}', MessageKind.NOTIFICATION, Era.HANDSHAKE),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', MessageKind.RESULT, Era.HANDSHAKE),
        (
            b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}',
            MessageKind.RESULT,
            Era.STATELESS,
        ),
        (
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":""}}',
            MessageKind.ERROR,
            Era.HANDSHAKE,
        ),
    ],
)
def test_a_message_is_what_its_members_say(raw: bytes, kind: MessageKind, era: Era) -> None:
    message = parse(raw)
    assert (message.kind, message.era, message.raw) == (kind, era, raw)


def test_a_number_and_a_string_are_two_ids() -> None:
    number = parse(b'{"jsonrpc":"2.0","id":1,"method":"a"}').request_id
    string = parse(b'{"jsonrpc":"2.0","id":"1","method":"a"}').request_id
    assert number == 1
    assert string == "1"


def test_text_that_is_only_passed_on_may_hold_what_memory_may_not() -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"result":{"t":"\\u001b[1m \\u202e"}}'
    assert parse(raw).raw == raw


def test_the_refusal_of_a_message_never_quotes_it() -> None:
    with pytest.raises(NotRelayed) as caught:
        parse(b'{"jsonrpc":"2.0","id":"a","method":"m","params":{"canary":1,"canary":2}}')
    assert caught.value.request_id == "a"
    assert "canary" not in caught.value.detail


def test_a_long_message_is_refused_by_its_id() -> None:
    raw = b'{"jsonrpc":"2.0","method":"m","params":{"t":"%s"},"id":12}' % (b"x" * 2_000)
    with pytest.raises(NotRelayed) as caught:
        parse(raw, bytes_max=1_000)
    assert caught.value.request_id == 12


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b'{"id":1,"params":{"id":2,"a":[{"id":3}]},"x":"\\"id\\":4"}', 1),
        (b'{"params":{"id":2},"x":"},{\\"id\\":9", "id" : "a\\u0062" }', "ab"),
        (b'{"id":-7,"x":', -7),
        (b'{"id":1,"id":2}', None),
        (b'{"id":1.5}', None),
        (b'{"id":null}', None),
        (b'{"id":{"a":1}}', None),
        (b'{"id":[1]}', None),
        (b'[{"id":1}]', None),
        (b'{"id":"%s"}' % (b"x" * 600), None),
        (b"", None),
        (b"}}}}", None),
    ],
)
def test_the_id_of_what_is_too_long_is_found_in_pieces_of_any_size(
    raw: bytes, found: int | str | None
) -> None:
    for size in (1, 2, 3, 7, len(raw) or 1):
        finder = TopLevelId()
        for at in range(0, len(raw), size):
            finder.feed(raw[at : at + size])
        assert finder.found() == found


def test_the_search_for_an_id_keeps_little_and_gives_up() -> None:
    finder = TopLevelId()
    finder.feed(b'{"id":1,"x":"')
    for _ in range(100):
        finder.feed(b"y" * 100_000)
    assert len(finder._held) < 2_000  # pyright: ignore[reportPrivateUsage]
    assert finder.found() == 1
    finder.feed(b'"' + b',"k":0' * 100_000)
    assert finder.found() is None


def test_answers_are_one_line_and_say_their_id() -> None:
    assert json.loads(error_answer(None, -32600, "no").raw)["id"] is None
    answer = result_answer("a", {"content": []}, Era.STATELESS)
    assert b"\n" not in answer.raw
    assert json.loads(answer.raw)["id"] == "a"
