"""What a receiver is told: every hold, in order, at least once, whatever the receiver does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from policy.after.closure import CaseSignal, CaseStep
from policy.model import Basis, CandidateId, MemoryClass, PrincipalId, SourceKind
from policy.verdict import Reason
from proxy.compose.outboxes import Outboxes
from proxy.reporting import outbox as subject
from proxy.reporting.incident_notice import incident_of, incidents_event
from proxy.reporting.outbox import Cursor, Notifier, Outbox
from proxy.reporting.review_notice import WaitsLeaf, hold_of, review_event
from proxy.reporting.witnesses import Witnesses
from proxy.seams.environment import Environment
from proxy.seams.faults import UpstreamError
from storage.audit import IncidentLeaf, OperatorLeaf, VerdictLeaf, encode_leaf
from storage.ground.errors import StoreUnavailable
from storage.interfaces import Store
from storage.values import Decision

HOUR_S = 3_600
START_MS = 1_900_000_000_000


class Log:
    """A log in memory, with one kept cursor; and the clock that everybody here has."""

    def __init__(self) -> None:
        self.leaves_: list[bytes] = []
        self.now_ms = START_MS
        self.kept: dict[str, bytes] = {}
        self.prints_key = b"k" * 32
        self.incarnation = "0" * 32
        self.audit = self.reader = self
        self.keeps = True

    @property
    def leaf_count(self) -> int:
        return len(self.leaves_)

    def status(self) -> Log:
        return self

    def leaves(self, offset: int, limit: int) -> tuple[bytes, ...]:
        return tuple(self.leaves_[offset : offset + limit])

    def read_cursor(self, name: str) -> bytes | None:
        return self.kept.get(name)

    def write_cursor(self, name: str, cursor: bytes) -> None:
        if not self.keeps:
            raise OSError(28, "No space left on device")
        self.kept[name] = cursor

    def hold(self) -> str:
        """A verdict that holds, after something else that nobody is told of."""
        self.leaves_.append(
            encode_leaf(
                OperatorLeaf(at_ms=self.now_ms, action="hold", subject="hold", by=PrincipalId("p"))
            )
        )
        candidate_id = CandidateId(f"{len(self.leaves_):032x}")
        self.leaves_.append(encode_leaf(verdict(candidate_id, self.now_ms, Decision.HOLD)))
        return candidate_id


def verdict(candidate_id: CandidateId, at_ms: int, decision: Decision) -> VerdictLeaf:
    return VerdictLeaf(
        candidate_id=candidate_id,
        at_ms=at_ms,
        intercepted_index=0,
        decision=decision,
        reason=Reason.CLASS_FLOOR,
        step=1,
        memory_class=MemoryClass.L1,
        source=SourceKind.UNKNOWN,
        basis=Basis.UNPROVEN,
        version=1,
        memory_id=None,
        approved_by=None,
        ruleset_epoch=1,
        structural=False,
        trust_level="trusted",
    )


class Receiver:
    """Takes messages from when it is up; notes every attempt."""

    def __init__(self, log: Log, up_from_ms: int = 0) -> None:
        self.log = log
        self.up_from_ms = up_from_ms
        self.attempts: list[tuple[str, bytes]] = []
        self.taken: list[tuple[str, list[str]]] = []
        self.then: Callable[[], None] | None = None

    async def deliver(self, message_id: str, body: bytes) -> None:
        self.attempts.append((message_id, body))
        if self.log.now_ms < self.up_from_ms:
            raise UpstreamError("the receiver answered 500")
        event: dict[str, Any] = msgspec.json.decode(body)
        self.taken.append((message_id, [one["id"] for one in event["data"]["held"]]))
        if self.then is not None:
            self.then()

    @property
    def told(self) -> list[str]:
        return [one for _, ids in self.taken for one in ids]


TELLING: Notifier[WaitsLeaf] = Notifier(
    name="review.webhook",
    picks=hold_of,
    body=lambda message_id, holds: review_event(
        message_id, holds, source="urn:mnemogate:x", page_of=lambda _: None
    ),
)


def surroundings_of(log: Log) -> Environment:
    return Environment(
        clock_ns=lambda: log.now_ms * 1_000_000,
        random_hex=lambda count: "0" * 2 * count,
        record=lambda _: None,
    )


def opened(log: Log, receiver: Receiver) -> Outbox[WaitsLeaf]:
    return Outbox(cast("Store", log), TELLING, receiver, surroundings_of(log))


def incident(case_id: str, at_ms: int) -> IncidentLeaf:
    return IncidentLeaf(
        case_id=case_id,
        at_ms=at_ms,
        step=CaseStep.OPENED,
        signal=CaseSignal.CANARY,
        mode=None,
        suspects=0,
        asks=0,
        culprits=0,
        by=PrincipalId("mnemogate:watch"),
    )


async def lived(outbox: Outbox[Any], log: Log, for_s: float) -> None:
    """Let so much time go by, on a clock that only this turns."""
    until_ms = log.now_ms + int(for_s * 1_000)
    while log.now_ms < until_ms:
        log.now_ms += max(1, int(await outbox.turn() * 1_000))


async def test_a_receiver_that_was_down_for_an_hour_is_told_of_a_thousand_in_their_order() -> None:
    log = Log()
    receiver = Receiver(log, up_from_ms=START_MS + HOUR_S * 1_000)
    outbox = opened(log, receiver)
    held = [log.hold() for _ in range(1_000)]
    await lived(outbox, log, HOUR_S)
    assert receiver.taken == [], "control: it was down"
    assert len(receiver.attempts) < 20, "and was not asked over and over"
    assert len(set(receiver.attempts)) == 1, "the same message each time, under the same id"
    assert outbox.waiting is not None
    await lived(outbox, log, HOUR_S)
    assert receiver.told == held
    assert len(receiver.taken) == 10
    assert len({message_id for message_id, _ in receiver.taken}) == 10
    assert outbox.waiting is None


async def test_of_ten_thousand_incidents_none_is_lost_while_the_receiver_is_down() -> None:
    log = Log()
    told: list[str] = []
    up = False

    class Down:
        async def deliver(self, message_id: str, body: bytes) -> None:
            if not up:
                raise UpstreamError("the receiver answered 500")
            event: dict[str, Any] = msgspec.json.decode(body)
            told.extend(one["incident_id"] for one in event["data"]["incidents"])

    incidents = Notifier(
        name="after.webhook",
        picks=incident_of,
        body=lambda message_id, steps: incidents_event(message_id, steps, source="urn:x"),
    )
    outbox = Outbox(cast("Store", log), incidents, Down(), surroundings_of(log))
    witnesses = Witnesses((), 1, cast("Store", log), surroundings_of(log))
    tellers = Outboxes(witnesses, incidents=(outbox,), outbox_max=9_999)
    ids = [f"{number:016x}" for number in range(10_000)]
    leaves = [encode_leaf(incident(one, log.now_ms)) for one in ids]
    log.leaves_.extend(leaves[:9_999])
    await lived(outbox, log, HOUR_S)
    assert (told, outbox.untold_count, tellers.behind()) == ([], 9_999, ())
    log.leaves_.append(leaves[-1])
    await lived(outbox, log, HOUR_S)
    assert tellers.behind() == ("after.webhook",)
    up = True
    await lived(outbox, log, 2 * HOUR_S)
    assert told == ids
    assert (outbox.untold_count, tellers.behind()) == (0, ())


async def test_what_comes_within_a_minute_of_a_message_is_told_together() -> None:
    log = Log()
    receiver = Receiver(log)
    outbox = opened(log, receiver)
    first = log.hold()
    await lived(outbox, log, 5)
    assert receiver.told == [first], "the first waits for nobody"
    more = [log.hold() for _ in range(7)]
    await lived(outbox, log, 50)
    assert receiver.told == [first]
    await lived(outbox, log, 10)
    assert [ids for _, ids in receiver.taken] == [[first], more]


@pytest.mark.parametrize("crashes", ["before it is kept", "after it is kept"])
async def test_a_message_of_a_crash_is_sent_again_whole_under_its_id(crashes: str) -> None:
    log = Log()
    receiver = Receiver(log)
    outbox = opened(log, receiver)
    held = [log.hold() for _ in range(3)]
    if crashes == "before it is kept":
        # It was sent, and the disk took nothing of that any more.
        receiver.then = lambda: setattr(log, "keeps", False)
    await outbox.turn()
    log.keeps, receiver.then = True, None
    later = log.hold()
    again = opened(log, receiver)
    await lived(again, log, 120)
    if crashes == "before it is kept":
        assert receiver.taken[0] == receiver.taken[1]
        assert receiver.attempts[0] == receiver.attempts[1]
        assert receiver.told == [*held, *held, later]
    else:
        assert receiver.told == [*held, later], "control"


async def test_a_disk_that_takes_no_cursor_sends_nothing_until_it_does() -> None:
    log = Log()
    receiver = Receiver(log)
    outbox = opened(log, receiver)
    held = log.hold()
    log.keeps = False
    await lived(outbox, log, 100)
    assert receiver.attempts == []
    log.keeps = True
    await lived(outbox, log, HOUR_S)
    assert receiver.told == [held]


async def test_what_was_held_before_the_first_start_is_not_told() -> None:
    log = Log()
    log.hold()
    receiver = Receiver(log)
    outbox = opened(log, receiver)
    held = log.hold()
    await lived(outbox, log, 5)
    assert receiver.told == [held]


async def test_a_long_log_without_a_hold_is_not_read_again_by_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subject, "_IDLE_LEN", 10)
    log = Log()
    outbox = opened(log, Receiver(log))
    log.leaves_ += [encode_leaf(verdict(CandidateId("0" * 32), 1, Decision.ADMIT))] * 50
    await outbox.turn()
    assert msgspec.json.decode(log.kept[TELLING.name], type=Cursor).told == 50


@pytest.mark.parametrize("kept", [b"", b"{}", b'{"told":-', b'{"told":1,"more":2}', b"\xff"])
def test_a_damaged_cursor_stops_the_start_and_says_what_to_do(kept: bytes) -> None:
    log = Log()
    log.kept[TELLING.name] = kept
    with pytest.raises(StoreUnavailable, match=r"cursors/review\.webhook\.json .* move it away"):
        opened(log, Receiver(log))
    assert log.kept[TELLING.name] == kept


async def test_a_log_that_was_put_back_is_followed_from_its_end() -> None:
    log = Log()
    log.kept[TELLING.name] = b'{"told":900}'
    receiver = Receiver(log)
    outbox = opened(log, receiver)
    held = log.hold()
    await lived(outbox, log, 5)
    assert receiver.told == [held]


@pytest.mark.parametrize("until", [2, 1, 0, 10])
async def test_a_message_that_ends_beyond_a_log_that_was_put_back_is_made_anew(until: int) -> None:
    log = Log()
    first = log.hold()
    second = log.hold()
    log.kept[TELLING.name] = msgspec.json.encode({"told": 2, "until": until})
    receiver = Receiver(log)
    outbox = opened(log, receiver)
    await lived(outbox, log, 5)
    assert receiver.told == [second]
    assert first not in receiver.told
    third = log.hold()
    await lived(outbox, log, 120)
    assert receiver.told == [second, third]


def test_only_a_hold_is_told_of() -> None:
    for decision in Decision:
        leaf = encode_leaf(verdict(CandidateId("a" * 32), 1, decision))
        assert (hold_of(leaf) is not None) == (decision is Decision.HOLD)
    operator = OperatorLeaf(at_ms=1, action="hold", subject="hold", by=PrincipalId("p"))
    assert hold_of(encode_leaf(operator)) is None
