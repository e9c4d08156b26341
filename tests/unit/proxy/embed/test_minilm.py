"""MiniLM in numpy against the figures its publishers print for it."""

from __future__ import annotations

from importlib.util import find_spec

import msgspec
import numpy as np
import pytest

from proxy.embed.embedding import resolve_embedder
from proxy.embed.minilm import MINILM_FILES, TEXT_CHARS_MAX, MiniLmEmbedder
from proxy.embed.weights import EmbedderUnavailable
from storage.derived.vectors.faiss_index import check_vectors

installed = pytest.mark.skipif(
    find_spec(MINILM_FILES.package) is None, reason=f"needs the extra: {MINILM_FILES.install_hint}"
)


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder()


@installed
def test_similarities_are_those_of_the_sentence_transformers_documentation(
    embedder: MiniLmEmbedder,
) -> None:
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    rows = [np.frombuffer(vector, "<f4") for vector in embedder.embed(texts)]
    assert float(rows[0] @ rows[1]) == pytest.approx(0.6660, abs=1e-4)
    assert float(rows[0] @ rows[2]) == pytest.approx(0.1046, abs=1e-4)
    assert float(rows[1] @ rows[2]) == pytest.approx(0.1411, abs=1e-4)


@installed
def test_every_text_has_one_unit_vector_alone_and_in_a_batch(embedder: MiniLmEmbedder) -> None:
    texts = ["", " ", "\N{PILE OF POO}", "漢字", "word " * 300, "[SEP]", "plain"]
    together = embedder.embed(texts)
    check_vectors(b"".join(together), len(texts), 384)
    assert together == [embedder.embed([text])[0] for text in texts]


@installed
def test_only_the_documented_first_part_of_a_text_counts(embedder: MiniLmEmbedder) -> None:
    start = "word " * 300
    kept, cut = embedder.embed([start, start + "and more"])
    assert kept == cut
    kept, cut = embedder.embed([" " * TEXT_CHARS_MAX, " " * TEXT_CHARS_MAX + "x"])
    assert kept == cut


@installed
def test_the_id_names_model_dimension_and_weights(embedder: MiniLmEmbedder) -> None:
    assert embedder.embedder_id == "all-minilm-l6-v2-384-53aa51172d14"
    assert resolve_embedder("minilm").embedder_id == embedder.embedder_id


@installed
def test_other_weights_than_the_pinned_ones_are_refused() -> None:
    with pytest.raises(EmbedderUnavailable, match="another file"):
        MiniLmEmbedder(msgspec.structs.replace(MINILM_FILES, weights_sha256="0" * 64))


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(EmbedderUnavailable, match=r"mnemogate\[minilm\]"):
        MiniLmEmbedder(msgspec.structs.replace(MINILM_FILES, package="no_such_model"))
