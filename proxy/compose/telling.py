"""The configured receivers of messages about the audit log, each with a queue on disk (outbox)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from proxy.reporting.outbox import Outbox, Telling
from proxy.reporting.review_notice import CONTENT_TYPE, hold_of, review_event
from proxy.reporting.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from proxy.seams.surroundings import Surroundings
    from proxy.settings.load import Settings
    from storage.audit import VerdictLeaf
    from storage.interfaces import Store

REVIEW: Final = "review.webhook"


class Tellers:
    """The outboxes of a running sidecar. They are opened before a candidate can be held."""

    def __init__(self, review: Outbox[VerdictLeaf] | None) -> None:
        self._review = review

    @property
    def review_untold_ms(self) -> int | None:
        """Unix milliseconds since which the oldest hold waits that the receiver was not told of."""
        untold = None if self._review is None else self._review.waiting
        return None if untold is None else untold.at_ms

    @asynccontextmanager
    async def telling(self) -> AsyncGenerator[None]:
        """Send the receivers their messages while the block runs."""
        if self._review is None:
            yield
            return
        async with self._review.following():
            yield


async def tellers(settings: Settings, store: Store, surroundings: Surroundings) -> Tellers:
    """The configured outboxes.

    Raises:
        StoreUnavailable: The file that says how far a receiver was told cannot be read or written.
    """
    table = settings.review_webhook
    if table is None:
        return Tellers(None)
    telling = Telling(
        name=REVIEW,
        picks=hold_of,
        body=lambda message_id, holds: review_event(
            message_id,
            holds,
            source=f"urn:mnemogate:{store.reader.status().incarnation}",
            page_of=surroundings.page.of,
        ),
    )
    sink = Webhook(table, surroundings.now_ms, CONTENT_TYPE)
    return Tellers(await asyncio.to_thread(Outbox, store, telling, sink, surroundings))
