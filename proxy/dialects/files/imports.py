"""Files that an instructions file imports: a host replaces `@path` by the text of that file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy.text.paths import readings_of_path

# Finds `@file`. Before the `@`, white space as JavaScript defines it is allowed, which is more than
# Python's.
_IMPORT: Final = re.compile(r"(?:^|[\s\ufeff(\[\"'`*_])@((?:[^\s\\@]|\\.)+)", re.MULTILINE)
_ESCAPE: Final = re.compile(r"\\(.)")
_BEHIND: Final = ".,;:!?)]}\"'`*_"


def imports_of(path: str, text: str) -> Iterator[str]:
    """Yield the paths that the text of the file at `path` imports; `~/a` is yielded as `a`."""
    folder = path.replace("\\", "/").rpartition("/")[0]
    for found in _IMPORT.findall(text):
        for name in {found, found.partition("#")[0].rstrip(_BEHIND)}:
            meant = _ESCAPE.sub(r"\1", name)
            if meant.startswith("~/"):
                yield meant.removeprefix("~/")
            elif meant:
                yield meant if meant.startswith("/") or not folder else f"{folder}/{meant}"


def may_be_one(path: str, other: str) -> bool:
    """Whether two paths may lead to the same file. A relative path may begin in any folder."""
    return any(
        one == two or one.endswith(f"/{two}") or two.endswith(f"/{one}")
        for one in readings_of_path(path)
        for two in readings_of_path(other)
    )
