"""Turns a file tool's call on a place into an item that is judged like any other write.

Added lines are judged. Lines that are only removed are a deletion; added and removed lines together
are a replacement. If the text of the file is unknown, the call's new strings are judged. A move, or
a call without new strings, changes text that the gate has never seen, so a person decides.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from posixpath import join
from typing import Final

from msgspec import structs

from policy.labels.effect import NEWLINE, NOTHING, Effect, EffectKind
from policy.model import ChangeKind
from policy.places import Place, class_in, is_instructions
from policy.text.paths import folded_path
from proxy.dialects.files.hunks import Hunk, hunks_of
from proxy.dialects.files.patch import Edit, PatchedFile, folders_of, patched_files
from proxy.dialects.mcp.file_rules import FileRule
from proxy.dialects.mcp.pieces import literal
from proxy.dialects.strict_json.strict import JsonValue, canonical_json, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ITEMS_MAX, Item

_PATH_LEN_MAX: Final = 512
_DIGEST_LEN: Final = 32
# The member of an item's arguments that contains the whole call, compressed, because the call
# repeats text that the file had before, which must not be read as words of this call.
_CALL: Final = "call"
# Matches the patterns that JavaScript's `String.replace` substitutes with parts of the file. A
# server that edits with this function writes another text than the one in the call.
_EXPANDED: Final = re.compile(r"\$[$&`']")


class FileCall(PatchedFile, frozen=True, kw_only=True):
    """One call of a file tool, read by the tool's rule. A move moves the file `path` to `to`."""

    rule: FileRule
    # The folders to which the call changes, one after the other, before it resolves its paths.
    folders: tuple[str, ...] = ()
    idle: bool = False

    def located(self, stated: Sequence[str]) -> tuple[FileCall, ...]:
        """The call with each path that its own may mean; the one as the call gives it is the last.

        `stated` are folders in which the host may run the call. None of them is proven, so each is
        only one more reading.
        """
        steps = [(one, *self.folders) for one in (*stated, "")]
        bases = [join(*some[:end]) for some in steps for end in range(len(some), 0, -1)]
        paths = {
            (join(base, self.path), None if self.to is None else join(base, self.to)): None
            for base in bases
        }
        return tuple(structs.replace(self, path=path, to=to) for path, to in paths)

    def after(self, before: str | None) -> str | None:
        """The text of the file after the call; None if that text is unknown."""
        if self.text is not None:
            return self.text
        # Where in a file the lines of a patch are depends on the host.
        if not self.edits or before is None or self.rule.patch is not None:
            return None
        text = before
        for old, new, every in self.edits:
            # Hosts differ in what they do if the old text occurs nowhere, or several times.
            count = text.count(old) if old else 0
            if count == 0 or (count > 1 and not every) or _EXPANDED.search(new):
                return None
            text = text.replace(old, new)
        return text


def read_file_calls(
    rule: FileRule, arguments: Mapping[str, JsonValue] | None
) -> tuple[FileCall, ...]:
    """Read a file tool's call by the rule that names the tool's arguments; a patch has many files.

    Raises:
        MalformedRequest: An argument is missing, too long or of another form; the detail has the
            argument's name and no value.
    """
    if arguments is None:
        raise MalformedRequest("arguments: must be an object, with each name once")
    calls = (_one(rule, arguments),) if rule.patch is None else _patched(rule, arguments)
    if any(max(len(one.path), len(one.to or "")) > _PATH_LEN_MAX for one in calls):
        raise MalformedRequest(f"arguments: a path longer than {_PATH_LEN_MAX} characters")
    return calls


def _one(rule: FileRule, arguments: Mapping[str, JsonValue]) -> FileCall:
    return FileCall(
        rule=rule,
        path=_text(arguments, rule.path),
        to=None if rule.to is None else _text(arguments, rule.to),
        text=None if rule.text is None else _text(arguments, rule.text),
        edits=_edits(rule, arguments),
        idle=rule.idle is not None and arguments.get(rule.idle) is True,
    )


def _patched(rule: FileRule, arguments: Mapping[str, JsonValue]) -> tuple[FileCall, ...]:
    text = _text(arguments, rule.patch or "")
    given = rule.folder is not None and arguments.get(rule.folder) is not None
    folder = _text(arguments, rule.folder or "") if given else ""
    folders = (folder, *(folders_of(text) if rule.command else ()))
    return tuple(
        FileCall(rule=rule, folders=folders, **structs.asdict(one))
        for one in patched_files(text, command=rule.command)
    )


