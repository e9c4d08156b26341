"""Values go with their objects, and equal objects are not the same."""

from __future__ import annotations

import gc

from proxy.seams.by_identity import ByIdentity


class _Thing:
    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Thing) and other.name == self.name

    __hash__ = None  # type: ignore[assignment]


def test_an_equal_object_is_another_one() -> None:
    kept: ByIdentity[_Thing, int] = ByIdentity()
    one, same = _Thing("chair"), _Thing("chair")
    kept[one] = 1
    assert kept.get(one) == 1
    assert kept.get(same) is None
    kept[one] = 2
    assert kept.get(one) == 2
    assert len(kept) == 1


def test_nothing_is_kept_of_what_is_gone() -> None:
    kept: ByIdentity[_Thing, int] = ByIdentity()
    things = [_Thing(str(number)) for number in range(100)]
    for number in range(200):
        kept[things[number % 100]] = number
    assert len(kept) == 100
    del things
    gc.collect()
    assert len(kept) == 0
