"""Runs inside an environment that holds an unmodified `mem0ai`; knows nothing of the sidecar.

    python mem0_vendor_drive.py HOST KEY GOOD QUESTION TEXT...

Adds so many plain facts in one conversation, then each text in one of its own, and asks the
question. Prints one JSON object: the status of each text, and the ten texts that a search shows.
"""

from __future__ import annotations

import json
import os
import sys

os.environ["MEM0_TELEMETRY"] = "false"

from mem0 import MemoryClient

_, host, key, good, question, *texts = sys.argv

client = MemoryClient(api_key=key, host=host)
facts = [f"House number {number} has a green door." for number in range(int(good))]
if facts:
    client.add([{"role": "user", "content": fact} for fact in facts], user_id="alice")
said = [client.add(text, user_id="alice")["status"] for text in texts]
found = client.search(question, filters={"user_id": "alice"}, top_k=10)
shown = [one["memory"] for one in found["results"]]
sys.stdout.write(json.dumps({"texts": said, "shown": shown}))
