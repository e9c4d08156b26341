"""The principal of a request to a model API, the headers to forward, and the path's purpose."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final
from urllib.parse import urlencode

import msgspec

from policy.model import Principal
from proxy.dialects.model.api import ANTHROPIC, CHAT, COMPLETIONS, GEMINI, RESPONSES, ModelApi
from proxy.dialects.model.gemini.contents import model_in, whole_path
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest
from proxy.transport.auth import Authenticator, Visit

OWN: Final = "mnemogate-key"
# The headers in which model APIs take a credential.
CREDENTIALS: Final = ("x-api-key", "authorization", "api-key", "x-goog-api-key")
# These headers are not forwarded to the model API: a proxy sets them, or a browser names its page
# in them.
_ENDS_HERE: Final = frozenset(
    {
        *("origin", "referer", "forwarded", "via"),
        # These headers name another request than the one that was judged, and a server that honours
        # them would serve that other one. So they are removed.
        *("x-http-method", "x-http-method-override", "x-method-override"),
        *("x-original-url", "x-original-uri", "x-rewrite-url", "x-forwarded-uri"),
        *("x-forwarded-path", "x-forwarded-prefix"),
    }
)
_OURS: Final = "mnemogate-"


class AdmittedPrincipal(msgspec.Struct, frozen=True, kw_only=True):
    """A known principal, and the headers of its request that are forwarded upstream."""

    principal: Principal
    headers: dict[str, str]


def admit(
    head: HttpRequest,
    visit: Visit,
    authenticator: Authenticator,
    configured: tuple[tuple[str, str], ...],
) -> AdmittedPrincipal:
    """The principal, known by `Mnemogate-Key`, a key in the API's own header, or the socket.

    If a key of this sidecar is in the API's own header, the configured credential is sent upstream
    in its place. A principal that is known by other means may send its own credential of the
    provider, which is forwarded.

    Raises:
        Unauthenticated: No known principal.
        MalformedRequest: A key of this sidecar is where it would be sent upstream or logged.
    """
    headers = {
        name: value
        for name, value in head.headers.items()
        if name not in _ENDS_HERE and not name.startswith(_OURS)
    }
    principal: Principal | None = None
    given = head.headers.get(OWN)
    if given is not None:
        principal = authenticator.require(given, visit)
    # Keys of this sidecar are removed from every header, revoked ones too.
    for name in (*CREDENTIALS, *headers):
        value = headers.get(name, "")
        ours = next((one for one in _words(value) if authenticator.is_ours(one)), None)
        if ours is None:
            continue
        del headers[name]
        if name in CREDENTIALS and given is None:
            found = authenticator.require(ours, visit)
            if principal is not None and found != principal:
                # A request with the keys of two principals has no principal, because no rule tells
                # which key counts.
                authenticator.require("", visit)
            principal = found
            for other in CREDENTIALS:
                if not any(authenticator.is_ours(one) for one in _words(headers.get(other, ""))):
                    headers.pop(other, None)
    authenticator.check_sent_on("query", (word for pair in head.query for word in pair))
    authenticator.check_sent_on("path", (head.path,))
    authenticator.check_sent_on("header", (text for pair in headers.items() for text in pair))
    if principal is None:
        principal = authenticator.require(None, visit)
    return AdmittedPrincipal(principal=principal, headers=_completed(headers, configured))


def _completed(headers: dict[str, str], configured: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The headers with the configured ones added.

    A configured credential is added only if the agent sent none.
    """
    brings = any(name in headers for name in CREDENTIALS)
    given = {name.lower(): value for name, value in configured}
    added = {name: value for name, value in given.items() if not (brings and name in CREDENTIALS)}
    return {**headers, **added}


def _words(value: str) -> tuple[str, ...]:
    """A header's value, and the part of it after a scheme such as "Bearer"."""
    scheme, _, rest = value.partition(" ")
    return (value, rest.strip()) if scheme and rest else (value,)


_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# These routes are refused: they store text at the provider, which returns it into later contexts,
# or give an agent sessions or keys that bypass the sidecar.
_HOSTED: Final = frozenset(
    {
        *("assistants", "conversations", "memory_stores", "skills", "threads", "vector_stores"),
        *("chatkit", "organization", "organizations", "realtime"),
        *("cachedcontents", "corpora", "filesearchstores", "interactions", "tunedmodels"),
        *("v1beta/agents", "v1beta/batches", "v1beta/files", "v1beta/webhooks"),
        *(":asyncbatchembedcontent", ":batchgeneratecontent", ":bidigeneratecontent"),
    }
)
_TURNS: Final = {
    ("messages",): ANTHROPIC,
    ("chat", "completions"): CHAT,
    ("completions",): COMPLETIONS,
    ("responses",): RESPONSES,
}
# A request to shorten (compact) a conversation asks a model, too.
_COMPACT: Final = ("responses", "compact")
# A path must have this form, which every server reads alike: nothing is left to decode, no segment
# has parameters, and nothing would be trimmed.
_PATH: Final = re.compile(r"(?:/(?:[A-Za-z0-9_.:@,=$~-]*[A-Za-z0-9_:@,=$~-])?)*")


