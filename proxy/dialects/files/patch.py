"""Reads patches of the form that Codex and OpenClaw apply: files added, deleted, moved and changed.

The reader accepts all that those hosts accept beyond the format's own grammar, such as blanks
around a marker or a shell's here-document around the patch, because a patch that the reader misses
would be applied unjudged. Of a patch that is not read whole, the files that it names are read.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final

import msgspec

from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ITEMS_MAX

FOLDERS_MAX: Final = 8
_HEREDOCS: Final = frozenset({"<<EOF", "<<'EOF'", '<<"EOF"'})
_EOF: Final = "EOF"
_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_ENVIRONMENT: Final = "*** Environment ID: "
_ADD: Final = "*** Add File: "
_DELETE: Final = "*** Delete File: "
_UPDATE: Final = "*** Update File: "
_MOVE: Final = "*** Move to: "
_MARKER: Final = "***"
_LAST: Final = "*** End of File"
_HINT: Final = "@@"
# Matches a command line that Codex runs as a patch. Of a here-document without quotes a shell
# changes the text, unless Codex takes it.
_COMMAND: Final = re.compile(
    r"""\s*(?:cd[ ]+(?:[^\s'"$`\\;&|<>()]+|'[^']*'|"[^"$`\\]*")\s*&&\s*)?"""
    r"""apply_?patch\s*<<\s*(['"]?)(\w+)\1[ \t]*\n(?P<patch>.*)\n\2\s*""",
    re.DOTALL,
)
_EXPANDED: Final = re.compile(r"[$`\\]")
# Matches the beginning of each line with a path, also in a unified diff or a string of a program.
_NAMED: Final = re.compile(
    r"(?:\*\*\* (?:(?:Add|Update|Delete) File|Move to):|^(?:\+\+\+|---|rename to|copy to))"
    r"[ \t]+(?=([^\n]{1,600}))",
    re.MULTILINE,
)
# Ends a path in such a line: a diff's date, a line's end inside a string, the string's own end.
_PATH_END: Final = re.compile(r"\t|\\[nr]|['\"]")
_FOLDERS: Final = re.compile(
    r"""(?:^|[\s;&|(])(?:cd|pushd|-C|-d)\s+(?:--\s+)?('[^']*'|"[^"]*"|[^\s;&|<>()]+)"""
)


# Old text, new text, and whether every occurrence is replaced.
Edit = tuple[str, str, bool]


class PatchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a patch: with its whole new text, or with the lines that change.

    A deleted file has an empty text. `to` is the path that the file is moved to. `unread`: the
    patch was not read and only names the file; the whole of it is the one edit.
    """

    path: str
    to: str | None = None
    text: str | None = None
    edits: tuple[Edit, ...] = ()
    unread: bool = False


def patched_files(text: str, *, command: bool) -> tuple[PatchedFile, ...]:
    """The files that a patch changes, or that the patch in a command line does (`command`).

    If the patch is not read whole, the files are all that it names.

    Raises:
        MalformedRequest: A patch outside of a command line is not read, and names no file; or a
            patch that is not read names too many.
    """
    try:
        return _in_command(text) if command else read_patch(text)
    except MalformedRequest:
        lines: list[str] = _NAMED.findall(text)
        cut: list[str] = [_PATH_END.split(line.strip(" '\""))[0] for line in lines]
        plain = [line for line in lines if "\\n" not in line]
        named = dict.fromkeys(one.strip() for one in (*cut, *plain) if one.strip())
        if len(named) > ITEMS_MAX or not (named or command):
            raise
        whole: Edit = ("", text, False)
        return tuple(PatchedFile(path=path, edits=(whole,), unread=True) for path in named)


def folders_of(command: str) -> tuple[str, ...]:
    """The folders to which a command line changes before its patch begins, in order.

    Raises:
        MalformedRequest: They are too many.
    """
    begin = _NAMED.search(command)
    found = _FOLDERS.findall(command[: begin.start()]) if begin is not None else ()
    if len(found) > FOLDERS_MAX:
        raise MalformedRequest("patch: its command line changes the folder too often")
    return tuple(one.strip("'\"") for one in found)


def _in_command(command: str) -> tuple[PatchedFile, ...]:
    found = _COMMAND.fullmatch(command)
    if found is None or (not found[1] and _EXPANDED.search(found["patch"])):
        raise MalformedRequest("patch: not the whole of its command line")
    return read_patch(found["patch"])


def read_patch(patch: str) -> tuple[PatchedFile, ...]:
    """Read the files of a patch, in the order in which a host changes them.

    Raises:
        MalformedRequest: A part of the patch is of no known form.
    """
    lines = [line.removesuffix("\r") for line in patch.strip().split("\n")]
    if lines[0] in _HEREDOCS and lines[-1].endswith(_EOF):
        lines = lines[1:-1] or lines
    rest = deque(lines)
    if rest.popleft().strip() != _BEGIN or not rest or rest.pop().strip() != _END:
        raise MalformedRequest(f"patch: must begin with {_BEGIN!r} and end with {_END!r}")
    if rest and rest[0].strip().startswith(_ENVIRONMENT):
        rest.popleft()
    found: list[PatchedFile] = []
    while rest:
        found.append(_file(rest))
    if not found:
        raise MalformedRequest("patch: changes no file")
    return tuple(found)


def _file(rest: deque[str]) -> PatchedFile:
    head = rest.popleft().strip()
    if head.startswith(_DELETE):
        return PatchedFile(path=head.removeprefix(_DELETE).strip(), text="")
    if head.startswith(_ADD):
        text = ""
        while rest and rest[0].startswith("+"):
            text += f"{rest.popleft()[1:]}\n"
        return PatchedFile(path=head.removeprefix(_ADD).strip(), text=text)
    if not head.startswith(_UPDATE):
        raise MalformedRequest("patch: a line is neither the head of a file nor a part of one")
    to = None
    if rest and rest[0].startswith(_MOVE):
        to = rest.popleft().removeprefix(_MOVE).strip()
    edits: list[Edit] = []
    while rest and (rest[0].strip() == _LAST or not rest[0].startswith(_MARKER)):
        if rest[0].strip() == _LAST:
            rest.popleft()
        else:
            edits.append(_edit(rest))
    return PatchedFile(path=head.removeprefix(_UPDATE).strip(), to=to, edits=tuple(edits))


def _edit(rest: deque[str]) -> Edit:
    """Adjacent lines of a file: before and after the change."""
    old: list[str] = []
    new: list[str] = []
    while rest and rest[0].startswith(_HINT):
        rest.popleft()
    size = len(rest)
    while rest and (not rest[0] or rest[0][0] in " +-"):
        line = rest.popleft()
        if line.startswith(" ") and line.strip().startswith(_MARKER):
            # A host that ignores blanks around markers would begin another file here.
            raise MalformedRequest("patch: a line may be read as a marker")
        old += [line[1:]] if not line.startswith("+") else []
        new += [line[1:]] if not line.startswith("-") else []
    if len(rest) == size:
        raise MalformedRequest("patch: a line of a changed file has no sign")
    return "\n".join(old), "\n".join(new), False
