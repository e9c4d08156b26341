"""A text against many anchors: the index of their words against one comparison each."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final

from policy.anchors import Statements
from policy.text.skeleton import skeleton

_ANCHORS: Final = 100
_TEXTS: Final = 60
_SUBJECTS: Final = (
    *("refunds", "invoices", "deployments", "backups", "releases", "passwords", "contracts"),
    *("tickets", "shipments", "reviews", "holidays", "budgets", "meetings", "servers", "audits"),
)
_VERBS: Final = ("require", "allow", "need", "include", "follow", "precede")
_OBJECTS: Final = (
    *("approval", "encryption", "notice", "signatures", "testing", "insurance", "documentation"),
    *("payment", "training", "translation", "verification"),
)


def _sentence(number: int) -> str:
    subject = _SUBJECTS[number % len(_SUBJECTS)]
    verb = _VERBS[number % len(_VERBS)]
    thing = _OBJECTS[number % len(_OBJECTS)]
    return (
        f"{subject.capitalize()} {verb} {thing} from team {number % 97} within {number % 31} days."
    )


def run() -> list[str]:
    """Processor time per text for texts of one, five and twenty sentences, in turns."""
    anchors = [skeleton(_sentence(7 * number)) for number in range(_ANCHORS)]
    index = Statements(anchors)
    one_each = [Statements((anchor,)) for anchor in anchors]

    def each_alone(text: str) -> frozenset[int]:
        return frozenset(place for place, one in enumerate(one_each) if one.contradicted_by(text))

    def as_before(text: str) -> frozenset[int]:
        return frozenset(
            place
            for place, anchor in enumerate(anchors)
            if Statements((anchor,)).contradicted_by(text)
        )

    lines = ["characters  index us  parsed once us  as before us  ratio  same answers"]
    for sentences in (1, 5, 20):
        texts = [
            skeleton(" ".join(_sentence(13 * at + step) for step in range(sentences)))
            for at in range(_TEXTS)
        ]
        spent: dict[str, list[int]] = {"index": [], "parsed": [], "before": []}
        same = 0
        for text in texts:
            answers = {
                _timed(spent["index"], index.contradicted_by, text),
                _timed(spent["parsed"], each_alone, text),
                _timed(spent["before"], as_before, text),
            }
            same += len(answers) == 1
        index_us, parsed_us, before_us = (
            statistics.median(times) / 1e3 for times in spent.values()
        )
        lines.append(
            f"{statistics.mean(map(len, texts)):10.0f} {index_us:9.0f} {parsed_us:15.0f} "
            f"{before_us:13.0f} {before_us / index_us:6.1f}  {same} of {len(texts)}"
        )
    return lines


def _timed(spent: list[int], answer: Callable[[str], frozenset[int]], text: str) -> frozenset[int]:
    started = time.process_time_ns()
    found = answer(text)
    spent.append(time.process_time_ns() - started)
    return found
