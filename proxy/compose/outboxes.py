"""Builds the outboxes: one durable queue of messages about the audit log for each receiver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from proxy.reporting.incident_notice import incident_of, incidents_event
from proxy.reporting.outbox import Notifier, Outbox, Told
from proxy.reporting.review_notice import CONTENT_TYPE, WaitsLeaf, hold_of, review_event
from proxy.reporting.sentry import Sentry, sentry_events
from proxy.reporting.webhook import Webhook
from proxy.reporting.witnesses import Witnesses
from proxy.seams.environment import Environment
from proxy.settings.review_webhook import Receiver
from proxy.settings.table import Settings, SettingsError
from proxy.settings.values import BadValue
from proxy.version import version
from storage.audit import IncidentLeaf
from storage.interfaces import Store

REVIEW: Final = "review.webhook"
INCIDENTS: Final = "after.webhook"
SENTRY: Final = "after.sentry"
OUTBOX_MAX: Final = 10_000
"""The number of steps of incidents above which `/readyz` names the receiver they wait for."""


class Outboxes:
    """The outboxes of a running sidecar. They are opened before a candidate can be held."""

    def __init__(
        self,
        witnesses: Witnesses,
        review: Outbox[WaitsLeaf] | None = None,
        incidents: tuple[Outbox[IncidentLeaf], ...] = (),
        *,
        outbox_max: int = OUTBOX_MAX,
    ) -> None:
        self.witnesses = witnesses
        self._review = review
        self._incidents = incidents
        self._outbox_max = outbox_max

    @property
    def review_untold_ms(self) -> int | None:
        """The time (Unix ms) of the oldest hold that was not sent to the receiver yet, or None."""
        untold = None if self._review is None else self._review.waiting
        return None if untold is None else untold.at_ms

    def behind(self) -> tuple[str, ...]:
        """The receivers for which more than `outbox_max` steps of incidents wait."""
        return tuple(one.name for one in self._incidents if one.untold_count > self._outbox_max)

    def turns(self) -> tuple[Callable[[], Awaitable[float]], ...]:
        """The functions that send outboxes' messages; each returns the seconds to its next call."""
        review = () if self._review is None else (self._review.turn,)
        return (*review, *(outbox.turn for outbox in self._incidents))


async def tellers(settings: Settings, store: Store, surroundings: Environment) -> Outboxes:
    """Open an outbox for each configured receiver; return them.

    Raises:
        StoreUnavailable: A receiver's position in the log cannot be read or written.
        SettingsError: The settings of the receiver Sentry cannot be used.
    """
    source = f"urn:mnemogate:{store.reader.status().incarnation}"
    review = None
    incidents: list[Outbox[IncidentLeaf]] = []
    if settings.review_webhook is not None:
        review = await _outbox(
            settings.review_webhook, store, _of_review(source, surroundings), surroundings
        )
    after = settings.after
    if after.webhook is not None:
        telling = Notifier(
            name=INCIDENTS,
            picks=incident_of,
            body=lambda message_id, steps: incidents_event(message_id, steps, source=source),
        )
        incidents.append(await _outbox(after.webhook, store, telling, surroundings))
    if after.sentry is not None and settings.sentry_dsn is not None:
        telling = Notifier(
            name=SENTRY,
            picks=incident_of,
            body=lambda _, steps: sentry_events(steps, store.cases.get),
        )
        try:
            sink = Sentry(settings.sentry_dsn, after.sentry.networks, f"mnemogate@{version()}")
        except BadValue as error:
            raise SettingsError(str(error)) from None
        incidents.append(await asyncio.to_thread(Outbox, store, telling, sink, surroundings))
    return Outboxes(
        Witnesses(settings.witness, settings.witness_required, store, surroundings),
        review,
        tuple(incidents),
    )


def _of_review(source: str, surroundings: Environment) -> Notifier[WaitsLeaf]:
    return Notifier(
        name=REVIEW,
        picks=hold_of,
        body=lambda message_id, holds: review_event(
            message_id,
            holds,
            source=source,
            page_of=surroundings.page.of,
        ),
    )


async def _outbox(
    table: Receiver, store: Store, telling: Notifier[Told], surroundings: Environment
) -> Outbox[Told]:
    sink = Webhook(table, surroundings.now_ms, CONTENT_TYPE)
    return await asyncio.to_thread(Outbox, store, telling, sink, surroundings)
