"""The operator API's routing table: the rows of every wire module."""

from __future__ import annotations

from typing import Final, TypeGuard

from proxy.admin.wire import (
    agent_sessions,
    backend_comparison,
    dry_run,
    ids,
    incidents,
    judge_test,
    provenance,
    recalled,
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
    *(recalled, judge_test, dry_run, backend_comparison, agent_sessions),
)


def _is_row(value: object) -> TypeGuard[AnyRoute]:
    return isinstance(value, Route)


ROUTES: Final = tuple(filter(_is_row, (row for one in _MODULES for row in vars(one).values())))
