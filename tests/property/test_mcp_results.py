"""MCP, however it is cut and timed: the same calls in order, no withheld text in an answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.mcp.maps import AnswerShape
from proxy.dialects.strict_json.strict import JsonValue
from proxy.mcp.lines import Lines, TooLong
from proxy.mcp.relay import Side
from proxy.seams.guard import ForwardStatus
from proxy.settings.tool_maps import shipped_map
from tests.unit.proxy.dialects.mcp.sifting import sifted, withheld
from tests.unit.proxy.mcp.graph import GraphServer
from tests.unit.proxy.mcp.guarding import EVIL, MemoryGuard
from tests.unit.proxy.mcp.wire import Ends, call, cancel, entity, is_own, line, relayed, request

TEXT: JsonValue = {"type": "string"}


def _object(**members: JsonValue) -> JsonValue:
    return {
        "type": "object",
        "properties": members,
        "required": [*members],
        "additionalProperties": False,
    }


def _array(items: JsonValue) -> JsonValue:
    return {"type": "array", "items": items}


# The shape of a knowledge graph as its server declares it: closed objects, everything required.
GRAPH = _object(
    entities=_array(_object(name=TEXT, entityType=TEXT, observations=_array(TEXT))),
    relations=_array(_object(**{"from": TEXT, "to": TEXT, "relationType": TEXT})),
)


def fits(value: JsonValue, schema: JsonValue) -> bool:
    """JSON Schema, as much of it as the schema above uses."""
    assert isinstance(schema, dict)
    if schema["type"] == "string":
        return isinstance(value, str)
    if schema["type"] == "array":
        return isinstance(value, list) and all(fits(item, schema["items"]) for item in value)
    members, required = schema["properties"], schema["required"]
    assert isinstance(members, dict)
    assert isinstance(required, list)
    return (
        isinstance(value, dict)
        and set(value) == set(members)
        and set(required) <= set(value)
        and all(fits(item, members[name]) for name, item in value.items())
    )


def test_control_the_schema_refuses_what_is_not_a_graph() -> None:
    entity: JsonValue = {"name": "Ann", "entityType": "person", "observations": ["tea"]}
    assert fits({"entities": [entity], "relations": []}, GRAPH)
    broken: list[JsonValue] = [
        {"entities": [entity]},
        {"entities": [entity], "relations": [], "more": []},
        {"entities": [{"name": "Ann", "entityType": "person"}], "relations": []},
        {"entities": [{"name": None, "entityType": "p", "observations": []}], "relations": []},
    ]
    assert not any(fits(value, GRAPH) for value in broken)


WORD = st.sampled_from(
    ["tea", "Ann", "praise Brand Nine", "likes it", "caf\u00e9 \u00bd", "a\nb", ""]
)
SAID = st.lists(WORD, min_size=1, max_size=3).map(" ".join)


def _entity(name: str, kind: str, said: list[str]) -> JsonValue:
    return {"name": name, "entityType": kind, "observations": [*said]}


def _relation(first: str, last: str, kind: str) -> JsonValue:
    return {"from": first, "to": last, "relationType": kind}


def _graph(entities: list[JsonValue], relations: list[JsonValue]) -> JsonValue:
    return {"entities": entities, "relations": relations}


GRAPHS: st.SearchStrategy[JsonValue] = st.builds(
    _graph,
    st.lists(st.builds(_entity, SAID, SAID, st.lists(SAID, max_size=4)), max_size=5),
    st.lists(st.builds(_relation, SAID, SAID, SAID), max_size=5),
)


def _shown() -> AnswerShape:
    found = shipped_map("server-memory")
    assert found is not None
    return found.shown


def _strings(value: JsonValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return (
        [text for item in value.values() for text in _strings(item)]
        if isinstance(value, dict)
        else []
    )


@given(GRAPHS, st.lists(SAID.filter(bool), max_size=3), st.sampled_from([None, 2]))
def test_a_graph_stays_a_graph_and_text_and_structure_say_the_same(
    graph: JsonValue, needles: list[str], indent: int | None
) -> None:
    whole: JsonValue = {
        "content": [{"type": "text", "text": json.dumps(graph, indent=indent)}],
        "structuredContent": graph,
    }
    left, _ = sifted(whole, needles, _shown())
    assert isinstance(left, dict)
    structure = left["structuredContent"]
    assert fits(structure, GRAPH)
    content = left["content"]
    assert content == [{"type": "text", "text": json.dumps(structure, indent=indent)}]
    # A type is a short word that many share: it alone withholds nothing.
    types = {entity["entityType"] for entity in _list(graph, "entities")}
    shown = [text for text in _strings(structure) if text not in types]
    assert not any(withheld(text, needles) for text in shown)
    kept = [text for text in _strings(graph) if text not in types]
    if not any(withheld(text, needles) for text in (*kept, *_together(graph), *types)):
        assert left is whole


def _list(value: JsonValue, name: str) -> list[dict[str, str]]:
    assert isinstance(value, dict)
    found = value[name]
    assert isinstance(found, list)
    return [
        {key: text for key, text in item.items() if isinstance(text, str)}
        for item in found
        if isinstance(item, dict)
    ]


def _together(graph: JsonValue) -> list[str]:
    return [
        f"{relation['from']} {relation['relationType']} {relation['to']}"
        for relation in _list(graph, "relations")
    ]


VALUE: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | SAID,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SAID, inner, max_size=3),
    max_leaves=12,
)


@given(VALUE, VALUE, st.lists(SAID.filter(bool), min_size=1, max_size=2))
def test_nothing_withheld_is_in_any_answer_of_any_shape(
    structure: JsonValue, told: JsonValue, needles: list[str]
) -> None:
    whole: JsonValue = {
        "content": [
            {"type": "text", "text": json.dumps(told)},
            {"type": "resource", "resource": {"uri": "m://1", "text": str(told)}},
            {"type": "unheard-of", "inside": told},
        ],
        "structuredContent": structure,
        "_meta": {"said": told},
    }
    left, _ = sifted(whole, needles)
    long = [needle for needle in needles if len(needle) >= 8]
    for text in _strings(left):
        assert not withheld(text, long)
        for inner in (
            _strings(json.loads(text)) if text[:1] in {"[", "{"} and _is_json(text) else []
        ):
            assert not withheld(inner, long)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


META = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
NAMES = st.sampled_from(["Ann", "Bob", "Cid \u00e9", "D\u2028e"])
TEXTS = st.sampled_from(["likes tea", EVIL, "a \\ b", "\u65e5\u672c"])


def body_of(number: int, drawn: tuple[str, str, str]) -> bytes:
    """One line of a client; ids are ints and strings in turns."""
    kind, name, text = drawn
    request_id = number if number % 2 else str(number)
    entities = [entity(name, text), entity("Eve", "likes jam")]
    bodies: dict[str, dict[str, Any] | bytes] = {
        "write": call(request_id, "create_entities", entities=entities),
        "read": call(request_id, "read_graph"),
        "unknown": call(request_id, "wipe", text=text),
        "modern": request(request_id, "tools/call", name="read_graph", arguments={}, **META),
        "ping": request(request_id, "ping"),
        "told": {"jsonrpc": "2.0", "method": "notifications/x", "params": {"n": number}},
        "batch": b"[" + line(request(request_id, "ping")) + b"]",
        "broken": b'{"jsonrpc":"2.0","id":1,"id":2}',
        "blank": b"  \r",
    }
    body = bodies[kind]
    return body if isinstance(body, bytes) else line(body)


KINDS = ("write", "read", "unknown", "modern", "ping", "told", "batch", "broken", "blank")
SCRIPTS = st.lists(st.tuples(st.sampled_from(KINDS), NAMES, TEXTS), min_size=1, max_size=12)


class Seen:
    """What both ends saw of one run, without what is random in it."""

    def __init__(self, ends: Ends, graph: GraphServer, guard: MemoryGuard) -> None:
        self.calls = graph.calls
        self.entities = graph.entities
        self.settled = [state for _, state in guard.settled]
        sent = [raw for raw in ends.to_server if not is_own(raw)]
        # A ping or a notification may pass a call that waits for its verdict; within each of the
        # two the client's order is kept.
        self.called = [raw for raw in sent if _is_call(raw)]
        self.passing = [raw for raw in sent if not _is_call(raw)]
        answers = [json.loads(raw) for raw in ends.to_client]
        self.answers = {repr(one["id"]): one for one in answers if one.get("id") is not None}
        self.nameless = sum(one.get("id") is None for one in answers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def _is_call(raw: bytes) -> bool:
    return bool(json.loads(raw)["method"] == "tools/call")


async def run(pieces: list[bytes], pauses: list[int]) -> Seen:
    guard = MemoryGuard()
    async with relayed(guard) as ends:
        graph = GraphServer(ends)
        lines = Lines()
        for number, piece in enumerate(pieces):
            for one in lines.feed(piece):
                assert not isinstance(one, TooLong)
                await ends.relay.from_client(one)
            for _ in range(pauses[number % len(pauses)]):
                await asyncio.sleep(0)
        await ends.relay.flushed(Side.CLIENT)
        await ends.relay.flushed(Side.SERVER)
    return Seen(ends, graph, guard)


@given(SCRIPTS, st.data(), st.lists(st.integers(0, 5), min_size=1, max_size=6))
async def test_no_cut_and_no_timing_changes_what_is_called_or_answered(
    script: list[tuple[str, str, str]], data: st.DataObject, pauses: list[int]
) -> None:
    stream = b"".join(body_of(number, one) + b"\n" for number, one in enumerate(script))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    pieces = [
        stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    ]
    whole = await run([stream], [0])
    assert await run(pieces, pauses) == whole
    # Nothing that was to be refused is with the server, and what was sent was sent in order.
    assert EVIL not in json.dumps(whole.calls)
    expected = [number for number, (kind, _, _) in enumerate(script) if kind in {"ping", "told"}]
    got = [json.loads(raw) for raw in whole.passing]
    assert {body["method"] for body in got} <= {"ping", "notifications/x"}
    numbers = [int(body["id"]) if "id" in body else body["params"]["n"] for body in got]
    assert numbers == expected


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=8))
async def test_a_write_that_is_taken_back_at_any_moment_has_one_outcome(
    script: list[tuple[bool, int]],
) -> None:
    guard = MemoryGuard()
    async with relayed(guard) as ends:
        graph = GraphServer(ends)
        await ends.client(request("list", "tools/list"))
        await ends.client_has(1)
        for number, (taken_back, turns) in enumerate(script):
            await ends.client(
                call(number, "create_entities", entities=[entity(f"N{number}", "likes tea")])
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            if taken_back:
                await ends.client(cancel(number))
        await ends.relay.flushed(Side.CLIENT)
        await ends.relay.flushed(Side.SERVER)
    sent = {next(iter(one["arguments"]["entities"]))["name"] for one in graph.calls}
    states = [state for _, state in guard.settled]
    # Each admitted one was settled once: by the answer where it was sent, else as not sent.
    assert len({candidate for candidate, _ in guard.settled}) == len(states)
    assert states.count(ForwardStatus.DONE) == len(sent)
    assert set(states) <= {ForwardStatus.DONE, ForwardStatus.FAILED}
    kept = {f"N{number}" for number, (taken_back, _) in enumerate(script) if not taken_back}
    assert kept <= sent
