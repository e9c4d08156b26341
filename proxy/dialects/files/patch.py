"""Reads patches of the form that Codex and OpenClaw apply: files added, deleted, moved and changed.

The reader accepts all that those hosts accept beyond the format's own grammar, such as blanks
around a marker or a shell's here-document around the patch, because a patch that the reader misses
would be applied unjudged. A patch that is not read whole is malformed.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from proxy.dialects.files.hunks import CELLS_MAX
from proxy.seams.faults import MalformedRequest

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


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Adjacent lines of a file, before and after the change.

    `hinted`: the patch names a line in front of the chunk, so lines without old ones are inserted
    at a place that depends on the host.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    hinted: bool


class PatchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a patch: with its whole new text, or with the chunks that change.

    A deleted file has an empty text. `to` is the path that the file is moved to.
    """

    path: str
    to: str | None = None
    text: str | None = None
    chunks: tuple[Chunk, ...] = ()


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


def applied(chunks: tuple[Chunk, ...], before: str) -> str | None:
    """The text of a file after its chunks; None if a host may find a chunk's lines elsewhere.

    A host also finds lines with other blanks around them, and leaves such lines as they are.
    """
    lines = before.removesuffix("\n").split("\n") if before else []
    if len(lines) * len(chunks) > CELLS_MAX:
        return None
    for one in chunks:
        size = len(one.old)
        bare = [line.strip() for line in lines]
        meant = [line.strip() for line in one.old]
        found = [at for at in range(len(lines) - size + 1) if bare[at : at + size] == meant]
        if not size:
            found = [] if one.hinted else [len(lines)]
        if len(found) != 1 or lines[found[0] : found[0] + size] != [*one.old]:
            return None
        lines[found[0] : found[0] + size] = one.new
    return "".join(f"{line}\n" for line in lines)


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
    chunks: list[Chunk] = []
    while rest and (rest[0].strip() == _LAST or not rest[0].startswith(_MARKER)):
        if rest[0].strip() == _LAST:
            rest.popleft()
        else:
            chunks.append(_chunk(rest))
    return PatchedFile(
        path=head.removeprefix(_UPDATE).strip(), to=to, text=None, chunks=tuple(chunks)
    )


def _chunk(rest: deque[str]) -> Chunk:
    hinted = False
    old: list[str] = []
    new: list[str] = []
    while rest and rest[0].startswith(_HINT):
        hinted |= rest.popleft().strip() != _HINT
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
    return Chunk(old=tuple(old), new=tuple(new), hinted=hinted)
