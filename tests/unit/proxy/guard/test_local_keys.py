"""What the gate is told of the thing that a change at another server is aimed at."""

from __future__ import annotations

from pathlib import Path

from policy.model import ChangeKind
from policy.verdict import Reason
from proxy.seams.guard import Forwarded
from tests.unit.proxy.guarded import AGENT, GOOD, SERVER, call, guarded, item


async def test_a_change_without_a_key_is_of_nothing_known(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        (made,) = await seen.guard.judge(AGENT, call(item(GOOD, key="")))
        assert made.candidate_id is not None
        await seen.guard.settle(AGENT, SERVER, ((made.candidate_id, Forwarded.DONE),))
        for change in (ChangeKind.UPDATE, ChangeKind.DELETE):
            (judged,) = await seen.guard.judge(AGENT, call(item(GOOD, key="", change=change)))
            assert (judged.decision, judged.reason) == ("hold", Reason.PERSON_REQUIRED)


async def test_a_change_under_a_known_key_is_of_what_is_there(tmp_path: Path) -> None:
    with guarded(tmp_path) as seen:
        (made,) = await seen.guard.judge(AGENT, call(item(GOOD, key="Ada")))
        assert made.candidate_id is not None
        await seen.guard.settle(AGENT, SERVER, ((made.candidate_id, Forwarded.DONE),))
        (judged,) = await seen.guard.judge(
            AGENT, call(item(GOOD, key="Ada", change=ChangeKind.UPDATE))
        )
        assert judged.decision == "admit"
