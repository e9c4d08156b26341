"""Stands on a pipe: `tee.py FILE COMMAND ...` runs the command and keeps what both sides say.

Each line of the file is the direction (`>` to the command, `<` from it) and the raw line; FILE.err
is what the command says on standard error. Standard library only. Its exit code is relayed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO


def _pass_on(source: IO[bytes], target: IO[bytes], mark: bytes, kept: IO[bytes]) -> None:
    for line in iter(source.readline, b""):
        kept.write(mark + line)
        kept.flush()
        try:
            target.write(line)
            target.flush()
        except BrokenPipeError:
            break
    target.close()


def main() -> int:
    pipe = subprocess.PIPE
    with (
        Path(sys.argv[1]).open("ab") as kept,
        Path(sys.argv[1] + ".err").open("ab") as errors,
        subprocess.Popen(sys.argv[2:], stdin=pipe, stdout=pipe, stderr=errors) as child,
    ):
        if child.stdin is None or child.stdout is None:
            return 1
        # A host stops its server with a signal; what is kept here has to outlive that.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda given, _: child.send_signal(given))
        inwards = (sys.stdin.buffer, child.stdin, b"> ", kept)
        threading.Thread(target=_pass_on, args=inwards, daemon=True).start()
        _pass_on(child.stdout, sys.stdout.buffer, b"< ", kept)
        return child.wait()


if __name__ == "__main__":
    sys.exit(main())
