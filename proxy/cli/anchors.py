"""`mnemogate anchor`, `canary` and `judge`: true statements, test questions, judges of answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from proxy.admin.wire.registered import (
    ANCHOR_PUT,
    ANCHORS,
    CANARIES,
    CANARIES_RUN,
    CANARY_PUT,
    JUDGE_TEST,
    AnchorView,
    CanaryRunView,
    JudgeTestView,
)
from proxy.cli.api_commands import Columns, asking, joined, lines, table, together
from proxy.cli.command import Context, option
from proxy.cli.exits import Exit
from proxy.seams.cases import Opinion
from proxy.seams.tenants import DEFAULT_TENANT

_WORDS: Final[Columns] = {
    "questions": joined("questions", " / "),
    "must": joined("must", " / "),
    "must not": joined("must_not", " / "),
}
_ANCHOR: Final[Columns] = {
    "id": "anchor_id",
    "tenant": "tenant",
    "since": "created_at_ms",
    "statement": "statement",
    **_WORDS,
}
_CANARY: Final[Columns] = {
    "id": "canary_id",
    "tenant": "tenant",
    "since": "created_at_ms",
    **_WORDS,
}
_NO_ANCHOR: Final = "no anchor; `mnemogate anchor put` makes one"
_NO_CANARY: Final = "no canary; `mnemogate canary put` makes one"
_TENANT: Final = option("--tenant", f"default: {DEFAULT_TENANT}")
_MATCHER: Final = (
    option(
        "--must", "words that have to be said, or re: and a pattern; repeatable", metavar="TEXT"
    ),
    option(
        "--must-not", "words that may not be said, or re: and a pattern; repeatable", metavar="TEXT"
    ),
    option("--class", "hold only memories of this class against them", field="memory_class"),
)


def _notes(context: Context, anchor: AnchorView) -> None:
    for note in anchor.notes:
        context.terminal.note(note)


def _fails(ran: CanaryRunView) -> Exit:
    return Exit.FAILED if any(one.failure_id for one in ran.outcomes) else Exit.OK


def _judged(tested: JudgeTestView) -> Iterator[str]:
    for place, answer in enumerate(tested.answers, 1):
        yield f"answer {place}: {_said(answer)}"
    claim = "says that it is deterministic" if tested.deterministic else "may answer otherwise"
    same = "" if tested.same else " not"
    yield f"{tested.name} {claim}; the answers are{same} the same"


def _said(answer: Opinion) -> str:
    if answer.problem is not None:
        return f"none ({answer.problem})"
    return "not known" if answer.fails is None else "fails" if answer.fails else "does not fail"


def _misjudges(tested: JudgeTestView) -> Exit:
    unread = any(answer.problem is not None for answer in tested.answers)
    broken = tested.deterministic and not tested.same
    return Exit.FAILED if unread or broken else Exit.OK


COMMANDS = (
    asking(
        "anchor list",
        "list the statements that memories are held against",
        ANCHORS,
        table("anchors", _ANCHOR, nothing=_NO_ANCHOR),
        options=(_TENANT,),
    ),
    asking(
        "anchor put",
        "register a statement, with the questions it answers",
        ANCHOR_PUT,
        together(table("", _ANCHOR), _notes),
        options=(
            option("statement", "what is true", metavar="STATEMENT"),
            option(
                "--question",
                "a question it answers; repeatable",
                field="questions",
                metavar="QUESTION",
                required=True,
            ),
            *_MATCHER,
            option(
                "--applies",
                "hold the words against replies, memories that are shown, or both (default)",
            ),
            option("--id", "replace the anchor of this id", field="anchor_id"),
            _TENANT,
        ),
    ),
    asking(
        "canary list",
        "list the questions that retrieval is asked",
        CANARIES,
        table("canaries", _CANARY, nothing=_NO_CANARY),
        options=(_TENANT,),
    ),
    asking(
        "canary run",
        "ask retrieval the questions of a tenant's canaries; 1 where one fails",
        CANARIES_RUN,
        table(
            "outcomes",
            {
                "canary": "canary_id",
                "lacks what it asks for": "lacking",
                "memories that say what it forbids": joined("failing", " "),
            },
        ),
        options=(_TENANT,),
        ends=_fails,
    ),
    asking(
        "canary put",
        "register questions, with what memories may not answer",
        CANARY_PUT,
        table("", _CANARY),
        options=(
            option(
                "--question",
                "asked of retrieval; repeatable",
                field="questions",
                metavar="QUESTION",
                required=True,
            ),
            *_MATCHER,
            option("--id", "replace the canary of this id", field="canary_id"),
            _TENANT,
        ),
    ),
    asking(
        "judge test",
        "ask a judge about one set of memories twice, and compare its answers",
        JUDGE_TEST,
        lines(_judged),
        options=(option("judge", "the name of its [[judge]] table", metavar="NAME"),),
        ends=_misjudges,
    ),
)
