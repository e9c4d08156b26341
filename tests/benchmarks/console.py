"""The console under load: Review where ten thousand wait, Now where a thousand a second come."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from proxy.cli.run import SWITCH_S
from storage.audit import VerdictLeaf, decode_leaf
from tests.benchmarks.held import REFUSED, WAITING, fill, writes_ms
from tests.integration.browser import why_no_browser
from tests.integration.clients.environments import python_environment
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Running, running
from tests.integration.test_console import Browser, form_in
from tests.integration.test_console_browser import PLAYWRIGHT

FEED_S: Final = 600.0
A_SECOND: Final = 1_000
_WATCH: Final = Path(__file__).parents[1] / "integration" / "clients" / "console_now_drive.py"
_BATCH: Final = 50
_SAMPLES: Final = 20
_PAGES: Final = 10
_ACTS: Final = 4
_WRITES: Final = 200
DEFAULT_RULES: Final = Path(__file__).parents[2] / "policy" / "default.toml"
_ROUNDS: Final = 10
_ROUND_S: Final = 3.0
_WRITERS: Final = 8
PAGE_MS, PAGE_KB, DENY_S, P99, TAB, WRITES = 300, 200, 5, 1.5, 10, 0.95
"""The bars, in the order in which they are printed."""


def run(feed_s: float = FEED_S) -> list[str]:
    """Review and its bulk denial, then writes beside one reader of Now, then a tab left open."""
    # As `mnemogate run` does, which this process does not start.
    sys.setswitchinterval(SWITCH_S)
    return [
        *asyncio.run(_review()),
        *asyncio.run(_writes_beside_a_reader()),
        *asyncio.run(_tab(feed_s)),
    ]


# ---- Review ------------------------------------------------------------------------------------


async def _review() -> list[str]:
    with tempfile.TemporaryDirectory() as place:
        async with running(Path(place)) as live:
            await fill(live)
            browser = Browser(live)
            group = live.sidecar.store.reader.held()[0].group
            lines = [f"{WAITING} wait; wall and CPU ms of a page, median of {_PAGES}"]
            paths = ("/review", f"/review/{group}", f"/review-deny?group={group}", "/now")
            lines += [await _page(browser, path) for path in paths]
            lines += await _denials(live, browser)
    return lines


async def _page(browser: Browser, path: str) -> str:
    took, spent, size = list[float](), list[float](), 0
    for _ in range(_PAGES):
        began, began_cpu = time.perf_counter(), time.process_time()
        answer = await browser.ask(path)
        took.append((time.perf_counter() - began) * 1e3)
        spent.append((time.process_time() - began_cpu) * 1e3)
        size = len(answer.text.encode())
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
    wall = f"{np.median(took):.0f} ms (bar {PAGE_MS}), CPU {np.median(spent):.0f} ms"
    name = path.partition("?")[0].replace(path.partition("/review/")[2] or "\0", "GROUP")
    return f"  {name:14s} {wall}, {size / 1e3:.0f} KB (bar {PAGE_KB})"


async def _denials(live: Running, browser: Browser) -> list[str]:
    """Denials of a thousand by the form of the page, each beside one agent that writes."""
    before, during, took = list[float](), list[float](), list[float]()
    spent, denied = list[float](), list[int]()
    for act in range(_ACTS):
        before += await writes_ms(live, f"before {act}", asyncio.Event(), _WRITES)
        page = await browser.ask(f"/review-deny?origin=tool_result+shop{act}+fetch")
        action, form = form_in(page.text)
        size = live.sidecar.store.audit.head().size
        ended = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(writes_ms(live, f"during {act}", ended))
            began, began_cpu = time.perf_counter(), time.process_time()
            done = await browser.ask(action, {**form, "count": str(REFUSED)})
            took.append(time.perf_counter() - began)
            spent.append(time.process_time() - began_cpu)
            ended.set()
        if done.status != 303:
            raise RuntimeError(done.text)
        during += task.result()
        audit = live.sidecar.store.audit
        leaves = map(decode_leaf, audit.leaves(size, audit.head().size - size))
        by_person = [one for one in leaves if isinstance(one, VerdictLeaf) and one.approved_by]
        denied.append(len(by_person))
    p50, p99 = (np.percentile(during, at) / np.percentile(before, at) for at in (50, 99))
    return [
        f"{REFUSED} denied by one form: {' '.join(f'{one:.1f}' for one in took)} s (bar {DENY_S})",
        f"CPU s of it, and of the writes beside it: {' '.join(f'{one:.1f}' for one in spent)}",
        f"its verdicts in the log: {denied} (bar {REFUSED})",
        f"writes before: {_percentiles(before)}; during: {_percentiles(during)}",
        f"during against before: p50 {p50:.2f}, p99 {p99:.2f} (bar {P99})",
    ]


def _percentiles(taken: list[float]) -> str:
    p50, p99 = np.percentile(taken, (50, 99))
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms of {len(taken)}"


# ---- Now ---------------------------------------------------------------------------------------


async def _writes_beside_a_reader() -> list[str]:
    """Rounds in turns: as many writes as go with no reader of the stream, and with one."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    spent: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as place:
        # On a quiet machine all rounds together are above what one window takes of one topic.
        rules, text = Path(place) / "rules.toml", DEFAULT_RULES.read_text()
        rules.write_text(text.replace("topic_writes_max = 10000", "topic_writes_max = 100000"))
        async with running(Path(place), flags={"ruleset": str(rules)}) as live:
            for number in range(2 * _ROUNDS):
                # Each pair of rounds begins with the other kind, so that no kind is always later.
                reads = number % 4 in {1, 2}
                reader = asyncio.create_task(_read(live)) if reads else None
                began, began_cpu = time.perf_counter(), time.process_time()
                until = began + _ROUND_S
                some = (_write_until(live, f"{number} {one}", until) for one in range(_WRITERS))
                count = sum(await asyncio.gather(*some))
                rates[reads].append(count / (time.perf_counter() - began))
                spent[reads].append((time.process_time() - began_cpu) / count * 1e3)
                if reader is not None:
                    reader.cancel()
    without, beside = (float(np.median(rates[one])) for one in (False, True))
    cpu, cpu_beside = (float(np.median(spent[one])) for one in (False, True))
    return [
        f"writes/s: {without:.0f} without a reader of Now, {beside:.0f} with one",
        f"with one against without: {beside / without:.3f} (bar {WRITES})",
        f"CPU ms a write: {cpu:.2f} and {cpu_beside:.2f}, {cpu / cpu_beside:.3f}",
    ]


