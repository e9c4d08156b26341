"""Views count each memory of a selection once, and shares by the version that was shown."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from policy.model import Principal, PrincipalId, Provenance, SourceKind
from storage.features.quarantine.hiding import Quarantine
from storage.features.views import Categories
from storage.features.views.tenant_views import Views
from storage.questions import Selection
from tests.unit.storage.features.incidents.test_isolation import id_of
from tests.unit.storage.features.test_selections import FETCHED, OTHER, SESSION, said
from tests.unit.storage.opening import (
    AGENT,
    BY,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    write,
)


def test_origins_count_each_memory_once_and_shares_by_what_was_shown(bench: Bench) -> None:
    store = bench.open()
    say(store, "plain")
    submissions = [
        submission_of(candidate_of(f"from the web {number}"), provenance=FETCHED)
        for number in range(3)
    ]
    web = [id_of(one) for one in write(store, *submissions)]
    asyncio.run(store.writer.order(Quarantine(web[0], TENANT, BY)))
    whole = Selection(tenant=TENANT)
    newest = next(iter(store.of(Views).select(whole)))
    views = store.of(Views).origins(whole, Counter({newest: 3, 0: 1}))
    told = {(one.by, one.name): (sum(one.labels.values()), one.hidden, one.shares) for one in views}
    label = SourceKind.TOOL_RESULT.value
    assert told["tool", "web/fetch"] == told["server", "web"] == (2, 1, {label: 0.75})
    assert told["session", SESSION] == (2, 1, {label: 0.75})
    assert told["principal", AGENT.principal_id] == (3, 1, {label: 0.75, "unknown": 0.25})
    assert views[0].by == "principal"
    only = store.of(Views).origins(Selection(tenant=TENANT, server="web"), Counter({0: 1}))
    assert {one.by for one in only} == {"tool", "server", "session", "principal"}
    assert all(one.shares == {} for one in only), "the plain memory is not of the selection"
    store.close()


SPOKEN = {
    "Tea is served at four in the kitchen.": 1.0,
    "The kitchen has green tea.": 0.99,
    "Kitchen tea, again, is green.": 0.98,
    "The train leaves from platform nine.": -1.0,
    "A train stops at every platform.": -0.99,
}


def test_topics_are_the_same_each_time_and_named_by_their_own_words(bench: Bench) -> None:
    store = bench.open()
    ids = [said(store, text, cosine) for text, cosine in SPOKEN.items()]
    hers = said(store, "Bees of another tenant.", 1.0, OTHER)
    whole, views = Selection(tenant=TENANT), store.of(Views)
    tea, train = views.topics(whole, 2)
    assert (tea.size, train.size) == (3, 2)
    assert set(tea.nearest) == set(ids[:3])
    assert set(tea.name.split(", ")) == {"green", "kitchen", "tea"}
    assert {"train", "platform"} < set(train.name.split(", "))
    assert tea.labels == {"unknown": 3}
    assert tea.origins == {AGENT.principal_id: 3}
    assert views.topics(whole, 2) == (tea, train)
    (other,) = views.topics(Selection(tenant=OTHER.tenant), 12)
    assert other.nearest == (hers,)
    assert not any(hers in one.nearest or "bees" in one.name for one in views.topics(whole, 100))
    assert views.topics(Selection(tenant=TENANT, principal_id=OTHER.principal_id), 2) == ()
    assert sum(one.size for one in views.topics(whole, 100)) == len(ids)
    store.close()


def test_a_hidden_memory_is_part_of_no_topic_and_of_no_preference(bench: Bench) -> None:
    store = bench.open()
    ids = [said(store, f"Canary {number} uses Python.", 1.0) for number in range(3)]
    whole, views = Selection(tenant=TENANT), store.of(Views)
    categories: Categories = {"languages": {"Python": ()}}
    (seen,) = views.topics(whole, 1)
    (named,) = views.preferences(whole, categories)
    assert "canary" in seen.name, "the control: what is live gives a name"
    assert set(named.memory_ids) == set(ids)
    for one in ids:
        asyncio.run(store.writer.order(Quarantine(one, TENANT, BY)))
    assert (views.topics(whole, 1), views.preferences(whole, categories)) == ((), ())
    store.close()


def test_a_session_is_one_draw_of_a_preference_and_no_confidence_is_whole(bench: Bench) -> None:
    store = bench.open()
    ada = Principal(principal_id=PrincipalId("ada"), tenant=TENANT)
    texts = ("We use PYTHON.", "Python, again; c++ once.", "ｐｙｔｈｏｎ", "Pythonic jython")  # noqa: RUF001

    def stored(text: str, session: str | None) -> None:
        provenance = Provenance(source=SourceKind.USER_INPUT, basis=FETCHED.basis, session=session)
        made = submission_of(candidate_of(text, ada), ada, provenance=provenance)
        write(store, made)

    for text in texts:
        stored(text, SESSION)
    say(store, "python of another principal")
    said(store, "Python of another tenant", 1.0, OTHER)
    categories: Categories = {"languages": {"Python": (), "C++": (), "C": (), "Go": ("golang",)}}

    def found() -> dict[tuple[str, str], tuple[object, int, int]]:
        views = store.of(Views).preferences(Selection(tenant=TENANT), categories)
        return {
            (one.principal_id, one.choice): (one.confidence, one.sessions, len(one.memory_ids))
            for one in views
        }

    assert found() == {
        (AGENT.principal_id, "Python"): (pytest.approx(2 / 3), 1, 1),
        ("ada", "Python"): (pytest.approx(2 / 4), 1, 3),
        ("ada", "C++"): (pytest.approx(2 / 4), 1, 1),
    }
    for number in range(60):
        stored(f"Python, of day {number}.", f"{number:032x}")
    assert found()["ada", "Python"] == (0.95, 61, 63)
    for number in range(60):
        stored(f"Written in golang, on day {number}.", f"{number:032x}")
    assert found()["ada", "Python"][0] == pytest.approx(62 / 124)
    store.close()
