"""No reader finds another end of a request than this one: each case has its answers and no more."""

from __future__ import annotations

import re

import msgspec
import pytest

from tests.integration.http_bench import LIMITS, running
from tests.integration.smuggling import HONEST, REFUSED, Case

STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
# A connection that nobody refuses ends soon, too.
BRIEF = msgspec.structs.replace(LIMITS, idle_seconds=0.4)


OUR_OWN = (b"Traceback", b"aiohttp", b".py", b"Error(", b"Exception")


async def answered(case: Case) -> tuple[bytes, tuple[int, ...]]:
    async with running(limits=BRIEF) as bench:
        answer = await bench.raw(case.data, wait_s=10.0)
        assert bench.session.stored == []
    return answer, tuple(map(int, STATUS.findall(answer)))


@pytest.mark.parametrize("name", REFUSED)
async def test_what_could_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_run(
    name: str,
) -> None:
    answer, statuses = await answered(REFUSED[name])
    assert statuses == REFUSED[name].statuses
    assert not [word for word in (b'"operator"', *OUR_OWN) if word in answer]


@pytest.mark.parametrize("name", HONEST)
async def test_what_can_be_read_in_one_way_is_answered(name: str) -> None:
    _, statuses = await answered(HONEST[name])
    assert statuses == HONEST[name].statuses
