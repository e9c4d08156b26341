"""The `[after]` table: what is kept of reads, and for how long."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.settings.values import BadValue, table_of
from storage.recalls import RecallOptions

_DAYS_MAX: Final = 3_650
_RECALLS_MAX: Final = 100_000_000


class AfterTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[after]` table, as it stands in the file."""

    keep_days: Annotated[int, Meta(ge=1, le=_DAYS_MAX)] = 30
    recalls_max: Annotated[int, Meta(ge=0, le=_RECALLS_MAX)] = 1_000_000
    keep_queries: bool = False


MEANINGS: Final[dict[str, str]] = {
    "keep_days": "How many days a record of a read, or of a model's reply, is shown.",
    "recalls_max": "How many such records are kept, the oldest go first; a million take about "
    "1.2 GB beside the quota. 0: none are made, and no answer can be explained.",
    "keep_queries": "Whether the words of a question are kept, sealed as its vector is.",
}


def after_write(tables: list[object]) -> RecallOptions:
    """The settings of the recall ledger in the `[after]` table.

    Raises:
        BadValue: Names the key and what is allowed.
    """
    try:
        given = table_of(tables[0], AfterTable) if tables else AfterTable()
    except BadValue as error:
        raise BadValue(f"after: {error}") from None
    return RecallOptions(
        keep_days=given.keep_days, count_max=given.recalls_max, keep_queries=given.keep_queries
    )
