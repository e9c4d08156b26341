"""The recall ledger: what was served is found again, and is gone with its age or with a purge."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from policy import query
from policy.model import ChangeKind, MemoryId, Tenant
from policy.query import EVERYTHING, Compare, Field
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.features.recalls import (
    ContextSpan,
    InContext,
    LaterHits,
    Recall,
    RecalledMemory,
    RecallOptions,
    ReplyRecord,
    ledger,
)
from storage.sealed_log import sealed_segments
from storage.sealed_log.sealed_file import SECTOR_LEN, FileKey
from storage.values import Outcome
from tests.unit.storage.opening import (
    AGENT,
    OPERATOR,
    TENANT,
    Bench,
    Clock,
    candidate_of,
    say,
    submission_of,
    vector_of,
    write,
)

DAY_MS = 86_400_000
QUERY = "What does Ada drink?"


def options(**recalls: object) -> EmbeddedOptions:
    made = RecallOptions(**recalls)  # type: ignore[arg-type]
    return EmbeddedOptions(quota_bytes=1 << 28, staging_quota_bytes=1 << 26, recalls=made)


def recall_of(store: EmbeddedStore, at_ms: int, text: str = QUERY, **fields: object) -> Recall:
    found = store.reader.searched(TENANT, vector_of(text), EVERYTHING, 10, -1.0)
    values: dict[str, object] = {
        "recall_id": "",
        "at_ms": at_ms,
        "tenant": TENANT,
        "principal_id": AGENT.principal_id,
        "front": "native",
        "operation": "search_memory",
        "session": "",
        "version": found.version,
        "limit": 10,
        "hits": tuple(
            RecalledMemory(
                ordinal=one.memory.ordinal, memory_id=one.memory.memory_id, score=one.score
            )
            for one in found.hits
        ),
        "nearest": found.nearest,
        "vector": vector_of(text),
        "words": store.reader.words(TENANT, text),
        "where": EVERYTHING,
        "query": text,
    }
    return Recall(**(values | fields))  # type: ignore[arg-type]


def reply_of(at_ms: int, *memories: InContext, **fields: object) -> ReplyRecord:
    values: dict[str, object] = {
        "reply_id": "msg_01",
        "at_ms": at_ms,
        "tenant": TENANT,
        "principal_id": AGENT.principal_id,
        "model": "claude",
        "session": "5e55",
        "turn": 3,
        "memories": memories,
        "calls": ("Bash",),
    }
    return ReplyRecord(**(values | fields))  # type: ignore[arg-type]


def purge(store: EmbeddedStore, memory_id: MemoryId) -> None:
    candidate = candidate_of(None, OPERATOR, change=ChangeKind.PURGE, memory_id=memory_id)
    write(store, submission_of(candidate, OPERATOR, vector=b"", embedder_id=""))


def id_of(outcome: Outcome) -> MemoryId:
    assert outcome.memory is not None
    return outcome.memory.memory_id


def test_what_was_served_is_found_again_after_a_restart(bench: Bench) -> None:
    store = bench.open()
    tea, train = say(store, "Ada drinks tea."), say(store, "The train is late.")
    noted = recall_of(store, bench.clock())
    recall_id = store.recalls.note(noted)
    store.close()

    found = bench.open().recalls.recall(recall_id)
    assert found is not None
    assert {one.memory_id for one in found.hits} == {id_of(tea), id_of(train)}
    assert found.hits == tuple(
        msgspec.structs.replace(one, score=pytest.approx(one.score, abs=1e-6)) for one in noted.hits
    )
    assert found.nearest == noted.nearest
    assert (found.at_ms, found.version, found.front) == (noted.at_ms, noted.version, "native")
    assert found.where == EVERYTHING
    # The words of a question are kept only where the operator asked for them.
    assert found.query is None
    assert found.vector is not None
    assert len(found.vector) == len(noted.vector or b"") // 2


def test_a_question_is_kept_where_the_operator_asks_for_it(bench: Bench) -> None:
    store = bench.open(options=options(keep_queries=True))
    say(store, "Ada drinks tea.")
    found = store.recalls.recall(store.recalls.note(recall_of(store, bench.clock())))
    assert found is not None
    assert found.query == QUERY


def test_no_word_of_a_question_or_a_memory_and_no_id_is_readable_on_the_disk(bench: Bench) -> None:
    store = bench.open(options=options(keep_queries=True))
    tea = say(store, "Ada drinks tea.")
    store.recalls.note(recall_of(store, bench.clock()))
    store.recalls.note(reply_of(bench.clock()))
    store.close()
    data = b"".join(one.read_bytes() for one in (bench.state / "recalls").iterdir())
    assert len(data) > 100
    secret = ("Ada", "tea", QUERY, id_of(tea), AGENT.principal_id, "msg_01", "claude")
    assert not [one for one in secret if one.encode() in data]
    modes = {one.stat().st_mode & 0o777 for one in (bench.state / "recalls").iterdir()}
    assert modes == {0o600}
    assert (bench.state / "recalls").stat().st_mode & 0o777 == 0o700


def test_a_purge_takes_id_question_and_vector_of_each_recall_that_showed_it(bench: Bench) -> None:
    store = bench.open(options=options(keep_queries=True))
    tea, train = say(store, "Ada drinks tea."), say(store, "The train is late.")
    both = store.recalls.note(recall_of(store, bench.clock()))
    purge(store, id_of(tea))
    alone = store.recalls.note(recall_of(store, bench.clock()))

    found = store.recalls.recall(both)
    assert found is not None
    assert {one.memory_id for one in found.hits} == {None, id_of(train)}
    assert (found.vector, found.where, found.query, found.words) == (None, None, None, b"")
    # The control: a recall that did not show it keeps its own.
    control = store.recalls.recall(alone)
    assert control is not None
    assert control.query == QUERY
    assert control.words == store.reader.words(TENANT, QUERY)
    assert not control.by_vector
    ordinals = [one.ordinal for one in found.hits]
    assert [one.text for one in store.recalls.memories(TENANT, ordinals).values()] == [
        "The train is late."
    ]


def test_words_of_another_version_are_kept_and_told_apart(bench: Bench) -> None:
    store = bench.open(options=options(keep_queries=False))
    say(store, "Ada drinks tea.")
    mine = store.reader.words(TENANT, QUERY)
    other = bytes(byte ^ 1 for byte in mine[:4]) + mine[4:]
    noted = [
        store.recalls.note(recall_of(store, bench.clock(), words=words))
        for words in (mine, other, b"")
    ]
    found = [store.recalls.recall(one) for one in noted]
    assert [one is not None and one.by_vector for one in found] == [False, True, False]
    assert [one is not None and one.words for one in found] == [mine, other, b""]


def test_a_question_opens_under_the_salts_of_its_rows_alone() -> None:
    key = FileKey(bytes(32), b"recalls", b"drawn")
    sealed = key.seal_inner(7, [b"salt of tea", b"of the train"], b"a question")
    assert key.unseal_inner(7, [b"salt of tea", b"of the train"], sealed) == b"a question"
    assert key.unseal_inner(7, [b"", b"of the train"], sealed) is None
    assert key.unseal_inner(8, [b"salt of tea", b"of the train"], sealed) is None


def test_a_reply_names_what_stood_in_its_request_and_how_it_came_there(bench: Bench) -> None:
    store = bench.open()
    tea = say(store, "Ada drinks tea.")
    recall_id = store.recalls.note(recall_of(store, bench.clock()))
    span = ContextSpan(where=("messages", 2, "content", 0), start=0, end=15)
    inside = InContext(ordinal=-1, memory_id=id_of(tea), recall_id=recall_id, spans=(span,))
    store.recalls.note(reply_of(bench.clock(), inside))
    store.recalls.note(reply_of(bench.clock(), reply_id="msg_02"))

    found = store.recalls.reply(TENANT, "msg_01")
    assert found is not None
    assert found.memories == (msgspec.structs.replace(inside, ordinal=0),)
    assert (found.session, found.turn, found.calls, found.incomplete) == (
        "5e55",
        3,
        ("Bash",),
        False,
    )
    assert store.recalls.reply(Tenant("elsewhere"), "msg_01") is None
    assert store.recalls.reply(TENANT, "msg_03") is None


def test_a_look_up_reads_no_log_but_the_record_that_is_looked_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bench.open(options=options(count_max=16))
    for number in range(6):
        store.recalls.note(reply_of(bench.clock(), reply_id=f"msg_{number}"))
        assert store.recalls.reply(TENANT, "msg_none") is None
    assert len(list((bench.state / "recalls").glob("*.log"))) > 2
    scanned: list[int] = []
    scan = sealed_segments.Segments._scanned  # pyright: ignore[reportPrivateUsage]

    def counted(self: sealed_segments.Segments, number: int, start: int) -> Iterator[bytes]:
        scanned.append(number)
        return scan(self, number, start)

    def found() -> list[str]:
        assert store.recalls.reply(TENANT, "msg_none") is None
        replies = [store.recalls.reply(TENANT, f"msg_{number}") for number in range(6)]
        return [one.reply_id for one in replies if one is not None]

    monkeypatch.setattr(sealed_segments.Segments, "_scanned", counted)
    assert found() == [f"msg_{number}" for number in range(6)]
    assert scanned == []
    # Control: without the indexes the same is found, by reading the logs.
    for one in (bench.state / "recalls").glob("*.idx"):
        one.unlink()
    assert found() == [f"msg_{number}" for number in range(6)]
    assert scanned != []


def test_an_index_that_is_torn_wrong_or_ahead_of_its_log_hides_and_forges_nothing(
    bench: Bench,
) -> None:
    store = bench.open()
    say(store, "Ada drinks tea.")
    ids = [store.recalls.note(recall_of(store, bench.clock())) for _ in range(3)]
    assert store.recalls.recall(ids[-1]) is not None
    (index,) = (bench.state / "recalls").glob("*.idx")
    (log,) = (bench.state / "recalls").glob("*.log")
    whole, records = index.read_bytes(), log.read_bytes()

    def read() -> list[str]:
        each = [store.recalls.recall(one) for one in ids]
        listed = [one.recall_id for one in store.recalls.recalls(TENANT)]
        assert [one.recall_id for one in reversed(each) if one is not None] == listed
        return listed[::-1]

    for length in range(len(whole)):
        index.write_bytes(whole[:length])
        assert read() == ids, length
    index.write_bytes(bytes(len(whole)))
    assert read() == ids, "no index of ours"
    index.write_bytes(whole[48:] + whole[:48])
    assert read() == ids
    for at in range(len(whole)):
        # Of an index that was changed a record may be missing, and none is another one.
        index.write_bytes(bytes((*whole[:at], whole[at] ^ 1, *whole[at + 1 :])))
        assert set(read()) <= set(ids)
    index.write_bytes(whole)
    log.write_bytes(records[:-1])
    assert read() == ids[:2], "the last record is torn"
    log.write_bytes(records)
    assert read() == ids, "control"


def test_a_reply_whose_recall_is_not_kept_says_so(bench: Bench) -> None:
    store = bench.open()
    tea = say(store, "Ada drinks tea.")
    inside = InContext(ordinal=-1, memory_id=id_of(tea), recall_id="00c0ffee00000001")
    store.recalls.note(reply_of(bench.clock(), inside))
    found = store.recalls.reply(TENANT, "msg_01")
    assert found is not None
    assert found.incomplete
    assert found.memories[0].recall_id == ""
    assert found.memories[0].memory_id == id_of(tea)


def test_recalls_are_found_by_memory_and_by_the_session_of_a_reply(bench: Bench) -> None:
    store = bench.open()
    tea = say(store, "Ada drinks tea.")
    first = store.recalls.note(recall_of(store, bench.clock()))
    train = say(store, "The train is late.")
    second = store.recalls.note(recall_of(store, bench.clock()))
    inside = InContext(ordinal=-1, memory_id=id_of(tea), recall_id=first)
    store.recalls.note(reply_of(bench.clock(), inside))

    def ids(**asked: object) -> list[str]:
        return [one.recall_id for one in store.recalls.recalls(TENANT, **asked)]  # type: ignore[arg-type]

    assert ids() == [second, first]
    assert ids(limit=1) == [second]
    assert ids(memory_id=id_of(tea)) == [second, first]
    assert ids(memory_id=id_of(train)) == [second]
    assert ids(memory_id=MemoryId("nobody")) == []
    assert ids(session="5e55") == [first]
    assert store.recalls.recalls(Tenant("elsewhere")) == ()


def test_a_memory_that_was_updated_is_named_in_the_state_that_was_shown(bench: Bench) -> None:
    store = bench.open()
    tea = say(store, "Ada drinks tea.")
    recall_id = store.recalls.note(recall_of(store, bench.clock()))
    candidate = candidate_of("Ada drinks coffee.", change=ChangeKind.UPDATE, memory_id=id_of(tea))
    write(store, submission_of(candidate))
    found = store.recalls.recall(recall_id)
    assert found is not None
    (hit,) = found.hits
    assert hit.memory_id == id_of(tea)
    assert store.recalls.memories(TENANT, [hit.ordinal])[hit.ordinal].text == "Ada drinks tea."
    assert store.recalls.memories(Tenant("elsewhere"), [hit.ordinal]) == {}


def test_what_is_older_than_keep_days_is_not_shown_and_its_key_is_shredded(bench: Bench) -> None:
    store = bench.open(options=options(keep_days=2))
    say(store, "Ada drinks tea.")
    since = bench.clock.now_ms
    old = store.recalls.note(recall_of(store, since))
    assert store.recalls.kept_since_ms == since
    (log,) = (bench.state / "recalls").glob("*.log")
    (bench.state / "copy").hardlink_to(log)
    bench.clock.now_ms += 3 * DAY_MS
    assert store.recalls.recall(old) is None
    assert log.exists()  # until the next record: no thread works where nothing is read

    new = store.recalls.note(recall_of(store, bench.clock()))
    assert store.recalls.recall(new) is not None
    assert not log.exists()
    shredded = (bench.state / "copy").read_bytes()
    assert shredded[:SECTOR_LEN] == bytes(SECTOR_LEN)
    assert any(shredded[SECTOR_LEN:]), "control: what is left cannot be read without its header"
    assert store.recalls.kept_since_ms == bench.clock.now_ms


def test_of_more_than_are_kept_the_oldest_go_first(bench: Bench) -> None:
    store = bench.open(options=options(count_max=16))
    ids: list[str] = []
    for _ in range(40):
        bench.clock.now_ms += 3_600_001
        ids.append(store.recalls.note(recall_of(store, bench.clock())))
        assert store.recalls.recall(ids[-1]) is not None
    kept = [one.recall_id for one in store.recalls.recalls(TENANT)]
    assert kept == ids[::-1][: len(kept)]
    assert 14 <= len(kept) <= 18


def test_a_full_queue_drops_counts_and_never_waits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "QUEUE_MAX", 0)
    store = bench.open()
    assert store.recalls.note(recall_of(store, bench.clock())) == ""
    assert store.recalls.dropped_count == 1
    monkeypatch.undo()
    assert store.recalls.note(recall_of(store, bench.clock())) != ""
    assert store.recalls.dropped_count == 1


def test_with_none_to_be_kept_the_ledger_makes_no_file(bench: Bench) -> None:
    store = bench.open(options=options(count_max=0))
    assert store.recalls.note(recall_of(store, bench.clock())) == ""
    store.close()
    assert store.recalls.dropped_count == 0
    assert not (bench.state / "recalls").exists()


def test_a_disk_that_refuses_costs_recalls_and_nothing_else(bench: Bench) -> None:
    store = bench.open()
    say(store, "Ada drinks tea.")
    (bench.state / "recalls").write_text("a file in its place")
    lost = store.recalls.note(recall_of(store, bench.clock()))
    assert store.recalls.recall(lost) is None
    assert store.recalls.dropped_count == 1
    (bench.state / "recalls").unlink()
    bench.clock.now_ms += ledger.REFUSED_MS
    assert say(store, "The train is late.").memory is not None
    kept = store.recalls.note(recall_of(store, bench.clock()))
    assert store.recalls.recall(kept) is not None


@pytest.mark.parametrize("room", [0, 10, 32, 512, 540, 700])
def test_a_full_disk_leaves_no_files_and_is_tried_again_after_a_minute(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    store = bench.open()
    say(store, "Ada drinks tea.")
    left, begun = [room], [0]
    write_all, begin = os.pwrite, sealed_segments.Segments._begun  # pyright: ignore[reportPrivateUsage]

    def full(handle: int, data: bytes, at: int) -> int:
        if threading.current_thread().name != "mnemogate-recalls" or not any(data):
            return write_all(handle, data, at)
        if not left[0]:
            raise OSError(errno.ENOSPC, "made up")
        taken = write_all(handle, data[: left[0]], at)
        left[0] -= taken
        return taken

    def counted(self: sealed_segments.Segments, number: int, now_ms: int) -> object:
        begun[0] += 1
        return begin(self, number, now_ms)

    monkeypatch.setattr(os, "pwrite", full)
    monkeypatch.setattr(sealed_segments.Segments, "_begun", counted)
    for dropped in range(1, 6):
        lost = store.recalls.note(recall_of(store, bench.clock()))
        assert store.recalls.recall(lost) is None
        assert store.recalls.dropped_count == dropped
    assert begun == [1]
    assert list((bench.state / "recalls").iterdir()) == []
    # Control: with room, and after a minute, records are kept.
    left[0] = 1 << 20
    assert store.recalls.recall(store.recalls.note(recall_of(store, bench.clock()))) is None
    bench.clock.now_ms += ledger.REFUSED_MS
    kept = store.recalls.note(recall_of(store, bench.clock()))
    assert store.recalls.recall(kept) is not None
    parts = {one.suffix for one in (bench.state / "recalls").iterdir()}
    assert parts == {".log", ".idx"}


def test_a_disk_that_fills_up_keeps_the_records_that_it_took(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bench.open()
    say(store, "Ada drinks tea.")
    first = store.recalls.note(recall_of(store, bench.clock()))
    assert store.recalls.recall(first) is not None

    def full(handle: int, data: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, "made up")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        lost = store.recalls.note(recall_of(store, bench.clock()))
        assert store.recalls.recall(lost) is None
    assert store.recalls.recall(first) is not None


@pytest.mark.parametrize("left", [0, 10, 40, 70, -1, -20])
def test_a_torn_end_loses_its_own_records_alone(bench: Bench, left: int) -> None:
    store = bench.open()
    say(store, "Ada drinks tea.")
    first = store.recalls.note(recall_of(store, bench.clock()))
    assert store.recalls.recall(first) is not None
    store.close()
    (log,) = (bench.state / "recalls").glob("*.log")
    log.write_bytes(log.read_bytes()[:left])

    store = bench.open()
    assert store.recalls.recall(first) is None
    second = store.recalls.note(recall_of(store, bench.clock()))
    assert second != first
    assert [one.recall_id for one in store.recalls.recalls(TENANT)] == [second]


def test_a_changed_byte_or_the_records_of_another_store_are_not_believed(
    bench: Bench, tmp_path: Path
) -> None:
    store = bench.open()
    say(store, "Ada drinks tea.")
    first = store.recalls.note(recall_of(store, bench.clock()))
    assert store.recalls.recall(first) is not None
    store.close()
    (log,) = (bench.state / "recalls").glob("*.log")
    data = bytearray(log.read_bytes())
    padding = range(80, SECTOR_LEN)
    for at in (*range(SECTOR_LEN, len(data), 7), *range(0, padding.start, 7)):
        flipped = bytes((*data[:at], data[at] ^ 1, *data[at + 1 :]))
        log.write_bytes(flipped)
        found = bench.open() if at == SECTOR_LEN else store
        store = found
        assert store.recalls.recall(first) is None, at
    log.write_bytes(data)
    assert store.recalls.recall(first) is not None
    store.close()

    other = Bench(tmp_path / "other", Clock())
    with_own = other.open()
    with_own.close()
    (other.state / "recalls").mkdir(mode=0o700)
    for one in (bench.state / "recalls").iterdir():
        (other.state / "recalls" / one.name).write_bytes(one.read_bytes())
    again = other.open()
    assert again.recalls.recalls(TENANT) == ()
    assert list((other.state / "recalls").iterdir()) == []
    other.close()


def test_one_recall_of_ten_hits_takes_less_than_its_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the 384 numbers of the larger of the two shipped embedders."""
    store = bench.open()
    say(store, "Ada drinks tea.")
    hits = tuple(RecalledMemory(ordinal=0, memory_id=None, score=0.5) for _ in range(10))
    where = query.Test(field=Field.USER_ID, compare=Compare.EQ, values=("ada",))
    noted = recall_of(
        store,
        bench.clock(),
        hits=hits,
        nearest=tuple(range(50)),
        vector=bytes(4 * 384),
        where=where,
    )
    before = 100
    ids = [store.recalls.note(noted) for _ in range(before)]
    assert store.recalls.recall(ids[-1]) is not None
    size = sum(one.stat().st_size for one in (bench.state / "recalls").iterdir())
    assert size / before < 1_600
    assert before < sealed_segments.SEGMENT_LEN


