"""Search by words and likeness against likeness alone: what it finds, what it costs, who gains.

The questions are those of LoCoMo in the directory that `MNEMOGATE_CORPORA` names; a memory answers
a question if both name a turn of the conversation. Every ratio is of figures of one run.
`MNEMOGATE_EMBEDDER` names the embedder (default: `static`).
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import itertools
import os
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from policy.model import SourceKind, Tenant
from policy.query import EVERYTHING
from proxy.embed.embedding import resolve_embedder
from storage.derived.lexical.analysis import WordHashes, unpacked
from storage.derived.lexical.scoring import (
    TRUSTS,
    WORDS_WEIGHT,
    AskedWords,
    Floats64,
    Mask,
    Ranks,
    score,
)
from storage.derived.vectors.faiss_index import VectorIndex
from storage.embedded import EmbeddedStore
from storage.read.ranking import Candidates, candidates_len
from storage.tables.keys import KeyedNames
from tests.benchmarks.filling import PRINCIPAL, submission
from tests.benchmarks.startup import _open
from tests.unit.storage.derived.vectors.found_pairs import found_pairs

TENANT: Final = Tenant("bench")
TOP: Final = 10
LIES: Final = 5
DRAWS: Final = 5
SIZES: Final = (10_000, 100_000)
ASKED: Final = 300
COPIES: Final = 300
_COPIED: Final = 20  # questions of which copies are hidden
_ROUNDS: Final = 3
_ORDERS: Final = 20
_TRIES: Final = 200
_SIGNALS_MIN: Final = 200
_HELD_BACK_MIN: Final = 60
_NEAR: Final = 0.6  # the least cosine of questions at which an approval for one counts for another
_BOOST: Final = 0.2
_FIRST: Final = 5
_PERSON, _UNPROVEN = SourceKind.USER_INPUT.trust, SourceKind.UNKNOWN.trust
_WORDS: Final = WordHashes(KeyedNames(b"search quality".ljust(32)))
_EMBEDDER: Final = resolve_embedder(os.environ.get("MNEMOGATE_EMBEDDER", "static"))


class _Asked(NamedTuple):
    """One question over the memories of its conversation; `gold` are those that answer it."""

    conversation: str
    vector: Floats64
    cosines: Floats64
    words: Floats64
    gold: frozenset[int]
    lies: Floats64  # the cosines of texts that begin with the question and say something else
    stuffed: Floats64  # the words of these texts


def run() -> list[str]:
    """The tables; one line where there is no corpus."""
    place = os.environ.get("MNEMOGATE_CORPORA")
    if place is None:
        return ["set MNEMOGATE_CORPORA to the directory of the corpora"]
    asked = list(_questions(Path(place)))
    texts = [one["text"] for one in _lines(Path(place), "benign_observations")]
    texts += [one["text"] for one in _lines(Path(place), "benign_turns")]
    questions = [one["question"] for one in _lines(Path(place), "questions")][:ASKED]
    return [
        *_found(asked),
        *_stuffed(asked),
        *_copied(asked),
        *_left_out(asked),
        *_fed_back(asked),
        *_hidden(Path(place)),
        *_identifiers(texts),
        *itertools.chain.from_iterable(_cost(texts, questions, size) for size in SIZES),
    ]


def _lines(place: Path, name: str) -> list[dict[str, Any]]:
    data = (place / f"{name}.jsonl").read_bytes()
    return [msgspec.json.decode(line) for line in data.splitlines() if line]


def _turns(evidence: str | list[str]) -> set[str]:
    each = [evidence] if isinstance(evidence, str) else evidence
    return {part.strip() for one in each for part in one.replace(";", ",").split(",")}


def _index(texts: list[str]) -> VectorIndex:
    index = VectorIndex(_EMBEDDER.dimension)
    for start in range(0, len(texts), 1_000):
        part = texts[start : start + 1_000]
        rows = list(enumerate(_EMBEDDER.embed(part), start))
        index.extend(rows, [_WORDS.of(TENANT, text) for text in part])
    while index.improve():
        pass
    return index


def _asked_words(index: VectorIndex, question: str, live: Mask) -> AskedWords:
    hashes = unpacked(_WORDS.packed(TENANT, question))
    return AskedWords(index.row_words(), np.empty(0, np.uint64) if hashes is None else hashes, live)


def _vectors(texts: list[str]) -> Floats64:
    found = [np.frombuffer(one, "<f4") for one in _EMBEDDER.embed(texts)]
    return np.stack(found).astype(np.float64)


def _questions(place: Path) -> Iterator[_Asked]:
    said: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in _lines(place, "benign_observations"):
        said[one["conv"]].append(one)
    drawn = random.Random(5)  # noqa: S311 - a fixed choice
    for name, observations in said.items():
        texts: list[str] = [one["text"] for one in observations]
        index, live = _index(texts), np.ones(len(texts), dtype=np.bool_)
        rows = _vectors(texts)
        turns = [_turns(one["evidence"]) for one in observations]
        elsewhere: list[str] = [
            one["text"] for key, all_of in said.items() if key != name for one in all_of
        ]
        for one in _lines(place, "questions"):
            gold = frozenset(at for at, has in enumerate(turns) if has & _turns(one["evidence"]))
            if one["conv"] != name or not gold:
                continue
            question = one["question"]
            words, vector = _asked_words(index, question, live), _vectors([question])[0]
            lies = [f"{question} {claim}" for claim in drawn.sample(elsewhere, LIES)]
            yield _Asked(
                conversation=name,
                vector=vector,
                cosines=rows @ vector,
                words=words.of_rows(live),
                gold=gold,
                lies=_vectors(lies) @ vector,
                stuffed=np.array([words.of_text(_WORDS.of(TENANT, lie)) for lie in lies]),
            )


def _scores(cosines: Floats64, words: Floats64, ranks: Ranks) -> Floats64:
    return score(cosines, words, ranks, TRUSTS[ranks])


def _quality(asked: list[_Asked], scores: Callable[[_Asked], Floats64]) -> tuple[float, float]:
    """Mean recall@10 and mean reciprocal rank."""
    recalls: list[float] = []
    firsts: list[float] = []
    for one in asked:
        best = np.argsort(-scores(one), kind="stable")[:TOP].tolist()
        recalls.append(len(one.gold.intersection(best)) / len(one.gold))
        firsts.append(
            max((1 / (at + 1) for at, row in enumerate(best) if row in one.gold), default=0)
        )
    return float(np.mean(recalls)), float(np.mean(firsts))


def _found(asked: list[_Asked]) -> list[str]:
    base = _quality(asked, lambda one: one.cosines)
    free = _quality(asked, lambda one: np.maximum(0.0, one.cosines) + WORDS_WEIGHT * one.words)
    lines = [
        f"{len(asked)} questions           | recall@10 |   MRR | over vectors  | bounds cost",
        f"vectors alone           |     {base[0]:.3f} | {base[1]:.3f} |",
    ]
    for share in (0.0, 0.15, 0.5):
        drawn: list[tuple[float, float]] = []
        for seed in range(DRAWS):
            ranks: dict[str, Ranks] = {}
            for one in asked:
                if one.conversation not in ranks:
                    said = np.random.default_rng(seed).random(len(one.cosines)) < share
                    ranks[one.conversation] = np.where(said, _PERSON, _UNPROVEN).astype(np.int8)
            drawn.append(_quality(asked, partial(_labelled, ranks=ranks)))
        recall, first = np.mean(drawn, axis=0)
        lines.append(
            f"words too, {share:4.0%} persons' |     {recall:.3f} | {first:.3f} | "
            f"{recall - base[0]:+.3f} {first - base[1]:+.3f} | "
            f"{free[0] - recall:+.3f} {free[1] - first:+.3f}"
        )
    return [
        *lines,
        "  bar: recall@10 >= +.09, MRR >= +.08 (all unproven: +.09; minilm: recall@10 >= +.08)",
        "  bar: cost <= .012 recall@10, <= .035 MRR",
    ]


def _labelled(one: _Asked, ranks: dict[str, Ranks]) -> Floats64:
    return _scores(one.cosines, one.words, ranks[one.conversation])


def _stuffed(asked: list[_Asked]) -> list[str]:
    def first(honest: int, scores: Callable[[Floats64, Floats64, Ranks], Floats64]) -> float:
        lying = 0
        for one in asked:
            ranks = np.full(len(one.cosines) + LIES, honest, dtype=np.int8)
            ranks[-LIES:] = _UNPROVEN
            cosines = np.concatenate([one.cosines, one.lies])
            words = np.concatenate([one.words, one.stuffed])
            lying += int(np.argmax(scores(cosines, words, ranks))) >= len(one.cosines)
        return lying / len(asked)

    alone = first(_UNPROVEN, lambda cosines, _words, _ranks: cosines)
    return [
        "five lies that begin with the question: a lie is first",
        f"  vectors alone {alone:.0%}",
        f"  beside a person's words {first(_PERSON, _scores):.0%} (bar <= 35 %)",
        f"  all unproven {first(_UNPROVEN, _scores):.0%} (bar <= 85 %)",
    ]


def _copied(asked: list[_Asked]) -> list[str]:
    """A person's answer and an unproven copy of it, whose vector and words differ a little."""
    drawn = np.random.default_rng(11)
    above = dict.fromkeys((0.97, 0.9, 0.85), 0)
    ranks = np.array([_PERSON, _UNPROVEN], dtype=np.int8)
    for one, likeness in itertools.product(asked, above):
        row = min(one.gold)
        cosine = float(one.cosines[row])
        aside = np.sqrt((1 - cosine**2) / _EMBEDDER.dimension) * drawn.standard_normal()
        copy = likeness * cosine + np.sqrt(1 - likeness**2) * aside
        words = one.words[row] * np.array([1.0, drawn.uniform(0.9, 1.1)])
        original, copied = _scores(np.array([cosine, copy]), words, ranks)
        above[likeness] += bool(original > copied)
    told = ", ".join(f"{likeness} {count / len(asked):.1%}" for likeness, count in above.items())
    return [f"a person's answer is above an unproven copy of cosine {told} (bar >= 97 %)"]


