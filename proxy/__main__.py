"""`python -P -m proxy`: the same command line as the `mnemogate` console script."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

from proxy.version import version


def main() -> int:
    """Run the command that `sys.argv` names; returns the exit code."""
    # Ctrl-C during the import of modules has nothing to undo, so it prints no traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Scripts ask for the version often, and no command's module is needed for it.
    if sys.argv[1:] == ["--version"]:
        with suppress(OSError):
            print(f"mnemogate {version()}", flush=True)  # noqa: T201 - the answer
        return 0
    from proxy.cli.entry import main as entered  # noqa: PLC0415 - see above

    return entered()


if __name__ == "__main__":
    sys.exit(main())
