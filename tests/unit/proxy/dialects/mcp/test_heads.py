"""A head that contradicts its body is refused; what is sent on is made from the body."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.mcp.heads import (
    HEADER_MISMATCH,
    check_head,
    decode_value,
    encode_value,
    era_of_head,
    headers_for,
    is_session_id,
    status_of_error,
)
from proxy.dialects.mcp.message import Era, Message, NotRelayed, parse

VERSION = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": VERSION}
GOOD = {
    "mcp-protocol-version": VERSION,
    "mcp-method": "tools/call",
    "mcp-name": "remember",
    "mcp-param-region": "eu",
    "mcp-param-count": "3",
    "mcp-param-deep": "true",
}
ARGUMENTS = {"region": "eu", "count": 3, "in": {"deep": True, "half": 0.5}, "many": ["no"]}


def call(**changes: Any) -> Message:  # noqa: ANN401 - any JSON
    params = {"name": "remember", "arguments": ARGUMENTS, "_meta": META, **changes}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return parse(json.dumps(body).encode())


def test_a_head_that_repeats_its_body_passes() -> None:
    check_head(GOOD, call())
    check_head({**GOOD, "mcp-name": encode_value("erinnern\u00e4")}, call(name="erinnern\u00e4"))


@pytest.mark.parametrize(
    "changed",
    [
        {"mcp-method": "tools/list"},
        {"mcp-method": None},
        {"mcp-name": "recall"},
        {"mcp-name": None},
        {"mcp-name": "=?base64?!!?="},
        {"mcp-name": "=?base64?cmVtZW1iZXI?="},
        {"mcp-protocol-version": "2025-11-25"},
        {"mcp-protocol-version": "2027-01-01"},
        {"mcp-protocol-version": None},
        {"mcp-param-region": "us"},
        {"mcp-param-count": "4"},
        {"mcp-param-other": "no"},
        {"mcp-name": "remember, recall"},
    ],
)
def test_a_head_that_says_something_else_is_refused(changed: dict[str, str | None]) -> None:
    headers = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    with pytest.raises(NotRelayed) as refused:
        check_head(headers, call())
    assert refused.value.code == HEADER_MISMATCH
    assert refused.value.request_id == 1


def test_an_older_body_under_a_newer_head_is_refused_and_the_other_way_round() -> None:
    older = parse(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    check_head({"mcp-protocol-version": "2025-11-25"}, older)
    check_head({}, older)
    with pytest.raises(NotRelayed):
        check_head({"mcp-protocol-version": VERSION, "mcp-method": "tools/list"}, older)
    with pytest.raises(NotRelayed):
        check_head({"mcp-method": "tools/call"}, older)
    with pytest.raises(NotRelayed):
        check_head({"mcp-name": "remember"}, older)


def test_headers_sent_on_are_made_from_the_message() -> None:
    assert headers_for(call(), GOOD) == GOOD
    rewritten = call(arguments={"region": "eu"})
    assert headers_for(rewritten, GOOD) == {
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": "remember",
        "mcp-param-region": "eu",
    }
    older = parse(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    assert headers_for(older, GOOD) == {}


@pytest.mark.parametrize("text", ["", "plain", " edge", "\u00e4\u20ac", "=?base64?eA==?=", "a\nb"])
def test_a_value_survives_its_header(text: str) -> None:
    assert decode_value(encode_value(text)) == text
    assert encode_value(text).isascii()
    assert "\n" not in encode_value(text)


def test_one_text_has_one_spelling() -> None:
    assert decode_value("=?base64?eA==?=") == "x"
    assert decode_value("=?base64?eB==?=") is None


def test_eras_by_version() -> None:
    assert era_of_head({}) is Era.HANDSHAKE
    assert era_of_head({"mcp-protocol-version": "2025-11-25"}) is Era.HANDSHAKE
    assert era_of_head({"mcp-protocol-version": VERSION}) is Era.STATELESS
    assert era_of_head({"mcp-protocol-version": "9"}) is Era.HANDSHAKE


def test_session_ids_are_visible_ascii() -> None:
    assert is_session_id("0ba291c9-58.~")
    for bad in ("", "a b", "a\n", "\u00e4", "x" * 257):
        assert not is_session_id(bad)


def test_statuses_of_errors() -> None:
    assert [status_of_error(code) for code in (-32601, -32602, -32020, -32000, "x")] == [
        404,
        400,
        400,
        200,
        200,
    ]
