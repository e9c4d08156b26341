"""A stream of messages, however it is cut and timed: the same calls, in the same order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.mcp.lines import Lines, TooLong
from proxy.mcp.relay import Side
from proxy.seams.guard import ForwardStatus
from tests.unit.proxy.mcp.graph import GraphServer
from tests.unit.proxy.mcp.guarding import EVIL, MemoryGuard
from tests.unit.proxy.mcp.wire import Ends, call, cancel, entity, is_own, line, relayed, request

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
        self.to_server = [raw for raw in ends.to_server if not is_own(raw)]
        answers = [json.loads(raw) for raw in ends.to_client]
        self.answers = {repr(one["id"]): one for one in answers if one.get("id") is not None}
        self.nameless = sum(one.get("id") is None for one in answers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


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
    got = [json.loads(raw) for raw in whole.to_server]
    numbers = [
        int(body["id"]) if "id" in body else body["params"]["n"]
        for body in got
        if body["method"] in {"ping", "notifications/x"}
    ]
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
