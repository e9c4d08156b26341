"""The part of a tool map that describes a tool which reads, writes or moves files.

Only changes of places (files that a host reads again, `policy.places`) are judged. A map's `file`
table may have the fields of `FileRule` and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, structs

_Name = Annotated[str, Meta(min_length=1, max_length=128)]


class FileRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The names of a file tool's arguments; the argument that `path` names is the file's path.

    A tool with `patch` has no `path`: the text of that argument names the files and their changes
    (`proxy.dialects.files.patch`); with `command` it is a command line that may have a patch in it,
    and may write any other file. Any other tool that writes has `text` (the whole new
    text), or `old` and `new` (a replacement, of every occurrence if the argument `every` is true;
    in the elements of the array `edits` if that is given), or `to` (the path that the file is moved
    to). Without any of these, the new text of the file is unknown.
    """

    path: Annotated[str, Meta(max_length=128)] = ""
    patch: _Name | None = None
    command: bool = False
    # Of a patch: the argument that names the folder in which it is applied.
    folder: _Name | None = None
    to: _Name | None = None
    text: _Name | None = None
    edits: _Name | None = None
    old: _Name | None = None
    new: _Name | None = None
    every: _Name | None = None
    # The argument that, if it is true, makes the call a dry run.
    idle: _Name | None = None
    # Words with which a server's answer to a read reports that the file does not exist.
    missing: _Name | None = None

    @property
    def fits(self) -> bool:
        """Whether the rule is a patch, or has a path and describes at most one kind of change."""
        if self.patch is not None:
            apart = structs.replace(self, patch=None, command=False, folder=None)
            return apart == FileRule()
        replaces = self.old is not None and self.new is not None
        parts = (self.old, self.new, self.every, self.edits)
        ways = (self.to is not None, self.text is not None, replaces)
        return (
            self.path != "" and sum(ways) <= 1 and (replaces or parts == (None, None, None, None))
        )

    @property
    def writes(self) -> bool:
        """Whether the rule has an argument that only a tool which writes may have."""
        given = (self.patch, self.to, self.text, self.old, self.new, self.idle)
        return any(one is not None for one in given)

    @property
    def named(self) -> Iterator[str]:
        """The names of the arguments that the top level of the tool's own schema must contain."""
        given = (self.path, self.patch, self.to, self.text, self.edits)
        yield from (one for one in given if one)
        if self.edits is None:
            yield from (one for one in (self.old, self.new) if one is not None)
