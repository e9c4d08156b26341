"""The paths that a shell's command line names where it may write.

A line that computes a path, or runs a script that does, names nothing: what it writes is judged
when a model reads the file again.
"""

from __future__ import annotations

import re
from typing import Final

WORDS_MAX: Final = 256
# A here-document: what its first line has after the delimiter, and its text.
_HEREDOC: Final = re.compile(
    r"<<-?[ \t]*\\?(['\"]?)(\w+)\1([^\n]*)\n(.*?)(?:\n[ \t]*\2[ \t]*(?=\n|$)|$)", re.DOTALL
)
_WORD: Final = re.compile(r"[^\s'\"`;|&<>()=,]+")
_TARGET: Final = re.compile(r"\d*&?>[>|&]?\s*['\"]?([^\s'\"`;|&<>()]+)['\"]?")
_END: Final = re.compile(r"[;|&()\n]+")
# A command of a program that changes none of the files that its arguments name.
_READS: Final = re.compile(
    r"\s*(?:\S*/)?(?:cat|cd|cmp|cut|diff|echo|[ef]?grep|file|head|less|ls|md5sum|more|nl|printf"
    r"|pushd|pwd|rg|sha256sum|stat|tail|test|tree|wc|which|git (?:add|blame|commit|diff|log"
    r"|ls-files|show|status)|sed -n(?!.* (?:--in-place|-\w*i)))(?=\s|$)",
    re.DOTALL,
)


def written_paths(line: str) -> tuple[str, ...]:
    """The paths that a line names where it may write.

    They are the targets of redirections, and the words with a dot or slash of programs that are not
    known to only read: of both no more than `WORDS_MAX`.
    """
    flat = _HEREDOC.sub(lambda found: f"{found[3]} {' '.join(_WORD.findall(found[4]))}", line)
    flat = flat.replace("\\\n", " ")
    found: list[str] = _TARGET.findall(flat)
    for command in _END.split(_TARGET.sub(" ", flat)):
        if _READS.match(command) is None:
            found += (word for word in _WORD.findall(command) if "." in word or "/" in word)
    return tuple(dict.fromkeys(found))[:WORDS_MAX]
