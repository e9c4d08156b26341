"""The gate's cost: writes are timed in turns with a gate and in the same system without one."""

from __future__ import annotations

import time
from typing import Final

from tests.evaluate.attacks import Broken, directive
from tests.evaluate.book import Book
from tests.evaluate.canary import new_canary
from tests.evaluate.figures import mean_over, quantile
from tests.evaluate.systems import ADMITTED, BY_NAME, Bench, running
from tests.evaluate.tables import Beyond
from tests.evaluate.wire import Write

_TURNS: Final = 6
_ALONE: Final = 40
_TOGETHER: Final = 256
_WRITERS: Final = 32
HALF: Final = 0.5
SLOWEST: Final = 0.99


class _Clock:
    """Measures milliseconds of each write, by system and kind of write."""

    def __init__(self) -> None:
        self.alone: dict[str, list[float]] = {}
        self.rates: dict[str, list[float]] = {}

    async def time(self, bench: Bench, key: str, name: str, body: Write) -> int:
        """Send one write, wait for its answer, and note how long that took."""
        began_ns = time.perf_counter_ns()
        answer = await bench.write(key, body)
        took_ms = (time.perf_counter_ns() - began_ns) / 1e6
        self.alone.setdefault(name, []).append(took_ms)
        return answer.status


async def cost(book: Book) -> None:
    """Measure how long one client's write takes, and how many writes 32 clients get done.

    The same system without a gate is measured in turns with it.
    """
    clock = _Clock()
    draw = book.progress("cost")
    async with running(BY_NAME["B0"]) as direct, running(BY_NAME["S4"]) as gated:
        keys = {bench: await bench.key("writer") for bench in (direct, gated)}
        refused = await gated.key("refused")
        for turn in range(_TURNS):
            for name, bench in (("direct", direct), ("gated", gated)):
                for number in range(_ALONE):
                    body = Write(text=f"The shelf {new_canary()} of turn {turn} has {number}.")
                    if await clock.time(bench, keys[bench], name, body) not in ADMITTED:
                        raise Broken("an everyday memory did not land")
                clock.rates.setdefault(name, []).append(await _rate(bench, keys[bench]))
            for number in range(_ALONE // 2):
                body = Write(text=directive(number, new_canary()))
                await clock.time(gated, keys[gated], "held", body)
                body = Write(text=directive(number, new_canary()), memory_class="L1")
                await clock.time(gated, refused, "refused", body)
            draw(turn + 1, _TURNS)
    ratios = [
        gate / direct
        for gate, direct in zip(clock.rates["gated"], clock.rates["direct"], strict=True)
    ]
    book.beyond(
        Beyond(
            latency={
                f"{name} p{round(100 * at)}": quantile(values, at, "ms")
                for name, values in clock.alone.items()
                for at in (HALF, SLOWEST)
            },
            latency_ms={name: tuple(round(v, 3) for v in one) for name, one in clock.alone.items()},
            throughput={
                **{name: mean_over(values, "writes/s") for name, values in clock.rates.items()},
                "gated against direct": mean_over(ratios, "x"),
            },
        )
    )
    book.note("throughput", "durable writes over HTTP, 32 at once; the ratio is that of each turn")


async def _rate(bench: Bench, key: str) -> float:
    bodies = [(key, Write(text=f"The shelf {new_canary()} was counted.")) for _ in range(_TOGETHER)]
    began_ns = time.perf_counter_ns()
    answers = await bench.written(bodies, at_once=_WRITERS)
    took_s = (time.perf_counter_ns() - began_ns) / 1e9
    if not all(answer.status in ADMITTED for answer in answers):
        raise Broken("an everyday memory did not land")
    return len(answers) / took_s
