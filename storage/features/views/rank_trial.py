"""The trial of a ranking by feedback: what it would have changed, and whether that was for good.

One rule is tried: a memory that people approved for a question scores more for a near question, a
fifth at most. No search uses it, and nothing is stored for it: the marks are failures of the grades
`good` and `irrelevant`, and the recall ledger has the searches that they are about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from policy.after.matchers import Grade, SignalKind
from policy.model import MemoryId, PrincipalId
from storage.derived.lexical.scoring import Floats64
from storage.features.failures import Failure
from storage.features.recalls import Recall
from storage.features.views import RankTrial

READS_MAX: Final = 10_000
"""How many of a tenant's newest reads are examined for the searches that marks are about."""
MARKS_MAX: Final = 2_000
"""How many of the newest marks count."""
SIGNALS_MIN: Final = 200
HELD_BACK_MIN: Final = 60
SAME: Final = 0.9
"""The least cosine at which two questions count as one."""
NEAR: Final = 0.6
"""The least cosine at which an approval for one question counts for another."""
_BOOST: Final = 0.2
_KEYS_MIN: Final = 5  # of all signals, one key has at most one in so many
_DISCOUNTS: Final = 1 / np.log2(np.arange(2, 7))
_DRAWS: Final = 1_000
_SEED: Final = 7


def rank_trial(reads: Iterable[Recall], marks: Iterable[Failure]) -> RankTrial:
    """The trial of the rule by the marks of one tenant, with the reads that they may be about.

    Reads are given newest first. The same reads and marks give the same trial.
    """
    # A note of what rules left out of a search has no scores; it showed nothing.
    searches = [one for one in reads if one.vector and None not in [hit.score for hit in one.hits]]
    # Vectors of an earlier embedder are compared with no others.
    searches = [one for one in searches if len(one.vector or b"") == len(searches[0].vector or b"")]
    rated = [*_rated([*searches, *marks])][-MARKS_MAX:]
    if not rated:
        return RankTrial(signals=0)
    vectors = np.array(
        [np.frombuffer(search.vector or b"", "<f2") for _, search in rated], np.float64
    )
    cosines = vectors @ vectors.T
    # Each question is known by the first mark that is about one equal to it.
    signals, approved = _approved(rated, (cosines >= SAME).argmax(axis=1).tolist())
    asked = sorted({question for questions in approved.values() for question in questions})
    held = asked[-max(HELD_BACK_MIN, len(asked) * 3 // 10) :]
    if signals < SIGNALS_MIN or len(held) < HELD_BACK_MIN:
        return RankTrial(signals=signals)
    changes = [_change(rated[at][1], at, cosines[at, : held[0]], approved) for at in held]
    gains = np.array([gain for _, gain in changes])
    drawn = np.random.default_rng(_SEED).integers(0, len(held), (_DRAWS, len(held)))
    low, high = np.percentile(gains[drawn].mean(axis=1), (2.5, 97.5)).tolist()
    return RankTrial(
        signals=signals,
        questions=len(held),
        moved=sum(is_moved for is_moved, _ in changes),
        worse=int(np.count_nonzero(gains < 0)),
        gain=float(gains.mean()),
        low=low,
        high=high,
        wins=low > 0,
    )


def _rated(searches_and_marks: Iterable[Recall | Failure]) -> Iterator[tuple[Failure, Recall]]:
    """The marks of people, oldest first, each with the last search before it that it rates."""
    shown: dict[tuple[str, str | None], Recall] = {}
    for one in sorted(searches_and_marks, key=attrgetter("at_ms")):
        if isinstance(one, Recall):
            shown |= {("", hit.memory_id): one for hit in one.hits} | {(one.recall_id, ""): one}
        elif (
            one.kind in {SignalKind.PERSON, SignalKind.OPERATOR}
            and one.grade is not Grade.WRONG
            and (one.recall_id, one.memory_id) in shown
        ):
            yield one, shown[one.recall_id, one.memory_id]


def _approved(
    rated: Sequence[tuple[Failure, Recall]], questions: Sequence[int]
) -> tuple[int, Mapping[MemoryId | None, Sequence[int]]]:
    """The count of signals, and for each memory the questions for which they approve it.

    `irrelevant` takes back what anyone approved before. Of a key that has more than its part of all
    signals, the newest count.
    """
    standing: defaultdict[tuple[MemoryId | None, int], set[PrincipalId]] = defaultdict(set)
    for (mark, search), question in zip(rated, questions, strict=True):
        for hit in search.hits:
            if mark.grade is Grade.GOOD and mark.memory_id in {"", hit.memory_id}:
                standing[hit.memory_id, question].add(mark.by)
            elif mark.memory_id in {"", hit.memory_id}:
                standing.pop((hit.memory_id, question), None)
    of_key: defaultdict[PrincipalId, list[tuple[MemoryId | None, int]]] = defaultdict(list)
    for pair, keys in reversed(standing.items()):
        for by in keys:
            of_key[by].append(pair)
    counts = [len(pairs) for pairs in of_key.values()]
    most = max(
        part
        for part in range(sum(counts) // _KEYS_MIN + 1)
        if part * _KEYS_MIN <= sum(min(part, count) for count in counts)
    )
    approved: defaultdict[MemoryId | None, list[int]] = defaultdict(list)
    for memory_id, question in {pair for pairs in of_key.values() for pair in pairs[:most]}:
        approved[memory_id].append(question)
    return sum(min(most, count) for count in counts), approved


def _change(
    search: Recall,
    question: int,
    earlier: Floats64,
    approved: Mapping[MemoryId | None, Sequence[int]],
) -> tuple[bool, float]:
    """True if the first memories of a search would change, and the change of its NDCG@5."""
    named = [approved.get(hit.memory_id, ()) for hit in search.hits]
    right = np.array([question in one for one in named], float)
    likest = [max([NEAR, *(earlier[at] for at in one if at < len(earlier))]) for one in named]
    scores = np.array([hit.score or 0.0 for hit in search.hits])
    boosted = scores * (1 + _BOOST * (np.array(likest) - NEAR) / (1 - NEAR))
    before, after = (
        np.argsort(-one, kind="stable")[: len(_DISCOUNTS)] for one in (scores, boosted)
    )
    ideal = _DISCOUNTS[: int(right.sum())].sum() or 1.0
    gain = (right[after] - right[before]) @ _DISCOUNTS[: len(after)] / ideal
    return not np.array_equal(before, after), float(gain)
