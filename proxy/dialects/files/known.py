"""Which files a conversation knows whole: what was read, and what was written since.

A text counts from the answer of a read that nothing was cut from or withheld in. Every call of a
tool that no map of files lists may have written anything (a shell, another server), so it ends all
of this knowledge. What goes on beside the conversation, such as a shell in the background, is not
seen.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy.dialects.files.memory_paths import readings_of_path

if TYPE_CHECKING:
    from proxy.dialects.files.edits import FileCall
    from proxy.dialects.mcp.file_rules import FileRule

_NUMBERED: Final = re.compile(r" *([0-9]{1,9})(?:\t|\u2192)(.*)", re.DOTALL)
# What a host says behind the lines of a file.
_SAID_BEHIND: Final = re.compile(r"\s*(?:<system-reminder>.*</system-reminder>\s*)?", re.DOTALL)


class KnownFiles:
    """The texts of files, by server and path as they are spelled. One caller at a time.

    What one server shows under a path is not what another one writes there: it may have files of
    its own, and may say anything.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}

    def text(self, server: str, path: str) -> str | None:
        """The whole text of a file; None where it is not known."""
        return self._texts.get((server, path))

    def forget_all(self) -> None:
        """Something ran that may have written any file."""
        self._texts.clear()

    def forget(self, call: FileCall) -> None:
        """It is not known what became of this call."""
        paths = [path for path in (call.path, call.to) if path is not None]
        meant = frozenset[str]().union(*map(readings_of_path, paths))
        for one in [one for one in self._texts if not meant.isdisjoint(readings_of_path(one[1]))]:
            del self._texts[one]

    def was_read(self, server: str, call: FileCall, answer: str | None) -> None:
        """A read was answered; None: something of the answer was withheld."""
        text = None if answer is None else text_of(call.rule, answer)
        if text is not None:
            self._texts[server, call.path] = text
        elif answer is None:
            self.forget(call)

    def was_written(self, server: str, call: FileCall) -> None:
        """A call that changes a file was done."""
        after = None if call.to is not None else call.after(self.text(server, call.path))
        self.forget(call)
        if after is not None:
            self._texts[server, call.path] = after


def text_of(rule: FileRule, answer: str) -> str | None:
    """The whole text that the answer of a read shows; None where it may be a part."""
    lines = _unnumbered(answer) if rule.numbered else answer.split("\n")
    if lines is None:
        return None
    if rule.lines_max is not None and len(lines) >= rule.lines_max:
        return None
    if rule.line_len_max is not None and any(len(one) >= rule.line_len_max for one in lines):
        return None
    return "\n".join(lines)


def _unnumbered(answer: str) -> list[str] | None:
    """The lines of a file out of an answer that counts them from one; None where it does not."""
    found: list[str] = []
    given = answer.split("\n")
    for at, line in enumerate(given):
        numbered = _NUMBERED.fullmatch(line)
        if numbered is None or int(numbered[1]) != at + 1:
            behind = "\n".join(given[at:])
            return found if found and _SAID_BEHIND.fullmatch(behind) else None
        found.append(numbered[2])
    return found
