"""What a path below a model API's prefix asks for. Pure."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from proxy.dialects.model.api import ANTHROPIC, CHAT, COMPLETIONS, RESPONSES
from proxy.seams.faults import MalformedRequest

if TYPE_CHECKING:
    from proxy.dialects.model.api import ModelApi
    from proxy.seams.operation import HttpRequest

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Collections that keep text on the provider's side and bring it back into a context later, and
# what gives an agent a way to the model past this one: sessions and keys of its own.
_HOSTED: Final = frozenset(
    {
        *("assistants", "conversations", "memory_stores", "skills", "threads", "vector_stores"),
        *("chatkit", "organization", "organizations", "realtime"),
    }
)
_TURNS: Final = {
    ("messages",): ANTHROPIC,
    ("chat", "completions"): CHAT,
    ("completions",): COMPLETIONS,
    ("responses",): RESPONSES,
}
# Asking a model to shorten a conversation is asking a model.
_COMPACT: Final = ("responses", "compact")
# What no server reads in two ways: nothing to decode again, no parameters of a segment, nothing
# that one trims from its end.
_PATH: Final = re.compile(r"(?:/(?:[A-Za-z0-9_.:@,=$~-]*[A-Za-z0-9_:@,=$~-])?)*")


# Other routes whose answers hold no words of a model, or are read where they bring its replies
# (`stored_replies`). A star stands for one segment. The table is in docs/operations.md.
KNOWN: Final = (
    *("embeddings", "moderations", "rerank", "tokenize", "detokenize"),
    *("messages/count_tokens", "responses/input_tokens", "api/show"),
    *("messages/batches", "messages/batches/*", "messages/batches/*/cancel"),
    *("batches", "batches/*/cancel", "files", "files/*"),
    *("uploads", "uploads/*/parts", "uploads/*/complete", "uploads/*/cancel"),
    *("audio/transcriptions", "audio/translations", "audio/speech"),
    *("images/generations", "images/edits", "images/variations"),
    *("responses/*", "responses/*/cancel", "chat/completions/*"),
    *("api/event_logging/batch", "api/event_logging/v2/batch"),
)
# What may stand before them: versions, and places that providers give an API of this kind.
_BASES: Final = ("", "v1", "openai", "openai/v1", "openai/deployments/*", "api/v1")


def _matcher(routes: tuple[str, ...]) -> re.Pattern[str]:
    """What the path of one of these is, in lower case and without slashes at its ends."""
    spelled = "|".join(re.escape(one).replace(r"\*", "[^/]+") for one in routes)
    return re.compile(spelled)


_KNOWN: Final = _matcher(tuple(f"{base}/{one}".lstrip("/") for base in _BASES for one in KNOWN))


def is_known(method: str, purpose: Purpose, rest: str, passing: tuple[str, ...]) -> bool:
    """Whether somebody knows what a route brings: this file, or the operator who listed it.

    APIs of other providers bring calls of memory tools in shapes that nobody here reads.
    """
    if purpose is not Purpose.OTHER or method in _SAFE:
        return True
    path = "/".join(part for part in rest.lower().split("/") if part)
    listed = tuple(one.lower().strip("/") for one in passing)
    return _KNOWN.fullmatch(path) is not None or (
        bool(listed) and _matcher(listed).fullmatch(path) is not None
    )


class Purpose(enum.Enum):
    """What the front does with a request."""

    TURN = "turn"  # asks a model
    RESULT = "result"  # brings the reply of an earlier asking
    HOSTED = "hosted"  # would write memory on the provider's side, or talk past the sidecar
    OTHER = "other"


def check_path(rest: str) -> None:
    """Refuse a path that a server behind may take for another one.

    Raises:
        MalformedRequest: It is one.
    """
    if _PATH.fullmatch(rest) is None:
        raise MalformedRequest("path: may be read in two ways", status=400)


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
    """Path below the upstream's URL, as it was checked, with the query, encoded again."""
    return f"{rest}?{urlencode(head.query)}" if head.query else rest
