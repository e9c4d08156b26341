"""The periodic work of a sidecar: one list, and one task for each entry."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from proxy.seams.waits import ReleaseBell, beside, first
from proxy.transport.responses import attempt
from proxy.transport.upstream import Upstream

REACH_EVERY_S: Final = 600.0


class Periodic(msgspec.Struct, frozen=True, kw_only=True):
    """Work that is repeated each `seconds`; a float that it returns is the next pause instead."""

    seconds: float
    work: Callable[[], Awaitable[object]]
    # The name of the work in the log.
    name: str
    at_once: bool = False
    # A release ends the pause.
    releases: ReleaseBell = msgspec.field(default_factory=ReleaseBell)


def every(
    seconds: float, work: Callable[[], Awaitable[object]], name: str, *, at_once: bool = False
) -> Periodic:
    """A periodic job; with 0 `seconds` the job never runs, with `at_once` it first runs at once."""
    return Periodic(seconds=seconds, work=work, name=name, at_once=at_once)


def reaching(upstreams: Iterable[Upstream]) -> tuple[Periodic, ...]:
    """Jobs that connect to each server, at once and then at intervals, and log what fails."""
    return tuple(
        every(REACH_EVERY_S, one.reach, "connection to an upstream", at_once=True)
        for one in upstreams
    )


@asynccontextmanager
async def repeating(
    jobs: Iterable[Periodic],
    *,
    wait: Callable[[float], Coroutine[Any, Any, None]],
    halt: Callable[[], None],
) -> AsyncGenerator[None]:
    """Repeat each job while the block runs.

    A fault in one round is logged and ends neither the next round nor the sidecar; a broken
    invariant calls `halt`.
    """
    async with beside(*(_repeat(one, wait, halt) for one in jobs if one.seconds > 0)):
        yield


async def _repeat(
    job: Periodic, wait: Callable[[float], Coroutine[Any, Any, None]], halt: Callable[[], None]
) -> None:
    if not job.at_once:
        await wait(job.seconds)
    while True:
        released = job.releases.next
        done = await attempt(job.work(), halt, event=f"{job.name} failed")
        await first(released.wait(), wait(done if isinstance(done, float) else job.seconds))
