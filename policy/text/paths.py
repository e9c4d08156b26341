"""Paths and patterns of paths, however a path is spelled.

Of a tool call only the path's string is known. Case, `..`, `~`, separators, invisible characters
and the streams of NTFS are folded before paths are compared, because a file system may fold them as
well. The string does not show a link, a short name of Windows or a second name of one file;
`proxy.files.here` resolves these if the file is on this machine, and otherwise they go undetected.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final
from urllib.parse import unquote

_DRIVE: Final = re.compile(r"^[a-z]:(?=/|$)")
_UNSEEN: Final = frozenset({"Cf", "Cc", "Mn"})


class BadPattern(ValueError):  # noqa: N818 - what the text is, not a fault of ours
    """The error for a text that is no pattern of paths; its message says why."""


class PathPattern:
    """A pattern of paths.

    A pattern without a slash is a name in any folder. `*` is a part of one name, `**` any names. A
    pattern that begins with a slash starts at the root; any other pattern may start in any folder.
    """

    def __init__(self, pattern: str) -> None:
        """Compile the pattern.

        Raises:
            BadPattern: The pattern is empty, has `..` or begins with `**`.
        """
        steps = pattern.strip("/").split("/")
        if not pattern.strip("/") or ".." in steps or steps[0] == "**":
            raise BadPattern(f"{pattern!r}: must be a name or a path, and begin with a name")
        if any("**" in step and step != "**" for step in steps):
            raise BadPattern(f"{pattern!r}: `**` stands for whole names")
        root = "/" if pattern.startswith("/") else ""
        self.names = sum("*" not in step for step in steps)
        """The number of steps without `*`; of two patterns, more such steps are more specific."""
        # The pattern of the whole path, and those of the folders above it.
        each = [_source(root, steps[:end]) for end in range(len(steps), 0, -1)]
        self._path = re.compile(each[0])
        self._folder = re.compile("|".join(each))

    def fits(self, reading: str) -> bool:
        """Whether the pattern matches this reading of a path (`readings_of_path`)."""
        return self._path.search(reading) is not None

    def fits_folder(self, reading: str) -> bool:
        """Whether the pattern matches this reading of a path, or may match a path inside it."""
        return self._folder.search(reading) is not None


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


def readings_of_path(path: str) -> frozenset[str]:
    """The readings of a path: one for each way in which a file system or a tool may resolve it.

    Some file systems treat look-alike characters as equal (they fold names), others do not. So
    steps such as `..` are resolved once before folding and once after.
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


def _source(root: str, steps: list[str]) -> str:
    # `**` at the end is everything below; between two names it may also be nothing.
    parts = ["(?:.+/)?" if step == "**" else f"{_name(step)}/" for step in steps]
    path = "".join(parts).removesuffix("/")
    path = path.removesuffix("(?:.+/)?") + ".+" if steps[-1] == "**" else path
    return f"{'^/' if root else '(?:^|/)'}{path}$"


def _name(step: str) -> str:
    return "[^/]*".join(re.escape(part) for part in folded_path(step).split("*"))
