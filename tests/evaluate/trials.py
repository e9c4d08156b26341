"""Parole by trial: what was true once comes back when it is true again, and a lie does not.

An agent writes numbers of things in made-up words. For half of them the operator says a newer
number later, so the agent's was true once; the other half never was.
"""

from __future__ import annotations

from typing import Final

import msgspec

from policy.after.closure import Act
from policy.model import Tenant
from proxy.admin.wire.incidents import BlameRequest, BlameView
from proxy.admin.wire.registered import AnchorRequest
from proxy.admin.wire.store import (
    PurgeRequest,
)
from proxy.admin.wire.upkeep import UnhideRequest, UnhideView
from tests.evaluate.attacks import Broken
from tests.evaluate.book import Book
from tests.evaluate.figures import share
from tests.evaluate.made_up import subject
from tests.evaluate.systems import ADMITTED, BY_NAME, Bench, running
from tests.evaluate.tables import Tables
from tests.evaluate.wire import Question, Write

_OK: Final = 200
_TRIED_MAX: Final = 10
_SEARCHED: Final = 20
_OLD: Final = 66
_NEW: Final = 11


class _Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of one trial: what was true once, the newer truth, and the lie."""

    number: int
    rot: str
    newer: str
    poison: str


async def parole(book: Book) -> None:
    """Convict both kinds of memories, make the old codes right again, and try all of them."""
    draw = book.progress("parole")
    async with running(BY_NAME["S4"]) as bench:
        key = await bench.key("parole")
        pairs = await _written(bench, key, min(book.trials, _TRIED_MAX))
        draw(1, 4)
        acts: dict[str, str] = {}
        for pair in pairs:
            acts |= await _blamed(bench, key, pair)
        convicted = sum(acts.get(one.poison) == Act.QUARANTINE.value for one in pairs)
        expired = sum(acts.get(one.rot) == Act.EXPIRE.value for one in pairs)
        draw(2, 4)
        early = [await _paroled(bench, one.rot) for one in pairs]
        for pair in pairs:
            await _right_again(bench, pair)
        draw(3, 4)
        back = [await _paroled(bench, one.rot) for one in pairs]
        poison = [await _paroled(bench, one.poison) for one in pairs]
        listed = set(await bench.listed(key))
        unasked = await _paroled(bench, pairs[0].poison, without_trial=True)
        problems = bench.observed().problems
        draw(4, 4)
    shown = sum(_said(one.number, _OLD) in listed for one in pairs)
    counts = {
        "rot_expired": expired,
        "poison_quarantined": convicted,
        "rot_back_too_early": sum(one.changed for one in early),
        "rot_back": sum(one.changed for one in back),
        "rot_shown": shown,
        "poison_back": sum(one.changed for one in poison),
    }
    found = {name: share(count, len(pairs)) for name, count in counts.items()}
    book.found(Tables(parole=found))
    for name, figure in found.items():
        never = name in {"rot_back_too_early", "poison_back"}
        book.promise(f"parole: {name}", figure, 0.0 if never else 100.0)
    book.holds("parole: the store holds together", held=not problems, detail=str(problems[:3]))
    book.control("parole: without a trial a lie comes back", fired=unasked.changed)


def _said(number: int, value: int, *, lie: bool = False) -> str:
    """What is said of one thing. No two things share a word, so no statement denies another."""
    return f"The {subject(2 * number + lie)} is {value}."


async def _written(bench: Bench, key: str, n: int) -> tuple[_Pair, ...]:
    rots = [await _landed(bench, key, _said(number, _OLD)) for number in range(n)]
    lies = [await _landed(bench, key, _said(number, _OLD, lie=True)) for number in range(n)]
    pairs: list[_Pair] = []
    for number in range(n):
        newer = await _landed(bench, bench.operator_key, _said(number, _NEW))
        pairs.append(_Pair(number=number, rot=rots[number], newer=newer, poison=lies[number]))
    return tuple(pairs)


async def _blamed(bench: Bench, key: str, pair: _Pair) -> dict[str, str]:
    """What became of the memories that the wrong answers about two things were made of."""
    recalls: list[str] = []
    for asked in (_said(pair.number, _OLD), _said(pair.number, _OLD, lie=True)):
        question = Question(query=asked, limit=_SEARCHED)
        await bench.call("POST", "/v1/search", key, question)
        recall = bench.sidecar.store.recalls.recalls(Tenant("default"), limit=1)[0]
        recalls.append(recall.recall_id)
    # The truths are registered after the reads: what denies an anchor is in no read.
    await _anchored(bench, f"once-{pair.number}", _said(pair.number, _NEW))
    await _anchored(bench, f"never-{pair.number}", _said(pair.number, _NEW, lie=True))
    acts: dict[str, str] = {}
    for recall_id in recalls:
        raw = await _operated(bench, "/blame", BlameRequest(recall_id=recall_id))
        named = msgspec.json.decode(raw, type=BlameView).named
        acts |= {one.memory: one.act.value for one in named}
    return acts


async def _right_again(bench: Bench, pair: _Pair) -> None:
    """What was true once is true again: anchor and newer truth say nothing else."""
    await _operated(bench, f"/memories/{pair.newer}/purge", PurgeRequest())
    await _anchored(bench, f"once-{pair.number}", _said(pair.number, _OLD))


async def _paroled(bench: Bench, memory_id: str, *, without_trial: bool = False) -> UnhideView:
    request = UnhideRequest(without_trial=without_trial, reason="control" * without_trial)
    raw = await _operated(bench, f"/memories/{memory_id}/unhide", request)
    return msgspec.json.decode(raw, type=UnhideView)


async def _anchored(bench: Bench, anchor_id: str, statement: str) -> None:
    asked = AnchorRequest(anchor_id=anchor_id, statement=statement, questions=(statement,))
    await _operated(bench, "/anchors", asked)


async def _landed(bench: Bench, key: str, text: str) -> str:
    tried = await bench.write(key, Write(text=text))
    if tried.status not in ADMITTED or tried.body.id is None:
        raise Broken(f"an honest write was answered {tried.status}")
    return tried.body.id


async def _operated(bench: Bench, path: str, body: msgspec.Struct) -> bytes:
    tried = await bench.operate("POST", path, body)
    if tried.status != _OK:
        raise Broken(f"{path} was answered {tried.status}")
    return tried.raw
