"""`mnemogate insight`: what memories are about, and where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from policy.model import TEXT_LEN_MAX
from proxy.admin.wire.views import ORIGINS, PREFERENCES, TOPICS
from proxy.cli.api_commands import asking, joined, table
from proxy.cli.command import option, read_file
from proxy.cli.isolate import NAMED, SELECTION


def _mix(counts: Mapping[str, float], form: str = "{1} {0}") -> str:
    """The values of a mapping with their names, as `form` has it, the largest first."""
    largest = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(form.format(name, value) for name, value in largest)


def _text(flag: str, path: str) -> str:
    return read_file(Path(path), flag, TEXT_LEN_MAX).decode("utf-8", "replace")


_ORIGINS: Final = table(
    "origins",
    {
        "by": "by",
        "name": "name",
        "live": lambda one: sum(one.labels.values()),
        "hidden": "hidden",
        "labels": lambda one: _mix(one.labels),
        "shown": lambda one: _mix(one.shares, "{1:.1%} {0}"),
        "trust": lambda one: "" if one.trust is None else f"{one.trust:.2f}",
    },
)
_TOPICS: Final = table(
    "topics",
    {
        "topic": "name",
        "memories": "size",
        "labels": lambda one: _mix(one.labels),
        "origins": lambda one: _mix(one.origins),
        "for example": joined("nearest", " "),
    },
)
_PREFERENCES: Final = table(
    "preferences",
    {
        "principal": "principal_id",
        "category": "category",
        "choice": "choice",
        "confidence": "{0.confidence:.2f}",
        "sessions": "sessions",
        "labels": lambda one: _mix(one.labels),
        "memories": joined("memory_ids", " "),
    },
)
COMMANDS = (
    asking(
        "insight origins",
        "what each server, tool, session and principal brought in, and how often reads showed it",
        ORIGINS,
        _ORIGINS,
        options=SELECTION,
        names=NAMED,
        label="reading every memory",
    ),
    asking(
        "insight topics",
        "what live memories are about: groups of like texts",
        TOPICS,
        _TOPICS,
        options=(
            *SELECTION,
            option("--n", "how many topics at most (default: 12)", field="count", metavar="N"),
        ),
        names=NAMED,
        label="reading every memory",
    ),
    asking(
        "insight preferences",
        "which technologies the memories of each principal name, and how surely",
        PREFERENCES,
        _PREFERENCES,
        options=(
            *SELECTION,
            option(
                "--categories",
                'a TOML file of other categories: [category] choice = ["spelling"]',
                metavar="FILE",
                read=_text,
            ),
        ),
        names=NAMED,
        label="reading every memory",
    ),
)
