"""The connections of a listener: whom they cut off, and with which aiohttp they are made."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from proxy.settings.load import Limits, SettingsError
from proxy.transport.connection import AIOHTTP_BELOW, AIOHTTP_FROM, GuardedServer, check_aiohttp

if TYPE_CHECKING:
    from proxy.transport.request import Received

LIMITS = Limits(
    body_bytes_max=1_024,
    header_seconds=60.0,
    body_seconds=0.02,
    idle_seconds=60.0,
    drain_seconds=1.0,
    connections_max=8,
    requests_max=8,
)
WAIT_S = 5.0


class Transport(asyncio.Transport):
    """Notes that it was aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = asyncio.Event()

    def abort(self) -> None:
        self.aborted.set()

    def close(self) -> None:
        """Nothing is open."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as inherited
        del name
        return default


async def _nothing(_request: Received) -> tuple[bytes, bool]:
    return b"", True


async def test_a_peer_that_does_not_read_is_cut_off_and_one_that_reads_again_is_not() -> None:
    server = GuardedServer(_nothing, limits=LIMITS, welcome=lambda _transport: True)
    reads, hangs = Transport(), Transport()
    patient, stuck = server(), server()
    patient.connection_made(reads)
    stuck.connection_made(hangs)
    patient.pause_writing()
    patient.resume_writing()
    # Paused after the other: when its time is over, the other's would have been, too.
    stuck.pause_writing()
    await asyncio.wait_for(hangs.aborted.wait(), WAIT_S)
    assert not reads.aborted.is_set()
    for connection in (patient, stuck):
        connection.connection_lost(None)


async def test_a_connection_that_ends_while_it_is_paused_leaves_no_timer_behind() -> None:
    server = GuardedServer(_nothing, limits=LIMITS, welcome=lambda _transport: True)
    gone, hangs = Transport(), Transport()
    first, second = server(), server()
    first.connection_made(gone)
    second.connection_made(hangs)
    first.pause_writing()
    first.connection_lost(None)
    second.pause_writing()
    await asyncio.wait_for(hangs.aborted.wait(), WAIT_S)
    assert not gone.aborted.is_set()
    second.connection_lost(None)


@pytest.mark.parametrize("installed", [AIOHTTP_FROM, "3.14.5", "3.14.10", "3.14.99rc1"])
def test_an_aiohttp_inside_the_bounds_is_taken(installed: str) -> None:
    check_aiohttp(installed)
    check_aiohttp()  # and so is the one that these tests run with


@pytest.mark.parametrize(
    "installed", ["3.9.0", "3.12.15", "3.13.5", "3.14.3", AIOHTTP_BELOW, "3.15.0rc1", "4.0.0a1", ""]
)
def test_an_aiohttp_outside_of_the_bounds_is_refused_by_its_version(installed: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_aiohttp(installed)
    assert str(refused.value) == (
        f"aiohttp {installed} is installed, and this program is not made for it: "
        f"install aiohttp>={AIOHTTP_FROM},<{AIOHTTP_BELOW}"
    )
