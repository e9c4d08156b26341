"""What a search finds: by likeness alone, by words too, and in other memories, in one run.

The questions are LoCoMo's, in the directory that `MNEMOGATE_CORPORA` names; a memory answers a
question if both name a turn of the conversation. All systems get the same vectors.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import pytest

from policy.model import Tenant
from policy.query import EVERYTHING
from tests.embedder import shared_embedder
from tests.evaluate.attacks import Broken
from tests.evaluate.book import Book
from tests.evaluate.figures import Figure, mean_over, share, skipped
from tests.evaluate.forged import CORPORA, corpora_directory
from tests.evaluate.identifiers import KINDS, Named, filled, named_memories
from tests.evaluate.systems import ADMITTED, BY_NAME, Bench, running
from tests.evaluate.tables import Beyond
from tests.evaluate.wire import Write
from tests.integration.clients.environments import exact_environment, python_environment

ROOT: Final = Path(__file__).resolve().parents[2]
TOP: Final = 10
MEMORIES: Final = 10_000
_KEYS: Final = 40
_DRIVE: Final = ROOT / "tests" / "integration" / "clients" / "memories_drive.py"
_DRIVE_S: Final = 1_800
_MEM0: Final = ("mem0ai==2.2.1", "fastembed==0.7.3")
_CHROMA: Final = ("chromadb", "1.5.9")
EMBEDDER: Final = shared_embedder("static")
_STOP_WORDS: Final = (
    "a an and are as at be but by did do does for from had has have he her his how i if in is it "
    "its me my of on or our she so that the their them then they this to was we were what when "
    "where which who why will with you your"
)
# At least so much above likeness alone, above mem0ai with its keyword search, and above Chroma.
_OVER_VECTORS: Final = (9.0, 8.0)
_OVER_MEM0: Final = (3.0, 3.0)
_OVER_CHROMA: Final = (9.0, 0.0)
_ALL: Final = 100.0
_FIRST_MIN: Final = 99.0
_BARE_ADDRESS_MIN: Final = 90.0
_TYPO_MIN: Final = {"errors": 85.0}
_OTHER_TYPO_MIN: Final = 94.0


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    conv: str = ""
    text: str = ""
    question: str = ""
    evidence: str | tuple[str, ...] = ()

    @property
    def turns(self) -> set[str]:
        """The turns of the conversation that the line names."""
        each = (self.evidence,) if isinstance(self.evidence, str) else self.evidence
        return {part.strip() for one in each for part in one.replace(";", ",").split(",")}


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The memories of a conversation and its questions; `gold` are the answers of each question."""

    name: str
    texts: list[str]
    questions: list[str]
    gold: list[frozenset[int]]


_Found = Annotated[list[int], msgspec.Meta(max_length=TOP)]
Answers = list[list[_Found]]
_LINE: Final = msgspec.json.Decoder(_Line)
_ANSWERS: Final = msgspec.json.Decoder(Answers)


async def search(book: Book) -> None:
    """Measure what a search finds, here and in other memories; and rare identifiers over HTTP."""
    place = corpora_directory()
    if place is None or not place.is_dir():
        book.beyond(Beyond(search={"all": skipped(f"{CORPORA} names no directory")}))
        return
    conversations = conversations_of(place)
    figures: dict[str, Figure] = {}
    async with running(BY_NAME["S4"]) as bench:
        likeness, words = await _own(bench, conversations)
    figures |= _quality("vectors alone", conversations, likeness)
    figures |= _quality("words too", conversations, words)
    for name, environment in (("mem0ai", _mem0), ("Chroma", _chroma)):
        figures |= await asyncio.to_thread(_neighbour, name, environment, conversations)
    for parts in ("recall@10", "MRR"):
        figures[f"SuperLocalMemory, {parts}"] = skipped("needs Python 3.12; by hand")
    _compared(book, figures)
    figures |= await _identifiers(book, place)
    book.beyond(Beyond(search=figures))
    book.note("search", "all memories are unproven, as an agent's key writes them")
    book.note("search", "mem0ai: fastembed's BM25 over local Qdrant, and no spaCy")


