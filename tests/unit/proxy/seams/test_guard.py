"""The values of the guard's seam, as they cross its socket."""

from __future__ import annotations

import msgspec
import pytest

from policy.model import ChangeKind, MemoryClass
from proxy.seams.guard import ITEMS_MAX, GuardedCall, Item, Join, PinnedTool

ITEM = Item(
    change=ChangeKind.CREATE,
    arguments='{"entities":[{"name":0,"observations":[1]}]}',
    pieces=("Alice", "likes tea"),
    key="Alice",
)
CALL = GuardedCall(
    server="memory", tool="create_entities", items=(ITEM,), join=Join(tool_use_id="toolu_1")
)


def test_a_call_crosses_the_socket_unchanged() -> None:
    sent = msgspec.json.encode(CALL)
    assert msgspec.json.decode(sent, type=GuardedCall) == CALL
    assert ITEM.memory_class is MemoryClass.L3


@pytest.mark.parametrize(
    "call",
    [
        msgspec.structs.replace(CALL, items=()),
        msgspec.structs.replace(CALL, items=(ITEM,) * (ITEMS_MAX + 1)),
        msgspec.structs.replace(CALL, server=""),
        msgspec.structs.replace(CALL, tool="x" * 257),
        msgspec.structs.replace(
            CALL, items=(msgspec.structs.replace(ITEM, pieces=("x" * 65_537,)),)
        ),
        msgspec.structs.replace(CALL, items=(msgspec.structs.replace(ITEM, key="x" * 1_025),)),
    ],
)
def test_what_is_out_of_bounds_does_not_cross(call: GuardedCall) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(call), type=GuardedCall)


@pytest.mark.parametrize("digest", ["", "0" * 63, "G" * 64, "0" * 65])
def test_a_pin_is_a_whole_digest(digest: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            msgspec.json.encode(PinnedTool(name="read_graph", digest=digest)), type=PinnedTool
        )
