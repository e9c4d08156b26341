"""A dictionary with a limit on its length."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


class Bounded(OrderedDict[_Name, _Value]):
    """At most so many entries: the one that is set is the newest, and the oldest makes room."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, name: _Name, value: _Value) -> None:
        """Set an entry, which is the newest from now on."""
        super().__setitem__(name, value)
        self.move_to_end(name)
        if len(self) > self._most:
            self.popitem(last=False)
