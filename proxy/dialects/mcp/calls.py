"""Reads what a `tools/call` would do to memory: its kind, and the items that it writes or deletes.

The gate judges every string of the arguments, wherever it is: titles, tags, metadata and names of
metadata are the usual way around a gate that reads only `content`. A string is exempt only where
the map expects an id, a time or a word of a closed list, and the string has that form.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from policy.labels.effect import Effect
from policy.model import METADATA_LEN_MAX, NAME_LEN_MAX, TEXT_LEN_MAX, ChangeKind
from policy.places import Place, class_in, is_instructions
from policy.verdict import Reason
from proxy.dialects.mcp.effects import effect_of
from proxy.dialects.mcp.known_members import check_twins
from proxy.dialects.mcp.maps import (
    KeyForm,
    Posture,
    Tool,
    ToolKind,
    ToolMap,
    key_paths,
    path,
)
from proxy.dialects.mcp.paths import ELEMENT, Location, MisfitError, Pattern, places
from proxy.dialects.mcp.pieces import PieceTaker, arguments_of
from proxy.dialects.strict_json.strict import JsonValue, canonical_json
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ITEMS_MAX, Item

__all__ = ["ToolCall", "arguments_of", "kept_of", "read_call", "without"]

KEY_LEN_MAX: Final = 1_024
# The longest arguments of one item. The other 8 KiB of a candidate's metadata are for the key, the
# lengths of the pieces, and other data of the call.
ARGUMENTS_LEN_MAX: Final = METADATA_LEN_MAX - 8 * 1_024
_KEY_TEXT_LEN_MAX: Final = 256


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call as a tool map describes it. `kind` is None if the map lacks the tool."""

    tool: str
    kind: ToolKind | None
    rule: Tool | None
    arguments: dict[str, JsonValue]
    # The items of a write or a delete, at least one, in the order of the call. Other kinds of call
    # have none.
    items: tuple[Item, ...] = ()
    # Indexes of the items that change nothing according to the map's `pass_if`.
    idle: frozenset[int] = frozenset()

    def closed(self, *, by_agent: bool) -> Reason | None:
        """Why calls of this tool are refused, whatever their arguments; None if they are not."""
        if self.kind is None:
            return Reason.UNKNOWN_TOOL
        return Reason.ADMIN_TOOL if self.kind is ToolKind.ADMIN and by_agent else None


def read_call(tool_map: ToolMap, params: JsonValue) -> ToolCall:
    """Read a tool call; return its kind, and its items if the call would change memory.

    From one item, `arguments_of` rebuilds the arguments of a call for that item alone.

    Raises:
        MalformedRequest: The call has no name, its arguments are no object or have a shape that the
            map does not expect, or there are too many items or too much text. The detail never
            quotes a value of the call.
    """
    if not isinstance(params, dict):
        raise MalformedRequest("params: must be an object")
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LEN_MAX:
        raise MalformedRequest(f"params.name: must be a string of 1 to {NAME_LEN_MAX} characters")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise MalformedRequest("params.arguments: must be an object")
    if tool_map.posture is not Posture.MEMORY:
        return _without_memory(tool_map, name, arguments)
    rule = tool_map.tool(name)
    if rule is not None:
        _check_names(rule, arguments)
    if rule is not None and rule.switch is not None:
        rule = _case(rule, arguments)
    if rule is None or rule.kind is None:
        return ToolCall(tool=name, kind=None, rule=None, arguments=arguments)
    if rule.kind not in {ToolKind.WRITE, ToolKind.DELETE}:
        return ToolCall(tool=name, kind=rule.kind, rule=rule, arguments=arguments)
    items = _items(tool_map, rule, arguments)
    return ToolCall(
        tool=name,
        kind=rule.kind,
        rule=rule,
        arguments=arguments,
        items=items,
        idle=_idle(rule, arguments),
    )


def _without_memory(tool_map: ToolMap, name: str, arguments: dict[str, JsonValue]) -> ToolCall:
    """Read a call to a server whose map has the posture `context` or `files`, not `memory`."""
    if tool_map.posture is Posture.CONTEXT:
        return ToolCall(tool=name, kind=ToolKind.CONTEXT, rule=None, arguments=arguments)
    rule = tool_map.tool(name)
    if rule is None or rule.kind is None:
        return ToolCall(tool=name, kind=None, rule=None, arguments=arguments)
    return ToolCall(tool=name, kind=ToolKind.CONTEXT, rule=rule, arguments=arguments)


def without(call: ToolCall, refused: frozenset[int]) -> dict[str, JsonValue] | None:
    """The arguments of a call without its refused items; None if no item is left."""
    if not refused:
        return call.arguments
    if call.rule is None or not call.rule.items or len(refused) >= len(call.items):
        return None
    return kept_of(call, refused)


def kept_of(call: ToolCall, refused: frozenset[int]) -> dict[str, JsonValue]:
    """The arguments of a call without its refused items, even if no item is left.

    An array that loses all of its items remains as an empty array.
    """
    if call.rule is None:
        return call.arguments
    kept = [index for index in range(len(call.items)) if index not in refused]
    return _reduced(call.rule, call.arguments, kept)


