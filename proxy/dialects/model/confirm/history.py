"""Takes questions and answers out of a conversation that an agent sends again.

Without them each request has the bytes that it would have had, so a provider's prompt cache holds.
A question is ours where it ends a turn of a model, and its keyed print is one that was given out.
An answer is ours behind such a turn. What looks like one elsewhere stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from proxy.dialects.model.confirm.block import ANSWERED, APART, HEADING, TOLD, is_attempt
from proxy.dialects.model.reading import kind_of, list_of, object_of, text_of

if TYPE_CHECKING:
    from proxy.dialects.strict_json.tolerant import Json

_TURNS: Final = {"anthropic": "messages", "chat": "messages", "responses": "input"}
_TEXTS: Final = frozenset({"text", "output_text", "input_text"})
_TOLD_BY: Final = "Mnemogate: "


class Ours(Protocol):
    """What was given out."""

    def block(self, text: str) -> bytes | None:
        """The name of the question with this text; None where nobody gave it out."""
        ...

    def answers(self, block: bytes | None, turn: str) -> bool:
        """Whether each code of a turn is of that question; None: of any."""
        ...


class TurnBehind(NamedTuple):
    """A person's turn directly behind one of our questions."""

    block: bytes
    turn: str
    # Whether nothing stands behind it yet.
    last: bool
    # Whether it was an answer, and was taken out; else it only tried to be one.
    taken: bool


class TakenOut(NamedTuple):
    """A request without what is ours. `answer` is the last turn of a person, where it is one."""

    body: dict[str, Json]
    answer: TurnBehind | None = None


def taken_out(api: str, body: dict[str, Json], ours: Ours) -> TakenOut:
    """The request without questions and answers; the same object where there are none."""
    turns = list_of(body.get(_TURNS.get(api, "")))
    looking = _Looking(ours, turns)
    kept: list[Json] = []
    for at, turn in enumerate(turns):
        one = looking.without(at, object_of(turn))
        if one is not None:
            kept.append(turn if one is turn else one)
    if not looking.changed:
        return TakenOut(body, looking.answer)
    return TakenOut({**body, _TURNS[api]: kept}, looking.answer)


class _Looking:
    """One walk through a conversation."""

    def __init__(self, ours: Ours, turns: list[Json]) -> None:
        self._ours = ours
        self._turns = turns
        # The question that the turn before ended with, and whether an answer, or what was meant to
        # be one, stands before this.
        self._before: bytes | None = None
        self._answered = False
        self._begun = False
        self.answer: TurnBehind | None = None
        self.changed = False

    def without(self, at: int, turn: dict[str, Json]) -> dict[str, Json] | None:
        """The turn as it may go on; None where nothing is left of it."""
        role = text_of(turn.get("role"))
        if role == "assistant":
            self._begun = True
            return self._of_model(at, turn)
        before, self._before = self._before, None
        text = _typed(turn) if role == "user" else None
        if text is None:
            # Results of tools, and what a program says in between.
            return turn
        begun, self._begun = self._begun, True
        self.answer, self._answered = None, False
        last = at == len(self._turns) - 1
        if before is None:
            # The host cut the conversation between question and answer.
            if begun or not self._ours.answers(None, text):
                return turn
            return self._replaced(turn)
        if self._ours.answers(before, text):
            self.answer = TurnBehind(before, text, last, taken=True)
            return self._replaced(turn)
        if is_attempt(text):
            # It stays, and what was told of it goes.
            self._answered = True
            self.answer = TurnBehind(before, text, last, taken=False)
        return turn

    def _replaced(self, turn: dict[str, Json]) -> dict[str, Json]:
        self.changed = self._answered = True
        content = turn.get("content")
        if isinstance(content, str):
            return {**turn, "content": ANSWERED}
        return {**turn, "content": [{**object_of(list_of(content)[0]), "text": ANSWERED}]}

    def _of_model(self, at: int, turn: dict[str, Json]) -> dict[str, Json] | None:
        self._before = None
        if any(_is_model(object_of(one)) for one in self._turns[at + 1 : at + 2]):
            return turn
        content = turn.get("content")
        if isinstance(content, str):
            left = self._left(content)
            return turn if left is None else self._cut({**turn, "content": left})
        parts = list_of(content)
        part = object_of(parts[-1]) if parts else {}
        text = text_of(part.get("text")) if kind_of(part) in _TEXTS else None
        left = None if text is None else self._left(text)
        if left is None:
            return turn
        if left:
            shorter: list[Json] = [*parts[:-1], {**part, "text": left}]
            return self._cut({**turn, "content": shorter})
        rest: list[Json] = parts[:-1]
        if not rest:
            self.changed = True
            return None
        if "cache_control" in part and "cache_control" not in object_of(rest[-1]):
            # A client marks the last part; without ours it would have marked this one.
            mark: dict[str, Json] = {"cache_control": part["cache_control"]}
            rest = [*rest[:-1], {**object_of(rest[-1]), **mark}]
        return self._cut({**turn, "content": rest})

    def _cut(self, turn: dict[str, Json]) -> dict[str, Json]:
        self.changed = True
        return turn

    def _left(self, text: str) -> str | None:
        """What the model itself said; None where nothing of ours ends the text."""
        at = text.rfind(HEADING)
        if at >= 0:
            block = self._ours.block(text[at:].rstrip())
            if block is not None:
                self._before = block
                return text[:at].removesuffix(APART)
        at = text.rfind(_TOLD_BY)
        if self._answered and at >= 0 and text[at:].rstrip() in TOLD:
            return text[:at].removesuffix(APART)
        return None


def _is_model(turn: dict[str, Json]) -> bool:
    return text_of(turn.get("role")) == "assistant"


def _typed(turn: dict[str, Json]) -> str | None:
    """The text of a turn that is one text and nothing else."""
    if text_of(turn.get("name")) is not None:
        return None
    content = turn.get("content")
    if isinstance(content, str):
        return content
    parts = list_of(content)
    part = object_of(parts[0]) if len(parts) == 1 else {}
    if kind_of(part) in _TEXTS:
        found = part.get("text")
        return found if isinstance(found, str) else None
    # Several parts: whatever a host splices in, it is no answer, and ends the chance of one.
    return None if any(kind_of(one).endswith("tool_result") for one in parts) else ""
