"""Items of a server behind in portions that one request to the operator API has room for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from proxy.admin.wire.upkeep import ADOPTED_AT_ONCE
from proxy.seams.guard import Item

_CHARACTERS_AT_ONCE: Final = 65_536


def portions(items: Iterable[Item], at_once: int = ADOPTED_AT_ONCE) -> Iterator[tuple[Item, ...]]:
    """The items in their order, some at a time."""
    some: list[Item] = []
    room = _CHARACTERS_AT_ONCE
    for item in items:
        size = len(item.arguments) + sum(map(len, item.pieces))
        if some and (size > room or len(some) == at_once):
            yield tuple(some)
            some, room = [], _CHARACTERS_AT_ONCE
        some.append(item)
        room -= size
    if some:
        yield tuple(some)
