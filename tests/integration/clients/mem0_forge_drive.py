"""Runs inside an environment that holds an unmodified `mem0ai`; knows nothing of the sidecar.

    python mem0_forge_drive.py HOST KEY < TRIALS

Each trial is `[messages, metadata]`. Prints what became of each: the results, or the error's class.
"""

from __future__ import annotations

import json
import os
import sys

os.environ["MEM0_TELEMETRY"] = "false"

from mem0 import MemoryClient
from mem0.exceptions import MemoryError as Mem0Error


def main() -> None:
    host, key, trials = sys.argv[1:]
    client = MemoryClient(api_key=key, host=host)
    seen: list[object] = []
    for messages, metadata in json.loads(trials):
        try:
            added = client.add(messages, user_id="owner", infer=False, metadata=metadata)
            seen.append(added["results"])
        except (Mem0Error, ValueError) as error:
            seen.append(type(error).__name__)
    sys.stdout.write(json.dumps({"seen": seen}))


if __name__ == "__main__":
    main()