def _lines(place: Path, name: str) -> list[_Line]:
    try:
        lines = (place / f"{name}.jsonl").read_bytes().splitlines()
        return [_LINE.decode(line) for line in lines if line.strip()]
    except (OSError, msgspec.DecodeError) as error:
        raise Broken(f"{name}.jsonl in {CORPORA} cannot be read") from error


def conversations_of(place: Path) -> list[Conversation]:
    said: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in _lines(place, "benign_observations"):
        said[one.conv][one.text] |= one.turns
    asked = _lines(place, "questions")
    found: list[Conversation] = []
    for name, texts in said.items():
        questions: list[str] = []
        gold: list[frozenset[int]] = []
        for one in asked:
            right = frozenset(at for at, turns in enumerate(texts.values()) if turns & one.turns)
            if one.conv == name and right:
                questions.append(one.question)
                gold.append(right)
        found.append(Conversation(name=name, texts=list(texts), questions=questions, gold=gold))
    return found


async def _own(bench: Bench, conversations: Sequence[Conversation]) -> tuple[Answers, Answers]:
    """The answers of the sidecar: by likeness, from its store; and by words too, over HTTP."""
    likeness: Answers = []
    words: Answers = []
    for one in conversations:
        await _written(bench, one.name, one.texts)
        key = await bench.key("reader", tenant=one.name)
        places = {text: at for at, text in enumerate(one.texts)}
        words.append(
            [
                [places[text] for text in await bench.recalled(key, question, TOP)]
                for question in one.questions
            ]
        )
        likeness.append(
            [
                [places[text] for text in by_likeness(bench, one.name, question)]
                for question in one.questions
            ]
        )
    return likeness, words


def by_likeness(bench: Bench, tenant: str, question: str) -> list[str]:
    (vector,) = EMBEDDER.embed([question])
    hits = bench.sidecar.store.reader.search(Tenant(tenant), vector, EVERYTHING, TOP, -1.0)
    return [hit.memory.text for hit in hits]


async def _written(bench: Bench, tenant: str, texts: Sequence[str]) -> None:
    keys = [await bench.key(f"writer-{at}", tenant=tenant) for at in range(_KEYS)]
    bodies = [(keys[at % _KEYS], Write(text=text)) for at, text in enumerate(texts)]
    refused = [one for one in await bench.written(bodies) if one.status not in ADMITTED]
    if refused:
        raise Broken(f"{len(refused)} of {len(texts)} honest texts were refused")


def _quality(
    name: str, conversations: Sequence[Conversation], answers: Answers
) -> dict[str, Figure]:
    recalls: list[float] = []
    firsts: list[float] = []
    for one, found in zip(conversations, answers, strict=True):
        for best, gold in zip(found, one.gold, strict=True):
            recalls.append(100 * len(gold.intersection(best)) / len(gold))
            ranks = [at for at, row in enumerate(best, 1) if row in gold]
            firsts.append(100 / ranks[0] if ranks else 0.0)
    return {
        f"{name}, recall@10": mean_over(recalls, "%"),
        f"{name}, MRR": mean_over(firsts, "%"),
    }


# ---- other memories ------------------------------------------------------------------------------


def _mem0() -> tuple[str, Path]:
    return "mem0", exact_environment(Path(sys.executable), _MEM0)


def _chroma() -> tuple[str, Path]:
    return "chroma", python_environment(*_CHROMA)


def _neighbour(
    name: str,
    environment: Callable[[], tuple[str, Path]],
    conversations: Sequence[Conversation],
) -> dict[str, Figure]:
    """The figures of another memory, or why it was not measured."""
    try:
        kind, interpreter = environment()
        return _quality(name, conversations, _driven(kind, interpreter, conversations))
    except (pytest.skip.Exception, pytest.fail.Exception, subprocess.SubprocessError) as error:
        why = skipped(str(error))
        return {f"{name}, recall@10": why, f"{name}, MRR": why}


