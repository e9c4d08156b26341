"""What the ledger has of a person is dropped, and is in no record that is written afterwards."""

from __future__ import annotations

from policy.model import SourceKind
from proxy.ledger.records import DropRecord, RecalledRecord, SessionRecord
from tests.unit.proxy.ledgers import ADA, GRACE, Ledger, user

SAID = "The harbour office opens at nine each day."


def written(ledger: Ledger) -> list[object]:
    core = ledger.sessions._core  # pyright: ignore[reportPrivateUsage]
    return list(core.state.snapshot())


async def test_the_sessions_of_a_principal_and_all_that_is_served_to_it_go() -> None:
    ledger = Ledger()
    hers = await ledger.ask(user(SAID))
    other = await ledger.ask(user(SAID), by=GRACE)
    ledger.recall("m1", SAID, SourceKind.UNKNOWN)
    hers_all = ledger.sessions.of_person(ADA.principal_id, ())
    assert hers_all == {hers.session: ADA.principal_id}
    # The control: without the act a snapshot has both, and what was served.
    before = written(ledger)
    assert sum(isinstance(one, SessionRecord) for one in before) == 2
    assert any(isinstance(one, RecalledRecord) for one in before)
    await ledger.sessions.erase(ADA.principal_id, hers_all, {"m1"})
    after = written(ledger)
    sessions = [one.session for one in after if isinstance(one, SessionRecord)]
    assert sessions == [other.session]
    assert not any(isinstance(one, RecalledRecord) for one in after)
    # What she read before is unknown from now on.
    assert [one.principal for one in after if isinstance(one, DropRecord)] == [ADA.principal_id]
    assert ledger.seen("anything").after_reading


async def test_prints_of_an_erased_memory_go_from_the_books_of_others_too() -> None:
    ledger = Ledger()
    kept = await ledger.ask(user("Good morning."))
    for name in ("m1", "m2"):
        ledger.recall(name, f"{SAID} And {name} says more of it.", SourceKind.UNKNOWN)
    await ledger.sessions.erase(None, {}, {"m1"})
    left = [one.memory_id for one in written(ledger) if isinstance(one, RecalledRecord)]
    assert left == ["m2"]
    assert ledger.sessions.shown(kept.session) is not None
