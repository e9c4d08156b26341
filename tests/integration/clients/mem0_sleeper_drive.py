"""Runs inside an environment that holds an unmodified `mem0ai`; knows nothing of the sidecar.

    python mem0_sleeper_drive.py HOST KEY GOOD TEXT...

Adds so many plain facts, in conversations of twenty messages, then each text in one of its own.
Prints one JSON object: the statuses of the conversations, and that of each text.
"""

from __future__ import annotations

import json
import os
import sys

os.environ["MEM0_TELEMETRY"] = "false"

from mem0 import MemoryClient

_, host, key, good, *texts = sys.argv
AT_ONCE = 20

client = MemoryClient(api_key=key, host=host)
facts = [f"House number {number} has a green door." for number in range(int(good))]
told = []
for start in range(0, len(facts), AT_ONCE):
    talk = [{"role": "user", "content": fact} for fact in facts[start : start + AT_ONCE]]
    added = client.add(talk, user_id="alice")
    told.append([added["status"], len(added["results"])])
said = [client.add(text, user_id="alice")["status"] for text in texts]
sys.stdout.write(json.dumps({"facts": told, "texts": said}))
