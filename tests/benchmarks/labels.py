"""How surely a text is found in what it was made of, and what asking the ledger costs.

Notes that a model made of remarks (`MNEMOGATE_CORPORA`), each against its remark and against those
of other conversations. Two conversations were fitted to; the others are told apart.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from policy.canonical import canonical_bytes, digest_of
from policy.labels.containment import PrintIndex, Prints, Resemblance, prints_of
from policy.labels.derive import read_candidate
from policy.model import Candidate, ChangeKind, PrincipalId, Tenant

FITTED = frozenset({"conv-41", "conv-43"})
OTHERS = 250
PAGE_LEN, PAGES = 12, 40
FALSE_SHARES = (0.05, 0.01, 0.002)
_NOWHERE = -99.0


class Pair(NamedTuple):
    """One note: its best score where it was made of, and elsewhere, and what the product says."""

    conversation: str
    found: float
    elsewhere: float
    contained: bool
    contained_elsewhere: bool


class Notes:
    """The notes with the remarks, alone or in pages of twelve."""

    def __init__(self, corpora: Path, *, pages: bool) -> None:
        turns = _lines(corpora / "benign_turns.jsonl")
        self.notes = _lines(corpora / "benign_observations.jsonl")
        self.texts: dict[str, str] = {}
        self.place: dict[str, str] = {}
        for conversation in sorted({turn["conv"] for turn in turns}):
            here = [turn for turn in turns if turn["conv"] == conversation]
            size = PAGE_LEN if pages else 1
            for at in range(0, len(here), size):
                key = here[at]["id"]
                self.texts[key] = "\n".join(turn["text"] for turn in here[at : at + size])
                self.place.update((turn["id"], key) for turn in here[at : at + size])
        self.prints = {key: prints_of(text) for key, text in self.texts.items()}

    def pairs(self, others: int) -> Iterator[Pair]:
        """Each note against its remark, and against `others` of other conversations."""
        rng = random.Random(1)  # noqa: S311 - the same each time
        for note in self.notes:
            conversation = note["id"].partition("/")[0]
            foreign = [key for key in self.texts if not key.startswith(conversation)]
            index = PrintIndex()
            for number, key in enumerate(rng.sample(foreign, others)):
                index.add(number, self.prints[key])
            prints = prints_of(note["text"])
            elsewhere, said_elsewhere = _best(index, prints, range(others))
            sources = {self.place[f"{conversation}/{one}"] for one in note["evidence"]}
            for number, key in enumerate(sources):
                index.add(others + number, self.prints[key])
            found, said = _best(index, prints, range(others, others + len(sources)))
            yield Pair(conversation, found, elsewhere, said, said_elsewhere)


def _lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@contextmanager
def _every_one() -> Generator[None]:
    """A search answers all that it looked at: where the threshold lies is what is asked."""
    real = Resemblance.contained
    Resemblance.contained = property(lambda _: True)  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Resemblance.contained = real  # type: ignore[method-assign]


def _best(index: PrintIndex, prints: Prints, keys: range) -> tuple[float, bool]:
    said = any(one.key in keys for one in index.search(prints))
    with _every_one():
        every = [one.resemblance for one in index.search(prints) if one.key in keys]
    return max((one.told for one in every), default=_NOWHERE), said


def curve(pairs: list[Pair]) -> list[tuple[float, float, float]]:
    """Share of false matches, share found, and the threshold for it."""
    false = sorted((pair.elsewhere for pair in pairs), reverse=True)
    points: list[tuple[float, float, float]] = []
    for share in FALSE_SHARES:
        threshold = false[int(share * len(false))]
        found = sum(pair.found > threshold for pair in pairs) / len(pairs)
        points.append((share, found, threshold))
    return points


def table(corpora: Path) -> list[str]:
    """Both kinds of segments, both parts of the conversations."""
    lines = ["segments  notes                 at 5 %  at 1 %  at 0.2 %   as shipped: found / false"]
    for kind, others in (("remarks", OTHERS), ("pages", PAGES)):
        pairs = list(Notes(corpora, pages=kind == "pages").pairs(others))
        parts = {
            "all": pairs,
            "fitted to": [pair for pair in pairs if pair.conversation in FITTED],
            "not fitted to": [pair for pair in pairs if pair.conversation not in FITTED],
        }
        for name, part in parts.items():
            found = "  ".join(f"{found:6.1%}" for _, found, _ in curve(part))
            shipped = sum(pair.contained for pair in part) / len(part)
            false = sum(pair.contained_elsewhere for pair in part) / len(part)
            lines.append(
                f"{kind:8s}  {name:14s} {len(part):5d}  {found}     {shipped:.1%} / {false:.2%}"
            )
    return lines


def cost(corpora: Path) -> str:
    """What a search in two thousand segments costs, against canonical bytes, digest and reading."""
    notes = Notes(corpora, pages=False)
    index = PrintIndex()
    for number, prints in enumerate(list(notes.prints.values())[:2_000]):
        index.add(number, prints)
    searches: list[float] = []
    readings: list[float] = []
    for note in notes.notes[:600]:
        candidate = Candidate(
            change=ChangeKind.CREATE,
            principal_id=PrincipalId("p"),
            tenant=Tenant("t"),
            nonce="n",
            text=note["text"],
        )
        started = time.perf_counter()
        index.search(prints_of(note["text"]))
        between = time.perf_counter()
        digest_of(canonical_bytes(candidate))
        read_candidate(candidate)
        searches.append(between - started)
        readings.append(time.perf_counter() - between)
    search, reading = statistics.median(searches), statistics.median(readings)
    return (
        f"looked for in 2,000 segments: {search * 1e6:.0f} us, {search / reading:.1f} times what "
        "canonical bytes, digest and reading cost (bar: under a millisecond)"
    )


def run() -> list[str]:
    """The table, or why there is none."""
    corpora = os.environ.get("MNEMOGATE_CORPORA")
    if corpora is None:
        return ["needs real texts: set MNEMOGATE_CORPORA"]
    return [*table(Path(corpora)), cost(Path(corpora))]