def _check_names(rule: Tool, arguments: dict[str, JsonValue]) -> None:
    """Refuse a name that a server which ignores letter case takes for an argument of the map."""
    for pattern, known in rule.argument_names.items():
        try:
            found = places(arguments, pattern)
        except MisfitError:
            continue  # `_places` refuses arguments of the wrong type where the map needs them
        for _, value in found:
            if isinstance(value, dict):
                # Below the top level, unknown names are data, which may have an `ID` and an `id`.
                check_twins(value, known, "arguments", pairs=not pattern)


def _case(rule: Tool, arguments: dict[str, JsonValue]) -> Tool:
    if rule.switch is None:
        return rule
    found = [value for _, value in _places(arguments, path(rule.switch.path)) if value is not None]
    if not found:
        name = rule.switch.absent
    elif isinstance(found[0], bool):
        name = "true" if found[0] else "false"
    else:
        name = found[0] if isinstance(found[0], str) else None
    case = rule.switch.cases.get(name) if name is not None else None
    if case is None:
        raise MalformedRequest(f"arguments: {rule.switch.path}: not one of the allowed values")
    return case


def _items(tool_map: ToolMap, rule: Tool, arguments: dict[str, JsonValue]) -> tuple[Item, ...]:
    _check_shape(rule, _unaliased(rule, arguments))
    number = _number_of_items(rule, arguments)
    if number > ITEMS_MAX:
        raise MalformedRequest(f"arguments: more than {ITEMS_MAX} items in one call", status=413)
    if not number:  # a call without an array of items, or with an empty one, is a single item
        return (_item(tool_map, rule, arguments),)
    return tuple(
        _item(tool_map, rule, _reduced(rule, arguments, [index])) for index in range(number)
    )


def _item(tool_map: ToolMap, rule: Tool, arguments: dict[str, JsonValue]) -> Item:
    taking = PieceTaker(rule)
    taken = taking.take(arguments, ())
    encoded = canonical_json(taken)
    if len(encoded) > ARGUMENTS_LEN_MAX:
        raise MalformedRequest("arguments: too much beside the texts", status=413)
    named = _unaliased(rule, arguments)
    joined = [_first(named, text) for text in rule.joined]
    if joined:
        taking.add(" ".join(part for part in joined if part))
    if taking.length > TEXT_LEN_MAX:
        raise MalformedRequest("arguments: too much text for one memory", status=413)
    hosts = _named_places(tool_map, rule, named)
    told = (value for text in rule.instructions for _, value in _places(named, path(text)))
    instructions = any(told) or any(map(is_instructions, hosts.values()))
    return Item(
        change=_change(rule, named),
        arguments=encoded,
        pieces=tuple(taking.pieces),
        labels=tuple(sorted(taking.labels)),
        key=_key(rule, named),
        memory_class=class_in(instructions=instructions),
        instructions=instructions,
        place=next(iter(hosts), ""),
        scope_user=_user(rule, named),
        # With an unknown argument, the call may have another effect than the map describes.
        effect=None if taking.strange else _effect(rule, taken),
    )


def _effect(rule: Tool, taken: JsonValue) -> Effect | None:
    """The effect of the call on the text under its key; None if the effect is unknown."""
    if rule.effect is None or not isinstance(taken, dict):
        return None
    return effect_of(rule.effect, taken)


def _idle(rule: Tool, arguments: dict[str, JsonValue]) -> frozenset[int]:
    if not rule.pass_if:
        return frozenset()
    return frozenset(
        at
        for at in range(_number_of_items(rule, arguments))
        for alone in (_reduced(rule, arguments, [at]),)
        for text, words in rule.pass_if.items()
        if any(value in words for _, value in _places(alone, path(text)))
    )


def _change(rule: Tool, arguments: dict[str, JsonValue]) -> ChangeKind:
    if rule.kind is ToolKind.DELETE:
        return ChangeKind.DELETE
    for text, words in rule.delete_if.items():
        if any(value in words for _, value in _places(arguments, path(text))):
            return ChangeKind.DELETE
    if any(value for text in rule.update_if for _, value in _places(arguments, path(text))):
        return ChangeKind.UPDATE
    return rule.change or ChangeKind.CREATE


