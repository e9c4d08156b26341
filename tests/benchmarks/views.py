"""Views of an operator: what likeness finds of a lie, what a view costs, and what writes wait.

The lies are those of PoisonedRAG in the directory that `MNEMOGATE_CORPORA` names, and the honest
texts are that directory's and paragraphs of the standard library's documentation.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from policy.model import MemoryId
from policy.query import EVERYTHING
from proxy.admin import insight
from proxy.cli.run import SWITCH_S
from proxy.embed.embedding import resolve_embedder
from proxy.seams.environment import Embedder
from storage.embedded import EmbeddedStore
from storage.features.views import Categories
from storage.features.views.tenant_views import Views
from storage.questions import LIKE_MIN, Selection
from tests.benchmarks.filling import PRINCIPAL, submission
from tests.benchmarks.startup import _fill, _open

HONEST: Final = 8_900
SIZES: Final = (10_000, 100_000)
WRITES: Final = 100
ROUNDS: Final = 10
TOPICS: Final = 12
NEAR_COPY: Final = 0.9
_LEN_MIN: Final = 40
_TENANT: Final = PRINCIPAL.tenant
_QUESTION: Final = "Where is the silver market?"


def run() -> list[str]:
    """What likeness finds; then processor time of each view, and the wait of writes beside them."""
    place = os.environ.get("MNEMOGATE_CORPORA")
    lines = [] if place is None else _found(Path(place))
    for size in SIZES:
        lines += _cost(size)
    return lines


def _found(place: Path) -> list[str]:
    """The siblings and the others that likeness finds for each lie, at two thresholds."""
    embedder = resolve_embedder("static")
    lies = list(_lines(place, "attack_poisonedrag_nq"))
    texts = [one["text"] for one in lies]
    honest = [text for text in dict.fromkeys(_honest(place)) if text not in set(texts)][:HONEST]
    with tempfile.TemporaryDirectory() as scratch:
        store = _open(Path(scratch) / "state", embedder)
        ids = asyncio.run(stored(store, embedder, [*texts, *honest]))
        groups: defaultdict[str, set[MemoryId]] = defaultdict(set)
        for one, memory_id in zip(lies, ids, strict=False):
            groups[one["group"]].add(memory_id)
        lines = _shares(store, list(groups.values()), len(honest))
        store.close()
    return lines


def _shares(store: EmbeddedStore, groups: list[set[MemoryId]], honest_count: int) -> list[str]:
    """What is like the first lie of each group: one of them convicted, the others to be found."""
    views, counts = store.of(Views), Counter[str]()
    for group in groups:
        near = views.select(Selection(tenant=_TENANT, like=min(group)))
        named = store.recalls.memories(_TENANT, list(near))
        for above in (NEAR_COPY, LIKE_MIN):
            close = {named[at].memory_id for at, cosine in near.items() if (cosine or 0) >= above}
            counts[f"siblings {above}"] += len(close & group) - 1
            counts[f"others {above}"] += len(close - group)
    possible = sum(len(group) - 1 for group in groups)
    return [
        f"cosine >= {above} among {honest_count} honest texts: "
        f"{counts[f'siblings {above}'] / possible:.1%} of a lie's siblings, "
        f"{counts[f'others {above}'] / len(groups):.2f} others (bar at {LIKE_MIN}: 80 %, 0.2)"
        for above in (NEAR_COPY, LIKE_MIN)
    ]


async def stored(store: EmbeddedStore, embedder: Embedder, texts: list[str]) -> list[MemoryId]:
    """The ids of these texts, stored as memories."""
    ids: list[MemoryId] = []
    incarnation = store.reader.status().incarnation
    for start in range(0, len(texts), 512):
        some = texts[start : start + 512]
        done = await asyncio.gather(
            *(
                store.writer.submit(submission(text, vector, embedder.embedder_id, incarnation))
                for text, vector in zip(some, embedder.embed(some), strict=True)
            )
        )
        ids += [one.memory.memory_id if one.memory else MemoryId("") for one in done]
    return ids


def _lines(place: Path, name: str) -> Iterator[dict[str, str]]:
    for line in (place / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _honest(place: Path) -> Iterator[str]:
    for name in ("benign_observations", "benign_turns", "benign_memorygraft"):
        for one in _lines(place, name):
            yield one["text"]
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                    if len(paragraph) >= _LEN_MIN:
                        yield " ".join(paragraph.split())


def _cost(size: int) -> list[str]:
    embedder = resolve_embedder("static")
    sys.setswitchinterval(SWITCH_S)
    with tempfile.TemporaryDirectory() as scratch:
        state = Path(scratch) / "state"
        store = _open(state, embedder)
        asyncio.run(_fill(store, embedder, size))
        views, whole = store.of(Views), Selection(tenant=_TENANT)
        newest = list(views.select(whole))[:10_000]
        (first,) = store.recalls.memories(_TENANT, newest[:1]).values()
        like = Selection(tenant=_TENANT, like=first.memory_id)
        (vector,) = embedder.embed([_QUESTION])
        words = store.reader.words(_TENANT, _QUESTION)
        shipped = Path(insight.__file__).with_name("categories.toml").read_text("utf-8")
        categories = msgspec.toml.decode(shipped, type=Categories)

        def searched() -> None:
            among = list(views.select(whole, hidden=True))
            store.reader.searched(_TENANT, vector, EVERYTHING, 10, -1.0, words=words, among=among)

        timed: dict[str, Callable[[], object]] = {
            "memory search TEXT --hidden": searched,
            "memory search --like": lambda: views.select(like),
            "isolate --like --dry-run": lambda: store.incidents.reached(like),
            "insight origins": lambda: views.origins(whole, Counter(newest)),
            "insight topics": lambda: views.topics(whole, TOPICS),
            "insight preferences": lambda: views.preferences(whole, categories),
        }
        lines = [f"{size:7d} | {name:28s} | {_cpu(act):.2f} s" for name, act in timed.items()]
        alone, beside = asyncio.run(
            _waits(store, embedder, lambda: views.origins(whole, Counter(newest)))
        )
        store.close()
    bar = "bar: 1 s at 10,000, 3 s at 100,000; 1.2 times"
    return [*lines, f"        p99 of a write beside: {beside / alone:.2f} times alone ({bar})"]


def _cpu(act: Callable[[], object]) -> float:
    """The least processor time of this thread, of three."""
    took: list[float] = []
    for _ in range(3):
        started = time.thread_time()
        act()
        took.append(time.thread_time() - started)
    return min(took)


async def _waits(
    store: EmbeddedStore, embedder: Embedder, view: Callable[[], object]
) -> tuple[float, float]:
    """The p99 of a write alone and beside a view that is computed again and again, in turns."""
    alone: list[float] = []
    beside: list[float] = []
    walking = True

    async def walk() -> None:
        while walking:
            await asyncio.to_thread(view)

    for number in range(ROUNDS):
        alone += await _written(store, embedder, 2 * number)
        walking = True
        task = asyncio.create_task(walk())
        beside += await _written(store, embedder, 2 * number + 1)
        walking = False
        await task
    return sorted(alone)[len(alone) * 99 // 100], sorted(beside)[len(beside) * 99 // 100]


async def _written(store: EmbeddedStore, embedder: Embedder, turn: int) -> list[float]:
    took: list[float] = []
    incarnation = store.reader.status().incarnation
    for number in range(WRITES):
        text = f"The lighthouse of island {turn} is open on day {number}."
        (vector,) = embedder.embed([text])
        made = submission(text, vector, embedder.embedder_id, incarnation)
        started = time.perf_counter()
        await store.writer.submit(made)
        took.append(time.perf_counter() - started)
    return took
