"""Isolation by principal: what a leaked key wrote is hidden in one act, and given back exactly.

Two agents write plain facts, one of them with a key that leaked. A person hid one memory of that
key before, and the honest agent derived some of its own from what the other wrote.
"""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.incidents import IncidentList, IsolateRequest
from proxy.admin.wire.route import Empty
from proxy.admin.wire.upkeep import QuarantineRequest
from storage.features.incidents import IsolationReport
from tests.evaluate.attacks import Broken
from tests.evaluate.book import Book
from tests.evaluate.figures import Figure, share
from tests.evaluate.systems import ADMITTED, BY_NAME, Bench, running
from tests.evaluate.tables import Tables
from tests.evaluate.wire import Write

LEAKED: Final = "leaked-key"
HONEST: Final = "honest-key"
_OK: Final = 200
_LISTED: Final = 300
"""One list shows a thousand memories, and there are three times as many as trials."""
_ALL: Final = 100.0


class _Texts(msgspec.Struct, frozen=True, kw_only=True):
    """Texts stored before the isolation: by the leaked key, by the honest key, and derived ones."""

    lies: frozenset[str]
    facts: frozenset[str]
    derived: frozenset[str]
    key: str

    @property
    def every(self) -> frozenset[str]:
        """All these texts."""
        return self.lies | self.facts | self.derived


async def isolate(book: Book) -> None:
    """Isolate by principal, undo that, and isolate again together with derived memories."""
    draw = book.progress("isolate")
    async with running(BY_NAME["S4"]) as bench:
        texts = await _written(bench, min(book.trials, _LISTED))
        before = frozenset(await bench.listed(texts.key))
        draw(1, 3)
        found = await _by_principal(bench, texts, before)
        draw(2, 3)
        incident = await _isolated(bench, with_descendants=True)
        shown = set(await bench.listed(texts.key))
        found["descendants_hidden"] = share(len(texts.derived - shown), len(texts.derived))
        found["others_shown_beside_descendants"] = share(len(texts.facts & shown), len(texts.facts))
        await _operated(bench, f"/incidents/{incident}/undo", Empty())
        both = frozenset(await bench.listed(texts.key)) == before
        problems = bench.observed().problems
        draw(3, 3)
    book.found(Tables(isolate=found))
    for key, figure in found.items():
        if key != "acts":
            book.promise(f"isolate: {key}", figure, _ALL)
    acts = found["acts"].value
    book.holds("isolate: one act is one incident", held=acts == 1, detail=f"{acts} incidents")
    book.holds("isolate: descendants come back too, and nothing else", held=both)
    book.holds("isolate: the store holds together", held=not problems, detail=str(problems[:3]))
    listed = before == texts.every
    book.control("isolate: before, all of it is listed but what a person hid", fired=listed)


async def _written(bench: Bench, n: int) -> _Texts:
    """Write memories of each kind; a person hides one of the leaked key's before the isolation."""
    leaked, key = await bench.key(LEAKED), await bench.key(HONEST)
    lies = [f"Parcel {number} was signed for by the night guard." for number in range(n)]
    facts = [f"Locker {number} is opened with a brass key." for number in range(n)]
    derived = [f"The guard of parcel {number} has the keys." for number in range(n)]
    ids = [await _landed(bench, leaked, text) for text in lies]
    for text in facts:
        await _landed(bench, key, text)
    for parent, text in zip(ids, derived, strict=True):
        await _landed(bench, key, text, parent)
    alone = await _landed(bench, leaked, "Parcel zero was signed for twice.")
    await _operated(bench, f"/memories/{alone}/quarantine", QuarantineRequest())
    return _Texts(lies=frozenset(lies), facts=frozenset(facts), derived=frozenset(derived), key=key)


async def _by_principal(bench: Bench, texts: _Texts, before: frozenset[str]) -> dict[str, Figure]:
    """Isolate what the leaked key wrote, then undo that; returns the figures for both."""
    incident = await _isolated(bench, with_descendants=False)
    shown = set(await bench.listed(texts.key))
    others = texts.facts | texts.derived
    hits = await bench.recalled(texts.key, min(texts.lies), 10)
    answer = await bench.operate("GET", "/incidents")
    acts = len(msgspec.json.decode(answer.raw, type=IncidentList).incidents)
    await _operated(bench, f"/incidents/{incident}/undo", Empty())
    back = frozenset(await bench.listed(texts.key))
    return {
        "hidden": share(len(texts.lies - shown), len(texts.lies)),
        "hidden_from_search": share(sum(one not in texts.lies for one in hits), len(hits)),
        "others_shown": share(len(others & shown), len(others)),
        "acts": Figure(value=acts, n=1, low=acts, high=acts, unit="incidents"),
        "undone_shown": share(len(texts.lies & back), len(texts.lies)),
        "undone_exactly": share(int(back == before), 1),
    }


async def _landed(bench: Bench, key: str, text: str, *parents: str) -> str:
    tried = await bench.write(key, Write(text=text, derived_from=parents))
    if tried.status not in ADMITTED or tried.body.id is None:
        raise Broken(f"an honest write was answered {tried.status}")
    return tried.body.id


async def _operated(bench: Bench, path: str, body: msgspec.Struct) -> bytes:
    tried = await bench.operate("POST", path, body)
    if tried.status != _OK:
        raise Broken(f"{path} was answered {tried.status}")
    return tried.raw


async def _isolated(bench: Bench, *, with_descendants: bool) -> str:
    """The id of the incident that hid what the leaked key wrote."""
    asked = IsolateRequest(principal=LEAKED, with_descendants=with_descendants)
    done = msgspec.json.decode(await _operated(bench, "/isolate", asked), type=IsolationReport)
    return "" if done.incident is None else done.incident.incident_id
