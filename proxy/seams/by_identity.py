"""A cache by object identity, for objects that come again as the same objects."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class Past(Generic[_V]):
    """The beginning of a list of which more comes again and again; the same object each time."""

    def __init__(self, values: SharedList[_V]) -> None:
        """`values` may have a past themselves, as long as requests still need that one."""
        self.values = values


class SharedList(tuple[_V, ...]):  # noqa: SLOT001 - `past` is set once it is known
    """The values of a list. Those of its `past` came before; each past is shorter than its list."""

    past: Past[_V] | None = None


def past_of(values: tuple[_V, ...]) -> Past[_V] | None:
    """The past of a list; None if it has none."""
    past: Past[_V] | None = getattr(values, "past", None)
    return past


class ByIdentity(Generic[_K, _V]):
    """Values kept by object, and dropped with it; equal objects do not share a value.

    One thread.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[_K], _V]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: _K) -> _V | None:
        """The value kept for this very object; None if there is none."""
        found = self._kept.get(id(key))
        return None if found is None or found[0]() is not key else found[1]

    def each(self, keys: Iterable[_K]) -> list[_V | None]:
        """The values of many objects, each as `get` returns it."""
        known = self._kept.get
        return [
            None if (found := known(id(key))) is None or found[0]() is not key else found[1]
            for key in keys
        ]

    def __setitem__(self, key: _K, value: _V) -> None:
        name, kept = id(key), self._kept
        kept[name] = (weakref.ref(key, lambda gone: _forget(kept, name, gone)), value)


def _forget(kept: dict[int, tuple[weakref.ref[_K], _V]], name: int, gone: weakref.ref[_K]) -> None:
    # The entry may belong to another object by now, which got the same id.
    found = kept.get(name)
    if found is not None and found[0] is gone:
        del kept[name]


class ByPast(ByIdentity[Past[_K], _V]):
    """Values kept by the past of a list, so that only what follows the past is looked at."""

    def longest(self, values: tuple[_K, ...], nothing: _V) -> tuple[int, _V]:
        """The length of the longest past of a list that has a value, and its value."""
        while (past := past_of(values)) is not None:
            known, values = self.get(past), past.values
            if known is not None:
                return len(values), known
        return 0, nothing
