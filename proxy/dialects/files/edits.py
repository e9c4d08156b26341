"""A call of a file tool on a file of memory, as an item that is judged like any other write.

Lines that come are new memories; lines that go are a removal; a file whose text nobody knows, a
move and an import are changes of what the gate has never seen, which a person decides.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import TYPE_CHECKING, Final

import msgspec

from policy.model import ChangeKind, MemoryClass
from proxy.dialects.files.hunks import hunks_of
from proxy.dialects.files.memory_paths import folded_path
from proxy.dialects.mcp.pieces import literal
from proxy.dialects.strict_json.strict import canonical_json, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ITEMS_MAX, Item

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.dialects.files.hunks import Hunk
    from proxy.dialects.mcp.file_rules import FileRule
    from proxy.dialects.strict_json.strict import JsonValue

# What is loaded at the beginning of every later conversation, and has no label there.
_CLASS: Final = MemoryClass.L2
_PATH_LEN_MAX: Final = 512
_DIGEST_LEN: Final = 32
# The very call, packed: what stands in it beside the lines that come was there before, and would be
# read as this call's words.
_CALL: Final = "call"


class FileCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool of files, read. `to` is the second path of a move."""

    rule: FileRule
    path: str
    to: str | None = None
    text: str | None = None
    # Old text, new text, and whether every occurrence is meant.
    edits: tuple[tuple[str, str, bool], ...] | None = None
    idle: bool = False

    def after(self, before: str | None) -> str | None:
        """The text of the file once the call was done; None where nobody can say."""
        if self.text is not None:
            return self.text
        if self.edits is None or before is None:
            return None
        text = before
        for old, new, every in self.edits:
            # Hosts differ in what they do with a text that stands in no place or in several.
            count = text.count(old) if old else 0
            if count == 0 or (count > 1 and not every):
                return None
            text = text.replace(old, new)
        return text


def read_file_call(rule: FileRule, arguments: Mapping[str, JsonValue] | None) -> FileCall:
    """The call as its rule reads it.

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
    """What the call brings into a file of memory whose text is `before`; None: it changes no line.

    `arguments` are the call's own, which go along so that a released call can be sent.
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
    # Lines that only go, beside others that come, and a line that has another file read.
    apart = any(one.imports or not one.came for one in hunks)
    change = ChangeKind.UPDATE if apart else ChangeKind.CREATE
    # What lines take the place of is named beside them, so no turn of a person endorses both.
    return _made(call, arguments, change, came, hunks, went)


def _made(
    call: FileCall,
    arguments: Mapping[str, JsonValue],
    change: ChangeKind | None,
    texts: tuple[str, ...],
    hunks: tuple[Hunk, ...],
    went: tuple[str, ...] = (),
) -> Item:
    """The item. `change` is None where nobody knows what the call does to the file."""
    pieces = (*texts, *went) or (call.path,)
    packed = base64.b64encode(zlib.compress(canonical_json(dict(arguments)).encode(), 9)).decode()
    placed: dict[str, JsonValue] = {
        "file": literal(call.path),
        "lines": [f"#{at}" for at in range(len(pieces))],
        "reads": [literal(hunk.reads) for hunk in hunks if hunk.came],
        _CALL: packed,
    }
    # Texts of replacements that stand in the file already, and are nobody's poison.
    old = {old for old, _, _ in call.edits or ()} | {call.to}
    named = [*range(len(texts), len(pieces))]
    named += [at for at, one in enumerate(texts) if change is None and one in old]
    return Item(
        # A change of what the gate has never seen: a person decides.
        change=change or ChangeKind.UPDATE,
        arguments=canonical_json(placed),
        pieces=pieces,
        labels=tuple(sorted(named)),
        key=_key(call.path, *texts),
        memory_class=_CLASS,
    )


def call_in(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The arguments of the very call that an item of a server of files stands for.

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
    """A key of this text in this file: no other edit of the file is taken for a change of it."""
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
