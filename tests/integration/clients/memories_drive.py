"""Answers a file of questions with mem0ai or with Chroma; run by an interpreter that has them.

`memories_drive.py mem0|chroma FILE`: FILE has the conversations, with the vectors of their texts
and questions, so that all systems embed alike. Printed are the numbers of the ten texts that are
found for each question, best first.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

TOP = 10
Conversation = dict[str, Any]


def chroma(conversations: list[Conversation]) -> list[list[list[int]]]:
    """The answers of Chroma, with a collection for each conversation."""
    import chromadb  # noqa: PLC0415 - in this interpreter alone

    client = chromadb.EphemeralClient()
    answers: list[list[list[int]]] = []
    for number, one in enumerate(conversations):
        collection = client.create_collection(
            f"conversation-{number}", metadata={"hnsw:space": "cosine"}
        )
        names = [str(at) for at in range(len(one["texts"]))]
        collection.add(ids=names, documents=one["texts"], embeddings=one["vectors"])
        found = collection.query(query_embeddings=one["question_vectors"], n_results=TOP)
        answers.append([[int(name) for name in names] for names in found["ids"]])
    return answers


class _Embedder:
    """The vectors of the file, in the place of mem0ai's own embedder."""

    def __init__(self, conversations: list[Conversation]) -> None:
        self._vectors: dict[str, list[float]] = {
            text.strip(): vector
            for one in conversations
            for texts, vectors in (("texts", "vectors"), ("questions", "question_vectors"))
            for text, vector in zip(one[texts], one[vectors], strict=True)
        }

    def embed(self, text: str, *_: object, **__: object) -> list[float]:
        """The vector of a text."""
        return self._vectors[text.strip()]

    def embed_batch(self, texts: list[str], *_: object, **__: object) -> list[list[float]]:
        """The vectors of texts."""
        return [self.embed(text) for text in texts]


def mem0(conversations: list[Conversation], stop_words: list[str]) -> list[list[list[int]]]:
    """The answers of mem0ai with its keyword search (BM25 of fastembed, over local Qdrant)."""
    from fastembed.sparse.bm25 import Bm25  # noqa: PLC0415 - in this interpreter alone
    from mem0 import Memory  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as place:
        # fastembed fetches its list of stop words; here the caller names them.
        words = Path(place) / "bm25"
        words.mkdir()
        (words / "english.txt").write_text("\n".join(stop_words), "utf-8")
        (words / "mock.file").touch()
        encoder = Bm25("Qdrant/bm25", specific_model_path=str(words))
        key = {"api_key": "none"}
        store = {"path": f"{place}/qdrant", "embedding_model_dims": len(_vector(conversations))}
        memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": store},
                "embedder": {"provider": "openai", "config": key},
                "llm": {"provider": "openai", "config": key},
                "history_db_path": f"{place}/history.db",
            }
        )
        memory.embedding_model = _Embedder(conversations)
        memory.vector_store._get_bm25_encoder = lambda: encoder
        return [_asked(memory, f"u{number}", one) for number, one in enumerate(conversations)]


def _vector(conversations: list[Conversation]) -> list[float]:
    vector: list[float] = conversations[0]["vectors"][0]
    return vector


def _asked(memory: Any, user: str, one: Conversation) -> list[list[int]]:  # noqa: ANN401
    for text in one["texts"]:
        memory.add(text, user_id=user, infer=False)
    places = {text: at for at, text in enumerate(one["texts"])}
    answers: list[list[int]] = []
    for question in one["questions"]:
        # The threshold is mem0ai's own.
        found = memory.search(question, filters={"user_id": user}, top_k=TOP)["results"]
        answers.append([places[hit["memory"]] for hit in found])
    return answers


def main() -> None:
    """Print the answers of the system that the first argument names."""
    asked = json.loads(Path(sys.argv[2]).read_text("utf-8"))
    conversations = asked["conversations"]
    if sys.argv[1] == "chroma":
        answers = chroma(conversations)
    else:
        answers = mem0(conversations, asked["stop_words"])
    sys.stdout.write(f"\n{json.dumps(answers)}\n")


if __name__ == "__main__":
    main()
