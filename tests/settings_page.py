"""The tables of docs/settings.md, printed from the structs that read the settings file.

`python -P -m tests.settings_page` writes them into the page; all else in it stays as it is.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Final

from msgspec.structs import FieldInfo

from proxy.settings.after import AfterTable, ReplaySettings, SentryTable
from proxy.settings.backend import BackendServer
from proxy.settings.judge_tables import JudgeTable
from proxy.settings.mcp import McpServer
from proxy.settings.model import ModelUpstream
from proxy.settings.review_webhook import Receiver
from proxy.settings.shard import ShardTable
from proxy.settings.table import SETTINGS, keys_of, meaning_of
from proxy.settings.values import Address
from proxy.settings.witness import WitnessTable

PAGE: Final = Path(__file__).parents[1] / "docs" / "settings.md"
ROWS: Final[dict[str, dict[str, FieldInfo]]] = {
    "## Settings": {field.name: field for field in SETTINGS},
    **{
        heading: {field.name: field for field in keys_of(table)}
        for heading, table in (
            ("## MCP servers", McpServer),
            ("## Model APIs", ModelUpstream),
            ("## Memory servers behind", BackendServer),
            ("## Judges", JudgeTable),
            ("## Witnesses", WitnessTable),
            ("## The webhook of the review", Receiver),
            ("## Shards", ShardTable),
        )
    },
    "## What is kept of reads": {
        **{field.name: field for field in keys_of(AfterTable)},
        **{f"sentry.{field.name}": field for field in keys_of(SentryTable)},
        **{f"replay.{field.name}": field for field in keys_of(ReplaySettings)},
    },
}
"""The keys of each table of the page, by its heading."""


def default_of(field: FieldInfo) -> str:
    """The default of a key as the file would have it; "" where there is none, or nothing is set."""
    given = field.default
    if isinstance(given, Address):
        return f"{given.host}:{given.port}"
    if isinstance(given, enum.Enum):
        return str(given.value)
    if isinstance(given, bool):
        return str(given).lower()
    return str(given) if isinstance(given, int | float | str) else ""


def printed(text: str) -> str:
    """The page with its tables as the structs have them."""
    for heading, keys in ROWS.items():
        rows = "".join(
            f"| `{name}` | {f'`{default}`' if (default := default_of(field)) else ''} "
            f"| {meaning_of(field)} |\n"
            for name, field in keys.items()
        )
        table = f"| key | default | meaning |\n|---|---|---|\n{rows}"
        text = with_table(text, heading, table)
    return text


def with_table(text: str, heading: str, table: str) -> str:
    """The page with another first table below a heading."""
    before, begun, below = text.partition(f"\n{heading}\n")
    kept, _, after = below.partition("\n|")
    while after.partition("\n")[2].startswith("|"):
        after = after.partition("\n")[2]
    return f"{before}{begun}{kept}\n{table}{after.partition(chr(10))[2]}"


if __name__ == "__main__":
    PAGE.write_text(printed(PAGE.read_text("utf-8")), "utf-8")
