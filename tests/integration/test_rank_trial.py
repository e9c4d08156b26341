"""The trial of a ranking by feedback, over real sockets: people move it, and an agent cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policy.model import Channel
from tests.integration.operator_line import line
from tests.integration.running import AGENT_KEY, Running, running

TOPICS = 20
QUESTIONS = 200
PEOPLE = 10
DIMENSION = 3 * TOPICS + QUESTIONS
AXES = np.linalg.qr(np.random.default_rng(5).standard_normal((DIMENSION, DIMENSION)))[0]


def _leaning(topic: int, own: int, cosine: float) -> list[float]:
    """A unit vector of this cosine to a topic, which shares nothing else with others."""
    vector: NDArray[np.float64] = cosine * AXES[topic] + np.sqrt(1 - cosine**2) * AXES[own]
    found: list[float] = vector.tolist()
    return found


def _question(number: int) -> list[float]:
    # Two questions of one topic have a cosine of 0.75.
    return _leaning(number % TOPICS, 3 * TOPICS + number, np.sqrt(0.75))


async def _written(sidecar: Running) -> list[str]:
    """The ids of the right memories; in every other topic a wrong one is nearer to questions."""
    right: list[str] = []
    for topic in range(TOPICS):
        for at, cosine in enumerate((0.9, 0.92 if topic % 2 else 0.88)):
            text = f"Machine {topic} is kept in room {10 * topic + at}."
            vector = _leaning(topic, TOPICS * (1 + at) + topic, cosine)
            status, made = await sidecar.write(AGENT_KEY, {"text": text, "vector": vector})
            assert status == 201, made
            if not at:
                right.append(made["id"])
    return right


async def _searched(sidecar: Running, number: int) -> Sequence[Mapping[str, Any]]:
    asked = {"vector": _question(number), "limit": 10}
    status, found = await sidecar.call("POST", "/v1/search", AGENT_KEY, asked)
    assert status == 200, found
    results: Sequence[Mapping[str, Any]] = found["results"]
    return results


async def _marked(sidecar: Running, key: str, memory_id: str, verdict: str = "good") -> int:
    said = {"verdict": verdict, "memory_id": memory_id}
    return (await sidecar.call("POST", "/v1/feedback", key, said))[0]


async def test_what_people_mark_wins_the_trial_and_what_an_agent_says_changes_no_byte(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, flags={"embedder": f"client:{DIMENSION}"}) as sidecar:
        assert await sidecar.operate("GET", "/rank") == {
            "signals": 0, "questions": 0, "moved": 0, "worse": 0,
            "gain": None, "low": None, "high": None, "wins": False,
        }  # fmt: skip
        right = await _written(sidecar)
        people = [await sidecar.key(f"p{at}", channel=Channel.USER) for at in range(PEOPLE)]
        for number in range(QUESTIONS):
            found = await _searched(sidecar, number)
            wanted = right[number % TOPICS]
            assert [one["id"] for one in found].index(wanted) == number % 2
            assert await _marked(sidecar, people[number % PEOPLE], wanted) == 200
        tried = await sidecar.operate("GET", "/rank")
        assert (tried["signals"], tried["questions"]) == (QUESTIONS, 60)
        assert (tried["moved"], tried["worse"], tried["wins"]) == (30, 0, True)
        assert 0 < tried["low"] < tried["gain"] < tried["high"]
        told = await line(sidecar, "rank", "status")
        assert told.code == 0
        assert "would win" in told.out
        assert "no: it is a trial" in told.out
        assert (await line(sidecar, "rank", "status", "--json")).data == tried

        before = await _searched(sidecar, 1)
        assert before[0]["id"] != right[1], "it wins, and no search uses it"
        steered = await sidecar.key("steered")
        statuses = [
            await _marked(sidecar, steered, right[at % TOPICS], ("irrelevant", "good")[at % 2])
            for at in range(1_000)
        ]
        assert (statuses.count(200), statuses.count(429)) == (20, 980)
        assert await sidecar.operate("GET", "/rank") == tried
        assert await _searched(sidecar, 1) == before
        objecting = await sidecar.key("px", channel=Channel.USER)
        assert await _marked(sidecar, objecting, right[1], "irrelevant") == 200
        after = await sidecar.operate("GET", "/rank")
        assert after["signals"] == QUESTIONS - 1, "control: a person's word takes a signal back"
        assert after["gain"] is None
        assert await sidecar.operate("GET", "/rank?tenant=other") != tried
