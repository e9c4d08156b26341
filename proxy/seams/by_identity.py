"""A cache keyed by object identity, for inputs that are passed again as the same objects."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class Past(Generic[_V]):
    """The beginning of a list that grows from request to request; later requests share it."""

    def __init__(self, values: SharedList[_V]) -> None:
        """`values` may have a past too, as long as requests still need that earlier past."""
        self.values = values


class SharedList(tuple[_V, ...]):  # noqa: SLOT001 - `past` is set once it is known
    """The values of a list; the values of its `past` are its first ones, and are fewer."""

    past: Past[_V] | None = None


def past_of(values: tuple[_V, ...]) -> Past[_V] | None:
    """The past of a list; None if it has none."""
    past: Past[_V] | None = getattr(values, "past", None)
    return past


class ByIdentity(Generic[_K, _V]):
    """A mapping of objects to values; an entry ends with its object, and equal objects share none.

    One thread.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[_K], _V]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: _K) -> _V | None:
        """The value stored for this object, and not for an equal one; None if there is none."""
        found = self._kept.get(id(key))
        return None if found is None or found[0]() is not key else found[1]

    def each(self, keys: Iterable[_K]) -> list[_V | None]:
        """The values of many objects in their order; None for an object without a value."""
        known = self._kept.get
        return [
            None if (found := known(id(key))) is None or found[0]() is not key else found[1]
            for key in keys
        ]

    def __setitem__(self, key: _K, value: _V) -> None:
        name, kept = id(key), self._kept
        kept[name] = (weakref.ref(key, lambda gone: _forget(kept, name, gone)), value)


def _forget(kept: dict[int, tuple[weakref.ref[_K], _V]], name: int, gone: weakref.ref[_K]) -> None:
    # Another object may have got the same id meanwhile; its entry is not removed.
    found = kept.get(name)
    if found is not None and found[0] is gone:
        del kept[name]


class ByPast(ByIdentity[Past[_K], _V]):
    """A mapping of pasts to values, so that only the values after a known past are computed."""

    def longest(self, values: tuple[_K, ...], nothing: _V) -> tuple[int, _V]:
        """The length and the value of the longest past with a value; 0 and `nothing` if none."""
        while (past := past_of(values)) is not None:
            known, values = self.get(past), past.values
            if known is not None:
                return len(values), known
        return 0, nothing

    def grown(self, values: tuple[_K, ...], nothing: _V, more: Callable[[_V, range], _V]) -> _V:
        """The value of a list: that of its longest known past, or `nothing`, grown to all values.

        `more` returns a value grown by the values with these indexes. The value of the list's past
        is stored for later lists.
        """
        known, found = self.longest(values, nothing)
        past = past_of(values)
        if past is not None and known < len(past.values):
            found = self[past] = more(found, range(known, len(past.values)))
            known = len(past.values)
        return more(found, range(known, len(values)))
