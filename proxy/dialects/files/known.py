"""The files whose whole text is known from a conversation: from a read, and from later writes.

A file is known from the answer of a read in which nothing was cut or withheld. A tool that no map
of file tools lists (a shell, another server) may have written any file, so after its call no file
is known. Changes from outside of the conversation, such as by a shell in the background, are not
noticed.
"""

from __future__ import annotations

import re
from typing import Final

from policy.text.paths import plain_path, readings_of_path
from proxy.dialects.files.edits import FileCall
from proxy.dialects.mcp.file_rules import FileRule

_NUMBERED: Final = re.compile(r" *([0-9]{1,9})(?:\t|\u2192)(.*)", re.DOTALL)
# Matches what may follow the lines of a file in a read's answer: a note that the host adds.
_SAID_BEHIND: Final = re.compile(r"\s*(?:<system-reminder>.*</system-reminder>\s*)?", re.DOTALL)


class KnownFiles:
    """The known texts of files, keyed by server and path. Not for concurrent use.

    Each server has a table of its own: two servers may have different files under one path, and a
    hostile one may claim any path.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}

    def text(self, server: str, path: str) -> str | None:
        """The whole text of a file; None if it is not known."""
        return self._texts.get((server, plain_path(path)))

    def forget_all(self) -> None:
        """Forget all files, because something ran that may have written any of them."""
        self._texts.clear()

    def forget(self, call: FileCall) -> None:
        """Forget the files that a call may have changed, because its result is unknown."""
        paths = [path for path in (call.path, call.to) if path is not None]
        meant = frozenset[str]().union(*map(readings_of_path, paths))
        for one in [one for one in self._texts if _may_be_one(meant, readings_of_path(one[1]))]:
            del self._texts[one]

    def was_read(self, server: str, call: FileCall, answer: str | None) -> None:
        """Store the text of a file from a read's answer, which is None if a part was withheld."""
        text = None if answer is None else text_of(call.rule, answer)
        if text is not None:
            self._texts[server, plain_path(call.path)] = text
        elif answer is None:
            self.forget(call)

    def is_missing(self, server: str, call: FileCall) -> None:
        """Store an empty text for a file that a read reported as missing: any later text is new."""
        self._texts[server, plain_path(call.path)] = ""

    def was_written(self, server: str, call: FileCall) -> None:
        """Store the text that a file has after a call that was carried out, or forget the file."""
        after = None if call.to is not None else call.after(self.text(server, call.path))
        self.forget(call)
        if after is not None:
            self._texts[server, plain_path(call.path)] = after


def _may_be_one(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two paths may lead to the same file. A relative path may begin in any folder."""
    return any(
        one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")
        for one in some
        for other in others
    )


def text_of(rule: FileRule, answer: str) -> str | None:
    """The text of a file from the answer of a read; None if the answer may show only a part."""
    lines = _unnumbered(answer) if rule.numbered else answer.split("\n")
    if lines is None:
        return None
    if rule.lines_max is not None and len(lines) >= rule.lines_max:
        return None
    if rule.line_len_max is not None and any(len(one) >= rule.line_len_max for one in lines):
        return None
    return "\n".join(lines)


def _unnumbered(answer: str) -> list[str] | None:
    """The lines of a file from an answer with numbered lines; None if the numbers do not fit."""
    found: list[str] = []
    given = answer.split("\n")
    for at, line in enumerate(given):
        numbered = _NUMBERED.fullmatch(line)
        if numbered is None or int(numbered[1]) != at + 1:
            behind = "\n".join(given[at:])
            return found if found and _SAID_BEHIND.fullmatch(behind) else None
        found.append(numbered[2])
    return found