def test_hits_that_have_to_be_found_are_found_on_another_thread(bench: Bench) -> None:
    store = bench.open()
    tea = say(store, "Ada drinks tea.")
    found_on: list[str] = []

    def find(*ids: MemoryId) -> tuple[RecalledMemory, ...]:
        found_on.append(threading.current_thread().name)
        return tuple(RecalledMemory(ordinal=-1, memory_id=one) for one in ids)

    bare = recall_of(store, bench.clock(), front="mcp/notes", hits=(), vector=None, where=None)
    kept = store.recalls.note(bare, LaterHits(lambda: find(id_of(tea)), 10))
    nothing = store.recalls.note(bare, LaterHits(find, 10))
    found = store.recalls.recall(kept)
    assert found is not None
    assert [(one.ordinal, one.memory_id) for one in found.hits] == [(0, id_of(tea))]
    assert found.front == "mcp/notes"
    assert store.recalls.recall(nothing) is None, "an answer that shows no memory leaves no record"
    assert [one.recall_id for one in store.recalls.recalls(TENANT)] == [kept]
    assert set(found_on) == {"mnemogate-recalls"}
    assert store.recalls.dropped_count == 0


def test_neither_a_read_nor_the_end_of_the_store_waits_for_further_records(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "LINGER_S", 600.0)
    monkeypatch.setattr(ledger, "_PATIENCE_S", 10.0)
    store = bench.open()
    say(store, "Ada drinks tea.")
    first = store.recalls.note(recall_of(store, bench.clock()))
    assert store.recalls.recall(first) is not None
    second = store.recalls.note(recall_of(store, bench.clock()))
    store.close()
    assert bench.open().recalls.recall(second) is not None


def test_texts_that_wait_to_be_searched_are_bounded(bench: Bench) -> None:
    store = bench.open()
    tea = say(store, "Ada drinks tea.")
    goes_on, searched = threading.Event(), threading.Event()

    def find() -> tuple[RecalledMemory, ...]:
        searched.set()
        goes_on.wait(60)
        return (RecalledMemory(ordinal=-1, memory_id=id_of(tea)),)

    bare = recall_of(store, bench.clock(), hits=(), vector=None, where=None)
    try:
        first = store.recalls.note(bare, LaterHits(find, ledger.TEXTS_MAX))
        assert searched.wait(60)
        assert store.recalls.note(bare, LaterHits(find, 1)) == ""
        assert store.recalls.dropped_count == 1
        assert store.recalls.note(bare) != "", "a record without such texts has room"
    finally:
        goes_on.set()
    assert store.recalls.recall(first) is not None
    # What was searched has made room.
    assert store.recalls.note(bare, LaterHits(find, ledger.TEXTS_MAX)) != ""
