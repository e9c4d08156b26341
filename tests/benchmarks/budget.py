"""What each stage of a native write takes: calls, which no load moves, and processor time.

The figures are those of `calls`; a function of C or of a library counts for the stage of its file,
or of its caller. A profile takes longer than what it measures, so the time is read as shares.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from tests.benchmarks.bars import Lines
from tests.benchmarks.calls import CONNECTIONS, per_write
from tests.benchmarks.servers import ROOT

# The first that fits. What fits none is a library or the interpreter: the event loop and HTTP on
# the loop, files and arrays on the writer thread.
_STAGES: Final = {
    "proxy/transport/auth": "credential",
    "proxy/transport": "HTTP, with event loop and parser",
    "proxy/embed": "embedding",
    "proxy/fronts": "front and dialect",
    "proxy/dialects": "front and dialect",
    "proxy/seams": "front and dialect",
    "proxy/compose": "front and dialect",
    "proxy": "interceptor: rates, budgets, evidence",
    "policy/canonical": "canonical bytes and digests",
    "policy/text": "text and labels",
    "policy/labels": "text and labels",
    "policy/withheld": "text and labels",
    "policy": "gate",
    "storage/write/writer": "hand-over between threads",
    "storage/write/jobs": "hand-over between threads",
    "storage/staging": "staging",
    "storage/write": "judging and commit",
    "storage/audit": "audit log",
    "storage/derived": "indexes of vectors and words",
    "storage": "tables",
    "telemetry": "telemetry",
}
_OTHERS: Final = {
    "MainThread": "HTTP, with event loop and parser",
    "mnemogate-writer": "libraries on the writer thread",
}


def run() -> Lines:
    """A line for each stage, in the order of its processor time."""
    calls: defaultdict[str, float] = defaultdict(float)
    seconds: defaultdict[str, float] = defaultdict(float)
    for thread, each in per_write().items():
        for name, spent in each.items():
            stage = _stage(thread, name.removeprefix(f"{ROOT}/"))
            calls[stage] += spent.calls
            seconds[stage] += spent.seconds
    whole = sum(seconds.values())
    lines: Lines = [f"| stage of a native write, {CONNECTIONS} connections | calls | CPU |"]
    lines.append("|---|---|---|")
    lines += [
        f"| {stage} | {calls[stage]:.0f} | {spent / whole:.0%} |"
        for stage, spent in sorted(seconds.items(), key=lambda one: -one[1])
        if calls[stage] >= 1
    ]
    return lines


def _stage(thread: str, name: str) -> str:
    found = next((stage for start, stage in _STAGES.items() if name.startswith(start)), None)
    return found or _OTHERS.get(thread, "threads beside both")
