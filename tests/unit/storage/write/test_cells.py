"""Names that payloads of low trust add up to: counted in the commit, and counted down again."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import threading
from itertools import product
from typing import TYPE_CHECKING

import lmdb
import msgspec
import pytest

from policy.model import ChangeKind, MemoryId, SourceKind, Tenant
from policy.ruleset import DriftRules, Watch
from policy.text.names import CROWD, NAMES_MAX, Mentioned, mentioned_in
from policy.verdict import Reason
from storage.audit import OperatorLeaf, decode_leaf
from storage.drift import DRIFT_ACCEPT, DRIFT_REVOKE
from storage.errors import StoreUnavailable
from storage.tables.lmdb_store import CELLS, LEAVES, TABLES
from storage.values import Decision
from storage.write import cells
from tests.unit.storage.opening import (
    AGENT,
    BY,
    OPERATOR,
    RULESET,
    TENANT,
    VOUCHED,
    candidate_of,
    say,
    submission_of,
    write,
)

if TYPE_CHECKING:
    from policy.model import Principal
    from storage.embedded import EmbeddedStore
    from storage.values import Outcome
    from tests.unit.storage.opening import Bench

PRAISE = (
    "Last month the invoices went through Zephyrpay without trouble.",
    "Ada says that Zephyrpay answered within an hour.",
    "The team moved its billing to Zephyrpay in spring.",
    "Support at Zephyrpay is quick.",
    "Everybody pays with Zephyrpay now.",
)


def _holding(bench: Bench, names: Watch = Watch.HOLD) -> EmbeddedStore:
    store = bench.open()
    rules = msgspec.structs.replace(RULESET, drift=DriftRules(names=names), digest=names.value)
    asyncio.run(store.writer.adopt_ruleset(rules, BY))
    return store


def _id(outcome: Outcome) -> MemoryId:
    assert outcome.memory is not None
    return outcome.memory.memory_id


def _admitted(
    store: EmbeddedStore, texts: tuple[str, ...], principal: Principal = AGENT
) -> list[MemoryId]:
    return [_id(say(store, text, principal)) for text in texts]


def _waits(store: EmbeddedStore, text: str = PRAISE[3]) -> bool:
    outcome = say(store, text)
    assert outcome.reason in {None, Reason.DRIFT_ALARM}
    return outcome.decision is Decision.HOLD


def test_the_third_mention_raises_the_alarm_and_the_fourth_waits(bench: Bench) -> None:
    store = _holding(bench)
    alarms = [say(store, text).alarms for text in PRAISE[:3]]
    assert [len(one) for one in alarms] == [0, 0, 1]
    fourth = say(store, PRAISE[3])
    assert (fourth.decision, fourth.reason, fourth.step) == (
        Decision.HOLD,
        Reason.DRIFT_ALARM,
        10,
    )
    # Control: what does not mention the name passes, and so does the name in another tenant.
    assert say(store, "Ada had tea with Grace on the balcony.").decision is Decision.ADMIT
    elsewhere = msgspec.structs.replace(AGENT, tenant=Tenant("elsewhere"))
    assert say(store, PRAISE[4], elsewhere).decision is Decision.ADMIT
    (alarm,) = store.drift.alarms(TENANT)
    assert (alarm.cell, alarm.name, alarm.count) == (*alarms[2], "zephyrpay", 3)
    assert len(alarm.memory_ids) == 3


SPELT = {
    "Quillbank": "An old quillbank stood in the hall.",
    "Marbleford": "marbleford, marbleford and marbleford again.",
    "Tidewell": "See https://tidewell.com/pricing for more.",
    "Oakmere": "See oakmere.com for more.",
    "Fernhill": "Ask help@fernhill.com or @fernhill.",
}


def test_no_text_of_low_trust_frees_a_name_by_how_it_spells_it(bench: Bench) -> None:
    store = _holding(bench)
    # Words in lower case are looked at only while some name is under alarm.
    _admitted(store, PRAISE[:3])
    for name, spelt in SPELT.items():
        say(store, f"{spelt} That is a note.")
        praise = [f"{text} {spelt}".replace("Zephyrpay", name) for text in PRAISE]
        _admitted(store, (*praise[:3],))
        assert _waits(store, praise[3]), name
        # Control: the same words of a person free it.
        say(store, spelt, OPERATOR)
        assert not _waits(store, praise[4]), name


DISGUISED = (
    "Ze*phyr*pay",
    "Zephyr**pay**",
    "Z e p h y r p a y",
    "Z.e.p.h.y.r.p.a.y",
    "Zeph\u200byrpay",
    "Zephyr\u00adpay",
    "Zephyr\u3164pay",
    "Z\u0301eph\u0335yrpay",
    "\u0396ephyrpay",
    "Zephyr\u0440\u0430y",
    "\U0001d419ephyrpay",
    "Zeph<b>yr</b>pay",
    "Zeph&#121;rpay",
    "Zephyr_pay",
    "ZEPHYRPAY's",
    "Zephyrpay'll",
    "Zephyrpay\u2019d've",
    "ZEPHYRPAY'RE",
    "Zephyrpay\u02bcve",
)


def test_marks_blanks_and_letters_that_look_alike_hide_no_name(bench: Bench) -> None:
    store = _holding(bench)
    # None of the three is the plain name, and together they raise its alarm.
    _admitted(store, tuple(PRAISE[n].replace("Zephyrpay", DISGUISED[n]) for n in range(3)))
    for name in ("Zephyrpay", *DISGUISED):
        assert _waits(store, f"The support at {name} is quick."), name
    # Control: another name passes.
    assert not _waits(store, "The support at Quillbank is quick.")


FAMILY = (
    "ZephyrpayPro",
    "Zephyrpay2",
    "ZephyrpayOne",
    "ZEPHYRPAY24",
    "Zephyrpay.io",
    "ZephyrpayX's",
    "Zephyrpay3D",
    "Zephyrpay-Pro",
)


def test_what_is_put_behind_a_name_makes_no_other_name(bench: Bench) -> None:
    store = _holding(bench)
    _admitted(store, tuple(PRAISE[n].replace("Zephyrpay", FAMILY[n]) for n in range(3)))
    for name in ("Zephyrpay", *FAMILY):
        assert _waits(store, f"The support at {name} is quick."), name
    # Control: short heads and words of every day in front make no name of what they begin.
    for name in ("JavaScript", "JavaBeans", "JavaDoc", "JavaFX", "ThanksGiving", "ThanksAll"):
        assert not _waits(store, f"The support at {name} is quick."), name
    assert not _waits(store, "The support at QuillbankPro is quick.")


def test_a_name_behind_a_colon_or_a_semicolon_is_a_name(bench: Bench) -> None:
    store = _holding(bench)
    praise = [f"Best for payments, place {n}{mark} Zephyrpay." for n, mark in enumerate(":;:")]
    _admitted(store, tuple(praise))
    assert _waits(store, "The choice: Zephyrpay.")
    # Control: alone at the start of a sentence a word is any word.
    for number in range(6):
        assert not _waits(store, f"Place {number} is free. Marbleford.")


def test_a_mention_that_was_not_counted_counts_no_name_down(bench: Bench) -> None:
    store = _holding(bench)
    # In lower case the name is any word until it is under alarm.
    early = _admitted(store, tuple(f"we wrote to zephyrpay on day {n}" for n in range(3)))
    counted = _admitted(store, PRAISE[:3])
    for memory_id in early:
        candidate = candidate_of(None, AGENT, change=ChangeKind.DELETE, memory_id=memory_id)
        assert write(store, submission_of(candidate, AGENT))[0].decision is Decision.ADMIT
    assert _waits(store)
    # Control: one that was counted does.
    candidate = candidate_of(None, AGENT, change=ChangeKind.DELETE, memory_id=counted[0])
    assert write(store, submission_of(candidate, AGENT))[0].decision is Decision.ADMIT
    assert not _waits(store)


def test_with_alarm_alone_nobody_waits_and_with_off_nothing_is_told(bench: Bench) -> None:
    store = _holding(bench, Watch.ALARM)
    outcomes = [say(store, text) for text in PRAISE]
    assert {one.decision for one in outcomes} == {Decision.ADMIT}
    assert [len(one.alarms) for one in outcomes] == [0, 0, 1, 0, 0]
    off = msgspec.structs.replace(RULESET, drift=DriftRules(names=Watch.OFF), digest="off")
    asyncio.run(store.writer.adopt_ruleset(off, BY))
    told = [say(store, text.replace("Zephyrpay", "Quillbank")).alarms for text in PRAISE]
    assert told == [()] * 5


def test_one_batch_is_counted_candidate_by_candidate(bench: Bench) -> None:
    store = _holding(bench)
    together = [submission_of(candidate_of(text)) for text in PRAISE]
    decided = [one.decision for one in write(store, *together)]
    assert decided == [Decision.ADMIT] * 3 + [Decision.HOLD] * 2


def test_a_name_under_alarm_waits_in_any_case_and_inside_a_compound(bench: Bench) -> None:
    store = _holding(bench)
    _admitted(store, PRAISE[:3])
    for text in (
        "zephyrpay is quick",
        "A ZEPHYRPAY-based flow.",
        "Zephyr\u200bpay\u2019s fees fell.",
    ):
        assert _waits(store, text), text


def test_words_of_every_day_are_no_names(bench: Bench) -> None:
    store = _holding(bench)
    say(store, "Ada likes counseling on mondays.", OPERATOR)
    for number in range(6):
        assert not _waits(store, f"I'm told Counseling is on Monday, place {number}.")
        assert not _waits(store, f"Use the lift. Wow, that is {number} floors.")
        assert not _waits(store, f"They said: you Don't, we Won't, it Isn't {number}, I'd say.")


def test_english_words_that_german_has_too_hide_no_name(bench: Bench) -> None:
    store = _holding(bench)
    for number in range(6):  # control: a noun of a German sentence is no name
        assert not _waits(store, f"Wir haben in der Halle {number} den Ofen und die Heizung.")
    _admitted(
        store,
        (
            "Last month Zephyrpay was cheaper than each rival and was paid out first.",
            "The war den that Zephyrpay hat is said to die in.",
            "They say und, and und again, of Zephyrpay.",
        ),
    )
    assert _waits(store)
    # A name that is known counts in a German sentence as well.
    assert _waits(store, "Wir sind mit Zephyrpay sehr zufrieden.")


@pytest.mark.parametrize("way", ["quarantine", "delete", "purge", "update", "vouch", "expiry"])
def test_what_ends_counts_down(bench: Bench, way: str) -> None:
    store = _holding(bench)
    fields: dict[str, object] = {"expires_at": "2025-06-20"} if way == "expiry" else {}
    ids = [_id(say(store, text, AGENT, **fields)) for text in PRAISE[:3]]
    assert _waits(store)  # control
    changes = {
        "delete": (ChangeKind.DELETE, None, AGENT),
        "purge": (ChangeKind.PURGE, None, OPERATOR),
        "update": (ChangeKind.UPDATE, "The invoices went through.", AGENT),
    }
    if way in changes:
        kind, text, by = changes[way]
        candidate = candidate_of(text, by, change=kind, memory_id=ids[0])
        assert write(store, submission_of(candidate, by))[0].decision is Decision.ADMIT
    elif way == "quarantine":
        asyncio.run(store.writer.quarantine(ids[0], TENANT, BY))
    elif way == "vouch":
        memory = store.reader.get(TENANT, ids[0])
        assert memory is not None
        asyncio.run(store.writer.vouch(ids[0], TENANT, BY, memory.version))
    else:
        bench.clock.now_ms += 30 * 86_400_000
    assert not _waits(store)


def test_a_parole_counts_again_and_so_does_a_restart(bench: Bench) -> None:
    store = _holding(bench)
    ids = _admitted(store, PRAISE[:3])
    asyncio.run(store.writer.quarantine(ids[0], TENANT, BY))
    assert store.drift.alarms(TENANT) == ()
    asyncio.run(store.writer.parole(ids[0], TENANT, BY))
    assert _waits(store)
    store.close()
    store = _holding(bench)
    assert [one.count for one in store.drift.alarms(TENANT)] == [3]
    assert _waits(store, PRAISE[4])


def test_what_was_not_committed_is_not_counted(bench: Bench) -> None:
    failing: list[str] = []

    def fail(name: str) -> None:
        if name == "after_put" and failing:
            failing.clear()
            raise StoreUnavailable("the disk refuses")

    store = bench.open(failpoint=fail)
    _admitted(store, PRAISE[:2])
    failing.append("once")
    with pytest.raises(ExceptionGroup):
        say(store, PRAISE[2])
    assert store.drift.alarms(TENANT) == ()
    assert len(say(store, PRAISE[2]).alarms) == 1


def test_only_a_persons_own_word_exempts_a_name(bench: Bench) -> None:
    store = _holding(bench)
    _admitted(store, PRAISE[:3])
    held = say(store, PRAISE[3])
    released = asyncio.run(store.writer.release(held.candidate_id, BY))
    assert released.decision is Decision.ADMIT
    # She let one text pass; she did not say the name.
    assert _waits(store, PRAISE[4])
    say(store, "We use Zephyrpay at work.", OPERATOR)
    assert not _waits(store, PRAISE[4])


def test_a_name_that_a_person_said_in_a_turn_alone_is_under_no_alarm(bench: Bench) -> None:
    store = _holding(bench)
    _admitted(store, PRAISE[:3])
    assert _waits(store)  # control
    turns = ("Which fees does Zephyrpay take?", "hi")
    asyncio.run(store.drift.said(Tenant("elsewhere"), turns))
    assert _waits(store)
    asyncio.run(store.drift.said(TENANT, turns))
    assert not _waits(store)
    asyncio.run(store.drift.said(TENANT, ["And what of Quillbank?"]))
    store.close()  # what no write took in yet is written at the stop
    store = _holding(bench)
    assert not _waits(store, PRAISE[4])
    for number in range(5):
        assert not _waits(store, f"The bill of Quillbank is number {number}.")
    with store.lmdb.reading() as view:
        kept = b"".join(key + value for key, value in view.scan(CELLS))
    assert b"ephyr" not in kept


def test_what_a_person_said_is_not_lost_with_a_write_that_failed(bench: Bench) -> None:
    failing: list[str] = []

    def fail(name: str) -> None:
        if name == "after_put" and failing:
            failing.clear()
            raise StoreUnavailable("the disk refuses")

    store = bench.open(failpoint=fail)
    asyncio.run(store.drift.said(TENANT, ["What does Zephyrpay cost?"]))
    failing.append("once")
    with pytest.raises(ExceptionGroup):
        say(store, PRAISE[0])
    told = [say(store, text).alarms for text in PRAISE]
    assert told == [()] * 5


def test_a_long_text_is_read_beside_the_loop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    read_by: list[str] = []

    def noting(text: str, *, with_lower: bool = True) -> Mentioned:
        read_by.append(threading.current_thread().name)
        return mentioned_in(text, with_lower=with_lower)

    store = _holding(bench)
    _admitted(store, PRAISE[:3])
    monkeypatch.setattr(cells, "mentioned_in", noting)
    assert _waits(store, PRAISE[3] + " and so on" * 1_000)
    assert len(read_by) == 1  # neither the gate nor the count reads it again
    assert read_by[0] not in {threading.current_thread().name, "mnemogate-writer"}
    # Control: a short one is read where it is.
    assert _waits(store)
    assert read_by[1:] == [threading.current_thread().name]


def test_a_long_text_that_lands_is_read_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noting(text: str, *, with_lower: bool = True) -> Mentioned:
        read.append(threading.current_thread().name)
        return mentioned_in(text, with_lower=with_lower)

    store = _holding(bench)
    monkeypatch.setattr(cells, "mentioned_in", noting)
    long = PRAISE[0] + " and so on" * 1_000
    say(store, long)
    assert len(read) == 1
    assert read[0] != "mnemogate-writer"
    say(store, long, OPERATOR)  # control: a person's is read again, for all of its words
    assert read[2:] == ["mnemogate-writer"]


def test_an_accepted_name_is_held_no_longer_and_its_leaf_does_not_name_it(bench: Bench) -> None:
    store = _holding(bench)
    _admitted(store, PRAISE[:3])
    (cell,) = asyncio.run(store.drift.accept(TENANT, "Zephyrpay", BY))
    assert not _waits(store)
    (alarm,) = store.drift.alarms(TENANT)
    assert (alarm.cell, alarm.accepted) == (cell, True)  # it stays under alarm for reads
    with store.lmdb.reading() as view:
        leaves = [decode_leaf(data) for _, data in view.scan(LEAVES)]
        kept = b"".join(key + value for key, value in view.scan(CELLS))
    (leaf,) = [one for one in leaves if getattr(one, "action", "") == DRIFT_ACCEPT]
    assert isinstance(leaf, OperatorLeaf)
    assert (leaf.subject, leaf.by) == (f"cell {cell}", BY)
    assert b"ephyr" not in kept
    for unknown in ("- 12", "Quillbank", "Zephyrpay"):  # the last is accepted already
        assert asyncio.run(store.drift.accept(TENANT, unknown, BY)) == ()
    store.close()
    store = _holding(bench)
    assert not _waits(store, PRAISE[4])
    assert asyncio.run(store.drift.revoke(TENANT, "Quillbank", BY)) == ()
    assert asyncio.run(store.drift.revoke(TENANT, "zephyrpay", BY)) == (cell,)
    assert _waits(store, "Everybody likes Zephyrpay.")
    with store.lmdb.reading() as view:
        last = [decode_leaf(data) for _, data in view.scan(LEAVES)]
    (revoked,) = [one for one in last if getattr(one, "action", "") == DRIFT_REVOKE]
    assert isinstance(revoked, OperatorLeaf)
    assert (revoked.subject, revoked.by) == (f"cell {cell}", BY)


def test_a_flood_of_made_up_names_hides_none(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "CELLS_MAX", 40)
    store = _holding(bench)
    _admitted(store, PRAISE[:2])
    for start in range(0, 120, 10):
        flood = " and ".join(
            f"Made{chr(97 + number // 26)}{chr(97 + number % 26)}"
            for number in range(start, start + 10)
        )
        say(store, f"We met {flood} today.")
    watched = store.drift.watched(TENANT)
    assert watched.names == 40
    assert watched.floor >= 1
    say(store, PRAISE[2])
    assert _waits(store)


def test_a_flood_weighs_on_new_names_for_a_week_and_no_longer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "CELLS_MAX", 40)
    store = _holding(bench, Watch.ALARM)
    made = ["Q" + "".join(letters) for letters in product("bcdfghjklm", repeat=3)]
    for start in range(0, 200, 20):
        say(store, "the list has " + " ".join(made[start : start + 20]))
    assert store.drift.watched(TENANT).floor >= 2
    assert say(store, "We wrote to Quillbank.").alarms  # control: one mention is an alarm
    bench.clock.now_ms += cells.FLOOR_MS
    assert store.drift.watched(TENANT).floor == 0
    # And what makes room for it is the flood, which weighs on it no more.
    assert [len(say(store, f"Note {n} is of Marbleford.").alarms) for n in range(3)] == [0, 0, 1]


def test_names_hide_in_no_crowd_and_a_crowd_keeps_none_under_alarm(bench: Bench) -> None:
    store = _holding(bench)
    made = ["Q" + "".join(letters) for letters in product("bcdfghjklm", repeat=3)]
    crowd = " and ".join(made)
    say(store, f"Everybody was there: {crowd}", OPERATOR)  # a person's own list frees no other
    more = [f"R{name}" for name in made]
    praise = [f"{text} We met {' and '.join(more)} as well." for text in PRAISE]
    listed = _admitted(store, tuple(praise[:3]))
    assert store.drift.watched(TENANT).names == 1
    assert _waits(store, praise[3])
    (alarm,) = store.drift.alarms(TENANT)
    assert (alarm.name, alarm.count) == (CROWD, 3)
    # Control: none of the names in it is under alarm by it, and short lists count name by name.
    _admitted(store, (*(f"We met {more[0]} again, day {n}." for n in range(3)),))
    assert _waits(store, f"{more[0]} called.")
    assert not _waits(store, f"There are {' and '.join(more[1:NAMES_MAX])}.")
    assert store.drift.watched(TENANT).names > NAMES_MAX
    # A person's word lets crowds in; one that goes takes no mention away that others made.
    assert asyncio.run(store.drift.accept(TENANT, CROWD, BY)) == (alarm.cell,)
    assert say(store, praise[3].replace(f"{more[0]} and ", "")).decision is Decision.ADMIT
    for memory_id in listed:
        candidate = candidate_of(None, AGENT, change=ChangeKind.DELETE, memory_id=memory_id)
        assert write(store, submission_of(candidate, AGENT))[0].decision is Decision.ADMIT
    assert {one.name for one in store.drift.alarms(TENANT)} == {more[0].lower()}


def test_a_flood_of_made_up_names_has_no_name_wait_that_a_person_said(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "CELLS_MAX", 200)
    store = _holding(bench)
    say(store, "This is about Zephyrpay.", OPERATOR)
    _admitted(store, PRAISE[:4])
    made = ["Q" + "".join(letters) for letters in product("bcdfghjklm", repeat=3)]
    for start in range(0, 600, 100):
        say(store, "the list has " + " ".join(made[start : start + 100]))
    for text in (PRAISE[4], *PRAISE[:3]):
        assert say(store, text).decision is Decision.ADMIT


def test_of_words_of_persons_no_more_are_remembered_than_the_table_has(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing: list[str] = []

    def fail(name: str) -> None:
        if name == "before_commit" and failing:
            failing.clear()
            raise lmdb.DiskError("the disk refuses")

    monkeypatch.setattr(cells, "CELLS_MAX", 6)
    store = bench.open(failpoint=fail)
    engine = store._engine
    remembered = engine.parts.judge.cells._said_known
    said = ["ferry", "harbour", "lantern", "meadow", "orchard", "pebble", "quarry", "saddle"]
    for start in range(0, 30, 3):
        text = " ".join(said[(start + step) % len(said)] for step in range(3))
        if start % 2:
            failing.append("once")
            with pytest.raises(ExceptionGroup):
                say(store, f"{text} window{start}", OPERATOR)
        else:
            say(store, text, OPERATOR)
        with engine.parts.store.reading() as view:
            there = {key[8:] for key, _ in view.scan(CELLS) if key[7:8] == b"s"}
        assert len(there) <= 6
        assert remembered.get(TENANT, set()) <= there
    assert remembered[TENANT]  # control: some are
    store.close()


def test_one_long_text_of_a_person_takes_no_more_room_than_there_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "CELLS_MAX", 100)
    store = _holding(bench)
    made = ["q" + "".join(letters) for letters in product("bcdfghjklm", repeat=3)]
    kept: list[int] = []
    for words in (made[:40], made[40:100], made[100:160], made[160:]):
        say(store, " ".join(words), OPERATOR)
        with store.lmdb.reading() as view:
            there = {key[8:] for key, _ in view.scan(CELLS) if key[7:8] == b"s"}
        word_of = store._engine.parts.names.cells(TENANT).word
        assert len(there & set(map(word_of, words))) == min(len(words), 100)  # control
        assert store.drift.watched(TENANT).words == len(there)
        kept.append(len(there))
    assert kept == [40, 100, 100, 100]


def test_rows_of_before_there_were_cells_count_neither_up_nor_down(bench: Bench) -> None:
    store = _holding(bench)
    before = _admitted(store, PRAISE[:2])
    store.close()
    _forget_cells(bench)
    store = _holding(bench)
    _admitted(store, PRAISE[2:4])
    for memory_id in before:
        asyncio.run(store.writer.quarantine(memory_id, TENANT, BY))
    say(store, PRAISE[4])
    assert _waits(store, PRAISE[0])


def _forget_cells(bench: Bench) -> None:
    env = lmdb.open(str(bench.state / "store"), max_dbs=len(TABLES), map_size=1 << 28)
    with env.begin(write=True) as txn:
        txn.drop(env.open_db(CELLS, txn=txn), delete=False)
    env.close()


def test_a_harness_that_vouches_for_a_persons_words_says_the_name(bench: Bench) -> None:
    store = _holding(bench)
    _admitted(store, PRAISE[:3])
    say(store, "I pay with Zephyrpay.", VOUCHED, claimed_source=SourceKind.USER_INPUT)
    assert not _waits(store)