# These routes are known as well: their answers contain no words of a model, or only whole replies,
# which `stored_replies` judges. A star matches one segment. docs/operations.md has the table.
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
    *("models/*:batchembedcontents", "models/*:counttokens", "models/*:embedcontent"),
)
# A known path may have one of these prefixes: an API version, or the base path of a provider with a
# compatible API.
_BASES: Final = ("", "v1", "v1beta", "openai", "openai/v1", "openai/deployments/*", "api/v1")


def _matcher(routes: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern that fits each of the given paths: lower case, no slash at either end."""
    spelled = "|".join(re.escape(one).replace(r"\*", "[^/]+") for one in routes)
    return re.compile(spelled)


_KNOWN: Final = _matcher(tuple(f"{base}/{one}".lstrip("/") for base in _BASES for one in KNOWN))


def is_known(method: str, purpose: Purpose, rest: str, passing: tuple[str, ...]) -> bool:
    """Whether a route is known: it is in `KNOWN`, or the operator listed it in `passing`.

    Unknown routes of other providers may have memory calls in shapes that cannot be parsed here.
    """
    if purpose is not Purpose.OTHER or method in _SAFE:
        return True
    path = "/".join(part for part in rest.lower().split("/") if part)
    listed = tuple(one.lower().strip("/") for one in passing)
    return _KNOWN.fullmatch(path) is not None or (
        bool(listed) and _matcher(listed).fullmatch(path) is not None
    )


class Purpose(enum.Enum):
    """What a request to a model API is for, and so what the front does with it."""

    TURN = "turn"  # The request asks a model.
    RESULT = "result"  # The request returns the reply of an earlier request.
    HOSTED = "hosted"  # The request would write memory at the provider, or bypass the sidecar.
    OTHER = "other"


def check_path(rest: str) -> None:
    """Refuse a path that a server may read as a different path.

    Raises:
        MalformedRequest: The path is ambiguous.
    """
    if _PATH.fullmatch(rest) is None:
        raise MalformedRequest("path: may be read in two ways", status=400)


def purpose_of(method: str, rest: str) -> tuple[Purpose, ModelApi | None]:
    """The purpose of a request to a path below the prefix, and the API to parse it with."""
    parts = tuple(part for part in rest.lower().split("/") if part)
    names = {*parts, *map("/".join, pairwise(parts)), f":{_verb_of(parts)}"}
    if method not in _SAFE and not _HOSTED.isdisjoint(names):
        return Purpose.HOSTED, None
    if method == "POST":
        if model_in(rest):
            return Purpose.TURN, GEMINI
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


# The answers of these routes have no words of a model, so a memory backend may use the routes.
_NO_WORDS: Final = frozenset(
    {
        *("embeddings", "moderations", "rerank"),
        *("count_tokens", "input_tokens", "tokenize"),
        *("batchembedcontents", "counttokens", "embedcontent"),
    }
)


def answers_nothing(method: str, purpose: Purpose, rest: str) -> bool:
    """Whether a memory backend may use a route: its answer has no words of a model unjudged."""
    if purpose is not Purpose.OTHER:
        return True
    parts = [part for part in rest.lower().split("/") if part]
    if method in _SAFE:
        return not parts or "models" in parts[-2:]
    return bool(parts) and not _NO_WORDS.isdisjoint({parts[-1], _verb_of(parts)})


def _verb_of(parts: Sequence[str]) -> str:
    """The verb that follows the last colon of a path in Google's form; "" if there is none."""
    return ("", *parts)[-1].rpartition(":")[2]


def events_target(head: HttpRequest, rest: str) -> str | None:
    """The target that asks for a stream of events, where a request asks for one in another form.

    None for any other request.
    """
    if whole_path(rest) == rest or dict(head.query).get("alt") == "sse":
        return None
    query = tuple(pair for pair in head.query if pair[0] != "alt")
    return target_of(msgspec.structs.replace(head, query=(*query, ("alt", "sse"))), rest)


def target_of(head: HttpRequest, rest: str) -> str:
    """The path of the request to the upstream, with the query encoded anew."""
    return f"{rest}?{urlencode(head.query)}" if head.query else rest
