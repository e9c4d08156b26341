"""Server-sent events, written without any of the project's own code."""

from __future__ import annotations

import json
from typing import Any


def event(kind: str, body: dict[str, Any]) -> bytes:
    """One event with a name and a JSON object."""
    return f"event: {kind}\ndata: {json.dumps(body)}\n\n".encode()


def halves(text: str, count: int = 12) -> list[str]:
    """A text in pieces, as models stream it."""
    return [text[at : at + count] for at in range(0, len(text), count)]
