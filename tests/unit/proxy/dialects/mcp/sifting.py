"""A guard's `sift` for tests: what contains a withheld text, or is one."""

from __future__ import annotations

from collections.abc import Iterable

from policy.text.readings import readings_of, spelled_out
from proxy.dialects.mcp.maps import AnswerShape
from proxy.dialects.mcp.results import PLAIN, filtering
from proxy.dialects.strict_json.strict import JsonValue

CONTAINED_LEN_MIN = 8


def withheld(text: str, needles: Iterable[str]) -> bool:
    readings = {one for reading in readings_of(text) for one in (reading, spelled_out(reading))}
    return any(
        needle in one if len(needle) >= CONTAINED_LEN_MIN else needle == one
        for needle in needles
        for one in readings
    )


def sifted(
    result: JsonValue, needles: Iterable[str], shown: AnswerShape = PLAIN
) -> tuple[JsonValue, int]:
    """What may be shown, and how often was asked."""
    plan = filtering(result, shown)
    asked = 0
    needles = tuple(needles)
    try:
        strings = next(plan)
        while True:
            asked += 1
            strings = plan.send(tuple(withheld(text, needles) for text in strings))
    except StopIteration as done:
        value: JsonValue = done.value
        return value, asked
