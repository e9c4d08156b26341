"""The format of a store: one that this version does not write is refused by its header alone."""

from __future__ import annotations

from storage.ground.errors import UnknownFormat
from storage.tables.codec import STORE_FORMAT, StoreHeader


def refuse_unknown(header: StoreHeader | None) -> None:
    """Refuse a store whose format is not this version's.

    Raises:
        UnknownFormat: The store's format is newer or older.
    """
    if header is None or header.format == STORE_FORMAT:
        return
    raise UnknownFormat(
        f"the store has format {header.format}, and this version reads format {STORE_FORMAT} "
        "alone: run the version that wrote it, or start with another state directory"
    )
