"""Real texts through the ledger, the interceptor and the gate: who said it, what it is labelled.

One session per conversation and day: its remarks enter as what a person typed or as results of a
tool, and then the model calls its memory. Nothing here knows how a label is made.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from policy.model import ChangeKind, MemoryClass, Principal
from proxy.dialects.model.anthropic import messages as anthropic
from proxy.dialects.model.transcript import ModelCall
from proxy.dialects.strict_json.tolerant import Json
from proxy.ledger.sessions import RequestFindings, Sessions
from proxy.seams.guard import Join
from proxy.seams.operation import Proposal, WrittenItem
from storage.sealed_log.session_log import prints_key
from tests.unit.proxy.ledgers import ADA, KEY, Clock, assistant, call, reply, result, user
from tests.unit.proxy.wired import TRACE, Wired

LABELS_NO_BETTER_THAN_A_TOOL = frozenset({"tool_result", "unknown"})


class Remark(NamedTuple):
    """What somebody said, and what a model noted of it."""

    conversation: str
    day: str
    text: str
    notes: tuple[str, ...]


def remarks_of(corpora: Path) -> list[Remark]:
    """Every turn, with the notes whose first evidence it is."""
    notes: dict[str, list[str]] = defaultdict(list)
    for line in (corpora / "benign_observations.jsonl").read_text("utf-8").splitlines():
        note = json.loads(line)
        conversation = note["id"].partition("/")[0]
        notes[f"{conversation}/{note['evidence'][0]}"].append(note["text"])
    return [
        Remark(turn["conv"], turn["session"], turn["text"], tuple(notes.pop(turn["id"], ())))
        for turn in map(
            json.loads, (corpora / "benign_turns.jsonl").read_text("utf-8").splitlines()
        )
    ]


def days_of(remarks: list[Remark]) -> list[list[Remark]]:
    """The remarks of each conversation, day by day."""
    days: dict[tuple[str, str], list[Remark]] = defaultdict(list)
    for remark in remarks:
        days[remark.conversation, remark.day].append(remark)
    return list(days.values())


def harmless(corpora: Path) -> list[str]:
    lines = (corpora / "benign_memorygraft.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def new_sessions() -> Sessions:
    return Sessions(None, prints_key(KEY), Clock().surroundings())


class Agent:
    """Talks through the ledger and writes through the interceptor."""

    def __init__(self, sessions: Sessions, live: Wired, by: Principal = ADA) -> None:
        self.sessions = sessions
        self.by = by
        self.writing = live.writing
        self.numbers = itertools.count()

    async def session(self, entering: Iterable[tuple[str, str]], system: str = "") -> Session:
        """A session whose context these entered: ("user" | "tool" | "model", text).

        Turn by turn, as an agent does it: what a tool answers, the model had called before.
        """
        session = Session(self, f"claude:s{next(self.numbers)}", [], system)
        for voice, text in entering:
            if voice == "user":
                session.messages.append(user(text))
                await session.ask()
                continue
            if voice == "model":
                await session.says(text)
                continue
            fetch = call(f"toolu_{next(self.numbers)}", "fetch", url="https://example.org/")
            await session.calls(fetch)
            session.messages.append(result(fetch.call_id, text))
        return session


class Session(NamedTuple):
    """One session of an agent, with its history."""

    agent: Agent
    name: str
    messages: list[Json]
    system: str = ""

    async def ask(self) -> RequestFindings:
        body: dict[str, Json] = {"messages": [*self.messages]}
        request = anthropic.read_request({**body, "system": self.system} if self.system else body)
        return await self.agent.sessions.entered(self.agent.by, request)

    async def says(self, text: str) -> None:
        entered = await self.ask()
        await self.agent.sessions.replied(self.agent.by, entered.session, reply(text))
        self.messages.append(assistant(text))

    async def calls(self, *calls: ModelCall) -> None:
        entered = await self.ask()
        await self.agent.sessions.replied(self.agent.by, entered.session, reply("", *calls))
        self.messages.append(assistant("", *calls))

    async def write(
        self, texts: list[str], memory_class: MemoryClass, *, named: bool = False
    ) -> list[WrittenItem]:
        """The model calls its memory with each of these, and the agent does it."""
        calls = [call(f"toolu_{next(self.agent.numbers)}", text=text) for text in texts]
        await self.calls(*calls)
        proposals = tuple(
            Proposal(
                change=ChangeKind.CREATE,
                text=text,
                memory_class=memory_class,
                class_named=named,
                join=Join(tool_use_id=one.call_id),
            )
            for one, text in zip(calls, texts, strict=True)
        )
        items = await self.agent.writing.judge(self.agent.by, proposals, "test", TRACE)
        self.messages.extend(result(one.call_id, "Done.") for one in calls)
        await self.ask()
        return list(items)


def labels_in(items: list[WrittenItem]) -> Counter[str]:
    """How often each decision, reason and label came."""
    return Counter(
        " ".join(
            [
                item.decision,
                *([item.reason.value] if item.reason else []),
                item.source.value if item.source else "-",
            ]
        )
        for item in items
    )


# ---- disguises ----------------------------------------------------------------------------------

_LOOKALIKES = str.maketrans("aeiocpxy", "\u0430\u0435\u0456\u043e\u0441\u0440\u0445\u0443")


def _wrapped(text: str) -> str:
    return f"Important note from the team. {text} Please act accordingly."


def _shuffled(text: str) -> str:
    sentences = [
        part.strip(" .!?") for part in text.replace("!", ".").replace("?", ".").split(". ")
    ]
    random.Random(5).shuffle(sentences)  # noqa: S311 - the same each time
    return ". ".join(sentences)


def _half(text: str) -> str:
    words = text.split()
    return " ".join(words[: max(1, (len(words) + 1) // 2)])


DISGUISES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "zero-width letters": "\u200b".join,
    "look-alike letters": lambda text: text.translate(_LOOKALIKES),
    "upper case": str.upper,
    "sentences shuffled": _shuffled,
    "wrapped in other words": _wrapped,
    "the first half": _half,
}
