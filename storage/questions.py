"""Questions and texts as a search scores them, independent of the engine."""

from __future__ import annotations

import msgspec

from policy.model import SourceKind


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question as searches take it: unit vector and hashed words (b"" if it has none)."""

    vector: bytes
    words: bytes = b""


class WeighedText(msgspec.Struct, frozen=True, kw_only=True):
    """A text to be scored as if a memory with this label had it; `vector` is its embedding."""

    text: str
    vector: bytes
    source: SourceKind


class AnsweredQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A registered question and its answer, each with its embedding."""

    question: str
    question_vector: bytes
    answer: str
    answer_vector: bytes
