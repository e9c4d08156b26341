"""Removes withheld texts from a request of the Gemini API.

A signature stays with its part: its provider alone can read it, and checks that it is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from proxy.dialects.model.gemini.contents import CALL, RESULT, TURNS, identified
from proxy.dialects.model.reading import list_of, object_of, text_of
from proxy.dialects.model.transcript import Where
from proxy.dialects.model.withheld import (
    Asks,
    BlockForm,
    HeldCallIds,
    LeftUnchanged,
    arguments,
    around,
    joined,
    result,
    sieved,
    spoken,
    withhold_turns,
    without_withheld,
    written,
)
from proxy.dialects.strict_json.tolerant import Json


def withhold(body: dict[str, Json], leave: LeftUnchanged, asks: Asks) -> dict[str, Json]:
    """The request's body without withheld texts; the same object if it contains none."""
    named = identified(list_of(body.get(TURNS)))

    def change(
        content: dict[str, Json],
        where: Where,
        leave: LeftUnchanged,
        asks: Asks,
        waiting: HeldCallIds,
    ) -> dict[str, Json]:
        given, place = list_of(content.get("parts")), (*where, "parts")
        parts = [object_of(one) for one in list_of(object_of(named[int(where[-1])]).get("parts"))]
        by_model = content.get("role") == "model"
        new = without_withheld(_FORM, parts, place, leave, asks, waiting, by_model=by_model)
        made: list[Json] = [
            old if one is part else _as_it_came(one, object_of(old))
            for old, part, one in zip(given, parts, new, strict=True)
        ]
        same = all(a is b for a, b in zip(made, given, strict=True))
        return content if same else {**content, "parts": made}

    return withhold_turns(body, TURNS, leave, asks, change, lambda _: _results_in(named))


def _as_it_came(part: dict[str, Json], old: dict[str, Json]) -> dict[str, Json]:
    """The part with the id of its call as the agent sent it, or without an id."""
    made = dict(part)
    for key in {CALL, RESULT} & part.keys():
        inner, before = object_of(part[key]), object_of(old.get(key))
        own = {"id": before["id"]} if "id" in before else {}
        made[key] = {**{name: inner[name] for name in inner if name != "id"}, **own}
    return made


def _results_in(contents: list[Json]) -> Iterator[tuple[Json, Json]]:
    for content in contents:
        for part in list_of(object_of(content).get("parts")):
            answer = object_of(object_of(part).get(RESULT))
            if answer:
                yield answer.get("id"), answer.get("response")


def _is_result(part: dict[str, Json]) -> bool:
    return RESULT in part


def _heard(part: dict[str, Json], typed: tuple[tuple[int, int], ...]) -> list[str | None]:
    if CALL in part:
        return [written(object_of(part[CALL]).get("args"))]
    text = part.get("text")
    return around(text, typed) if typed and isinstance(text, str) else [joined(part)]


def _part(
    part: dict[str, Json], where: Where, leave: LeftUnchanged, asks: Asks, waiting: HeldCallIds
) -> dict[str, Json]:
    if CALL in part:
        call = object_of(part[CALL])
        of_call = asks.of_the("call", by_model=text_of(call.get("id")) in waiting)
        new = arguments(call.get("args"), of_call)
        return part if new is call.get("args") else {**part, CALL: {**call, "args": new}}
    if RESULT in part:
        answer = object_of(part[RESULT])
        left, gone = result(text_of(answer.get("id")) or "", answer.get("response"), asks)
        if left is answer.get("response"):
            return part
        return {**part, RESULT: {**answer, "response": {"error": left} if gone else left}}
    text = part.get("text")
    if not isinstance(text, str):
        return object_of(sieved(part, asks))
    new_text = spoken(text, (*where, "text"), leave, asks)
    bare: dict[str, Json] = {**part, "text": ""}
    rest = object_of(sieved(bare, asks))
    return part if new_text is text and rest == bare else {**rest, "text": new_text}


def _emptied(part: dict[str, Json], said: str) -> dict[str, Json]:
    if CALL in part:
        return {**part, CALL: {**object_of(part[CALL]), "args": {"withheld": said}}}
    if RESULT in part:
        return {**part, RESULT: {**object_of(part[RESULT]), "response": {"error": said}}}
    return {**part, "text": said} if "text" in part else part


_FORM: Final = BlockForm(heard=_heard, changed=_part, emptied=_emptied, is_result=_is_result)
