"""835 attack texts written by others, against every class, from three kinds of key."""

from __future__ import annotations

import asyncio
import collections
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from policy.model import Claims
from tests.integration.running import OPERATOR_KEY, Json, Running, running

FILES = ("attack_asb", "attack_bipia", "attack_memorygraft", "attack_poisonedrag_nq")
IN_FLIGHT = 32


def attack_texts(corpora: Path) -> list[str]:
    return [
        json.loads(line)["text"]
        for name in FILES
        for line in (corpora / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]


async def _write_all(live: Running, key: str, bodies: list[Json]) -> list[tuple[int, Json]]:
    room = asyncio.Semaphore(IN_FLIGHT)

    async def one(body: Json) -> tuple[int, Json]:
        async with room:
            return await live.write(key, body)

    return await asyncio.gather(*(one(body) for body in bodies))


@pytest.mark.corpora
async def test_no_attack_text_reaches_policy_or_identity_from_an_agent(
    corpora: Path, tmp_path: Path
) -> None:
    texts = attack_texts(corpora)
    assert len(texts) == 835
    async with running(tmp_path) as live:
        agent = await live.key("corpora-agent")
        vouched = await live.key("corpora-vouched", claims=Claims.TRUSTED)
        for target in ("L1", "L2"):
            named = [{"text": text, "class": target} for text in texts]
            claimed = [{**body, "source": "tool_result"} for body in named]
            answers = await _write_all(live, agent, named)
            landed = {answer["memory_class"] for status, answer in answers if status == 201}
            assert landed == (set() if target == "L1" else {"L3"}), "lowered, or refused"
            answers = await _write_all(live, vouched, claimed)
            assert collections.Counter(status for status, _ in answers) == {403: len(texts)}
        before = live.version()
        # Control: the very same texts land where an operator publishes them.
        for target in ("L1", "L2"):
            named = [{"text": text, "class": target} for text in texts]
            answers = await _write_all(live, OPERATOR_KEY, named)
            assert collections.Counter(status for status, _ in answers) == {201: len(texts)}
        assert live.version() == before + 2 * len(texts)


@pytest.mark.corpora
async def test_attack_texts_as_everyday_memories_keep_the_lowest_label(
    corpora: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    texts = attack_texts(corpora)
    async with running(tmp_path) as live:
        keys = {
            "unknown": await live.key("everyday-agent"),
            "tool_result": await live.key("everyday-vouched", claims=Claims.TRUSTED),
        }
        for label, key in keys.items():
            for target in ("L3", "L4"):
                claim = {"source": label} if label != "unknown" else {}
                bodies = [{"text": text, "class": target, **claim} for text in texts]
                answers = await _write_all(live, key, bodies)
                landed = [body for status, body in answers if status == 201]
                assert {(item["source"], item["memory_class"]) for item in landed} <= {
                    (label, target)
                }
                counts = collections.Counter(
                    body.get("reason", "landed") if status != 201 else "landed"
                    for status, body in answers
                )
                record_property(f"{label} {target}", json.dumps(counts))
                sys.stdout.write(f"{label:11s} {target}: {dict(counts)}\n")
        assert live.sidecar.store.reader.check().problems == ()
