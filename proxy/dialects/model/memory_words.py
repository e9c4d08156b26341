"""Reports whether a tool's name or arguments look like those of a memory tool. Pure.

The gate judges only tools that a map describes. The operator is warned of other tools that look
like memory tools; the words here serve for that warning alone.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from proxy.dialects.model.tools import DeclaredTool

_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_MEMORY: Final = frozenset(
    {"memory", "memories", "memorize", "memorise", "remember", "recollect", "forget"}
)
_KEEPS: Final = frozenset(
    {"add", "append", "create", "insert", "keep", "learn", "note", "put", "record", "save", "set"}
    | {"store", "update", "upsert", "write", "delete", "remove"}
)
_KEPT: Final = frozenset(
    {"belief", "beliefs", "fact", "facts", "insight", "insights", "lesson", "lessons"}
    | {"observation", "observations", "preference", "preferences"}
)

_WRITES: Final = _KEEPS | {
    *("edit", "move", "rename", "replace", "patch", "upload", "modify", "execute", "run", "exec"),
    *("shell", "bash", "command"),
}
# A tool's name is shown to people and written to logs only if it has this form.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/@-]{1,128}")


def words_of(name: str) -> frozenset[str]:
    """The words of a name, joined by camel case or by any character that is no letter."""
    return frozenset(map(str.casefold, _WORDS.findall(name)))


@lru_cache(maxsize=1_024)
def writes_by_name(name: str) -> bool:
    """Whether a tool's name contains a word for writing, such as "save" or "run"."""
    return _PLAIN.fullmatch(name) is not None and not words_of(name).isdisjoint(_WRITES)


def speaks_of_memory(tool: DeclaredTool) -> bool:
    """Whether a tool's name, or its name and arguments, contain words of memory tools."""
    said = words_of(tool.name)
    if said & _MEMORY:
        return True
    if not said & _KEEPS:
        return False
    arguments = frozenset[str]().union(*map(words_of, tool.arguments or ()))
    return bool(said & _KEPT or arguments & (_MEMORY | _KEPT))
