"""What feedback sets off, by whom it is given, and what is kept of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from policy.after.matchers import Grade, SignalKind
from policy.gate import GATE
from policy.model import ChangeKind, Channel, MemoryId, Principal, PrincipalId, Tenant
from proxy.aftermath.blame_search import BlameSearch
from proxy.aftermath.feedback import PER_DAY_MAX, FeedbackIntake
from proxy.seams.cases import Signal
from proxy.seams.faults import MalformedRequest, NotFound, RateLimited
from proxy.seams.operation import GiveFeedback, Proposal
from storage.features.failures import Failure
from storage.features.recalls import ReplyRecord
from tests.unit.proxy.wired import TRACE, Wired, wired
from tests.unit.storage.opening import AGENT, OPERATOR

PERSON = Principal(principal_id=PrincipalId("ada"), tenant=AGENT.tenant, channel=Channel.USER)
SECRET = "the vault code is 7319"


class Cases(BlameSearch):
    """Opens a case for each signal, and remembers the signals."""

    def __init__(self) -> None:
        self.heard: list[Signal] = []

    async def open_case(self, signal: Signal) -> str | None:
        self.heard.append(signal)
        return f"case-{len(self.heard)}"


class Talk(msgspec.Struct, frozen=True):
    live: Wired
    cases: Cases
    feedback: FeedbackIntake

    def begun(self) -> FeedbackIntake:
        return begun(self.live, self.cases)

    async def store(self, text: str) -> MemoryId:
        proposals = (Proposal(change=ChangeKind.CREATE, text=text),)
        (item,) = await self.live.writing.judge(AGENT, proposals, "native", TRACE)
        assert item.memory_id is not None
        return item.memory_id


@contextmanager
def talking(root: Path) -> Generator[Talk]:
    with wired(root, GATE) as live:
        cases = Cases()
        yield Talk(live, cases, begun(live, cases))


def begun(live: Wired, cases: Cases) -> FeedbackIntake:
    return FeedbackIntake(
        failures=live.store.failures,
        reader=live.store.reader,
        recalls=live.store.recalls,
        cases=cases,
        surroundings=live.surroundings,
    )


def files_with(root: Path, sought: bytes) -> set[str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {path.name for path in files if sought in path.read_bytes()}


async def refused(feedback: FeedbackIntake, by: Principal, said: GiveFeedback) -> Exception:
    with pytest.raises((NotFound, RateLimited)) as found:
        await feedback.take(by, said)
    return found.value


def wrong(memory_id: str, grade: Grade = Grade.WRONG) -> GiveFeedback:
    return GiveFeedback(grade=grade, memory_id=memory_id, forbid=(SECRET,))


async def test_an_agents_word_is_kept_as_a_claim_and_opens_nothing(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        memory = await talk.store("Ada moved to Lisbon.")
        before = talk.live.store.reader.status()
        noted = await talk.feedback.take(AGENT, wrong(memory))
        assert (noted.kind, noted.case_id, talk.cases.heard) == (SignalKind.AGENT, "", [])
        after = talk.live.store.reader.status()
        assert (after.version, after.leaf_count) == (before.version, before.leaf_count)
        (kept,) = talk.live.store.failures.newest(AGENT.tenant, 10)
        assert (kept.kind, kept.memory_id, kept.case_id) == (SignalKind.AGENT, memory, "")
        for by, kind in ((PERSON, SignalKind.PERSON), (OPERATOR, SignalKind.OPERATOR)):
            noted = await talk.feedback.take(by, wrong(memory))
            assert noted.kind is talk.cases.heard[-1].kind is kind, "control: these do"
            found = talk.live.store.failures.get(noted.failure_id)
            assert found is not None
            assert noted.case_id == found.case_id == f"case-{len(talk.cases.heard)}"
        assert len(talk.cases.heard) == 2


async def test_a_day_has_room_for_twenty_of_one_principal(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        memory = await talk.store("Ada moved to Lisbon.")
        for _ in range(PER_DAY_MAX):
            await talk.feedback.take(PERSON, wrong(memory))
        with pytest.raises(RateLimited):
            await talk.feedback.take(PERSON, wrong(memory))
        assert len(talk.cases.heard) == PER_DAY_MAX
        await talk.feedback.take(AGENT, wrong(memory))
        for _ in range(2):
            await talk.feedback.take(OPERATOR, wrong(memory))
        assert len(talk.live.store.failures.newest(AGENT.tenant, 100)) == PER_DAY_MAX + 3


async def test_a_start_of_the_process_forgets_no_feedback_of_the_day(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        memory = await talk.store("Ada moved to Lisbon.")
        for number in range(PER_DAY_MAX):
            # Another object stands for the process after its next start.
            said = talk.feedback if number % 2 else talk.begun()
            await said.take(PERSON, wrong(memory))
        with pytest.raises(RateLimited):
            await talk.begun().take(PERSON, wrong(memory))
        same = Failure(
            failure_id="0" * 20,
            kind=SignalKind.PERSON,
            grade=Grade.WRONG,
            tenant=Tenant("elsewhere"),
            by=PERSON.principal_id,
            at_ms=talk.live.surroundings.now_ms(),
        )
        kept = await talk.live.store.failures.record(same, of_principal_max=PER_DAY_MAX)
        assert kept, "control: the principal of another tenant only has the same name"


async def test_what_is_not_found_is_counted_before_it_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with talking(tmp_path) as talk:
        memory = await talk.store("Ada moved to Lisbon.")
        looked: list[str] = []
        find = talk.live.store.recalls.reply

        def counted(tenant: Tenant, reply_id: str) -> ReplyRecord | None:
            looked.append(reply_id)
            return find(tenant, reply_id)

        monkeypatch.setattr(talk.live.store.recalls, "reply", counted)
        unknown = GiveFeedback(grade=Grade.WRONG, reply_id="msg_none")
        refusals = [type(await refused(talk.feedback, AGENT, unknown)) for _ in range(30)]
        assert refusals == [NotFound] * PER_DAY_MAX + [RateLimited] * (30 - PER_DAY_MAX)
        assert len(looked) == PER_DAY_MAX
        assert isinstance(await refused(talk.feedback, AGENT, wrong(memory)), RateLimited)
        # Controls: another principal has its own day, as one of that name in another tenant has.
        await talk.feedback.take(PERSON, wrong(memory))
        namesake = msgspec.structs.replace(AGENT, tenant=Tenant("elsewhere"))
        assert isinstance(await refused(talk.feedback, namesake, unknown), NotFound)


async def test_one_look_up_runs_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with talking(tmp_path) as talk:
        running: list[int] = []
        most: list[int] = []

        def slow(tenant: Tenant, reply_id: str) -> None:
            del tenant, reply_id
            running.append(1)
            most.append(len(running))
            time.sleep(0.01)
            running.pop()

        monkeypatch.setattr(talk.live.store.recalls, "reply", slow)
        unknown = GiveFeedback(grade=Grade.WRONG, reply_id="msg_none")
        await asyncio.gather(*(refused(talk.feedback, PERSON, unknown) for _ in range(8)))
        assert most == [1] * 8


async def test_what_is_said_of_an_answer_is_in_no_file(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        memory = await talk.store("Ada moved to Lisbon.")
        noted = await talk.feedback.take(PERSON, wrong(memory))
        assert talk.cases.heard[0].forbid == (SECRET,), "control: the case is told"
        assert files_with(tmp_path, SECRET.encode()) == set()
        assert "data.mdb" in files_with(tmp_path, bytes.fromhex(noted.failure_id))


async def test_what_is_not_there_is_not_found_and_nothing_is_kept(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        memory = await talk.store("Ada moved to Lisbon.")
        stranger = msgspec.structs.replace(PERSON, tenant=Tenant("elsewhere"))
        for by, said in (
            (stranger, wrong(memory)),
            (PERSON, GiveFeedback(grade=Grade.WRONG, reply_id="msg_1")),
            (PERSON, GiveFeedback(grade=Grade.WRONG, recall_id="0" * 16)),
        ):
            with pytest.raises(NotFound):
                await talk.feedback.take(by, said)
        for said in (
            GiveFeedback(grade=Grade.WRONG),
            GiveFeedback(grade=Grade.WRONG, memory_id=memory, reply_id="msg_1"),
        ):
            with pytest.raises(MalformedRequest):
                await talk.feedback.take(PERSON, said)
        assert talk.live.store.failures.newest(AGENT.tenant, 10) == ()
        assert talk.cases.heard == []
