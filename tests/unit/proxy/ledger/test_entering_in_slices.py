"""A long text enters in slices: others go on meanwhile, and in its tenant the order stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import pytest

from policy.labels.containment import Prints, prints_of
from policy.model import Principal, PrincipalId, Tenant
from proxy.ledger.core import RequestFindings
from proxy.ledger.records import SegmentRecord, SessionRecord, decode
from proxy.ledger.sessions import Sessions
from proxy.seams.guard import RelayedText
from proxy.seams.pace import LARGE, SLICE_S, Pace
from storage.session_log.log import prints_key
from tests.unit.proxy.ledgers import ADA, GRACE, KEY, Ledger, call, reply, result, user

_T = TypeVar("_T")
EVE = Principal(principal_id=PrincipalId("key:eve"), tenant=Tenant("lighthouse"))
SECRET = "I prefer Northwind for every trip and pay with the company card."
LINES = [f"{at}: The garden by the river was quiet that evening." for at in range(400)]
PAGE = " ".join((*LINES, SECRET, *LINES))
SLICE_CHARS = 2_000
"""What fills a slice by the clock of these tests: characters that are indexed."""


class CharClock:
    """Seconds that pass only where texts are indexed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chars = 0

        def counted(text: str) -> Prints:
            self.chars += len(text)
            return prints_of(text)

        monkeypatch.setattr("proxy.ledger.ring.prints_of", counted)

    def __call__(self) -> float:
        return self.chars * SLICE_S / SLICE_CHARS


class Log:
    """The records that were handed over, batch by batch."""

    length = 0

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []

    def add(self, records: Iterable[bytes]) -> None:
        self.batches.append([*records])

    async def append(self, records: Iterable[bytes] = ()) -> None:
        self.add(records)

    def entries(self) -> list[int]:
        """How many entries of turns each batch has."""
        return [
            sum(isinstance(decode(one), SegmentRecord) for one in batch)
            for batch in self.batches
            if any(isinstance(decode(one), SegmentRecord | SessionRecord) for one in batch)
        ]


class AtOnce(Pace):
    """The control: everything is done where it is asked for, in one piece."""

    async def in_turn(self, line: str, size: int, call: Callable[[], _T]) -> _T:
        del line, size
        return call()


def ledger_of(pace: Pace, log: Log | None = None) -> Ledger:
    ledger = Ledger()
    around = msgspec.structs.replace(ledger.clock.surroundings(), pace=pace)
    ledger.sessions = Sessions(log, prints_key(KEY), around)  # type: ignore[arg-type]
    return ledger


async def with_page(ledger: Ledger, by: Principal = ADA) -> RequestFindings:
    """A request whose tool result is long enters."""
    begun = await ledger.ask(user("Look."), by=by)
    await ledger.answer(begun, reply("", call("c1", "fetch", url="x")), by)
    return await ledger.ask(user("Look."), result("c1", PAGE), by=by)


async def steps_of(pace: Pace, clock: CharClock) -> tuple[list[int], list[str]]:
    """Characters read between two turns of the loop, and who was through, in order."""
    ledger, done, read = ledger_of(pace), list[str](), list[int]()
    await with_page(ledger, EVE)  # what is read once for all, is

    async def asks(name: str, by: Principal) -> None:
        if name == "long":
            await with_page(ledger, by)
        else:
            await ledger.ask(user(f"Is {name} there?"), by=by)
        done.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(asks("long", ADA))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        group.create_task(asks("neighbour", GRACE))
        group.create_task(asks("stranger", EVE))
        while len(done) < 3:
            read.append(clock.chars)
            await asyncio.sleep(0)
    return [after - before for before, after in pairwise(read)], done


async def test_nobody_of_another_tenant_waits_for_more_than_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = CharClock(monkeypatch)
    pace = Pace(clock)
    steps, done = await steps_of(pace, clock)
    # A slice ends at the next look at the clock, every few sentences.
    assert max(steps) <= SLICE_CHARS + 2_500
    assert sum(steps) > 10 * max(steps)
    assert done == ["stranger", "long", "neighbour"]
    pace.close()
    # Control: in one piece, all of it comes before everybody else's turn.
    steps, done = await steps_of(AtOnce(clock), clock)
    assert done[0] == "long"
    assert max(steps, default=0) < SLICE_CHARS, "it was over before anybody looked"


async def test_what_is_read_in_slices_is_read_as_it_is_in_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = CharClock(monkeypatch)
    for pace in (Pace(clock), AtOnce(clock)):
        ledger = ledger_of(pace)
        assert ledger.has_read(await with_page(ledger))
        assert ledger.seen(SECRET).contained != ()


@pytest.mark.parametrize("door", ["request", "reply", "relay"])
async def test_a_client_that_leaves_half_way_leaves_all_of_an_entry(
    door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, log = CharClock(monkeypatch), Log()
    pace = Pace(clock)
    ledger = ledger_of(pace, log)
    begun = await ledger.ask(user("Look."))
    entering: Coroutine[Any, Any, object]
    if door == "request":
        calls = [call(name, "fetch", url=name) for name in ("c1", "c2")]
        await ledger.answer(begun, reply("", *calls))
        # The first turn is read by the time its client leaves.
        said = result("c1", "Nothing is there."), result("c2", PAGE)
        entering = ledger.ask(user("Look."), *said)
    elif door == "reply":
        entering = ledger.answer(begun, reply(PAGE))
    else:
        segment = RelayedText(server="web", tool="fetch", call_id="c1", texts=(PAGE,))
        entering = ledger.sessions.saw(ADA.principal_id, segment, ADA.tenant)
    before, chars = len(log.batches), clock.chars
    leaves = asyncio.create_task(entering)
    for _ in range(10_000):
        await asyncio.sleep(0)
        if clock.chars > chars + 2 * SLICE_CHARS:
            break
    leaves.cancel()
    # Somebody else's records are written meanwhile, and none of a part.
    await ledger.ask(user("Hello there."), by=EVE)
    with pytest.raises(asyncio.CancelledError):
        await leaves
    assert log.entries()[-1] == 1
    assert len(log.batches) == before + 1
    # The next of the tenant comes behind all of it.
    await ledger.ask(user(SECRET), by=GRACE)
    assert len(log.batches) == before + 2
    pace.close()


async def test_records_that_somebody_else_wrote_meanwhile_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Meanwhile(Pace):
        """Another request is answered between the end of a long one and its waking up."""

        async def in_turn(self, line: str, size: int, call: Callable[[], _T]) -> _T:
            entered = await super().in_turn(line, size, call)
            if size > LARGE and others:
                await ledger.ask(user("Hello there."), by=EVE)
            return entered

    others, log = False, Log()
    pace = Meanwhile(CharClock(monkeypatch))
    ledger = ledger_of(pace, log)
    await with_page(ledger)
    assert log.batches[-1], "control: it wrote its own records"
    others, log.batches = True, []
    await with_page(ledger, GRACE)
    assert any(log.batches)
    # An empty batch is durable when all before it are.
    assert log.batches[-1] == []
    pace.close()
