"""What of one origin a search shows: a few beside what others say, and hard where it is suspect."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from policy.model import Basis, MemoryId, Origin, PrincipalId, Provenance, SourceKind
from policy.query import EVERYTHING
from policy.ruleset import ReadRules
from storage.read.exposure import places
from storage.tables.rows import read_row
from tests.unit.storage.opening import (
    AGENT,
    BY,
    DIMENSION,
    OPERATOR,
    RULESET,
    TENANT,
    candidate_of,
    say,
    submission_of,
    write,
)

if TYPE_CHECKING:
    from storage.embedded import EmbeddedStore
    from storage.tables.lmdb_store import View
    from storage.values import Outcome, Row
    from tests.unit.storage.opening import Bench

QUERY = np.eye(DIMENSION, dtype="<f4")[0]


def _at(cosine: float, axis: int) -> bytes:
    """A unit vector of this cosine to the query, turned to one of the other axes."""
    side = np.eye(DIMENSION, dtype="<f4")[1 + axis % (DIMENSION - 1)]
    return bytes((cosine * QUERY + np.sqrt(1 - cosine**2) * side).astype("<f4").tobytes())


def _put(
    store: EmbeddedStore,
    text: str,
    cosine: float,
    axis: int,
    *,
    tool: str | None = None,
    session: str | None = "5" * 32,
) -> Outcome:
    kind = SourceKind.TOOL_RESULT
    culprits = () if tool is None else (Origin(kind=kind, server="web", tool=tool),)
    provenance = Provenance(source=kind, basis=Basis.UNPROVEN, culprits=culprits, session=session)
    submission = submission_of(candidate_of(text), provenance=provenance, vector=_at(cosine, axis))
    return write(store, submission)[0]


def _said(store: EmbeddedStore, text: str, cosine: float, axis: int) -> None:
    submission = submission_of(candidate_of(text, OPERATOR), OPERATOR, vector=_at(cosine, axis))
    write(store, submission)


def _texts(store: EmbeddedStore, limit: int = 10) -> list[str]:
    hits = store.reader.search(TENANT, QUERY.tobytes(), EVERYTHING, limit, -1.0)
    return [hit.memory.text for hit in hits]


def _with(store: EmbeddedStore, **reads: object) -> None:
    rules = ReadRules(**reads)  # type: ignore[arg-type]
    asyncio.run(
        store.writer.adopt_ruleset(
            msgspec.structs.replace(RULESET, reads=rules, digest=str(reads)), BY
        )
    )


def _five_lies_beside_facts(store: EmbeddedStore) -> None:
    for number in range(5):
        _put(store, f"lie {number}", 0.9 - number / 100, number, tool="fetch")
    for number in range(12):
        _said(store, f"fact {number}", 0.5 - number / 100, number)


def test_of_five_lies_of_one_origin_ten_results_show_three_and_stay_ten(bench: Bench) -> None:
    store = bench.open()
    _five_lies_beside_facts(store)
    shown = _texts(store)
    assert len(shown) == 10
    assert shown[:3] == ["lie 0", "lie 1", "lie 2"]
    assert all(text.startswith("fact") for text in shown[3:])
    # Control: without the cap the five stand first.
    _with(store, shown_of_ten=10)
    assert _texts(store)[:5] == [f"lie {number}" for number in range(5)]


def test_the_cap_reorders_and_hides_nothing(bench: Bench) -> None:
    store = bench.open()
    for number in range(6):
        _put(store, f"lie {number}", 0.9 - number / 100, number, tool="fetch")
    assert _texts(store) == [f"lie {number}" for number in range(6)]  # one origin alone: its k
    _said(store, "fact", 0.1, 0)
    lies = [f"lie {number}" for number in range(6)]
    assert _texts(store) == [*lies[:3], "fact", *lies[3:]]
    page = store.reader.page(TENANT, EVERYTHING, 0, 10)
    assert len(page.memories) == 7  # a listing ranks nothing


def test_an_origin_is_server_tool_and_session_else_session_else_principal(bench: Bench) -> None:
    store = bench.open()
    origins: list[dict[str, str | None]] = [
        {"tool": "fetch"},
        {"tool": "search"},
        {"tool": "fetch", "session": "6" * 32},
        {"session": "7" * 32},
        {"session": None},
    ]
    for number, origin in enumerate(origins):
        for copy in range(4):
            _put(store, f"{number} {copy}", 0.9 - copy / 10, number, **origin)
    shown = _texts(store, 15)
    assert sorted({text[0] for text in shown}) == ["0", "1", "2", "3", "4"]
    _with(store, shown_of_ten=1)
    assert sorted(text[0] for text in _texts(store, 5)) == ["0", "1", "2", "3", "4"]


def test_near_copies_count_as_one_origin_whoever_brought_them(bench: Bench) -> None:
    store = bench.open()
    for number in range(5):
        _put(store, f"copy {number}", 0.9, 0, tool=f"tool-{number}")
        _put(store, f"other {number}", 0.6, number, tool=f"tool-{number}")
    shown = _texts(store, 8)
    assert sum(text.startswith("copy") for text in shown) == 3


def test_a_label_that_a_person_raised_is_capped_no_longer(bench: Bench) -> None:
    store = bench.open()
    ids: list[tuple[MemoryId, int]] = []
    for number in range(4):
        outcome = _put(store, f"lie {number}", 0.9 - number / 100, number, tool="fetch")
        assert outcome.memory is not None
        ids.append((outcome.memory.memory_id, outcome.memory.version))
    _said(store, "fact", 0.1, 0)
    assert _texts(store)[3] == "fact"
    asyncio.run(store.writer.vouch(ids[0][0], TENANT, BY, ids[0][1]))
    assert _texts(store)[4] == "fact"


def test_a_search_reads_no_more_than_it_must(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    store = bench.open()
    for number in range(60):
        _put(store, f"lie {number}", 0.9 - number / 100, number, tool="fetch")
    first = _texts(store)
    read: list[int] = []

    def counted(view: View, ordinal: int) -> Row:
        read.append(ordinal)
        return read_row(view, ordinal)

    monkeypatch.setattr("storage.read.reader.read_row", counted)
    assert _texts(store) == first
    assert len(read) <= 16  # three in either of two looks, and the seven that fill; not all sixty


@pytest.mark.parametrize(("limit", "share"), [(1, 3), (10, 3), (11, 6), (100, 30)])
def test_the_share_is_of_each_ten(limit: int, share: int) -> None:
    assert places(limit, 3) == share


def test_agents_without_a_session_are_their_principals(bench: Bench) -> None:
    store = bench.open()
    other = msgspec.structs.replace(AGENT, principal_id=PrincipalId("agent-2"))
    for number in range(4):
        say(store, f"first {number}")
        say(store, f"second {number}", other)
    assert len(_texts(store, 8)) == 8


def test_a_latched_principal_or_tool_shows_one_and_no_more(bench: Bench) -> None:
    store = bench.open()
    for number in range(3):
        _put(store, f"page {number}", 0.9 - number / 100, number, tool="fetch")
        _put(store, f"note {number}", 0.9 - number / 100, 3 + number, tool="notes")
    assert len(_texts(store)) == 6  # control
    kind = SourceKind.TOOL_RESULT
    page = Origin(kind=kind, server="web", tool="fetch")
    told = Provenance(source=kind, basis=Basis.UNPROVEN, culprits=(page,))
    for number in range(6):
        wanted = candidate_of(f"Ada likes tea {number}", instructions=True)
        (held,) = write(store, submission_of(wanted, provenance=told))
        asyncio.run(store.writer.deny(held.candidate_id, BY))
    assert sorted(text[:4] for text in _texts(store)) == ["note", "page"]
    asyncio.run(store.writer.restore_trust(AGENT.principal_id, BY))
    assert sorted(text[:4] for text in _texts(store)) == ["note", "note", "note", "page"]
