"""One message: bytes to a value and back, with the head and members that its reader judged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.mcp.calls import read_call
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
from proxy.dialects.mcp.known_members import V2025_11_25, check_twins, rebuilt
from proxy.dialects.mcp.message import (
    Era,
    Message,
    MessageKind,
    NotRelayed,
    Object,
    TopLevelId,
    error_answer,
    parse,
    read_result,
    result_answer,
)
from proxy.dialects.mcp.opaque import given, given_back, replaced
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.settings.tool_maps import shipped_map

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


CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{}}}'


@pytest.mark.parametrize(
    "raw",
    [
        CALL.replace('"id"', '"Method":"ping","id"'),
        CALL.replace('"id"', '"METHOD":"ping","id"'),
        CALL.replace('"id"', '"param\u017f":{},"id"'),
        CALL.replace('"id"', '"param\\u017f":{},"id"'),
        CALL.replace('"id"', '"ID":2,"id"'),
        CALL.replace('"id"', '"\u0131d":2,"id"'),
        CALL.replace('"id"', '"note":1,"Note":2,"id"'),
        CALL.replace('"name"', '"Name":"y","name"'),
        CALL.replace('"name"', '"Arguments":{},"name"'),
        '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a","Message":"b"}}',
        '{"jsonrpc":"2.0","method":"x/unknown","params":{"some":1,"Some":2}}',
    ],
)
def test_two_names_that_differ_in_case_alone_refuse_the_message(raw: str) -> None:
    with pytest.raises(NotRelayed, match="case alone"):
        parse(raw.encode())


def test_unknown_members_of_the_envelope_and_of_a_call_are_left_out() -> None:
    raw = CALL.replace('"id"', '"note":1,"id"').replace('"name"', '"extra":2,"name"')
    message = parse(raw.encode())
    assert message.raw == CALL.encode()
    assert sorted(message.dropped) == ["extra", "note"]
    error = b'{"jsonrpc":"2.0","id":1,"params":{},"error":{"code":1,"message":"a","mode":"b"}}'
    assert json.loads(parse(error).raw)["error"] == {"code": 1, "message": "a"}


def test_bytes_go_on_where_they_say_plainly_what_was_read() -> None:
    plain = b'{ "jsonrpc":"2.0", "id":1, "result":{"text":"a \\u0041 \\"name\\": b", "n":1.50} }'
    assert parse(plain).raw == plain
    escaped = plain.replace(b'"n"', b'"\\u006e"')
    assert b"\\u006e" not in parse(escaped).raw
    assert parse(escaped).body == parse(plain).body


def test_a_result_is_closed_by_the_method_that_it_answers() -> None:
    said = {"tools": [{"name": "x", "x_examples": 1, "inputSchema": {"any": 1}}], "prompts": []}
    message = parse(json.dumps({"jsonrpc": "2.0", "id": 1, "result": said}).encode())
    left = read_result(message, "tools/list", Era.HANDSHAKE)
    assert left.result == {"tools": [{"name": "x", "inputSchema": {"any": 1}}]}
    assert left.dropped == ("x_examples", "prompts")
    assert read_result(message, "tools/call", Era.HANDSHAKE) is message, "open to what is new"
    strict = read_result(message, "tools/call", Era.HANDSHAKE, strict=True)
    assert strict.result == {}, "of a version that nobody knows, only what is known"
    for method in ("tools/list", "tools/call"):
        twin = parse(b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"_Meta":1,"tools":[]}}')
        with pytest.raises(NotRelayed, match="case alone"):
            read_result(twin, method, Era.HANDSHAKE)


def test_rebuilding_goes_down_to_every_closed_shape_and_spares_open_values() -> None:
    dropped: list[str] = []
    said: JsonValue = {
        "capabilities": {"tools": {"listChanged": True, "x": 1}, "experimental": {"x": {"y": 1}}},
        "serverInfo": {"name": "a", "version": "1", "note": "b"},
        "protocolVersion": "2025-11-25",
    }
    left = rebuilt(said, "InitializeResult", V2025_11_25, dropped)
    assert left == {
        "capabilities": {"tools": {"listChanged": True}, "experimental": {"x": {"y": 1}}},
        "serverInfo": {"name": "a", "version": "1"},
        "protocolVersion": "2025-11-25",
    }
    assert dropped == ["x", "note"]
    assert rebuilt(left, "InitializeResult", V2025_11_25, dropped) is left
    with pytest.raises(MalformedRequest):
        rebuilt({"serverInfo": {"name": "a", "Name": "b"}}, "InitializeResult", V2025_11_25, [])


def test_only_known_names_have_twins_where_data_stands() -> None:
    check_twins({"ID": 1, "id": 2}, (), "data", pairs=False)
    with pytest.raises(MalformedRequest):
        check_twins({"ID": 1, "id": 2}, (), "data")
    tool_map = shipped_map("server-memory")
    assert tool_map is not None
    entity: Object = {"name": "a", "entityType": "place", "observations": ["x"], "ID": 1, "id": 2}
    params: JsonValue = {"name": "create_entities", "arguments": {"entities": [{**entity}]}}
    assert read_call(tool_map, params).items
    twins: tuple[Object, ...] = ({"ENTITYTYPE": "policy"}, {"Observations": ["y"]})
    for twin in twins:
        params = {"name": "create_entities", "arguments": {"entities": [{**entity, **twin}]}}
        with pytest.raises(MalformedRequest, match="case alone"):
            read_call(tool_map, params)


def test_strings_that_come_back_are_found_where_they_stand() -> None:
    def by(text: str) -> str:
        return f"<{text}>"

    result: JsonValue = {
        "tasks": [{"taskId": "a"}, {"taskId": "b"}],
        "nextCursor": "c",
        "structuredContent": {"nextCursor": "d"},
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "e"}},
    }
    assert replaced(result, given("tasks/list", result), by) == {
        "tasks": [{"taskId": "<a>"}, {"taskId": "<b>"}],
        "nextCursor": "<c>",
        "structuredContent": {"nextCursor": "d"},
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "<e>"}},
    }
    plain: JsonValue = {"content": [], "nextCursor": "text like any other"}
    assert replaced(plain, given("tools/call", plain), by) is plain
    assert [text for _, text in given_back("tools/list", {"cursor": "c"})] == ["c"]
    assert [text for _, text in given_back("tools/call", {"requestState": "s"})] == ["s"]
    assert not [*given_back("tools/call", {"requestState": "mnemogate:s", "cursor": "c"})]


@pytest.mark.parametrize("method", ["tools/Call", "tools/call ", "tools/call\x00", "TOOLS/CALL"])
def test_a_method_that_reads_like_a_call_and_is_none_is_refused(method: str) -> None:
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}).encode()
    with pytest.raises(NotRelayed):
        parse(raw)
    # Control: another method that nobody knows goes on.
    other = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call2", "params": {}}).encode()
    assert parse(other).method == "tools/call2"


VERSION = "2026-07-28"
HEAD_META = {"io.modelcontextprotocol/protocolVersion": VERSION}
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
    params = {"name": "remember", "arguments": ARGUMENTS, "_meta": HEAD_META, **changes}
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
