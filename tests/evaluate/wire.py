"""What a client of the native API sends, and the parts of an answer that the evaluation reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from proxy.dialects.strict_json.strict import JsonValue


class Write(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a write, with every field that a client can set.

    Fields that are not set are left out.
    """

    text: str = ""
    source: str | None = None
    memory_class: str | None = msgspec.field(name="class", default=None)
    nonce: str | None = None
    target: str | None = None
    metadata: Mapping[str, JsonValue] | None = None
    derived_from: tuple[str, ...] = ()
    promotion_token: str | None = None
    role: str | None = None
    actor: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a search."""

    query: str
    limit: int


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of a list or a search, with the fields that are read here."""

    text: str
    source: str | None = None
    memory_class: str | None = msgspec.field(name="class", default=None)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The body of any answer: of a verdict, a memory, a list, a search, or an operator's view."""

    id: str | None = None
    candidate_id: str | None = None
    decision: str | None = None
    reason: str | None = None
    step: int | None = None
    observation: str | None = None
    source: str | None = None
    memory_class: str | None = None
    level: str | None = None
    # The members are kept as they came, because a refused text may hide in any field.
    results: tuple[msgspec.Raw, ...] = ()
    memories: tuple[msgspec.Raw, ...] = ()


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a client: status, every byte of the body, and the parsed body."""

    status: int
    raw: bytes
    body: Answer


_ANSWER: Final = msgspec.json.Decoder(Answer)
_SHOWN: Final = msgspec.json.Decoder(Shown)


def headers_of(key: str) -> dict[str, str]:
    """The headers of a request in JSON with this key."""
    return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}


def answered(status: int, raw: bytes) -> Tried:
    """An answer, parsed."""
    return Tried(status=status, raw=raw, body=_ANSWER.decode(raw) if raw else Answer())


def shown_in(one: msgspec.Raw) -> Shown:
    """A memory of a list or a search, parsed."""
    return _SHOWN.decode(one)
