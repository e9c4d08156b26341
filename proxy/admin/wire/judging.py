"""Requests and answers of the operator API about callers' judges.

POST /judges/{judge}/test               -> JudgeTestView
"""

from __future__ import annotations

import msgspec


class JudgeAnswerView(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a judge: whether the texts fail.

    Null if it does not know, with `problem` as the reason.
    """

    fails: bool | None
    problem: str | None


class JudgeTestView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of asking a judge about one set twice.

    `same`: both answers could be read, and are equal.
    """

    name: str
    deterministic: bool
    answers: tuple[JudgeAnswerView, ...]
    same: bool
