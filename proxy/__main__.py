"""`python -P -m proxy`: the same command line as the `mnemogate` console script."""

from __future__ import annotations

import sys

from proxy.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
