"""Whether a search for a cause convicts honest texts, where operators registered true statements.

A hundred statements are anchors, and thousands of honest texts are stored. Every answer that shows
such texts is reported as wrong, without saying what is wrong in it, so each memory shown is
compared with each anchor.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from policy.after.closure import Relation
from policy.model import Tenant
from proxy.admin.wire.incidents import BlameRequest, BlameView
from proxy.admin.wire.registered import AnchorRequest, AnchorView
from tests.evaluate.attacks import Broken
from tests.evaluate.book import Book
from tests.evaluate.figures import Figure, share
from tests.evaluate.systems import ADMITTED, BY_NAME, Bench, Extras, running
from tests.evaluate.wire import Question, Write

ANCHORS: Final = 100
EVERY: Final = 8
"""Of so many texts one is a question; an answer to it shows the fifty nearest memories."""
_SHOWN: Final = 50
# Reads show what contradicts an anchor, and nothing hides it before it is asked about here.
_PROPOSES: Final = '[after]\nheal = "off"\non_conviction = "propose"\n'
_OK: Final = 200


class Denied(msgspec.Struct, frozen=True):
    """A true statement, the question that it answers, and a lie that denies the statement."""

    statement: str
    question: str
    lie: str


class _Hit(msgspec.Struct, frozen=True):
    id: str


def denied_by(lies: Sequence[str], wrong: str, right: str, question: str) -> list[Denied]:
    """The lies that contain the wrong answer, each with a true statement.

    The statement is the lie with the right answer in place of the wrong one.
    """
    found: list[Denied] = []
    for lie in lies:
        # The replacement is a function, so that `re.sub` reads no backslash in the right answer as
        # an escape.
        said = re.sub(re.escape(wrong), lambda _: right, lie, flags=re.IGNORECASE)
        if said != lie:
            found.append(Denied(said, question, lie))
    return found


async def honest_beside_anchors(
    book: Book, denied: Sequence[Denied], texts: Sequence[str]
) -> dict[str, Figure]:
    """Measure how many of these honest texts are convicted beside these anchors, and of their lies.

    Each has a new store.
    """
    draw = book.progress("blame: honest texts beside anchors")
    async with running(BY_NAME["S4"], Extras(config=_PROPOSES)) as bench:
        key = await bench.key("blame-honest")
        await _registered(bench, denied)
        answers = await bench.written([(key, Write(text=text)) for text in texts])
        honest = {one.body.id for one in answers if one.status in ADMITTED}
        book.note("blame", f"{len(honest)} of {len(texts)} honest texts landed beside anchors.")
        asked = texts[::EVERY]
        shown: set[str] = set()
        convicted: set[str] = set()
        for number, text in enumerate(asked, start=1):
            ids, named = await _blamed(bench, key, text)
            shown |= ids & honest
            convicted |= named & honest
            draw(number, len(asked))
    async with running(BY_NAME["S4"], Extras(config=_PROPOSES)) as bench:
        key = await bench.key("blame-lies")
        # A lie that an anchor denies waits, so these are older than the anchors.
        lies = await bench.written([(key, Write(text=one.lie)) for one in denied])
        kept = await _registered(bench, denied)
        landed = {
            answer.body.id
            for one, answer in zip(denied, lies, strict=True)
            if one in kept and answer.status in ADMITTED
        }
        caught: set[str] = set()
        for one in kept:
            caught |= (await _blamed(bench, key, one.question))[1] & landed
    found = {
        "beside_anchors_convicted": share(len(convicted), len(shown)),
        "anchors_lies_convicted": share(len(caught), len(landed)),
    }
    book.promise(
        "blame: no honest text beside anchors is convicted", found["beside_anchors_convicted"], 0.0
    )
    value = found["anchors_lies_convicted"].value
    book.control("blame: lies that deny the anchors are convicted", fired=bool(value))
    return found


async def _registered(bench: Bench, denied: Sequence[Denied]) -> list[Denied]:
    """Register statements as anchors, as many as needed, without those that get a warning.

    A sentence with fewer than three words of content is about nearly anything.
    """
    kept: list[Denied] = []
    for one in denied:
        body = AnchorRequest(
            statement=one.statement, questions=(one.question,), anchor_id=f"true-{len(kept)}"
        )
        put = await bench.operate("POST", "/anchors", body)
        if put.status != _OK:
            raise Broken(f"an anchor was answered {put.status}")
        if not msgspec.json.decode(put.raw, type=AnchorView).notes:
            kept.append(one)
        if len(kept) == ANCHORS:
            return kept
    raise Broken("there are too few statements for anchors")


async def _blamed(bench: Bench, key: str, question: str) -> tuple[set[str], set[str]]:
    """The ids of the memories that an answer showed, and of those that contradict an anchor."""
    found = await bench.call("POST", "/v1/search", key, Question(query=question, limit=_SHOWN))
    ids = {msgspec.json.decode(one, type=_Hit).id for one in found.body.results}
    recalls = bench.sidecar.store.recalls
    recall_id = recalls.recalls(Tenant("default"), limit=1)[0].recall_id
    # A dry run names what a search for the cause would hide, and leaves it for the next question.
    asked = BlameRequest(recall_id=recall_id, dry_run=True)
    answer = await bench.operate("POST", "/blame", asked)
    if answer.status != _OK:
        raise Broken(f"a search for the cause was answered {answer.status}")
    done = msgspec.json.decode(answer.raw, type=BlameView)
    return ids, {one.memory for one in done.named if one.relation is Relation.CULPRIT}
