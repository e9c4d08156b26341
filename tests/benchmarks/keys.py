"""Ten thousand keys: how long adding, replacing and listing keys hold the event loop."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import numpy as np

from policy.model import PrincipalId
from proxy.transport.auth import mint_key
from storage.features.registered import PutKey
from tests.bound import bound
from tests.integration.running import OPERATOR_KEY, Json, Running, running

COUNTS: Final = (10, 10_000)
BAR_MS: Final = 5.0
_AT_ONCE: Final = 1_000
_ACTS: Final = 30
_TICK_S: Final = 0.0005


def run() -> list[str]:
    """The longest hold of the loop by each act, at ten keys and at ten thousand."""
    return asyncio.run(_measured())


async def _measured() -> list[str]:
    held: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        async with running(Path(place)) as live:
            known = 0
            for count in COUNTS:
                await _fill(live, known, count)
                known = count
                live.sidecar.keys_changed()
                await live.operate("GET", "/keys")
                for name, act in ACTS.items():
                    made = [await _key(live) for _ in range(_ACTS)]
                    holds = [await _hold_ms(act(live, one["key"]["key_id"])) for one in made]
                    held.setdefault(name, []).append(float(np.median(holds)))
    few, many = COUNTS
    return [
        f"ms of the loop, median of {_ACTS}: at {few} keys, at {many:,} keys, ratio",
        *(f"{name:8s} {one:.2f}  {two:.2f}  {two / one:.2f}" for name, (one, two) in held.items()),
        f"bar at {many:,} keys: {BAR_MS} ms",
    ]


async def _fill(live: Running, known: int, count: int) -> None:
    for start in range(known, count, _AT_ONCE):
        some = (
            mint_key(bound(f"p-{number}", "default"), number)
            for number in range(start, min(count, start + _AT_ONCE))
        )
        orders = (PutKey(one.record, PrincipalId("bench")) for one in some)
        await asyncio.gather(*(live.sidecar.store.writer.order(one) for one in orders))


async def _key(live: Running) -> Json:
    return await live.operate("POST", "/keys", {"name": "newcomer"})


async def _add(live: Running, _key_id: str) -> None:
    await _key(live)


async def _rotate(live: Running, key_id: str) -> None:
    await live.operate("POST", f"/keys/{key_id}/rotate", {})


async def _revoke(live: Running, key_id: str) -> None:
    await live.operate("POST", f"/keys/{key_id}/revoke", {})


async def _find(live: Running, key_id: str) -> None:
    await live.operate("GET", f"/ids?kind=key&begins={key_id[:4]}")


async def _list(live: Running, _key_id: str) -> None:
    url = f"{live.admin_url}/api/v1/keys"
    async with live.client.get(url, headers=OPERATOR) as response:
        # The client shares the loop, and is not to be measured: it does not decode.
        await response.read()


OPERATOR: Final = {"Authorization": f"Bearer {OPERATOR_KEY}"}
ACTS: Final[dict[str, Callable[[Running, str], Awaitable[None]]]] = {
    "add": _add,
    "rotate": _rotate,
    "revoke": _revoke,
    "find": _find,
    "list": _list,
}


async def _hold_ms(act: Awaitable[None]) -> float:
    """The longest time between two turns of the loop while an act runs."""
    longest, ended = 0.0, False

    async def watch() -> None:
        nonlocal longest
        before = time.perf_counter()
        while not ended:
            await asyncio.sleep(_TICK_S)
            now = time.perf_counter()
            longest, before = max(longest, now - before - _TICK_S), now

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        await act
        ended = True
    return longest * 1e3
