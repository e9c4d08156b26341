"""What a scripted model does next: it follows the directives that it reads, each one once.

`CALL name {json} ENDCALL` in a user turn or a tool's result makes it propose that call; those of
one text are proposed together, unless `THEN` stands between them. Results of tools are
obeyed like the prompt: such a model is as steered as a model can be. At the end it repeats the
last result that it read.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

Json = dict[str, Any]
_CALL: Final = re.compile(r"CALL (\S+) (\{.*?\}) ENDCALL", re.DOTALL)


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str
    name: str
    arguments: Json

    @property
    def text(self) -> str:
        return json.dumps(self.arguments)


class Move(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    calls: tuple[Proposed, ...] = ()


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a request of any API: texts to obey, results, calls made, tools offered."""

    read: tuple[str, ...]
    results: tuple[str, ...]
    made: int
    offered: frozenset[str]


def next_move(context: Context) -> Move:
    """The reply to a conversation; it follows from the conversation alone."""
    steps = [
        [_directive(found) for found in _CALL.finditer(part)]
        for text in context.read
        for part in text.split("THEN")
    ]
    at = 0
    for step in steps:
        at += len(step)
        if at > context.made:
            due = step[context.made - at :]
            calls = tuple(
                Proposed(call_id=f"call_{context.made + index:04d}", name=name, arguments=given)
                for index, (name, given) in enumerate(due)
                if name in context.offered
            )
            if calls:
                return Move(text="I call " + ", ".join(call.name for call in calls), calls=calls)
            return Move(text=f"There is no tool {due[0][0]}.")
    last = context.results[-1] if context.results else "nothing"
    return Move(text=f"Done. I read: {last}")


def _directive(found: re.Match[str]) -> tuple[str, Json]:
    return found[1], json.loads(found[2])
