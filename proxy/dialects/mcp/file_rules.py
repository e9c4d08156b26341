"""What a tool map says of a tool that reads, writes or moves files, memory or not.

Only changes of places (`policy.places`) are judged. The map's entry for such a tool may have
the keys of this file and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

_Name = Annotated[str, Meta(min_length=1, max_length=128)]


class FileRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of the arguments of one file tool. `path` names the file.

    A tool that writes has `text` (the whole new text), or `old` and `new` (a replacement, of every
    occurrence where `every` is true), inside the array `edits` if the tool has one, or `to` (the
    place that the file is moved to). A tool with none of these writes something unknown.
    """

    path: _Name
    to: _Name | None = None
    text: _Name | None = None
    edits: _Name | None = None
    old: _Name | None = None
    new: _Name | None = None
    every: _Name | None = None
    # The argument that, if it is true, makes the tool only show what it would do.
    idle: _Name | None = None
    # Arguments of a reading tool that limit a call to a part of the file.
    cut: Annotated[tuple[_Name, ...], Meta(max_length=16)] = ()
    # Words in a tool's answer by which it says that there is no such file.
    missing: _Name | None = None
    # Whether each line of the answer begins with its number and a tab or an arrow.
    numbered: bool = False
    # The most lines, and the most characters of a line, that an answer shows; None: there is no
    # limit.
    lines_max: Annotated[int, Meta(ge=1)] | None = None
    line_len_max: Annotated[int, Meta(ge=1)] | None = None

    @property
    def fits(self) -> bool:
        """Whether the rule gives a call one meaning at most: to write, replace, or move a file."""
        replaces = self.old is not None and self.new is not None
        parts = (self.old, self.new, self.every, self.edits)
        ways = (self.to is not None, self.text is not None, replaces)
        return sum(ways) <= 1 and (replaces or parts == (None, None, None, None))

    @property
    def writes(self) -> bool:
        """Whether the rule has an argument that only a tool which writes may have."""
        return any(one is not None for one in (self.to, self.text, self.old, self.new, self.idle))

    @property
    def named(self) -> Iterator[str]:
        """The names of the arguments that a tool's own schema has to have."""
        given = (self.path, self.to, self.text, self.edits)
        yield from (one for one in given if one is not None)
        if self.edits is None:
            yield from (one for one in (self.old, self.new) if one is not None)
