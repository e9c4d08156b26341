"""Which members a message may have, and a value built anew of them alone.

What two readers could understand differently is refused: a member that is a known one but for its
case (Go's `encoding/json` takes `"Method"` for `"method"`), and two that differ in nothing else.
What nobody knows is left out, and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.dialects.mcp.members import v2025_11_25, v2026_07_28
from proxy.seams.faults import MalformedRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from proxy.dialects.strict_json.strict import JsonValue

HANDSHAKES: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STATELESS: Final = ("2026-07-28",)

# What hosts and servers say as well: extensions were agreed upon before the next version, and a
# form that a server makes of a type of its own says what any schema does.
_ALSO: Final = {
    "ClientCapabilities": ("extensions",),
    "ServerCapabilities": ("extensions",),
    "RequestedSchema": ("title", "description", "additionalProperties", "$defs"),
}


class Members(NamedTuple):
    """The table of one version. A shape is named; "" is a value that may be anything."""

    params: Mapping[str, str]  # by method
    results: Mapping[str, str]  # by method
    shapes: Mapping[str, Mapping[str, str]]  # the members of a shape, with the shapes of theirs
    words: Mapping[str, frozenset[str]]  # of members that are words of a closed list


def check_twins(
    given: Iterable[str], known: Collection[str], where: str, *, pairs: bool = True
) -> None:
    """Refuse names that a reader that folds case takes for a known one.

    With `pairs` also two unknown ones that it takes for one another.

    Raises:
        MalformedRequest: There is one; `where` says in what, and the name is not quoted.
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
    """The value with known members alone; the very same where it has no others.

    Names of what is left out are added to `dropped`.

    Raises:
        MalformedRequest: It has names that differ in case alone.
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
    """One spelling for all that some reader takes for the same name, the dotted I included."""
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
# What a version calls by a word of its own in any message: never a text of anybody.
WORDS: Final = {
    name: V2025_11_25.words.get(name, frozenset()) | V2026_07_28.words.get(name, frozenset())
    for name in V2025_11_25.words.keys() | V2026_07_28.words.keys()
}
METHODS: Final = frozenset(
    {*V2025_11_25.params, *V2025_11_25.results, *V2026_07_28.params, *V2026_07_28.results}
)
