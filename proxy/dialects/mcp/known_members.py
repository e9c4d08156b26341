"""The known members of MCP messages, and copies of values without unknown members.

Names that two readers could understand differently are refused: a known name in other case (Go's
`encoding/json` takes `"Method"` for `"method"`), and two names that differ in case alone. Unknown
members are removed, and their names reported to the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from proxy.dialects.mcp.members import v2025_11_25, v2026_07_28
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest

HANDSHAKES: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STATELESS: Final = ("2026-07-28",)

# Members that hosts and servers use although the protocol's types lack them: extensions agreed for
# a later version, and JSON Schema keywords in the forms of an elicitation.
_ALSO: Final = {
    "ClientCapabilities": ("extensions",),
    "ServerCapabilities": ("extensions",),
    "RequestedSchema": ("title", "description", "additionalProperties", "$defs"),
}


class Members(NamedTuple):
    """The members of one protocol version's messages.

    A string names the shape of a value; "" allows any value.
    """

    params: Mapping[str, str]  # for each method, the name of the shape of its params
    results: Mapping[str, str]  # for each method, the name of the shape of its result
    # For each shape its members; for each member the name of its own shape.
    shapes: Mapping[str, Mapping[str, str]]
    words: Mapping[str, frozenset[str]]  # for each member with a closed list of values, that list


def check_twins(
    given: Iterable[str], known: Collection[str], where: str, *, pairs: bool = True
) -> None:
    """Refuse a name that a reader which ignores case would take for a known name.

    With `pairs`, two unknown names that differ in case alone are refused as well.

    Raises:
        MalformedRequest: A name is refused. The detail begins with `where`, and does not quote the
            name.
    """
    strange = [name for name in given if name not in known]
    if not strange:
        return
    taken = {_folded(name) for name in known}
    for name in strange:
        folded = _folded(name)
        if folded in taken:
            raise MalformedRequest(f"{where}: two names differ in case alone")
        if pairs:
            taken.add(folded)


def rebuilt(value: JsonValue, shape: str, members: Members, dropped: list[str]) -> JsonValue:
    """The value without unknown members; the same object if it has none.

    The names of the removed members are added to `dropped`.

    Raises:
        MalformedRequest: Two names differ in case alone.
    """
    if not shape:
        return value
    if isinstance(value, list):
        items = [rebuilt(item, shape, members, dropped) for item in value]
        same = all(item is before for item, before in zip(items, value, strict=True))
        return value if same else items
    if not isinstance(value, dict):
        return value
    known = None if shape.startswith("{") else members.shapes[shape]
    kept: dict[str, JsonValue] = {}
    if known is None:
        for name, item in value.items():
            kept[name] = rebuilt(item, shape[1:-1], members, dropped)
    else:
        check_twins(value, known, shape.rstrip("+"))
        for name, item in value.items():
            if name in known:
                kept[name] = rebuilt(item, known[name], members, dropped)
            else:
                dropped.append(name)
    same = len(kept) == len(value) and all(kept[name] is value[name] for name in kept)
    return value if same else kept


def _folded(name: str) -> str:
    """A form that is equal for names which differ in case alone; a dotted capital I counts as I."""
    return name.upper().casefold().replace("\u0307", "")


def _read(table: str) -> Members:
    params: dict[str, str] = {}
    results: dict[str, str] = {}
    shapes: dict[str, dict[str, str]] = {}
    words: dict[str, frozenset[str]] = {}
    for line in table.strip().replace("\n    ", " ").split("\n"):
        kind, name, *rest = line.split()
        match kind:
            case "params":
                params[name] = "".join(rest)
            case "result":
                results[name] = "".join(rest)
            case "words":
                words[name] = frozenset(rest)
            case _:
                split = (one.partition(":") for one in (*rest, *_ALSO.get(name, ())))
                shapes[name] = {member: below for member, _, below in split}
    return Members(params=params, results=results, shapes=shapes, words=words)


V2025_11_25: Final = _read(v2025_11_25.TABLE)
V2026_07_28: Final = _read(v2026_07_28.TABLE)
# For each member with a closed list of values: the words that the protocol defines for it.
WORDS: Final = {
    name: V2025_11_25.words.get(name, frozenset()) | V2026_07_28.words.get(name, frozenset())
    for name in V2025_11_25.words.keys() | V2026_07_28.words.keys()
}
METHODS: Final = frozenset(
    {*V2025_11_25.params, *V2025_11_25.results, *V2026_07_28.params, *V2026_07_28.results}
)
