"""Runs inside an environment that holds an unmodified `mem0ai`; knows nothing of the sidecar.

    python mem0_corpora.py HOST KEY CORPORA_DIRECTORY

Writes every benign observation and turn as a memory, then searches each observation by its own
text. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys

os.environ.setdefault("MEM0_TELEMETRY", "false")

from mem0 import MemoryClient


def _lines(directory: pathlib.Path, name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (directory / name).read_text("utf-8").splitlines()]


def _store(client: MemoryClient, texts: list[str], user_id: str) -> list[str]:
    """The texts that did not come back as added."""
    refused: list[str] = []
    for text in texts:
        try:
            answer = client.add([{"role": "user", "content": text}], user_id=user_id)
            added = [item for item in answer["results"] if item["event"] == "ADD"]
        except Exception as error:  # noqa: BLE001 - the client's own exception classes differ by version
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            added = []
        if len(added) != 1 or added[0]["memory"] != text:
            refused.append(text)
    return refused


def _lost(client: MemoryClient, texts: list[str], user_id: str) -> list[str]:
    """The texts that their own search does not return at rank 1, ties by equal text aside."""
    lost: list[str] = []
    for text in texts:
        found = client.search(text, filters={"user_id": user_id}, top_k=1)["results"]
        if not found or found[0]["memory"] != text:
            lost.append(text)
    return lost


def main() -> None:
    host, key, corpora = sys.argv[1:4]
    directory = pathlib.Path(corpora)
    client = MemoryClient(api_key=key, host=host)
    observations = [row["text"] for row in _lines(directory, "benign_observations.jsonl")]
    turns = [row["text"] for row in _lines(directory, "benign_turns.jsonl")]
    report = {
        "observations": len(observations),
        "turns": len(turns),
        "observations_refused": _store(client, observations, "observer"),
        "turns_refused": _store(client, turns, "speaker"),
        "observations_lost": _lost(client, observations, "observer"),
    }
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