async def _read(live: Running) -> None:
    async with live.client.get(
        f"{live.admin_url}/now/events", headers=Browser(live).headers, timeout=None
    ) as stream:
        async for _ in stream.content.iter_any():
            pass


async def _write_until(live: Running, name: str, until: float) -> int:
    count = 0
    while time.perf_counter() < until:
        status, told = await live.write(AGENT_KEY, {"text": f"The ferry {name} {count} is late."})
        if status != 201:
            raise RuntimeError(str(told))
        count += 1
    return count


async def _tab(feed_s: float) -> list[str]:
    """A tab of Now for as long as verdicts are fed, with samples of its memory and the sidecar's.

    What is fed is refused: stored memories would take memory of the sidecar themselves.
    """
    reason = why_no_browser()
    if reason is not None:
        return [f"no tab: {reason}"]
    with tempfile.TemporaryDirectory() as place:
        async with running(Path(place)) as live:
            await _fed(live, feed_s / _SAMPLES)  # what is made once is made now
            memory, fed = [_memory_mb()], [await _fed(live, feed_s / 5)]
            memory.append(_memory_mb())
            samples: list[dict[str, Any]] = []
            async with _watching(live) as watch:
                for _ in range(_SAMPLES):
                    fed.append(await _fed(live, feed_s / _SAMPLES))
                    samples.append({**await _weighed(watch), **_memory_mb()})
            memory.append(_memory_mb())
    alone, beside = fed[0], sum(fed[1:])
    grew = {
        kind: [
            (memory[at + 1][kind] - memory[at][kind]) / fed_then * 1e4
            for at, fed_then in enumerate((alone, beside))
        ]
        for kind in memory[0]
    }
    lines = [
        f"{feed_s:.0f} s with a tab of Now; {A_SECOND} verdicts/s asked for",
        f"verdicts/s: {alone / (feed_s / 5):.0f} without a tab (bar {A_SECOND})",
        f"verdicts/s: {beside / feed_s:.0f} beside it (bar {A_SECOND})",
        *(
            f"{kind} grew by {without:.1f} MB for 10,000 without it, by {with_one:.1f} beside it"
            for kind, (without, with_one) in grew.items()
        ),
    ]
    settled = samples[_SAMPLES // 5 :]
    named = ("tab_mb", "heap_mb", "browser_mb", "nodes", *memory[0])
    lines += [_drift(name, [one[name] for one in settled]) for name in named]
    last = samples[-1]
    lines.append(f"at the end: {last['rows']} rows, {last['counted']} counted; {last['live']}")
    return lines


def _drift(name: str, values: list[float]) -> str:
    first, last = (float(np.median(some)) for some in (values[:4], values[-4:]))
    bar = f" (bar {TAB} %)" if name == "tab_mb" else ""
    return f"  {name:10s} {first:8.1f} then {last:8.1f}: {(last / first - 1) * 100:+.1f} %{bar}"


@asynccontextmanager
async def _watching(live: Running) -> AsyncGenerator[Process]:
    python = await asyncio.to_thread(python_environment, "playwright", PLAYWRIGHT)
    watch = await asyncio.create_subprocess_exec(python, _WATCH, stdin=PIPE, stdout=PIPE)
    asked = {"chromium": "/usr/bin/chromium", "admin": live.admin_url, "key": OPERATOR_KEY}
    assert watch.stdin is not None
    watch.stdin.write(json.dumps(asked).encode() + b"\n")
    try:
        yield watch
    finally:
        watch.stdin.close()
        await watch.wait()


async def _weighed(watch: Process) -> dict[str, Any]:
    assert watch.stdin is not None
    assert watch.stdout is not None
    watch.stdin.write(b"\n")
    sample: dict[str, Any] = json.loads(await watch.stdout.readline())
    return sample


def _memory_mb() -> dict[str, float]:
    """The sidecar's own memory, and what it has of files, which the kernel takes back if it must.

    The file that grows is the store: its pages are mapped, and a log of verdicts is kept.
    """
    status = Path("/proc/self/status").read_text()
    found = {name: int(kb) / 1e3 for name, kb in re.findall(r"Rss(Anon|File):\s+(\d+) kB", status)}
    return {"own_mb": found["Anon"], "mapped_mb": found["File"]}


async def _fed(live: Running, for_s: float) -> int:
    """Refused writes in batches, a thousand a second or as many as go; how many they were."""
    count, began = 0, time.perf_counter()
    while (now := time.perf_counter() - began) < for_s:
        await asyncio.sleep(max(0.0, count / A_SECOND - now))
        some = [
            {"op": "create", "text": f"Rule {count + one} of {began}.", "class": "L1"}
            for one in range(_BATCH)
        ]
        status, told = await live.call(
            "POST", "/v1/memories/batch", AGENT_KEY, {"operations": some}
        )
        if status != 200 or any(one["decision"] != "reject" for one in told["results"]):
            raise RuntimeError(str(told)[:500])
        count += _BATCH
    return count
