"""Runs inside an environment that holds an unmodified `mem0ai` 1.0 or 2.

    python mem0_infer_drive.py MODEL_URL KEY FOLDER TEXT...

Mem0 as a library, with its own model at MODEL_URL and its files below FOLDER: adds one user message
of all texts with `infer=True`, and prints one JSON object: what it returned, and what it has.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version

os.environ["MEM0_TELEMETRY"] = "false"
_, url, key, folder, *texts = sys.argv
os.environ["MEM0_DIR"] = f"{folder}/home"

from mem0 import Memory  # noqa: E402 - it reads the environment

model = {"openai_base_url": url, "api_key": key}
memory = Memory.from_config(
    {
        "llm": {"provider": "openai", "config": {**model, "model": "gpt-4o-mini"}},
        "embedder": {"provider": "openai", "config": {**model, "model": "text-embedding-3-small"}},
        "vector_store": {
            "provider": "qdrant",
            "config": {"path": f"{folder}/qdrant", "on_disk": True, "collection_name": "memories"},
        },
        "history_db_path": f"{folder}/history.db",
    }
)
talk = [{"role": "user", "content": "\n".join(texts)}]
seen = {"add": memory.add(talk, user_id="alice", infer=True)}
OF_ALICE = {"user_id": "alice"}
wanted = OF_ALICE if version("mem0ai").startswith("1.") else {"filters": OF_ALICE}
seen["all"] = memory.get_all(**wanted)
sys.stdout.write(json.dumps(seen))
