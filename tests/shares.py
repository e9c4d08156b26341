"""What takes long is dealt over days: today's share runs, and all of it by `make shares`.

`@pytest.mark.share(of=6)` deals the cases of one test over six days, in turns.
`pytest.mark.share(of=3, turn=1)` gives what it marks, a test or a file, one day in three. A test
that shows a promise by itself (nothing rejected forms, nothing acknowledged is lost, there is no
second writer) has no such mark: it runs every day.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import pytest

TODAY: Final = int(time.time() // 86_400)
REASON: Final = "another day's turn"
_Case = TypeVar("_Case")


def todays(cases: Sequence[_Case], of: int) -> tuple[_Case, ...]:
    """Those of the cases of a test, dealt over `of` days, that run today."""
    return tuple(cases[TODAY % of :: of])


def deal(items: Iterable[pytest.Item]) -> None:
    """Skip what is dealt to another day, with the reason."""
    dealt: Counter[str] = Counter()
    for item in items:
        if (share := item.get_closest_marker("share")) is None:
            continue
        of: int = share.kwargs["of"]
        turn: int | None = share.kwargs.get("turn")
        if turn is None:
            test = item.nodeid.partition("[")[0]
            turn = dealt[test]
            dealt[test] += 1
        if turn % of != TODAY % of:
            reason = f"{REASON}, one in {of}: MNEMOGATE_WHOLE=1"
            item.add_marker(pytest.mark.skip(reason=reason))


def names_tests(config: pytest.Config) -> bool:
    """Whether the command names single tests: those run on any day."""
    return bool(config.option.keyword) or any("::" in one for one in config.args)