def item_of(
    call: FileCall, arguments: Mapping[str, JsonValue], before: str | None, place: Place
) -> Item | None:
    """The item for a call on a place; None if the call changes no line.

    `before` is the text of the place's file, None if unknown. The item contains the call's
    `arguments`, so that a released call can be sent.
    """
    made = partial(_made, call, arguments, place)
    hunks = _hunks(call, before, place)
    if hunks is None:
        old = {old for old, _, _ in call.edits} | {call.to}
        texts = _strings(call) or (call.path,)
        # The old texts of replacements are labels, because they are in the file already and only
        # show where a new text is inserted.
        named = tuple(at for at, one in enumerate(texts) if one in old)
        # An unknown change counts as an update of a memory that the gate has never seen, under a
        # key of its own: a person decides.
        return made(ChangeKind.UPDATE, texts, named, key=texts)
    came = NEWLINE.join(line for one in hunks for line in one.came)
    went = NEWLINE.join(line for one in hunks for line in one.went)
    reads = tuple(one.reads for one in hunks if one.came)
    replaces_unknown = before is None and call.text is not None
    # In a file of unknown text, the strings of a replacement may be parts of lines, so that the
    # added lines are unknown; a patch and a whole text have whole lines.
    known = 1 if before is not None or _has_whole_lines(call) else NOTHING
    if came and went:
        # The removed lines are a label: the file has them already, so a read that shows them does
        # not show this item.
        part = Effect(how=EffectKind.REPLACE, text=0, old=1)
        return made(ChangeKind.UPDATE, (came, went), (1,), effect=part, reads=reads, came=known)
    if came:
        whole = Effect(how=EffectKind.SET, text=0) if replaces_unknown else None
        return made(ChangeKind.CREATE, (came,), effect=whole, reads=reads, came=known)
    if went or replaces_unknown:
        # If the call names no line, the item deletes everything that is known of the file.
        gone = 0 if went and known != NOTHING else NOTHING
        return made(ChangeKind.DELETE, (went or folded_path(call.path),), came=gone)
    return None


def _has_whole_lines(call: FileCall) -> bool:
    """Whether the lines that a call adds and removes are whole in every file.

    The first and the last line of a replacement may be parts of lines; each stays as it is if the
    old and the new text share it.
    """
    if call.text is not None or call.rule.patch is not None:
        return True
    pairs = [(old.split("\n"), new.split("\n")) for old, new, _ in call.edits]
    return all(
        min(len(old), len(new)) > 1 and old[0] == new[0] and old[-1] == new[-1]
        for old, new in pairs
    )


def _hunks(call: FileCall, before: str | None, place: Place) -> tuple[Hunk, ...] | None:
    """The changes of a call, line by line; None if the call does not show them.

    In an instructions file of unknown text, old and new strings that differ only in blanks or marks
    do not show the change, because the new string may join two lines into another rule.
    """
    after = call.after(before)
    if call.unread or call.to is not None or any(_EXPANDED.search(new) for _, new, _ in call.edits):
        return None
    if after is not None:
        return hunks_of(before or "", after)
    found: list[Hunk] = []
    for old, new, _ in call.edits:
        hunks = hunks_of(old, new)
        if hunks is None or (not hunks and old != new and is_instructions(place)):
            return None
        found += hunks
    return tuple(found) if call.edits else None


def _made(
    call: FileCall,
    arguments: Mapping[str, JsonValue],
    place: Place,
    change: ChangeKind,
    pieces: tuple[str, ...],
    labels: tuple[int, ...] = (),
    *,
    key: tuple[str, ...] = (),
    effect: Effect | None = None,
    reads: tuple[str, ...] = (),
    came: int = NOTHING,
) -> Item:
    """Make the item that is judged in place of a file tool's call."""
    packed = base64.b64encode(zlib.compress(canonical_json(dict(arguments)).encode(), 9)).decode()
    placed: dict[str, JsonValue] = {
        "file": literal(call.path),
        "lines": [f"#{at}" for at in range(len(pieces))],
        "reads": [literal(one) for one in reads],
        _CALL: packed,
    }
    instructions = is_instructions(place)
    path = folded_path(call.path)
    return Item(
        change=change,
        arguments=canonical_json(placed),
        pieces=pieces,
        labels=labels,
        key=f"{path}#{_digest(key)}" if key else path,
        memory_class=class_in(instructions=instructions),
        instructions=instructions,
        effect=effect,
        place=path,
        came=came,
    )


def call_in(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The arguments of the call from which an item of a place was made.

    Raises:
        MalformedRequest: `item_of` did not make these arguments.
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
    texts = (call.text, call.to, *(one for pair in call.edits for one in pair[:2]))
    return tuple(one for one in texts if one)


def _digest(parts: tuple[str, ...]) -> str:
    return hashlib.sha256(canonical_json([*parts]).encode()).hexdigest()[:_DIGEST_LEN]


def _edits(rule: FileRule, arguments: Mapping[str, JsonValue]) -> tuple[Edit, ...]:
    old, new, every = rule.old, rule.new, rule.every
    if old is None or new is None:
        return ()
    given = [dict(arguments)] if rule.edits is None else arguments.get(rule.edits)
    listed = given if isinstance(given, list) else []
    parts = [one for one in listed if isinstance(one, dict)]
    if not 0 < len(listed) <= ITEMS_MAX or len(parts) < len(listed):
        raise MalformedRequest(f"arguments: {rule.edits}: must be an array of replacements")
    return tuple(
        (_text(one, old), _text(one, new), every is not None and one.get(every) is True)
        for one in parts
    )


def _text(arguments: Mapping[str, JsonValue], name: str) -> str:
    found = arguments.get(name)
    if not isinstance(found, str):
        raise MalformedRequest(f"arguments: {name}: must be a string")
    return found
