"""A message has the members that its reader judged: no twins, nothing unknown in its envelope."""

from __future__ import annotations

import json

import pytest

from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.known_members import V2025_11_25, check_twins, rebuilt
from proxy.dialects.mcp.message import Era, NotRelayed, Object, parse, read_result
from proxy.dialects.mcp.opaque import given, given_back, replaced
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.settings.tool_maps import shipped_map

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
