"""Which paths are memory files, however the paths are spelled.

Of a tool call only the path's string is known: case, `..`, `~`, separators, invisible characters
and the streams of NTFS are folded before it is compared, because a file system may fold them as
well. What the string does not show (a link, a short name of Windows, a second name of one file),
`proxy.model.files_judged` looks for if the file is on this machine; otherwise it is not seen.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY_PATHS: Final = (
    *("MEMORY.md", "CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md", ".claude/**"),
    *("AGENTS.override.md", ".cursorrules", ".cursor/rules/**", ".windsurfrules", ".clinerules"),
    *(".windsurf/rules/**", ".clinerules/**", ".github/instructions/**"),
    *(".github/copilot-instructions.md", "memories/**"),
)
"""The files that hosts load by themselves at the beginning of later conversations."""
_DRIVE: Final = re.compile(r"^[a-z]:(?=/|$)")
_UNSEEN: Final = frozenset({"Cf", "Cc", "Mn"})


class BadPattern(ValueError):  # noqa: N818 - what the text is, not a fault of ours
    """The error for a text that is no pattern of paths; its message says why."""


class MemoryPaths:
    """A list of patterns for the paths of memory files.

    A pattern without a slash is a file's name; `*` is a part of one name. `**` at the end stands
    for everything below. A pattern that begins with a slash starts at the root; any other fits in
    any folder.
    """

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """Compile the patterns.

        Raises:
            BadPattern: A pattern is empty, or has `..`, or `**` before its end.
        """
        self.patterns = patterns
        self._compiled = re.compile("|".join(map(_compiled, patterns))) if patterns else None
        above = [one for pattern in patterns for one in _above(pattern)]
        self._folders = re.compile("|".join(above)) if above else None

    def fits(self, path: str) -> bool:
        """Whether a path is that of a memory file, in any way that a file system may read it."""
        return _found(self._compiled, path)

    def fits_folder(self, path: str) -> bool:
        """Whether a path is that of a memory file, or of a folder above one.

        A call that moves a folder moves all memory files in it.
        """
        return self.fits(path) or _found(self._folders, path)


def left_out(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The shipped patterns of memory files that an operator's list leaves out."""
    paths = MemoryPaths(patterns)
    return tuple(one for one in MEMORY_PATHS if not paths.fits(one.replace("**", "any/file")))


def folded_path(path: str) -> str:
    """One spelling for all spellings of a path that a file system may take for the same file."""
    spelled = _plain(path).replace("\\", "/").removeprefix("file://")
    drive = _DRIVE.match(spelled)
    below = spelled[drive.end() :] if drive else spelled
    steps: list[str] = []
    for step in below.split("/"):
        name = step.strip() if step.strip(". ") == "" else _file_name(step)
        if name == "..":
            del steps[-1:]
        elif name not in {"", "."}:
            steps.append(name)
    root = "/" if spelled.startswith("/") or drive else ""
    return f"{drive[0] if drive else ''}{root}{'/'.join(steps)}"


def plain_path(path: str) -> str:
    """A path without the steps `.` and empty ones, which lead nowhere: it names the same file."""
    steps = [step for step in path.split("/") if step not in {"", "."}]
    return f"{'/' if path.startswith('/') else ''}{'/'.join(steps)}"


def is_exact_path(path: str) -> bool:
    """Whether a path is absolute, without `.`, `..`, empty steps and backslashes.

    Two equal paths of this form name one file, whatever folder each call was made in.
    """
    steps = path.split("/")[1:]
    return path.startswith("/") and "\\" not in path and not {"", ".", ".."} & {*steps}


def readings_of_path(path: str) -> frozenset[str]:
    """The files that one path may name, depending on who reads it.

    Some file systems take look-alike characters for the same (they fold names), others do not. So
    the steps of the path (`..` and the like) are taken once before folding and once after.
    """
    # A path may be read in two more ways: a tool that takes addresses of files decodes them, and a
    # tool in C ends a path at a zero byte.
    address = _plain(path).lstrip().startswith("file:")
    whole = {path, unquote(path) if address else path}
    spelled = {one for some in whole for one in (some, some.partition("\0")[0]) if one}
    spelled_for_windows = {one.replace("\\", "/") for one in spelled}
    return frozenset({*map(folded_path, spelled), *map(_stepped, spelled | spelled_for_windows)})


def _stepped(path: str) -> str:
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in {"", "."}:
            steps.append(step)
    names = "/".join(_file_name(_plain(step)) for step in steps)
    return f"/{names}" if path.startswith("/") else names


def _plain(text: str) -> str:
    made = unicodedata.normalize("NFKD", text)
    return "".join(char for char in made if unicodedata.category(char) not in _UNSEEN).casefold()


def _file_name(step: str) -> str:
    # On Windows trailing dots and blanks are no part of a name, and what follows a colon is a
    # stream of the same file.
    return step.partition(":")[0].rstrip(". ")


def _found(compiled: re.Pattern[str] | None, path: str) -> bool:
    return compiled is not None and any(map(compiled.search, readings_of_path(path)))


def _above(pattern: str) -> Iterator[str]:
    """Regular expressions for the folders that a pattern names above its files."""
    steps = pattern.strip("/").split("/")
    start = "/" if pattern.startswith("/") else ""
    for end in range(1, len(steps)):
        yield _compiled(start + "/".join(steps[:end]))


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
