"""Runs in the environment of `chromadb`: what a program does with a collection, and what it sees.

Arguments: host, port, key, collection, a text that the gate refuses. The answers are printed as
JSON; vectors are the program's own, so no model is fetched.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping

import chromadb
from chromadb.config import Settings
from chromadb.errors import ChromaError

HOST, PORT, KEY, NAME, REFUSED = sys.argv[1:6]
client = chromadb.HttpClient(
    host=HOST,
    port=int(PORT),
    headers={"X-Chroma-Token": KEY},
    settings=Settings(anonymized_telemetry=False),
)
seen: dict[str, object] = {}


def plain(found: Mapping[str, object]) -> dict[str, object]:
    """An answer as JSON: the client makes arrays of vectors."""
    return {
        name: getattr(value, "tolist", lambda one=value: one)() for name, value in found.items()
    }


def attempt(name: str, act: Callable[[], object]) -> None:
    """Note what an act gives, or the error that it raises."""
    try:
        seen[name] = act()
    except ChromaError as error:
        seen[name] = [type(error).__name__, str(error)]


notes = client.get_or_create_collection(NAME, embedding_function=None)
ids = [f"k{number}" for number in range(12)]
notes.add(
    ids=ids,
    embeddings=[[float(number), 1.0, 0.5] for number in range(12)],
    documents=[f"Ada keeps {number} bees" for number in range(12)],
    metadatas=[{"n": number, "who": "ada"} for number in range(12)],
)
seen["count"] = notes.count()
seen["got"] = plain(notes.get(ids=["k3", "nope"]))
notes.upsert(
    ids=["k3", "new"], embeddings=[[3.0, 1.0, 0.5], [50.0, 1.0, 0.5]], documents=["33", "a"]
)
notes.update(ids=["k5", "nope"], metadatas=[{"n": 55}, {"n": 1}])
seen["merged"] = plain(notes.get(ids=["k3", "k5", "new"]))
notes.add(ids=["k3"], embeddings=[[9.0, 9.0, 9.0]], documents=["left alone"])
found = notes.query(query_embeddings=[[2.0, 1.0, 0.5], [9.0, 1.0, 0.5]], n_results=3)
seen["query"] = plain(found)
seen["where"] = plain(notes.get(where={"n": {"$gte": 8}}, limit=2, offset=1))
seen["text"] = plain(notes.get(where_document={"$contains": "keeps 7"}, include=["documents"]))
notes.delete(where={"n": {"$lt": 2}})
notes.delete(ids=["k9"])
seen["left"] = notes.count()
seen["peek"] = [str(one) for one in notes.peek(3)["ids"]]
attempt("wrong_length", lambda: notes.add(ids=["w"], embeddings=[[1.0]], documents=["w"]))
attempt("refused", lambda: notes.add(ids=["r"], embeddings=[[1.0, 1.0, 1.0]], documents=[REFUSED]))
attempt("refused_is", lambda: plain(notes.get(ids=["r"])))
attempt("ask", lambda: client.get_collection("nowhere").name)
attempt("ask_or_create", lambda: client.get_or_create_collection("new").name)
attempt("create", lambda: client.create_collection("another").name)
attempt("rename", lambda: notes.modify(name="renamed"))
attempt("drop", lambda: client.delete_collection("renamed"))
attempt("reset", client.reset)
sys.stdout.write(json.dumps(seen) + "\n")
