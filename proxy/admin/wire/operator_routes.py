"""The operator API's routing table: the rows that the modules of `proxy.admin.wire` define."""

from __future__ import annotations

from typing import Final, TypeGuard

from proxy.admin.wire import (
    dry_run,
    incidents,
    injected_places,
    provenance,
    registered,
    review_queue,
    route,
    said,
    store,
    upkeep,
    views,
)
from proxy.admin.wire.route import AnyRoute, Route

API: Final = "/api/v1"
_MODULES: Final = (
    *(store, upkeep, provenance, route, review_queue, incidents, registered, said, dry_run),
    injected_places,
    views,
)


def _is_row(value: object) -> TypeGuard[AnyRoute]:
    return isinstance(value, Route)


ROUTES: Final = tuple(filter(_is_row, (row for one in _MODULES for row in vars(one).values())))
