"""Takes the sidecar's questions and a person's answers out of a conversation sent again.

Without them each request has the bytes that it would have had otherwise, so that a provider's
prompt cache still works. A text counts as a question if it ends a model's turn and its keyed print
is that of a question that was put. An answer has to follow such a turn. Look-alikes elsewhere stay.
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
    """Recognises the questions that the sidecar itself put, and the codes in them."""

    def block(self, text: str) -> bytes | None:
        """The keyed print of the question with this text; None if no such question was put."""
        ...

    def answers(self, block: bytes | None, turn: str) -> bool:
        """Whether all codes in a turn belong to the given question, or for None to any question."""
        ...


class TurnBehind(NamedTuple):
    """A person's turn that directly follows a question of the sidecar."""

    block: bytes
    turn: str
    # Whether the turn is the last one of the conversation.
    last: bool
    # True if the turn was a person's answer and was taken out. False if it only looked like an
    # attempt at one and stays.
    taken: bool


class TakenOut(NamedTuple):
    """A request without questions and answers.

    `answer` is the person's last turn, if it follows a question.
    """

    body: dict[str, Json]
    answer: TurnBehind | None = None


def taken_out(api: str, body: dict[str, Json], ours: Ours) -> TakenOut:
    """The request without questions and answers; the same object if there are none."""
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
    """Goes through a conversation, turn by turn, and takes out questions and their answers."""

    def __init__(self, ours: Ours, turns: list[Json]) -> None:
        self._ours = ours
        self._turns = turns
        # `_before` is the print of the question that ended the previous turn. `_answered` tells
        # whether a person's answer, or a failed attempt at one, was met already.
        self._before: bytes | None = None
        self._answered = False
        self._begun = False
        self.answer: TurnBehind | None = None
        self.changed = False

    def without(self, at: int, turn: dict[str, Json]) -> dict[str, Json] | None:
        """The turn without question or answer; None if nothing is left of it."""
        role = text_of(turn.get("role"))
        if role == "assistant":
            self._begun = True
            return self._of_model(at, turn)
        before, self._before = self._before, None
        text = _typed(turn) if role == "user" else None
        if text is None:
            # The turn has results of tools, or a program's text between the turns, so it is no
            # person's turn.
            return turn
        begun, self._begun = self._begun, True
        self.answer, self._answered = None, False
        last = at == len(self._turns) - 1
        if before is None:
            # The host left out the question but kept the answer, which now stands at the beginning
            # of the conversation.
            if begun or not self._ours.answers(None, text):
                return turn
            return self._replaced(turn)
        if self._ours.answers(before, text):
            self.answer = TurnBehind(before, text, last, taken=True)
            return self._replaced(turn)
        if is_attempt(text):
            # The turn was an attempt and no valid answer, so it stays in the request. Only what the
            # sidecar told the person about the attempt is taken out.
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
            # A client marks the last part for the provider's cache. The question was last, so the
            # mark moves to the part before it.
            mark: dict[str, Json] = {"cache_control": part["cache_control"]}
            rest = [*rest[:-1], {**object_of(rest[-1]), **mark}]
        return self._cut({**turn, "content": rest})

    def _cut(self, turn: dict[str, Json]) -> dict[str, Json]:
        self.changed = True
        return turn

    def _left(self, text: str) -> str | None:
        """The model's own words before a question that ends the text; None without a question."""
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
    """The text of a turn that consists of one text; "" or None for any other turn."""
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
    # A host may have put a turn of several parts together. Such a turn is no answer, and after it
    # no turn can answer the question any more.
    return None if any(kind_of(one).endswith("tool_result") for one in parts) else ""
