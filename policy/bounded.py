"""A dictionary with a limit on its length."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


class Bounded(OrderedDict[_Name, _Value]):
    """A dictionary of at most `most` entries: a new entry drops the one set longest ago."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, name: _Name, value: _Value) -> None:
        """Set an entry and make it the newest; drop the oldest if there are more than `most`."""
        super().__setitem__(name, value)
        self.move_to_end(name)
        if len(self) > self._most:
            self.popitem(last=False)
