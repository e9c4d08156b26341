"""Removes withheld texts from a request of the Gemini API.

A signature stays with its part: its provider alone can read it, and checks that it is there.
"""

from __future__ import annotations

from functools import partial

from proxy.dialects.model.gemini.contents import CALL, RESULT, TURNS, identified
from proxy.dialects.model.reading import list_of, object_of, text_of
from proxy.dialects.model.transcript import Where
from proxy.dialects.model.withheld import (
    Asks,
    BlockForm,
    HeldCallIds,
    LeftUnchanged,
    arguments,
    changed_text,
    emptied_text,
    heard_text,
    result,
    withhold_turns,
    without_withheld,
    written,
)
from proxy.dialects.strict_json.tolerant import Json


def withhold(body: dict[str, Json], leave: LeftUnchanged, asks: Asks) -> dict[str, Json]:
    """The request's body without withheld texts; the same object if it contains none."""
    named = identified(list_of(body.get(TURNS)))
    ids: dict[Where, str] = {}
    for at, content in enumerate(named):
        for index, part in enumerate(map(object_of, list_of(object_of(content).get("parts")))):
            one = object_of(part.get(CALL)) or object_of(part.get(RESULT))
            ids[TURNS, at, "parts", index] = text_of(one.get("id")) or ""

    changed = partial(_part, ids)
    form = BlockForm(heard=_heard, changed=changed, emptied=_emptied, is_result=_is_result)

    def change(
        content: dict[str, Json],
        where: Where,
        leave: LeftUnchanged,
        asks: Asks,
        waiting: HeldCallIds,
    ) -> dict[str, Json]:
        parts, by_model = content.get("parts"), content.get("role") == "model"
        place = (*where, "parts")
        new = without_withheld(form, parts, place, leave, asks, waiting, by_model=by_model)
        return content if new is parts else {**content, "parts": new}

    return withhold_turns(body, TURNS, leave, asks, change)


def _is_result(part: dict[str, Json]) -> bool:
    return RESULT in part


def _heard(part: dict[str, Json], typed: tuple[tuple[int, int], ...]) -> list[str | None]:
    called = CALL in part
    return [written(object_of(part[CALL]).get("args"))] if called else heard_text(part, typed)


def _part(
    ids: dict[Where, str],
    part: dict[str, Json],
    where: Where,
    leave: LeftUnchanged,
    asks: Asks,
    waiting: HeldCallIds,
) -> dict[str, Json]:
    if CALL in part:
        call = object_of(part[CALL])
        new = arguments(call.get("args"), asks.of_the("call", by_model=ids[where] in waiting))
        return part if new is call.get("args") else {**part, CALL: {**call, "args": new}}
    if RESULT in part:
        answer = object_of(part[RESULT])
        left, gone = result(ids[where], answer.get("response"), asks)
        if left is answer.get("response"):
            return part
        return {**part, RESULT: {**answer, "response": {"error": left} if gone else left}}
    return changed_text(part, where, leave, asks, waiting)


def _emptied(part: dict[str, Json], said: str) -> dict[str, Json]:
    if CALL in part:
        return {**part, CALL: {**object_of(part[CALL]), "args": {"withheld": said}}}
    if RESULT in part:
        return {**part, RESULT: {**object_of(part[RESULT]), "response": {"error": said}}}
    return emptied_text(part, said)