def _hidden(place: Path) -> list[str]:
    """Searches beside quarantined copies of the question, whose rows the mask leaves out."""
    texts = [one["text"] for one in _lines(place, "benign_observations")]
    questions = [one["question"] for one in _lines(place, "questions")][:: ASKED // _COPIED]
    questions = questions[:_COPIED]
    copies = [f"{one} {text[:60]}" for one in questions for text in texts[:COPIES]]
    alone, among = _index(texts), _index([*texts, *copies])
    live = np.arange(len(texts) + len(copies)) < len(texts)
    moved, shown = 0, 0
    for question in questions:
        expected = _searched(alone, question, live[: len(texts)])
        moved += _searched(among, question, live) != expected
        shown += _searched(among, question, np.ones_like(live)) != expected
    told = f"change the order of {moved} (bar 0; of {shown} when they are not hidden)"
    return [f"{COPIES} quarantined copies of each of {len(questions)} questions {told}"]


def _left_out(asked: list[_Asked]) -> list[str]:
    def stretched(values: Floats64) -> Floats64:
        least, most = float(values.min()), float(values.max())
        return (values - least) / ((most - least) or 1.0)

    def ranked(values: Floats64) -> Floats64:
        places = np.empty(len(values))
        places[np.argsort(-values, kind="stable")] = np.arange(len(values))
        return 1 / (60 + places)

    kinds: dict[str, Callable[[Floats64, Floats64], Floats64]] = {
        "this score": lambda cosines, words: _scores(
            cosines, words, np.zeros(len(cosines), dtype=np.int8)
        ),
        "min-max": lambda cosines, words: stretched(cosines) + stretched(words),
        "reciprocal ranks": lambda cosines, words: ranked(cosines) + ranked(words),
    }
    moved = dict.fromkeys(kinds, 0)
    for one, (name, scores) in itertools.product(asked, kinds.items()):
        order = np.argsort(-scores(one.cosines, one.words), kind="stable")
        kept = np.delete(np.arange(len(order)), order[0])
        again = kept[np.argsort(-scores(one.cosines[kept], one.words[kept]), kind="stable")]
        moved[name] += order[1 : TOP + 1].tolist() != again[:TOP].tolist()
    told = ", ".join(f"{name} {count / len(asked):.0%}" for name, count in moved.items())
    return [f"the first hit is left out, and the next ten change their order: {told} (bar 0 %)"]


class _Approved(NamedTuple):
    """One question with the memories that people approved for it, and the scores of all."""

    question: _Asked
    memories: frozenset[int]
    scores: Floats64


def _fed_back(asked: list[_Asked]) -> list[str]:
    """What the one rule of feedback that ever gained would do; no search uses it.

    People approve each right memory of the first ten. A memory that is approved for a question
    scores more for a near one. The newest questions are held back, in orders drawn anew.
    """
    told: list[_Approved] = []
    for one in asked:
        unproven = np.full(len(one.cosines), _UNPROVEN, dtype=np.int8)
        scores = _scores(one.cosines, one.words, unproven)
        shown = np.argsort(-scores, kind="stable")[:TOP].tolist()
        told.append(_Approved(one, one.gold.intersection(shown), scores))
    told = [one for one in told if one.memories]
    right = [_held_back(told, seed) for seed in range(_ORDERS)]
    gains = [gains.mean() for gains in right]
    few = [_held_back(told, seed, _SIGNALS_MIN) for seed in range(_ORDERS)]
    false = [_held_back(_shuffled(told, seed), seed) for seed in range(_TRIES)]
    noise = [_noise(told, seed) for seed in range(_TRIES)]
    base = f"feedback on {len(told)} questions, {len(right[0])} held back: NDCG@5"
    worse = np.mean([(one < 0).mean() for one in right])
    served = f"  its lower bound is above 0 in {_served(right):.0%} of orders"
    wrongly = (
        f"  with shuffled approvals in {_served(false):.1%}, with noise in {_served(noise):.1%}"
    )
    return [
        f"{base} {np.mean(gains):+.4f}, in {_ORDERS} orders (bar >= +.004)",
        f"  worse in {worse:.1%} of questions (bar <= 2 %)",
        f"{served}, of {_SIGNALS_MIN} questions alone in {_served(few):.0%}",
        f"{wrongly} of {_TRIES} tries (bar <= 5 %)",
    ]


def _held_back(told: list[_Approved], seed: int, count: int | None = None) -> Floats64:
    """The change of NDCG@5 of each of the newest questions, by the approvals of the others."""
    drawn = np.random.default_rng(seed)
    order = [told[int(at)] for at in drawn.permutation(len(told))[:count].tolist()]
    held = max(_HELD_BACK_MIN, len(order) * 3 // 10)
    gains: list[float] = []
    for name in {one.question.conversation for one in told}:
        earlier = [one for one in order[:-held] if one.question.conversation == name]
        later = [one for one in order[-held:] if one.question.conversation == name]
        if not earlier or not later:
            gains += [0.0] * len(later)
            continue
        cosines = _stacked(later) @ _stacked(earlier).T
        for one, row in zip(later, cosines, strict=True):
            near = np.zeros(len(one.scores))
            for at in np.flatnonzero(row > _NEAR).tolist():
                rows = list(earlier[at].memories)
                near[rows] = np.maximum(near[rows], (row[at] - _NEAR) / (1 - _NEAR))
            moves = bool(near.any())
            gains.append(_moved(one, one.scores * (1 + _BOOST * near)) if moves else 0.0)
    return np.array(gains)


def _stacked(told: list[_Approved]) -> Floats64:
    return np.stack([one.question.vector for one in told])


def _shuffled(told: list[_Approved], seed: int) -> list[_Approved]:
    """The same questions, each with the approvals of another one of its conversation."""
    drawn = np.random.default_rng(seed)
    of: defaultdict[str, list[int]] = defaultdict(list)
    for at, one in enumerate(told):
        of[one.question.conversation].append(at)
    others = {
        at: int(other)
        for each in of.values()
        for at, other in zip(each, drawn.permutation(each), strict=True)
    }
    return [one._replace(memories=told[others[at]].memories) for at, one in enumerate(told)]


def _noise(told: list[_Approved], seed: int) -> Floats64:
    drawn = np.random.default_rng(seed)
    chosen = [told[int(at)] for at in drawn.permutation(len(told))[:_HELD_BACK_MIN].tolist()]
    return np.array(
        [
            _moved(one, one.scores * (1 + drawn.uniform(-0.1, 0.1, len(one.scores))))
            for one in chosen
        ]
    )


def _moved(one: _Approved, scores: Floats64) -> float:
    """The change of NDCG@5 by other scores."""

    def worth(by: Floats64) -> float:
        best = np.argsort(-by, kind="stable")[:_FIRST].tolist()
        found = sum(share for share, row in zip(shares, best, strict=False) if row in one.memories)
        return float(found / sum(shares[: len(one.memories)]))

    shares = [1 / np.log2(at + 2) for at in range(_FIRST)]
    return worth(scores) - worth(one.scores)


def _served(tries: list[Floats64]) -> float:
    """The share of tries of which the lower bound of the mean (95 %, by question) is above 0."""
    drawn = np.random.default_rng(7)
    above = [
        np.percentile(one[drawn.integers(0, len(one), (1_000, len(one)))].mean(axis=1), 2.5) > 0
        for one in tries
    ]
    return float(np.mean(above))


def _identifiers(texts: list[str]) -> list[str]:
    drawn = random.Random(7)  # noqa: S311 - a fixed choice
    kinds: dict[str, Callable[[], str]] = {
        "errors": lambda: f"ORA-{drawn.randrange(10_000, 99_999)}",
        "tickets": lambda: f"INC-{drawn.randrange(10_000, 99_999)}",
        "addresses": lambda: (
            f"10.{drawn.randrange(256)}.{drawn.randrange(256)}.{drawn.randrange(256)}"
        ),
        "paths": lambda: f"src/ledger/flush_quota_{drawn.randrange(10_000)}.py",
        "names (CJK)": lambda: "".join(
            drawn.choice("赵钱孙李周吴郑王冯陈晓峰雅婷志远思涵俊杰") for _ in range(3)
        ),
    }
    named = {kind: list(dict.fromkeys(make() for _ in range(200))) for kind, make in kinds.items()}
    memories = [f"{name} was settled last week." for names in named.values() for name in names]
    others = [*texts, *(f"{one} {at}" for at, one in enumerate(itertools.chain(texts, texts)))]
    memories += others[: SIZES[0] - len(memories)]
    index, live = _index(memories), np.ones(len(memories), dtype=np.bool_)
    lines = [f"identifiers among {len(memories)}: first place by vectors, with words (bare, asked)"]
    start = 0
    for kind, names in named.items():
        hits = np.zeros(3)
        for at, name in enumerate(names, start):
            vector = _EMBEDDER.embed([name])[0]
            hits[0] += found_pairs(index, vector, 1, live)[0][0] == at
            for place, question in enumerate((name, f"What happened with {name}?"), 1):
                hits[place] += _searched(index, question, live)[0] == at
        start += len(names)
        shares = " | ".join(f"{share:4.0%}" for share in hits / len(names))
        lines.append(f"  {kind:12s} {shares}")
    return [*lines, "  bar: with words >= 99 %, bare addresses >= 90 %"]


def _searched(index: VectorIndex, question: str, live: Mask) -> list[int]:
    candidates = Candidates(
        index=index,
        vector=_EMBEDDER.embed([question])[0],
        words=_asked_words(index, question, live),
        allowed=live,
        ranks=lambda ordinals: np.zeros(len(ordinals), dtype=np.int8),
        trusts=lambda _, ranks: TRUSTS[ranks],
        threshold=-1.0,
        exact=False,
    )
    return candidates.found(candidates_len(index)).ordinals


def _cost(texts: list[str], questions: list[str], size: int) -> list[str]:
    drawn = random.Random(3)  # noqa: S311 - a fixed choice
    memories = texts[:size]
    while len(memories) < size:
        tail = drawn.choice(texts)[:120]
        memories.append(f"{drawn.choice(texts)} {tail} {drawn.randrange(10**6)}")
    with tempfile.TemporaryDirectory() as scratch:
        store = _open(Path(scratch) / "state", _EMBEDDER)
        asyncio.run(_filled(store, memories))
        store._engine.parts.derived.wait(600)
        alone, both = _in_turns(store, questions)
        index = store._engine.parts.derived.index
        store.close()
    fresh = [f"{text} {at}" for at, text in enumerate(drawn.sample(texts, 500))]
    started = time.thread_time()
    for text in fresh:
        _WORDS.of(TENANT, text)
    a_write = (time.thread_time() - started) / len(fresh)
    points = [(np.percentile(alone, at), np.percentile(both, at)) for at in (50, 99)]
    told = ", ".join(
        f"p{name} {1e3 * few:.2f} and {1e3 * more:.2f} ms, ratio {more / few:.2f}"
        for name, (few, more) in zip(("50", "99"), points, strict=True)
    )
    arrays = sum(
        getattr(one.postings, name).nbytes
        for one in index.segments
        for name in one.postings.__struct_fields__
    )
    return [
        f"{size} memories, CPU of a search by vectors and with words too, in turns: {told}",
        f"  {1e6 * a_write:.0f} us a write; postings {arrays / 1e6:.1f} MB",
        "  bar: ratio <= 1.7 at 10,000, <= 2.0 at 100,000; 25 us; 30 MB",
    ]


async def _filled(store: EmbeddedStore, memories: list[str]) -> None:
    incarnation = store.reader.status().incarnation
    for start in range(0, len(memories), 1_000):
        part = memories[start : start + 1_000]
        made = [
            submission(text, vector, _EMBEDDER.embedder_id, incarnation)
            for text, vector in zip(part, _EMBEDDER.embed(part), strict=True)
        ]
        await asyncio.gather(*(store.writer.submit(one) for one in made))


def _in_turns(store: EmbeddedStore, questions: list[str]) -> tuple[list[float], list[float]]:
    """The processor time of each question by vectors alone, and with words too."""
    reader, tenant = store.reader, PRINCIPAL.tenant
    taken = np.empty((_ROUNDS, len(questions), 2))
    for number, (at, question) in itertools.product(range(_ROUNDS), enumerate(questions)):
        started = time.thread_time()
        vector = _EMBEDDER.embed([question])[0]
        reader.search(tenant, vector, EVERYTHING, TOP, -1.0)
        middle = time.thread_time()
        vector, words = _EMBEDDER.embed([question])[0], reader.words(tenant, question)
        reader.search(tenant, vector, EVERYTHING, TOP, -1.0, words=words)
        taken[number, at] = middle - started, time.thread_time() - middle
    # What other processes take from the caches is no part of a search.
    least = taken.min(axis=0)
    return least[:, 0].tolist(), least[:, 1].tolist()
