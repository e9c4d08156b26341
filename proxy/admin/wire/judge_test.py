"""Requests and answers of the operator API about callers' judges."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.route import Empty, post
from proxy.seams.cases import Opinion


class JudgeTestView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of asking a judge about one set twice.

    `same`: both answers could be read, and are equal.
    """

    name: str
    deterministic: bool
    answers: tuple[Opinion, ...]
    same: bool


JUDGE_TEST: Final = post(
    "/judges/{judge}/test",
    Empty,
    JudgeTestView,
    "Ask a caller's judge the same question about one set of memories twice.",
)
