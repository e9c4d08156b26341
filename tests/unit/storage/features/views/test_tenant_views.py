"""Views count each memory of a selection once, and shares by the version that was shown."""

from __future__ import annotations

import asyncio
from collections import Counter

from policy.model import SourceKind
from storage.features.quarantine.hiding import Quarantine
from storage.features.views.tenant_views import Views
from storage.questions import Selection
from tests.unit.storage.features.incidents.test_isolation import id_of
from tests.unit.storage.features.test_selections import FETCHED, SESSION
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
