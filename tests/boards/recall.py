"""Recall@10 through the gate, beside the same search over all texts, likeness alone and BM25 alone.

An agent's key writes each text, unproven. The rows are the sidecar; the same sidecar whose gate
objects to nothing; and, over what that one holds, the embedder alone and BM25 alone.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import pytest

from storage.derived.lexical.analysis import terms_of
from tests.boards.board import Board
from tests.evaluate.attacks import Broken
from tests.evaluate.forged import CORPORA, corpora_directory
from tests.evaluate.search import TOP, Conversation, by_likeness, conversations_of
from tests.evaluate.systems import ADMITTED, BY_NAME, Bench, Extras, running
from tests.evaluate.unsafe import unsafe_gate_that_admits_all
from tests.evaluate.wire import Write

BEAM: Final = "MNEMOGATE_BEAM"
INSTRUCTIONS: Final = "instruction_following"
# Points that the gate may cost where nothing waits, and texts of a thousand that may wait.
LOST_MAX: Final = 1.0
USERS_MAX: Final = 5.0
ASSISTANTS_MAX: Final = 15.0
_WORD: Final = re.compile(r"\w+(?:[-_.:/@']\w+)*")
_ORDER: Final = re.compile(r"Always .{1,90} when I ask about .{1,60}")
# Before the number that BEAM puts at the end of a person's question: batch and note of its plan.
_NUMBERED: Final = "->->"
_PLAN: Final = re.compile(r"(?m)^BATCH (\d+) PLAN.*$")
_NOTE: Final = re.compile(r"(?m)^• \*\*[^*]*\*\*(.+)$")
_KEYS: Final = 40
_TRIES: Final = 5
_BUSY: Final = 500
WAITING: Final = 202

Found = list[list[list[int]]]


class Chats(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations with the kind of each question."""

    each: list[Conversation]
    kinds: list[list[str]]


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of a system, and what each text of each conversation was answered."""

    found: Found
    statuses: list[list[int]]

    @property
    def stored(self) -> list[frozenset[int]]:
        """The places of the texts that were stored."""
        return [
            frozenset(at for at, status in enumerate(each) if status in ADMITTED)
            for each in self.statuses
        ]


def recall(chats: Chats, answers: Found, asked: Sequence[Sequence[bool]]) -> float:
    """The mean recall@10 in percent over the questions that `asked` marks."""
    shares = [
        100 * len(gold & set(best)) / len(gold)
        for one, found, marks in zip(chats.each, answers, asked, strict=True)
        for best, gold, mark in zip(found, one.gold, marks, strict=True)
        if mark
    ]
    return sum(shares) / len(shares) if shares else math.nan


def bm25(texts: Sequence[str], questions: Sequence[str]) -> list[list[int]]:
    """The ten best texts of each question by BM25 (k1 1.2, b .75) over the sidecar's own words."""
    bags = [Counter(_words(text)) for text in texts]
    mean = sum(bag.total() for bag in bags) / len(bags)
    found: list[list[int]] = []
    for question in questions:
        scores = [0.0] * len(texts)
        for word in set(_words(question)):
            having = [at for at, bag in enumerate(bags) if word in bag]
            weight = math.log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
            for at in having:
                count, length = bags[at][word], bags[at].total()
                scores[at] += weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / mean))
        ranked = sorted(zip(scores, range(0, -len(texts), -1), strict=True), reverse=True)
        found.append([-at for _, at in ranked[:TOP]])
    return found


def _words(text: str) -> list[str]:
    return [term for word in _WORD.findall(text) for term in terms_of(word)]


async def _recalled(chats: Chats, extras: Extras) -> tuple[Recalled, Found]:
    """The answers over HTTP, and those by likeness alone from the same store."""
    answers: Found = []
    likeness: Found = []
    statuses: list[list[int]] = []
    async with running(BY_NAME["S4"], extras) as bench:
        for one in chats.each:
            statuses.append(await _written(bench, one))
            key = await bench.key("reader", tenant=one.name)
            places = {text.strip(): at for at, text in enumerate(one.texts)}
            told = [await bench.recalled(key, question, TOP) for question in one.questions]
            answers.append([[places[text.strip()] for text in each] for each in told])
            near = [by_likeness(bench, one.name, question) for question in one.questions]
            likeness.append([[places[text.strip()] for text in each] for each in near])
    return Recalled(found=answers, statuses=statuses), likeness


