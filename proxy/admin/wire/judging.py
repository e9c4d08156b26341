"""What the operator API says of callers' judges.

POST /judges/{judge}/test               -> JudgeTestView
"""

from __future__ import annotations

import msgspec


class JudgeAnswerView(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: whether it fails, null where the judge does not know; `problem` says why not."""

    fails: bool | None
    problem: str | None


class JudgeTestView(msgspec.Struct, frozen=True, kw_only=True):
    """A judge was asked one set twice. `same`: both answers were read, and are equal."""

    name: str
    deterministic: bool
    answers: tuple[JudgeAnswerView, ...]
    same: bool
