"""Which paths are files of memory, however they are spelled.

A path behind a model front is a string: case, `..`, `~`, separators, invisible characters and the
streams of NTFS are folded before it is compared, because a file system may fold them as well. What
the string cannot show (a link, a short name of Windows, a second name of one file) is looked for by
`proxy.model.files_judged` where the file is on this machine, and is not seen otherwise.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MEMORY_PATHS: Final = (
    *("MEMORY.md", "CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md", ".claude/**"),
    *(".cursorrules", ".github/copilot-instructions.md", "memories/**"),
)
"""The files that hosts load by themselves at the beginning of later conversations."""
_DRIVE: Final = re.compile(r"^[a-z]:(?=/|$)")
_UNSEEN: Final = frozenset({"Cf", "Cc", "Mn"})


class BadPattern(ValueError):  # noqa: N818 - what the text is, not a fault of ours
    """The text is no pattern of paths; the message says why."""


class MemoryPaths:
    """A list of patterns. One without a slash is a file's name; `*` is a part of one name.

    `**` at the end is everything below. A pattern fits in any folder, or from the root where it
    begins with a slash.
    """

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """Compile the patterns.

        Raises:
            BadPattern: One of them is empty, or has `..`, or `**` before its end.
        """
        self.patterns = patterns
        self._compiled = re.compile("|".join(map(_compiled, patterns))) if patterns else None

    def fits(self, path: str) -> bool:
        """Whether a path, or what it is once it is folded, is that of a file of memory."""
        return self._compiled is not None and self._compiled.search(folded_path(path)) is not None


def folded_path(path: str) -> str:
    """One spelling for all spellings of a path that a file system may take for the same file."""
    plain = "".join(
        char
        for char in unicodedata.normalize("NFKD", path)
        if unicodedata.category(char) not in _UNSEEN
    )
    spelled = plain.casefold().replace("\\", "/").removeprefix("file://")
    drive = _DRIVE.match(spelled)
    below = spelled[drive.end() :] if drive else spelled
    steps: list[str] = []
    for step in below.split("/"):
        # Windows drops trailing dots and blanks, and what follows a colon is a stream of the file.
        name = step.strip() if step.strip(". ") == "" else step.partition(":")[0].rstrip(". ")
        if name == "..":
            del steps[-1:]
        elif name not in {"", "."}:
            steps.append(name)
    root = "/" if spelled.startswith("/") or drive else ""
    return f"{drive[0] if drive else ''}{root}{'/'.join(steps)}"


def _compiled(pattern: str) -> str:
    steps = pattern.strip("/").split("/")
    if not pattern.strip("/") or ".." in steps or "**" in steps[:-1]:
        raise BadPattern(f"{pattern!r}: must be a name or a path; `**` only at its end")
    if any("**" in step and step != "**" for step in steps) or steps == ["**"]:
        raise BadPattern(f"{pattern!r}: `**` stands for whole names, below a folder")
    parts = [".+" if step == "**" else _name(step) for step in steps]
    start = "^/" if pattern.startswith("/") else "(?:^|/)"
    return f"{start}{'/'.join(parts)}$"


def _name(step: str) -> str:
    return "[^/]*".join(re.escape(part) for part in folded_path(step).split("*"))
