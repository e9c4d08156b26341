"""`mnemogate` with each of its threads counted: SIGUSR1 writes the calls so far to a file.

    python -P tests/benchmarks/counted.py FILE run --listen ...

The file is one JSON object: thread to function of Python to its calls and those of C that it makes,
since the start, and the seconds of processor time in both. What only C calls has the name "".
"""

from __future__ import annotations

import cProfile
import json
import os
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

_COUNTS: Final[dict[str, cProfile.Profile]] = {}


def _begin(*_: object) -> None:
    """Count the calls of this thread from here on."""
    counts = _COUNTS.setdefault(threading.current_thread().name, _profile())
    counts.enable()


def _profile() -> cProfile.Profile:
    # Of the thread alone: not the time in which it waits for the interpreter.
    return cProfile.Profile(time.thread_time_ns, 1e-9)


def _name(code: CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"


def _summed(counts: cProfile.Profile) -> dict[str, tuple[int, float]]:
    calls: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)

    def add(name: str, count: int, spent: float) -> None:
        calls[name] += count
        seconds[name] += spent

    for one in counts.getstats():
        if isinstance(one.code, str):
            add("", one.callcount, one.inlinetime)
            continue
        name = _name(one.code)
        add(name, one.callcount, one.inlinetime)
        for called in one.calls or ():
            if isinstance(called.code, str):
                add(name, called.callcount, called.inlinetime)
                add("", -called.callcount, -called.inlinetime)
    return {name: (calls[name], seconds[name]) for name in calls}


def _write(_: int, frame: FrameType | None) -> None:
    own = _COUNTS[threading.current_thread().name]
    own.disable()
    found = {thread: _summed(counts) for thread, counts in list(_COUNTS.items())}
    beside = Path(f"{sys.argv[0]}.new")
    beside.write_text(json.dumps(found))
    beside.replace(sys.argv[0])
    own.enable()


def main() -> int:
    """Run the command that follows the file's name."""
    from proxy.cli.entry import main as entered  # noqa: PLC0415 - nothing counted before

    del sys.argv[0]
    signal.signal(signal.SIGUSR1, _write)
    threading.setprofile(_begin)
    _begin()
    return entered(sys.argv[1:])


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
