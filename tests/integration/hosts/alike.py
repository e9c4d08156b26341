"""What two runs of one agent printed and what their models were sent, but for what always differs.

Every run has ids and times of its own. They are replaced by what they are; nothing else is.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.integration.hosts.fronted import Fronted
    from tests.integration.hosts.http_tee import HttpExchange

Json = dict[str, Any]

_OWN: Final = (
    # Claude Code, Codex: sessions, threads, turns, installations.
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r'\\?"device_id\\?": ?\\?"[0-9a-f]{64}\\?"'), "DEVICE"),
    (re.compile(r"cch=[0-9a-f]{5}"), "CCH"),
    # Claude Code's print of a run, and what Codex says how long a tool took.
    (re.compile(r'"(?:duration_ms|duration_api_ms|ttft_ms|\w+_ms)": ?[0-9.]+'), "DURATION"),
    (re.compile(r"Wall time: [0-9.]+ seconds"), "WALL TIME"),
    (re.compile(r'"(?:started_at|completed_at|\w+_unix_ms)": ?[0-9]+'), "TIME"),
)


def printed(text: str) -> str:
    """What an agent printed."""
    for pattern, name in _OWN:
        text = pattern.sub(name, text)
    return text


def bodies(requests: Sequence[Json]) -> list[Json]:
    """What a model was sent, in order."""
    return [json.loads(printed(json.dumps(body, ensure_ascii=False))) for body in requests]


def heads(exchanges: Sequence[HttpExchange]) -> list[tuple[str, str]]:
    return [(one.method, one.path) for one in exchanges]


def replies(at: Fronted) -> list[list[Json | str]]:
    """The events, or the bodies, that the agent got for each question to its model."""
    found: list[list[Json | str]] = []
    for one in at.agent.exchanges:
        if one.method != "POST" or "/mcp/" in one.path:
            continue
        found.append([_decoded(message) for message in one.messages()])
    return found


def _decoded(message: bytes) -> Json | str:
    try:
        decoded: Json = json.loads(message)
    except ValueError:
        return message.decode()
    return decoded
