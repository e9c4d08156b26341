"""What one client received, and where what another received is different."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from tests.integration.hosts.http_tee import HttpExchange
from tests.integration.hosts.scene import Said

Json = dict[str, Any]
Value: TypeAlias = "dict[str, Value] | list[Value] | str | float | bool | None"
# Where an answer belongs, and the lines of it.
View = dict[str, list[bytes]]


def stdio_view(said: Sequence[Said]) -> View:
    """Every line that came out of the server, in order."""
    return {"stdio": [one.line for one in said if not one.inwards]}


def http_view(exchanges: Sequence[HttpExchange]) -> View:
    """Status, kind of answer and messages of each exchange, under what was asked.

    Exchanges run at once, so they are paired by the request and not by their order.
    """
    view: View = {}
    for one in exchanges:
        asked = msgspec.json.decode(one.asked or b"{}", type=Json)
        about = f"{one.method} {asked.get('method', 'answer')} {asked.get('id', '')}"
        kind = one.headers.get("content-type", "").partition(";")[0] if one.messages() else ""
        head = f"{one.status} {kind}".encode()
        lines = view.setdefault(about, [])
        # How often a client asks again for a stream that there is not, its own clock says.
        if head not in lines or one.messages():
            lines.extend([head, *one.messages()])
    return view


def messages_of(view: View) -> View:
    """Every message alone, whatever stream it came on, in an order of no meaning."""
    return {"all": sorted(line for lines in view.values() for line in lines if line[:1] == b"{")}


def differences(direct: View, guarded: View) -> set[str]:
    """Paths of what differs. A whole message that is missing, or bytes that say the same, too."""
    found = {f"only direct: {name}" for name in direct.keys() - guarded.keys()}
    found |= {f"only guarded: {name}" for name in guarded.keys() - direct.keys()}
    for name in direct.keys() & guarded.keys():
        here, there = direct[name], guarded[name]
        if len(here) != len(there):
            found.add(f"{name}: {len(here)} messages, then {len(there)}")
            continue
        for one, other in zip(here, there, strict=True):
            found |= set(_in_message(one, other))
    return found


def _in_message(one: bytes, other: bytes) -> Iterator[str]:
    if one == other:
        return
    try:
        here: Value = msgspec.json.decode(one)
        there: Value = msgspec.json.decode(other)
    except msgspec.DecodeError:
        yield f"{one[:200]!r} against {other[:200]!r}"
        return
    yield from sorted(set(_paths(here, there, ""))) or ["the same in other bytes"]


def _paths(one: Value, other: Value, at: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from _paths(one.get(key), other.get(key), f"{at}.{key}".lstrip("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for here, there in zip(one, other, strict=True):
            yield from _paths(here, there, f"{at}[]")
    elif one != other:
        yield at
