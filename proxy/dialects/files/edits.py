"""A file tool's call on a memory file, as an item that is judged like any other write.

Added lines are new memories, and lines that only go are a deletion. Moves, imports, and edits of a
file whose text is unknown change something that the gate has never seen, so a person decides.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from typing import TYPE_CHECKING, Final

import msgspec

from policy.model import ChangeKind, MemoryClass
from policy.text.paths import folded_path
from proxy.dialects.files.hunks import hunks_of
from proxy.dialects.mcp.pieces import literal
from proxy.dialects.strict_json.strict import canonical_json, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ITEMS_MAX, Item

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.dialects.files.hunks import Hunk
    from proxy.dialects.mcp.file_rules import FileRule
    from proxy.dialects.strict_json.strict import JsonValue

# The class under which lines of a memory file are judged: hosts load such a file at the beginning
# of every later conversation.
_CLASS: Final = MemoryClass.L2
_PATH_LEN_MAX: Final = 512
_DIGEST_LEN: Final = 32
# The name under which an item's arguments hold the whole call, packed. The call is packed because
# it repeats text that the file had before, which must not be read as words of this call.
_CALL: Final = "call"
# Matches what `String.replace` of JavaScript, with which some servers edit, takes for a part of the
# file: they write another text than the call says.
_EXPANDED: Final = re.compile(r"\$[$&`']")


class FileCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a file tool, as its rule reads it. `to` is the second path of a move."""

    rule: FileRule
    path: str
    to: str | None = None
    text: str | None = None
    # Each edit: old text, new text, and whether every occurrence is replaced.
    edits: tuple[tuple[str, str, bool], ...] | None = None
    idle: bool = False

    def after(self, before: str | None) -> str | None:
        """The text of the file after the call; None if it cannot be told."""
        if self.text is not None:
            return self.text
        if self.edits is None or before is None:
            return None
        text = before
        for old, new, every in self.edits:
            # Hosts differ in what they do if the old text occurs nowhere, or several times.
            count = text.count(old) if old else 0
            if count == 0 or (count > 1 and not every) or _EXPANDED.search(new):
                return None
            text = text.replace(old, new)
        return text


def read_file_call(rule: FileRule, arguments: Mapping[str, JsonValue] | None) -> FileCall:
    """A file tool's call, as the tool's rule reads it.

    Raises:
        MalformedRequest: An argument is missing or of another type; the detail names it alone.
    """
    if arguments is None:
        raise MalformedRequest("arguments: must be an object, with each name once")
    path = _text(arguments, rule.path)
    to = None if rule.to is None else _text(arguments, rule.to)
    if max(len(path), len(to or "")) > _PATH_LEN_MAX:
        raise MalformedRequest(f"arguments: a path longer than {_PATH_LEN_MAX} characters")
    return FileCall(
        rule=rule,
        path=path,
        to=to,
        text=None if rule.text is None else _text(arguments, rule.text),
        edits=_edits(rule, arguments),
        idle=rule.idle is not None and arguments.get(rule.idle) is True,
    )


def item_of(call: FileCall, arguments: Mapping[str, JsonValue], before: str | None) -> Item | None:
    """The item for a call on a memory file whose text is `before`; None if it changes no line.

    `arguments` are those of the call, kept in the item so that a released call can be sent.
    """
    after = call.after(before)
    hunks = None if before is None or after is None else hunks_of(before, after)
    if call.to is not None or hunks is None:
        return _made(call, arguments, None, _strings(call), ())
    if not hunks:
        return None
    came = tuple("\n".join(one.came) for one in hunks if one.came)
    went = tuple("\n".join(one.went) for one in hunks if one.went)
    if not came:
        return _made(call, arguments, ChangeKind.DELETE, went, hunks)
    # A mere addition is a new memory. It is an update if other lines only go, or if a new line
    # imports another file.
    apart = any(one.imports or not one.came for one in hunks)
    change = ChangeKind.UPDATE if apart else ChangeKind.CREATE
    # Replaced lines are named beside the new ones, so that a person's turn which says only the new
    # line does not endorse the item.
    return _made(call, arguments, change, came, hunks, went)


def _made(
    call: FileCall,
    arguments: Mapping[str, JsonValue],
    change: ChangeKind | None,
    texts: tuple[str, ...],
    hunks: tuple[Hunk, ...],
    went: tuple[str, ...] = (),
) -> Item:
    """Make the item that is judged in place of a file tool's call.

    `change` is None if nobody can say what the call does to the file.
    """
    pieces = (*texts, *went) or (call.path,)
    packed = base64.b64encode(zlib.compress(canonical_json(dict(arguments)).encode(), 9)).decode()
    placed: dict[str, JsonValue] = {
        "file": literal(call.path),
        "lines": [f"#{at}" for at in range(len(pieces))],
        "reads": [literal(hunk.reads) for hunk in hunks if hunk.came],
        _CALL: packed,
    }
    # The old texts of replacements stand in the file already, so they only say where the new text
    # goes.
    old = {old for old, _, _ in call.edits or ()} | {call.to}
    named = [*range(len(texts), len(pieces))]
    named += [at for at, one in enumerate(texts) if change is None and one in old]
    return Item(
        # An unknown change counts as an update of a memory that the gate has never seen: a person
        # decides.
        change=change or ChangeKind.UPDATE,
        arguments=canonical_json(placed),
        pieces=pieces,
        labels=tuple(sorted(named)),
        key=_key(call.path, *texts),
        memory_class=_CLASS,
    )


def call_in(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The arguments of the call from which an item of a memory file was made.

    Raises:
        MalformedRequest: These arguments were not made by `item_of`.
    """
    try:
        packed = zlib.decompress(base64.b64decode(str(arguments.get(_CALL))))
    except (ValueError, zlib.error):
        raise MalformedRequest("item: its call cannot be rebuilt") from None
    found = decode_object(packed)
    if not isinstance(found, dict):
        raise MalformedRequest("item: its arguments are no object")
    return found


def _strings(call: FileCall) -> tuple[str, ...]:
    texts = (call.text, call.to, *(one for pair in call.edits or () for one in pair[:2]))
    return tuple(one for one in texts if one)


def _key(path: str, *texts: str) -> str:
    """A key under which an item is filed, made of the file's path and the edit's texts."""
    digest = hashlib.sha256(canonical_json(list(texts)).encode()).hexdigest()
    return f"{folded_path(path)}#{digest[:_DIGEST_LEN]}"


def _edits(
    rule: FileRule, arguments: Mapping[str, JsonValue]
) -> tuple[tuple[str, str, bool], ...] | None:
    if rule.old is None or rule.new is None:
        return None
    given: JsonValue = [dict(arguments)]
    if rule.edits is not None:
        given = arguments.get(rule.edits)
    if not isinstance(given, list) or not 0 < len(given) <= ITEMS_MAX:
        raise MalformedRequest(f"arguments: {rule.edits}: must be an array of replacements")
    found: list[tuple[str, str, bool]] = []
    for one in given:
        if not isinstance(one, dict):
            raise MalformedRequest(f"arguments: {rule.edits}: must be an array of replacements")
        every = rule.every is not None and one.get(rule.every) is True
        found.append((_text(one, rule.old), _text(one, rule.new), every))
    return tuple(found)


def _text(arguments: Mapping[str, JsonValue], name: str) -> str:
    found = arguments.get(name)
    if not isinstance(found, str):
        raise MalformedRequest(f"arguments: {name}: must be a string")
    return found