async def _written(bench: Bench, one: Conversation) -> list[int]:
    """The status of each text; a busy sidecar is asked again."""
    keys = [await bench.key(f"writer-{at}", tenant=one.name) for at in range(_KEYS)]
    statuses = [_BUSY] * len(one.texts)
    for _ in range(_TRIES):
        left = [at for at, status in enumerate(statuses) if status >= _BUSY]
        bodies = [(keys[at % _KEYS], Write(text=one.texts[at])) for at in left]
        for at, answer in zip(left, await bench.written(bodies, at_once=4), strict=True):
            statuses[at] = answer.status
    if max(statuses, default=0) >= _BUSY:
        raise Broken(f"texts were answered {Counter(statuses)}")
    return statuses


async def _compared(board: Board, title: str, chats: Chats) -> Recalled:
    board.table(
        f"{title}: recall@10", ("row", "all questions", "of which nothing waits", "instructions")
    )
    gate, _ = await _recalled(chats, Extras())
    all_texts, likeness = await _recalled(chats, Extras(gate=unsafe_gate_that_admits_all()))
    words = [bm25(one.texts, one.questions) for one in chats.each]
    every = [[True for _ in one.questions] for one in chats.each]
    landed = [
        [gold <= stored for gold in one.gold]
        for one, stored in zip(chats.each, gate.stored, strict=True)
    ]
    orders = [[kind == INSTRUCTIONS for kind in kinds] for kinds in chats.kinds]
    rows = {
        "sidecar": gate.found,
        "the same, all texts": all_texts.found,
        "likeness alone, all texts": likeness,
        "BM25 alone, all texts": words,
    }
    for name, found in rows.items():
        figures = (recall(chats, found, marks) for marks in (every, landed, orders))
        board.row(name, *("" if math.isnan(one) else f"{one:.1f}" for one in figures))
    lost = recall(chats, all_texts.found, landed) - recall(chats, gate.found, landed)
    board.holds(
        f"{title}: points lost where nothing waits",
        f"{lost:.1f}",
        f"at most {LOST_MAX}",
        held=lost <= LOST_MAX,
    )
    hybrid = recall(chats, all_texts.found, every)
    best = max(recall(chats, likeness, every), recall(chats, words, every))
    board.holds(f"{title}: both together", f"{hybrid:.1f}", f"above {best:.1f}", held=hybrid > best)
    return gate


async def locomo(board: Board) -> None:
    """LoCoMo's notes in the third person and its questions."""
    place = corpora_directory()
    if place is None or not place.is_dir():
        pytest.skip(f"{CORPORA} names no directory")
    each = conversations_of(place)
    nothing = [[""] * len(one.questions) for one in each]
    chats = Chats(each=each, kinds=nothing)
    gate = await _compared(board, "LoCoMo, third-person notes", chats)
    waiting = sum(each.count(WAITING) for each in gate.statuses)
    board.holds("LoCoMo: notes that wait", waiting, 0)


async def beam(board: Board) -> None:
    """BEAM's chats: each turn of its person a memory, and the questions that name such turns."""
    if not os.environ.get(BEAM):
        pytest.skip(f"{BEAM} names no checkout of BEAM")
    place = Path(os.environ[BEAM]) / "chats" / "100K"
    if not place.is_dir():
        pytest.skip(f"{BEAM} names no checkout of BEAM: it has no chats/100K")
    await _compared(board, "BEAM 100K, notes", notes_of(place))
    chats = _chats(place, "user")
    gate = await _compared(board, "BEAM 100K, turns of people", chats)
    # Each chat has standing orders of its person, all of one form, which wait by design.
    orders: Counter[bool] = Counter()
    others: Counter[bool] = Counter()
    for one, statuses in zip(chats.each, gate.statuses, strict=True):
        for text, status in zip(one.texts, statuses, strict=True):
            (orders if _ORDER.fullmatch(text) else others)[status == WAITING] += 1
    _waits(board, "people", others, USERS_MAX)
    answers: Counter[bool] = Counter()
    async with running(BY_NAME["S4"]) as bench:
        for one in _chats(place, "assistant").each:
            answers.update(status == WAITING for status in await _written(bench, one))
    _waits(board, "assistants", answers, ASSISTANTS_MAX)
    board.holds(
        "control: standing orders wait",
        f"{orders[True]} of {orders.total()}",
        "most",
        held=orders[True] > orders[False],
    )


