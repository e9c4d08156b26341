"""The operator API's routing table: the rows of every wire module."""

from __future__ import annotations

from typing import Final, TypeGuard

from proxy.admin.wire import (
    backend_comparison,
    dry_run,
    ids,
    incidents,
    provenance,
    registered,
    review_queue,
    said,
    store,
    upkeep,
    wrong_answers,
)
from proxy.admin.wire.route import AnyRoute, Route

API: Final = "/api/v1"
_MODULES: Final = (
    *(store, upkeep, provenance, ids, review_queue, incidents, wrong_answers, registered, said),
    *(dry_run, backend_comparison),
)


def _is_row(value: object) -> TypeGuard[AnyRoute]:
    return isinstance(value, Route)


ROUTES: Final = tuple(filter(_is_row, (row for one in _MODULES for row in vars(one).values())))
