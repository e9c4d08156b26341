"""Removes withheld texts from a request of Anthropic's Messages API.

Thinking blocks are signed, so a block that contains withheld words is left out. Newer models also
refuse a thinking block whose prefix was changed after the block was made. So blocks after a text
that is withheld for the first time are left out as well, and a block that was left out once is left
out of all later requests. In the older, manual mode blocks are not bound to their prefix, but a
turn that continues after a tool's result has to begin with a thinking block: if that block is left
out, thinking is switched off for the request.
"""

from __future__ import annotations

from typing import Final

from proxy.dialects.model.reading import kind_of, list_of, object_of, text_of
from proxy.dialects.model.transcript import Where
from proxy.dialects.model.withheld import (
    SIGNED,
    Asks,
    BlockForm,
    HeldCallIds,
    LeftUnchanged,
    arguments,
    beside,
    changed_text,
    emptied_text,
    heard_text,
    joined,
    passes,
    result,
    sieved,
    swept,
    without_withheld,
    written,
)
from proxy.dialects.strict_json.tolerant import Json

_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_RESULTS: Final = frozenset({"tool_result", "mcp_tool_result"})
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_CLEARS_THINKING: Final = "clear_thinking"
_TURNS: Final = "messages"


def withhold(body: dict[str, Json], leave: LeftUnchanged, asks: Asks) -> dict[str, Json]:
    """The request's body without withheld texts; the same object if it contains none."""
    before = asks.fresh_count
    made: dict[str, Json] = {
        key: value
        if key == _TURNS and isinstance(value, list)
        else swept(beside(value, (key,), leave, asks), (key,), leave, asks)
        for key, value in body.items()
        if passes(key, asks)
    }
    given = list_of(body.get(_TURNS))
    binds = object_of(body.get("thinking")).get("type") != "enabled"
    loosened = asks.fresh_count != before
    waiting = HeldCallIds(given, asks)
    turns: list[Json] = []
    for at, message in enumerate(given):
        if at in leave.clean and not (loosened and binds):
            turns.append(message)
            continue
        before = asks.fresh_count
        if not isinstance(message, dict):
            turns.append(sieved(message, asks))
            continue
        place = (_TURNS, at)
        turn = object_of(swept(_message(message, place, leave, asks, waiting), place, leave, asks))
        loosened = loosened or asks.fresh_count != before
        turn = _without_thinking(turn, asks, loosened=loosened and binds, binds=binds)
        turns.append(turn)
    read = {_TURNS} if isinstance(body.get(_TURNS), list) else set[str]()
    same = all(made.get(key) is value for key, value in body.items() if key not in read)
    if read:
        made[_TURNS] = turns
    if same and all(new is old for new, old in zip(turns, given, strict=True)):
        return body
    return made if binds or _may_go_on(given, turns) else _thoughtless(made)


def _message(
    message: dict[str, Json], where: Where, leave: LeftUnchanged, asks: Asks, waiting: HeldCallIds
) -> dict[str, Json]:
    """A message without withheld texts.

    `waiting` are the ids of calls that proposed a text which waits for a person.
    """
    content, by_model = message.get("content"), message.get("role") == "assistant"
    place = (*where, "content")
    new = without_withheld(_FORM, content, place, leave, asks, waiting, by_model=by_model)
    return message if new is content else {**message, "content": new}


def _is_result(block: dict[str, Json]) -> bool:
    return kind_of(block) in _RESULTS


def _heard(block: dict[str, Json], typed: tuple[tuple[int, int], ...]) -> list[str | None]:
    kind = kind_of(block)
    if kind in _THINKING:
        return []
    if kind in _CALLS:
        return [written(block.get("input"))]
    return heard_text(block, typed)


def _block(
    block: dict[str, Json], where: Where, leave: LeftUnchanged, asks: Asks, waiting: HeldCallIds
) -> dict[str, Json]:
    kind = kind_of(block)
    if kind in _THINKING:
        return block
    if kind in _RESULTS:
        content = block.get("content")
        left, gone = result(text_of(block.get("tool_use_id")) or "", content, asks)
        failed: dict[str, Json] = {"is_error": True} if gone else {}
        return block if left is content else {**block, "content": left, **failed}
    if kind in _CALLS:
        of_call = asks.of_the("call", by_model=text_of(block.get("id")) in waiting)
        new_input = arguments(block.get("input"), of_call)
        return block if new_input is block.get("input") else {**block, "input": new_input}
    return changed_text(block, where, leave, asks, waiting)


def _emptied(block: dict[str, Json], said: str) -> dict[str, Json]:
    kind = kind_of(block)
    if kind in _CALLS:
        return {**block, "input": {"withheld": said}}
    if kind in _RESULTS:
        return {**block, "content": said, "is_error": True}
    return block if kind in _THINKING else emptied_text(block, said)


_FORM: Final = BlockForm(heard=_heard, changed=_block, emptied=_emptied, is_result=_is_result)


def _without_thinking(
    turn: dict[str, Json], asks: Asks, *, loosened: bool, binds: bool
) -> dict[str, Json]:
    """The message without thinking blocks that contain withheld words or are no longer valid.

    A thinking block after a replaced call or text of the same message was made after the original
    call or text, so it is left out too.
    """
    kept: list[Json] = []
    said: str | None = None
    blocks = list_of(turn.get("content"))
    for part in blocks:
        block = object_of(part)
        if kind_of(block) not in _THINKING:
            kept.append(part)
            loosened = loosened or (binds and asks.bears(text_of(block.get("text")) or ""))
            continue
        name = written(block)
        thinks = asks.of_the("text", by_model=True)
        thought = joined({key: block.get(key) for key in sorted(SIGNED - {"data"})})
        heard = thinks.of(thought)
        # If words were removed from the thought on its way to the agent, its signature no longer
        # fits.
        if heard is not None or asks.bears(thought) or (loosened and not asks.unbinds(name)):
            asks.unbind(name)
            said = heard or said
        if not asks.unbinds(name):
            kept.append(part)
    if len(kept) == len(blocks):
        return turn
    if not kept:
        # A message must not be empty, so a text replaces thinking blocks that were its only blocks.
        note: dict[str, Json] = {"type": "text", "text": said or "[withheld]"}
        kept.append(note)
    return {**turn, "content": kept}


def _may_go_on(given: list[Json], turns: list[Json]) -> bool:
    """Whether manual thinking may stay on: the last model turn kept the thoughts that begin it."""
    for old, new in zip(reversed(given), reversed(turns), strict=True):
        if object_of(old).get("role") == "assistant":
            return not (_thinks(old) and not _thinks(new))
    return True


def _thinks(message: Json) -> bool:
    blocks = list_of(object_of(message).get("content"))
    return bool(blocks) and kind_of(blocks[0]) in _THINKING


def _thoughtless(body: dict[str, Json]) -> dict[str, Json]:
    made: dict[str, Json] = {**body, "thinking": {"type": "disabled"}}
    managed = object_of(made.get("context_management"))
    if managed:
        edits = [
            edit
            for edit in list_of(managed.get("edits"))
            if not (text_of(object_of(edit).get("type")) or "").startswith(_CLEARS_THINKING)
        ]
        made["context_management"] = {**managed, "edits": edits}
    return made