def _unaliased(rule: Tool, arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The arguments of a call, with each alias replaced by the argument's name in the map.

    A server may accept an argument under several names; under an alias, the gate would not find
    the key.
    """
    if not rule.aliases:
        return arguments
    named = dict(arguments)
    for name, others in rule.aliases.items():
        given = [one for one in (name, *others) if one in arguments]
        if len(given) > 1:
            raise MalformedRequest(f"arguments: {name}: given under two names")
        if given:
            named[name] = named.pop(given[0])
    return named


def _places(arguments: dict[str, JsonValue], pattern: Pattern) -> list[tuple[Location, JsonValue]]:
    try:
        return places(arguments, pattern)
    except MisfitError:
        raise MalformedRequest(
            f"arguments: {_written(pattern)}: not of the expected type"
        ) from None


def _written(pattern: Pattern) -> str:
    return ".".join(pattern).replace(f".{ELEMENT}", ELEMENT)


def _check_shape(rule: Tool, arguments: dict[str, JsonValue]) -> None:
    for text in rule.required:
        *above, last = path(text)
        for _, parent in _places(arguments, Pattern(tuple(above))):
            if not isinstance(parent, dict):
                raise MalformedRequest(f"arguments: {text}: not of the expected type")
            if parent.get(last) is None:
                raise MalformedRequest(f"arguments: {text}: missing")
    _check_absent(rule, arguments)
    user = (rule.user,) if rule.user else ()
    for text in (*rule.texts, *rule.labels, *rule.plain, *key_paths(rule), *user):
        for _, value in _places(arguments, path(text)):
            if value is not None and not isinstance(value, str):
                raise MalformedRequest(f"arguments: {text}: must be a string")
    for text in rule.items:
        _places(arguments, path(text))


def _check_absent(rule: Tool, arguments: dict[str, JsonValue]) -> None:
    for text in rule.absent:
        if any(value not in (None, "", [], {}) for _, value in _places(arguments, path(text))):
            raise MalformedRequest(f"arguments: {text}: not together with these")


def _number_of_items(rule: Tool, arguments: dict[str, JsonValue]) -> int:
    lengths = [
        len(value)
        for text in rule.items
        for _, value in _places(arguments, Pattern(path(text)[:-1]))
        if isinstance(value, list)
    ]
    if len(set(lengths)) > 1:
        raise MalformedRequest("arguments: arrays of the same items differ in length")
    return lengths[0] if lengths else 0


def _reduced(
    rule: Tool, arguments: dict[str, JsonValue], kept: Sequence[int]
) -> dict[str, JsonValue]:
    """A copy of a call's arguments whose arrays of items have only the elements at indexes `kept`.

    The given arguments are not modified.
    """
    reduced = dict(arguments)
    for text in rule.items:
        names = path(text)[:-1]
        holder = reduced
        for name in names[:-1]:
            below = holder.get(name)
            if not isinstance(below, dict):
                break
            copied = dict(below)
            holder[name] = copied
            holder = copied
        else:
            array = holder.get(names[-1])
            if isinstance(array, list):
                holder[names[-1]] = [array[index] for index in kept]
    return reduced


def _first(arguments: dict[str, JsonValue], text: str) -> str:
    found = [value for _, value in _places(arguments, path(text)) if isinstance(value, str)]
    return found[0] if found else ""


def _key(rule: Tool, arguments: dict[str, JsonValue]) -> str:
    parts = [_key_part(rule, part, arguments) for part in rule.key]
    if not any(parts):
        return ""
    # Several parts become a JSON array. With a separator between them instead, an agent could write
    # parts that join to the key of another memory.
    key = parts[0] if len(parts) == 1 else canonical_json(list(parts))
    if len(key) > KEY_LEN_MAX:
        raise MalformedRequest("arguments: the name of the memory is too long", status=413)
    return key


def _key_part(rule: Tool, part: str | tuple[str, ...], arguments: dict[str, JsonValue]) -> str:
    names = (part,) if isinstance(part, str) else part
    given = [name for name in (_first(arguments, text) for text in names) if name]
    if rule.key_form is KeyForm.FIRST:
        first = given[0] if given else ""
        if len(first) > _KEY_TEXT_LEN_MAX:
            return hashlib.sha256(first.encode("utf-8", "surrogatepass")).hexdigest()
        return first
    return _formed("/".join(given), rule.key_form)


def _formed(text: str, form: KeyForm) -> str:
    if form is KeyForm.PLAIN:
        return text
    if form is KeyForm.PATH:
        return _one_path(text) if text else ""
    lowered = text.strip().lower().removeprefix("memory://").strip("/").removesuffix(".md")
    return re.sub(r"[\s_]+", "-", lowered)


def _one_path(text: str) -> str:
    steps: list[str] = []
    for step in text.split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in {"", "."}:
            steps.append(step)
    return "/" + "/".join(steps)


def _named_places(
    tool_map: ToolMap, rule: Tool, arguments: dict[str, JsonValue]
) -> dict[str, Place]:
    """A mapping of names in a call to the host's files and blocks that the call changes."""
    known = tool_map.all_places
    named = (value for text in rule.places for _, value in _places(arguments, path(text)))
    found = (
        (name, place)
        for name in named
        if isinstance(name, str)
        for place in (known.of_block(name), known.of_path(name))
        if place is not None
    )
    return dict(sorted(found, key=lambda one: is_instructions(one[1])))


def _user(rule: Tool, arguments: dict[str, JsonValue]) -> str | None:
    name = _first(arguments, rule.user) if rule.user else ""
    if len(name) > NAME_LEN_MAX:
        raise MalformedRequest(f"arguments: {rule.user}: longer than {NAME_LEN_MAX} characters")
    return name or None
