"""What the exposure cap costs a search: recall@10 over real questions, measured for several caps.

Each conversation of `MNEMOGATE_CORPORA` is a tenant, and each of its sessions an origin. A question
is asked as a client asks it; the right answers are the observations that contain its evidence. The
same store is asked under each cap, so that only the cap differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from policy.model import Tenant
from policy.ruleset import Watch
from proxy.evaluate.attacks import Broken
from proxy.evaluate.figures import share, skipped
from proxy.evaluate.forged import CORPORA, corpora_directory
from proxy.evaluate.systems import BY_NAME, EVALUATOR, running
from proxy.evaluate.wire import Write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy.evaluate.book import Book
    from proxy.evaluate.figures import Figure
    from proxy.evaluate.systems import Bench

CAPS: Final = (10, 3, 2, 1)
COST_MAX: Final = 1.0
"""Points of recall@10 that the shipped cap may cost."""
_SHOWN: Final = 10
_FILES: Final = ("benign_observations.jsonl", "questions.jsonl")


_T = TypeVar("_T")


class _Told(msgspec.Struct, frozen=True):
    text: str
    conv: str
    session: str
    evidence: tuple[str, ...]


class _Asked(msgspec.Struct, frozen=True):
    question: str
    conv: str
    evidence: tuple[str, ...]


async def recall(book: Book) -> dict[str, Figure]:
    """Measure recall@10 under each cap, and whether the shipped cap costs too much."""
    directory = corpora_directory()
    keys = {cap: f"recall_at_10_capped_{cap}" for cap in CAPS}
    if directory is None or not all((directory / file).is_file() for file in _FILES):
        return dict.fromkeys(keys.values(), skipped(f"{CORPORA} has no {' and '.join(_FILES)}"))
    told = _read(directory / _FILES[0], msgspec.json.Decoder(_Told).decode)
    asked = _read(directory / _FILES[1], msgspec.json.Decoder(_Asked).decode)
    async with running(BY_NAME["S4"]) as bench:
        readers = await _written(bench, told)
        found = {keys[cap]: await _recall(bench, readers, told, asked, cap) for cap in CAPS}
    cost = (found[keys[10]].value or 0.0) - (found[keys[3]].value or 0.0)
    book.holds(
        "drift: the cap on one origin costs at most a point of recall", held=cost <= COST_MAX
    )
    return found


async def _written(bench: Bench, told: list[_Told]) -> dict[str, str]:
    """Store the observations of each conversation; returns the keys, one for each conversation."""
    keys: dict[tuple[str, str], str] = {}
    for one in told:
        whose = (one.conv, one.session)
        if whose not in keys:
            tenant = Tenant(f"t-{one.conv}")
            keys[whose] = await bench.key(f"agent-{one.conv}-{one.session}", tenant=tenant)
    await bench.written([(keys[one.conv, one.session], Write(text=one.text)) for one in told])
    return {conv: key for (conv, _), key in keys.items()}


async def _recall(
    bench: Bench, readers: dict[str, str], told: list[_Told], asked: list[_Asked], cap: int
) -> Figure:
    store = bench.sidecar.store
    drift = msgspec.structs.replace(store.ruleset.drift, names=Watch.OFF, shown_of_ten=cap)
    rules = msgspec.structs.replace(store.ruleset, drift=drift, digest=f"capped-{cap}")
    await store.writer.adopt_ruleset(rules, EVALUATOR)
    found, questions = 0.0, 0
    for one in asked:
        gold = {
            each.text
            for each in told
            if each.conv == one.conv and not set(each.evidence).isdisjoint(one.evidence)
        }
        if gold:
            shown = await bench.recalled(readers[one.conv], one.question, _SHOWN)
            found += len(gold.intersection(shown)) / len(gold)
            questions += 1
    return share(found, questions)


def _read(path: Path, decode: Callable[[bytes], _T]) -> list[_T]:
    try:
        return [decode(raw) for raw in path.read_bytes().splitlines()]
    except (OSError, msgspec.DecodeError) as error:
        raise Broken(f"{path.name} in {CORPORA} cannot be read") from error
