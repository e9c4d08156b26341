"""Runs in the environment of `chromadb`: records with large numbers, read and filtered by them.

Arguments: host, port, key, collection. The answers are printed as JSON: for each number what the
client got for it, and the ids that filters by it find.
"""

from __future__ import annotations

import json
import sys

import chromadb
from chromadb.config import Settings
from chromadb.errors import ChromaError

HOST, PORT, KEY, NAME = sys.argv[1:5]
client = chromadb.HttpClient(
    host=HOST,
    port=int(PORT),
    headers={"X-Chroma-Token": KEY},
    settings=Settings(anonymized_telemetry=False),
)
NUMBERS: list[float] = [
    *(1_764_381_234_567_890_123, 1_328_112_384_000_000_001, 2**53 + 1, 2**63 - 1, -(2**63)),
    *(1e16, 1.5e300, 1.7976931348623157e308, 5e-324, 1.5),
    *(2**63, 2**64 - 1),  # more than the server's own integers have room for
]
orders = client.get_or_create_collection(NAME, embedding_function=None)
seen: list[object] = []
for place, number in enumerate(NUMBERS):
    key = f"n{place}"
    try:
        orders.add(
            ids=[key],
            embeddings=[[float(place), 1.0]],
            documents=[f"Order {place} was paid."],
            metadatas=[{"at": number}],
        )
        metadatas = orders.get(ids=[key])["metadatas"] or []
        filtered = [
            orders.get(where={"at": one})["ids"]
            for one in (number, {"$gte": number}, {"$in": [number]})
        ]
        seen.append([[one["at"] for one in metadatas], [key in one for one in filtered]])
    except ChromaError as error:
        seen.append([type(error).__name__, str(error)])
sys.stdout.write(json.dumps({"seen": seen}) + "\n")
