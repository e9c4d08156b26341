"""Writes to an unmodified `mem0ai` over local Qdrant; run by an interpreter that has both.

`mem0_local.py FILE`: FILE has the texts of each writer, with a vector for each, and the seconds to
write for. Nothing is inferred and nothing embedded. Printed are the seconds of each write, and how
many were not stored, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

os.environ["MEM0_TELEMETRY"] = "false"

from mem0 import Memory

Json = dict[str, Any]


class _Embedder:
    """The vectors of the file, in the place of mem0ai's own embedder."""

    def __init__(self, vectors: list[list[float]]) -> None:
        self._vectors = vectors

    def embed(self, text: str, *_: object, **__: object) -> list[float]:
        """The vector of a text."""
        return self._vectors[hash(text) % len(self._vectors)]

    def embed_batch(self, texts: list[str], *_: object, **__: object) -> list[list[float]]:
        """The vectors of texts."""
        return [self.embed(text) for text in texts]


def written(asked: Json, place: str) -> Json:
    """What the writers saw."""
    key = {"api_key": "none"}
    store = {"path": f"{place}/qdrant", "embedding_model_dims": len(asked["vectors"][0])}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": {**store, "on_disk": True}},
            "embedder": {"provider": "openai", "config": key},
            "llm": {"provider": "openai", "config": key},
            "history_db_path": f"{place}/history.db",
        }
    )
    memory.embedding_model = _Embedder(asked["vectors"])
    taken: list[float] = []
    failed: list[str] = []
    until = time.perf_counter() + asked["seconds"]

    def write(texts: list[str]) -> None:
        for text in texts:
            began = time.perf_counter()
            if began >= until:
                return
            try:
                memory.add(text, user_id="alice", infer=False)
            except Exception as error:  # noqa: BLE001 - whatever it raises, nothing was stored
                failed.append(type(error).__name__)
            else:
                taken.append(time.perf_counter() - began)

    threads = [threading.Thread(target=write, args=(texts,)) for texts in asked["texts"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"taken": taken, "failed": failed}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        sys.stdout.write(
            f"\n{json.dumps(written(json.loads(Path(sys.argv[1]).read_text()), scratch))}\n"
        )
