"""The metrics of a running sidecar, as `/metrics` serves them."""

from __future__ import annotations

from collections.abc import Callable

from proxy.aftermath.reply_checks import ReplyChecks
from proxy.compose.outboxes import Outboxes
from storage.interfaces import Store
from telemetry.events import StoreGauges
from telemetry.logs import Telemetry


class Scrape:
    """Renders the metrics, after setting the gauges to the store's current state."""

    def __init__(
        self,
        store: Store,
        telemetry: Telemetry,
        told: Outboxes,
        *,
        now_ms: Callable[[], int],
        checks: ReplyChecks,
    ) -> None:
        self.store = store
        self._checks = checks
        self._metrics = telemetry.metrics
        self.told = told
        self._now_ms = now_ms

    def _age_s(self, since_ms: int | None) -> float:
        return 0.0 if since_ms is None else max(0, self._now_ms() - since_ms) / 1_000

    def __call__(self) -> bytes:
        """The metrics in the text format of Prometheus."""
        status = self.store.reader.status()
        self._metrics.set_store(
            StoreGauges(
                version=status.version,
                epoch=status.epoch,
                live_count=status.live_count,
                held_count=status.held_count,
                leaf_count=status.leaf_count,
                bytes_used=status.bytes_used,
                bytes_quota=status.bytes_quota,
                writable=status.writable,
                observing=status.observing,
                held_oldest_s=self._age_s(status.held_since_ms),
                held_untold_s=self._age_s(self.told.review_untold_ms),
                recalls_dropped=self.store.recalls.dropped_count,
                replies_unchecked=self._checks.dropped_count,
            )
        )
        levels: dict[str, int] = {}
        for _, state in self.store.reader.all_trust():
            levels[state.level.value] = levels.get(state.level.value, 0) + 1
        self._metrics.set_trust(levels)
        return self._metrics.render()
