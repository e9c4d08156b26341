"""Tool maps: refused with a place, or as whole as a shipped one."""

from __future__ import annotations

from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.maps import MapError, parse_map
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest

WORDS = (
    b'format = 1\nname = "m"\nread_from = "x"\n',
    b"[tools.t]\n",
    b'kind = "write"\n',
    b'kind = "read"\n',
    b"[tools.t.switch]\n",
    b'items = ["a[]"]\n',
    b'key = ["a[].b"]\n',
    b"[shown]\n",
    b"reconcile = { tool = ",
)

ARGUMENTS: list[JsonValue] = [{}, {"a": [{"b": "text"}]}, {"a": "text"}, {"a": None}]


def check(data: bytes) -> None:
    try:
        found = parse_map(data.decode("utf-8", "replace"))
    except MapError:
        return
    for tool in found.tools:
        for arguments in ARGUMENTS:
            try:
                read_call(found, {"name": tool, "arguments": arguments})
            except MalformedRequest:
                continue
