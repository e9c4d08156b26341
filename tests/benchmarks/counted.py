"""`mnemogate` with each of its threads counted: SIGUSR1 writes the calls so far to a file.

    python -P tests/benchmarks/counted.py FILE run --listen ...

The file is one JSON object: thread to function to its calls, of Python and of C, since the start.
"""

from __future__ import annotations

import cProfile
import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

_COUNTS: Final[dict[str, cProfile.Profile]] = {}


def _begin(*_: object) -> None:
    """Count the calls of this thread from here on."""
    counts = _COUNTS.setdefault(threading.current_thread().name, cProfile.Profile())
    counts.enable()


def _name(code: CodeType | str) -> str:
    if isinstance(code, str):
        return code
    return f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"


def _write(_: int, frame: FrameType | None) -> None:
    own = _COUNTS[threading.current_thread().name]
    own.disable()
    found = {
        thread: {_name(one.code): one.callcount for one in counts.getstats()}
        for thread, counts in list(_COUNTS.items())
    }
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
