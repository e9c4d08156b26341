"""Every n-th write, sync and rename fails, in every way; here a share of it, with a control."""

from __future__ import annotations

import random

import pytest

from tests.conftest import HEAVY
from tests.fault.syscalls.__main__ import sweep
from tests.fault.syscalls.preloading import missing

EVERY = 31 if HEAVY else 97
buildable = pytest.mark.skipif(bool(missing()), reason=missing() or "the shim can be built here")


@buildable
@pytest.mark.timeout(1_200)
def test_whatever_call_fails_the_store_says_the_truth_and_keeps_its_promises() -> None:
    swept = sweep(EVERY, random.randrange(EVERY) if HEAVY else 5)  # noqa: S311
    assert swept.findings == []
    assert min(swept.calls.values()) > 10
    # The faults did hit: most of them end a step in words, or the process.
    assert swept.told.get("StoreUnavailable", 0) > swept.cases // 8
    assert swept.told.get("killed", 0) > swept.cases // 8
