"""`mnemogate insight` and `rank`: what memories are about, where they came from, their order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from policy.model import TEXT_LEN_MAX
from proxy.admin.wire.views import ORIGINS, PREFERENCES, RANK, TOPICS
from proxy.cli.api_commands import OF_TENANT, asking, joined, pairs, table
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
    asking(
        "rank status",
        "what ranking by feedback would change, and whether it would win; no search uses it",
        RANK,
        pairs(
            {
                "signals (200 needed; of one key a fifth at most)": "signals",
                "questions held back": "questions",
                "in another order": "moved",
                "in a worse one": "worse",
                "change of NDCG@5, 95 %": lambda one: (
                    f"{one.gain:+.4f}, {one.low:+.4f} to {one.high:+.4f}" if one.questions else ""
                ),
                "would win": "wins",
                "served": lambda _: "no: it is a trial",
            }
        ),
        options=(option("--tenant", OF_TENANT),),
        label="reading the newest reads",
    ),
)
