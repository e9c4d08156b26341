"""Compares two runs of one agent: what it printed, and what its model was sent.

Ids and times differ in every run. They are replaced by their kind, and nothing else is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from tests.integration.hosts.fronted import Fronted
from tests.integration.hosts.views import Json, Value

_OWN: Final = (
    # Claude Code, Codex: sessions, threads, turns, installations.
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])"), "UUID"),
    (re.compile(r"(?<=device_id)(\\*\": ?\\*\")[0-9a-f]{64}"), r"\1DEVICE"),
    (re.compile(r"cch=[0-9a-f]{5}"), "CCH"),
    # Claude Code's print of a run, Codex's times, and what Codex says how long a tool took.
    (re.compile(r"(_ms|_at)(\\*\": ?)[0-9.]+"), r"\1\g<2>0"),
    (re.compile(r"Wall time: [0-9.]+ seconds"), "WALL TIME"),
)
_THREADS: Final = b"thread_unsupported_request"


def printed(text: str) -> str:
    for pattern, name in _OWN:
        text = pattern.sub(name, text)
    return text


def bodies(requests: Sequence[Json]) -> list[Value]:
    return [json.loads(printed(json.dumps(body, ensure_ascii=False))) for body in requests]


def replies(at: Fronted) -> list[Value]:
    """The events, or the bodies, that the agent got for each question to its model.

    Without the one that sends the anthropic SDK back from message threads to whole histories.
    """
    found: list[Value] = []
    for one in at.agent.exchanges:
        if one.method != "POST" or "/mcp/" in one.path or _THREADS in one.body:
            continue
        found.append([_decoded(message) for message in one.messages()])
    return found


def _decoded(message: bytes) -> Value:
    try:
        decoded: Value = json.loads(message)
    except ValueError:
        return message.decode()
    return decoded


def differences(one: Value, other: Value, at: str = "") -> list[str]:
    """The places where two values differ, each with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted({*one, *other}, key=str)
        found = [differences(one.get(name), other.get(name), f"{at}.{name}") for name in names]
        return [line for lines in found for line in lines]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        found = [differences(here, there, f"{at}[{index}]") for index, (here, there) in pairs]
        return [line for lines in found for line in lines]
    return [] if one == other else [f"{at}: {str(one)[:300]} / {str(other)[:300]}"]
