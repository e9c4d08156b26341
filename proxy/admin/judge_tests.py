"""Lets an operator try a caller's judge: one question about the same memories, asked twice."""

from __future__ import annotations

from typing import Final

from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.judge_test import JUDGE_TEST, JudgeTestView
from proxy.admin.wire.route import Empty
from proxy.seams.cases import AsksJudges, ReplayedMemory
from proxy.seams.faults import NotFound

_QUESTION: Final = "When does the office open?"
_MEMORIES: Final = (
    ReplayedMemory(id="00000000-0000-4000-8000-000000000001", text="The office opens at nine."),
    ReplayedMemory(id="00000000-0000-4000-8000-000000000002", text="Tea is in the kitchen."),
)


class JudgeTests:
    """Lets an operator try a judge that a caller configured. Event loop only."""

    def __init__(self, judges: AsksJudges) -> None:
        self._judges = judges

    @route(JUDGE_TEST)
    async def test(self, call: OperatorCall[Empty]) -> JudgeTestView:
        """Ask a judge the same built-in question twice, one after the other.

        Raises:
            NotFound: No judge has this name.
        """
        name = call.argument
        if name not in self._judges.names():
            raise NotFound("no [[judge]] table has that name")
        opinions = [
            await self._judges.ask(name, case="test", question=_QUESTION, memories=_MEMORIES)
            for _ in range(2)
        ]
        first, second = opinions
        return JudgeTestView(
            name=name,
            deterministic=self._judges.deterministic(name),
            answers=tuple(opinions),
            same=first == second and first.problem is None,
        )
