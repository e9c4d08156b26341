"""What a path below a model API's prefix asks for. Pure."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from proxy.dialects.model.api import ANTHROPIC, CHAT, RESPONSES

if TYPE_CHECKING:
    from proxy.dialects.model.api import ModelApi
    from proxy.dialects.operation import HttpRequest

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Collections that keep text on the provider's side and bring it back into a context later.
_HOSTED: Final = frozenset(
    {
        *("assistants", "conversations", "memory_stores", "skills", "threads", "vector_stores"),
    }
)
_TURNS: Final = {("messages",): ANTHROPIC, ("chat", "completions"): CHAT, ("responses",): RESPONSES}
# Asking a model to shorten a conversation is asking a model.
_COMPACT: Final = ("responses", "compact")
_PATH_SAFE: Final = "/:@!$&'()*+,;=~-._"


class Purpose(enum.Enum):
    """What the front does with a request."""

    TURN = "turn"  # asks a model
    RESULT = "result"  # brings the reply of an earlier asking
    HOSTED = "hosted"  # would write memory on the provider's side
    OTHER = "other"


def purpose_of(method: str, rest: str) -> tuple[Purpose, ModelApi | None]:
    """The purpose of a request to a path below the prefix, and the API that it is read with."""
    parts = tuple(part for part in rest.lower().split("/") if part)
    if method not in _SAFE and any(part in _HOSTED for part in parts):
        return Purpose.HOSTED, None
    if method == "POST":
        for tail, api in _TURNS.items():
            if parts[-len(tail) :] == tail:
                return Purpose.TURN, api
        if parts[-2:] == _COMPACT:
            return Purpose.TURN, RESPONSES
    if method == "GET":
        for tail, api in ((("responses",), RESPONSES), (("chat", "completions"), CHAT)):
            if len(parts) > len(tail) and parts[-len(tail) - 1 : -1] == tail:
                return Purpose.RESULT, api
    return Purpose.OTHER, None


# Routes on which a model says nothing that could be kept.
_NO_WORDS: Final = frozenset(
    {
        *("embeddings", "moderations", "rerank"),
        *("count_tokens", "input_tokens", "tokenize"),
    }
)


def answers_nothing(method: str, purpose: Purpose, rest: str) -> bool:
    """Whether an answer needs no reading, or is read: for what a memory backend asks."""
    if purpose is not Purpose.OTHER:
        return True
    parts = [part for part in rest.lower().split("/") if part]
    if method in _SAFE:
        return not parts or "models" in parts[-2:]
    return bool(parts) and parts[-1] in _NO_WORDS


def target_of(head: HttpRequest, rest: str) -> str:
    """Path below the upstream's URL, with the query, encoded again."""
    path = quote(rest, safe=_PATH_SAFE)
    return f"{path}?{urlencode(head.query)}" if head.query else path


# Headers in which agents name their own sessions, and the kind of name.
_NAMES: Final = {
    "session-id": "session",
    "x-claude-code-session-id": "session",
    "x-session-id": "session",
    "thread-id": "thread",
    "conversation-id": "session",
}


def names_of(headers: dict[str, str]) -> tuple[str, ...]:
    """The client's own names of its session, each behind its kind."""
    found = (f"{kind}:{headers[name]}" for name, kind in _NAMES.items() if headers.get(name))
    return tuple(dict.fromkeys(found))