def _waits(board: Board, whose: str, waits: Counter[bool], most: float) -> None:
    share = 1_000 * waits[True] / waits.total()
    board.holds(
        f"BEAM: of 1,000 turns of {whose} wait", f"{share:.1f}", f"≤ {most}", held=share <= most
    )


class _Turn(msgspec.Struct):
    role: str
    id: int
    content: str


class _Batch(msgspec.Struct):
    turns: list[list[_Turn]]


_List: TypeAlias = list[int]
_Ids: TypeAlias = list[int | _List] | dict[str, int | list[int | _List]]


class _Question(msgspec.Struct):
    question: str
    source_chat_ids: _Ids | None = None


def _chats(place: Path, role: str) -> Chats:
    each: list[Conversation] = []
    kinds: list[list[str]] = []
    for path in sorted(place.glob("*/chat.json")):
        # Equal turns are one memory.
        said: dict[str, set[int]] = {}
        for turn in _turns(path.parent):
            if turn.role == role:
                said.setdefault(turn.content.partition(_NUMBERED)[0].strip(), set()).add(turn.id)
        conversation, kind = _conversation(path.parent, "beam", said)
        each.append(conversation)
        kinds.append(kind)
    return Chats(each=each, kinds=kinds)


def notes_of(place: Path) -> Chats:
    """The plan of each chat as notes, without its headings; they answer what their turns answer."""
    each: list[Conversation] = []
    kinds: list[list[str]] = []
    for path in sorted(place.glob("*/plan_new.txt")):
        _, *parts = _PLAN.split(path.read_text("utf-8"))
        said: dict[str, set[int]] = {}
        turns = _turns_of_notes(path.parent)
        for batch, plan in zip(parts[::2], parts[1::2], strict=True):
            for at, note in enumerate(_NOTE.findall(plan), start=1):
                said.setdefault(note.strip(), set()).update(turns[f"{batch},{at}"])
        conversation, kind = _conversation(path.parent, "beam-notes", said)
        each.append(conversation)
        kinds.append(kind)
    return Chats(each=each, kinds=kinds)


def _turns_of_notes(place: Path) -> dict[str, set[int]]:
    """A person's turns by the number of the note that the last numbered one of them came from."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    number = ""
    for turn in _turns(place):
        if turn.role == "user":
            number = turn.content.partition(_NUMBERED)[2].strip() or number
            found[number].add(turn.id)
    return found


def _turns(place: Path) -> list[_Turn]:
    batches = msgspec.json.decode((place / "chat.json").read_bytes(), type=list[_Batch])
    return [turn for batch in batches for group in batch.turns for turn in group]


def _conversation(
    place: Path, name: str, said: dict[str, set[int]]
) -> tuple[Conversation, list[str]]:
    """The texts with those questions of a chat that name a turn of them, and their kinds."""
    asked = msgspec.json.decode(
        (place / "probing_questions" / "probing_questions.json").read_bytes(),
        type=dict[str, list[_Question]],
    )
    questions = [
        (kind, one.question, gold)
        for kind, ones in asked.items()
        for one in ones
        if (gold := _gold(said, _ids(one.source_chat_ids)))
    ]
    conversation = Conversation(
        name=f"{name}-{place.name}",
        texts=list(said),
        questions=[question for _, question, _ in questions],
        gold=[gold for _, _, gold in questions],
    )
    return conversation, [kind for kind, _, _ in questions]


def _gold(said: dict[str, set[int]], ids: set[int]) -> frozenset[int]:
    return frozenset(at for at, turns in enumerate(said.values()) if turns & ids)


def _ids(value: _Ids | _List | int | None) -> set[int]:
    """Every number in a list, or in the lists that an object names."""
    if value is None or isinstance(value, int):
        return set() if value is None else {value}
    parts = value.values() if isinstance(value, dict) else value
    return {one for part in parts for one in _ids(part)}