def _driven(kind: str, interpreter: Path, conversations: Sequence[Conversation]) -> Answers:
    asked: dict[str, Any] = {
        "stop_words": _STOP_WORDS.split(),
        "conversations": [
            {
                "texts": one.texts,
                "vectors": _vectors(one.texts),
                "questions": one.questions,
                "question_vectors": _vectors(one.questions),
            }
            for one in conversations
        ],
    }
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "asked.json"
        file.write_bytes(msgspec.json.encode(asked))
        done = subprocess.run(
            [str(interpreter), str(_DRIVE), kind, str(file)],
            check=True,
            capture_output=True,
            timeout=_DRIVE_S,
            cwd=home,
            env={
                "HOME": home,
                "PATH": os.environ.get("PATH", ""),
                # Nothing may be sent or fetched while it is measured.
                "ANONYMIZED_TELEMETRY": "False",
                "MEM0_TELEMETRY": "False",
                "HF_HUB_OFFLINE": "1",
            },
        )
    return _ANSWERS.decode(done.stdout.splitlines()[-1])


def _vectors(texts: list[str]) -> list[list[float]]:
    return [np.frombuffer(one, "<f4").tolist() for one in EMBEDDER.embed(texts)]


def _compared(book: Book, figures: dict[str, Figure]) -> None:
    bars = {"vectors alone": _OVER_VECTORS, "mem0ai": _OVER_MEM0, "Chroma": _OVER_CHROMA}
    for name, least in bars.items():
        for part, bar in zip(("recall@10", "MRR"), least, strict=True):
            own, other = figures[f"words too, {part}"].value, figures[f"{name}, {part}"].value
            if own is None or other is None:
                continue
            book.holds(
                f"search: {part} above {name}",
                held=own - other >= bar,
                detail=f"{own - other:+.1f} points, wanted {bar:+.1f}",
            )


# ---- rare identifiers ----------------------------------------------------------------------------


async def _identifiers(book: Book, place: Path) -> dict[str, Figure]:
    """The shares of identifiers that a search over HTTP finds among ten thousand memories."""
    drawn: random.Random = book.draws("search/identifiers")
    named = named_memories(drawn)
    texts = [one.text for one in _lines(place, "benign_observations")]
    texts += [one.text for one in _lines(place, "benign_turns")]
    figures: dict[str, Figure] = {}
    async with running(BY_NAME["S4"]) as bench:
        await _written(bench, "identifiers", filled(drawn, named, texts, MEMORIES))
        key = await bench.key("reader", tenant="identifiers")
        for kind in KINDS:
            each = [one for one in named if one.kind == kind]
            figures |= await _asked_for(book, bench, key, each)
    missed = [kind for kind in KINDS if figures[f"{kind}, first by vectors"].value != _ALL]
    book.control(
        "search: likeness alone misses identifiers", fired=bool(missed), detail=", ".join(missed)
    )
    return figures


async def _asked_for(
    book: Book, bench: Bench, key: str, named: Sequence[Named]
) -> dict[str, Figure]:
    kind, n = named[0].kind, len(named)
    likeness = [by_likeness(bench, "identifiers", one.bare)[0] == one.text for one in named]
    bare = [(await bench.recalled(key, one.bare))[0] == one.text for one in named]
    asked = [(await bench.recalled(key, one.asked))[0] == one.text for one in named]
    figures = {
        f"{kind}, first by vectors": share(sum(likeness), n),
        f"{kind}, first, bare": share(sum(bare), n),
        f"{kind}, first, asked": share(sum(asked), n),
    }
    bars = dict.fromkeys((f"{kind}, first, bare", f"{kind}, first, asked"), _FIRST_MIN)
    if kind == "addresses":
        bars[f"{kind}, first, bare"] = _BARE_ADDRESS_MIN
    if named[0].typo:
        near = [one.text in await bench.recalled(key, one.typo, TOP) for one in named]
        figures[f"{kind}, one wrong letter, of ten"] = share(sum(near), n)
        bars[f"{kind}, one wrong letter, of ten"] = _TYPO_MIN.get(kind, _OTHER_TYPO_MIN)
    for name, least in bars.items():
        value = figures[name].value
        held = value is not None and value >= least
        book.holds(f"search: {name}", held=held, detail=f"{value} %, wanted {least}")
    return figures
